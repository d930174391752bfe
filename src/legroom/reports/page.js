// Draws each figure of the page from the data that `--json` prints; colours come from the page's own style.

// Lines in which a label makes room for those of the marks before it: values may lie close together.
function below(mark, figure) {
  const before = figure.marks.slice(0, figure.marks.indexOf(mark)).filter((other) => other.axis === "x").length;
  const low = figure.marks.some((other) => other.axis === "y");
  return mark.axis === "y" || low ? "" : "<br>".repeat(before);
}

function shapeOf(mark, figure, scales) {
  const across = mark.axis === "y";
  const texts = [...new Set(figure.series.flatMap((series) => series.x))];
  const value = typeof mark.value === "string" ? texts.indexOf(mark.value) : scaled(mark.value, across ? scales.y : scales.x);
  const far = typeof mark.value === "string" ? texts.length / 2 : Math.max(...texts.filter(Number.isFinite)) / 2 / scales.x.size;
  const low = figure.marks.some((other) => other.axis === "y"); // a line across lies near the top
  const ends = across ? { xref: "paper", x0: 0, x1: 1, y0: value, y1: value } : { yref: "paper", y0: 0, y1: 1, x0: value, x1: value };
  return {
    type: "line", layer: "below", ...ends, line: { color: colour("quiet"), width: 1, dash: "dash" },
    label: {
      text: below(mark, figure) + plain(mark.label), textangle: 0, font: { size: 12, color: colour("quiet") }, padding: 4,
      textposition: across || low ? "start" : "end", yanchor: across || !low ? "top" : "bottom",
      xanchor: across || value < far ? "left" : "right",
    },
  };
}

function layoutOf(figure, scales, xs, ys) {
  const room = Math.max(3, Math.round(document.getElementById("figure-" + figure.name).clientWidth / 90));
  const axes = figure.heat
    ? [axisOf(figure.x, { name: "" }, [""], room), axisOf(figure.y, { name: "" }, [""], 7)]
    : [axisOf(figure.x, scales.x, xs, room), axisOf(figure.y, scales.y, ys, 7)];
  return {
    paper_bgcolor: "transparent", plot_bgcolor: "transparent", margin: { l: 12, r: 12, t: 30, b: 12 }, // plotly's buttons lie above the plot, not on its labels
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") },
    xaxis: axes[0], yaxis: axes[1],
    barmode: figure.stacked || figure.y.unit === "share" ? "stack" : "group",
    shapes: [...figure.marks.map((mark) => shapeOf(mark, figure, scales)), ...frameOf(figure.heat)], annotations: titlesOf(figure.heat),
    showlegend: false, // the page has its own, which wraps on a phone and hears the keyboard
    hoverlabel: { bgcolor: colour("shade"), bordercolor: colour("rule"), font: { color: colour("ink") } },
    modebar: { bgcolor: "transparent", color: colour("rule"), activecolor: colour("quiet") },
  };
}

// A button for each series that hides and shows it; parts that nothing takes have none.
function showLegend(figure, places) {
  const seen = figure.series.map((series, place) => ({ series, place })).filter(({ series }) => series.style !== "bars" || series.y.some(Boolean));
  const buttons = seen.map(({ series, place }) => {
    const button = document.createElement("button"), swatch = document.createElement("span");
    swatch.className = "swatch " + series.style;
    swatch.style.color = colourOf(series, places[place]);
    button.type = "button";
    button.dataset.place = place;
    button.setAttribute("aria-pressed", String(!series.hidden));
    button.append(swatch, series.name);
    button.onclick = () => {
      series.hidden = !series.hidden;
      draw(figure).then(() => document.querySelector(`#legend-${CSS.escape(figure.name)} [data-place="${place}"]`).focus());
    };
    return button;
  });
  document.getElementById("legend-" + figure.name).replaceChildren(...(seen.length > 1 ? buttons : []));
}

function draw(figure) {
  const xs = figure.series.flatMap((series) => series.x);
  const ys = figure.series.flatMap((series) => [...series.y, ...series.high]);
  const marked = (axis) => figure.marks.filter((mark) => mark.axis === axis).map((mark) => mark.value);
  const points = figure.series.flatMap((series) => series.y); // one far end of a range is no reason for a larger unit
  const scales = { x: scaleOf(figure.x.unit, [...xs, ...marked("x")]), y: scaleOf(figure.y.unit, [...points, ...marked("y")]) };
  const places = placesOf(figure), drawn = (series, place) => tracesOf(series, places[place], figure, scales).map((trace) => ({ ...trace, visible: !series.hidden }));
  const traces = figure.heat ? [heatOf(figure)] : figure.series.flatMap(drawn);
  showLegend(figure, places);
  // plotly would offer to upload the chart to its makers' service
  const nowhere = { showSendToCloud: false, plotlyServerURL: "", showLink: false };
  const config = { ...nowhere, displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  return Plotly.react("figure-" + figure.name, traces, layoutOf(figure, scales, xs, ys), config);
}

document.querySelectorAll("p, li, td").forEach(typeset);
const figures = JSON.parse(document.getElementById("figures").textContent);
const drawAll = () => Promise.all(figures.map(draw));

// plotly.js travels packed, so that the page is half as large; text and controls are there before it.
async function unpack() {
  const packed = atob(document.getElementById("plotly").textContent), bytes = new Uint8Array(packed.length);
  for (let place = 0; place < packed.length; place++) bytes[place] = packed.charCodeAt(place);
  const script = document.createElement("script");
  script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(script);
}

// On paper nothing can be opened.
addEventListener("beforeprint", () => document.querySelectorAll("details.long").forEach((one) => { one.open = true; }));

async function drawFirst() {
  if (!("DecompressionStream" in window)) {
    for (const plot of document.querySelectorAll(".plot")) plot.replaceWith("This browser is too old to draw the figure; its numbers are below.");
    return;
  }
  await unpack();
  for (const figure of figures) {
    await draw(figure);
    await new Promise((go) => setTimeout(go)); // the reader may scroll and type meanwhile
  }
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", drawAll);
  document.documentElement.dataset.drawn = figures.length;
}
drawFirst();
