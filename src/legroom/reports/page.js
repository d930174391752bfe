"use strict";
// Draws each figure of the page from the data that `--json` prints; colours come from the page's own style.

const SCALES = {
  bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  seconds: [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
};

// Plotly reads text as a small HTML of its own, so names are escaped for it.
function plain(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

// The unit in which the largest value is between 1 and some hundreds.
function scaleOf(unit, values) {
  const largest = Math.max(...values.filter(Number.isFinite).map(Math.abs), 0);
  const steps = SCALES[unit] || [[1, unit === "share" ? "" : unit]];
  const [size, name] = steps.find(([size]) => largest >= size) || steps[steps.length - 1];
  return { size, name };
}

function scaled(value, scale) {
  return Number.isFinite(value) ? value / scale.size : value;
}

function axisOf(axis, scale, values, room) {
  const made = {
    title: { text: plain(scale.name ? `${axis.label} (${scale.name})` : axis.label), standoff: 10 },
    color: colour("quiet"), gridcolor: colour("rule"), linecolor: colour("rule"), zeroline: false, automargin: true,
  };
  if (values.some((value) => typeof value === "string")) return { ...made, type: "category", showgrid: false };
  if (axis.log) {
    const doublings = Math.log2(Math.max(...values) / Math.max(1, Math.min(...values)));
    return { ...made, type: "log", tick0: 0, dtick: Math.log10(2) * Math.max(1, Math.ceil(doublings / room)), tickformat: ",~r" };
  }
  const few = !axis.unit && values.every(Number.isInteger) && Math.max(...values) <= 12;
  const millions = !axis.unit && Math.max(...values) >= 1e6;  // written out, they would run into each other
  const format = axis.unit === "share" ? ".0%" : millions ? "~s" : ",~r";
  return { ...made, rangemode: "tozero", tickformat: format, nticks: room, tickangle: 0, dtick: few ? 1 : undefined };
}

function traceOf(series, place, figure, scales) {
  const ink = colour("series-" + (place % 6));
  const y = series.y.map((value) => scaled(value, scales.y));
  const number = figure.y.unit === "share" ? "%{y:.1%}" : `%{y:,.4~g} ${plain(scales.y.name)}`;
  const trace = {
    name: plain(series.name), x: series.x.map((value) => (typeof value === "string" ? plain(value) : scaled(value, scales.x))), y,
    hovertemplate: `%{x:,} ${plain(scales.x.name)}: ${number}<extra>${plain(series.name)}</extra>`,
  };
  if (series.style === "bars") return { ...trace, type: "bar", marker: { color: ink }, hovertemplate: `%{x}: ${number}<extra></extra>` };
  if (series.spread.length) {
    const off = series.spread.map((share, index) => (share || 0) * (y[index] || 0));
    const down = off.map((size, index) => Math.min(size, y[index] || 0));
    trace.error_y = { type: "data", symmetric: false, array: off, arrayminus: down, color: ink, thickness: 1, width: 3 };
  }
  const drawn = { line: "lines+markers", dashes: "lines", points: "markers", crosses: "markers" }[series.style];
  return {
    ...trace, type: "scatter", mode: drawn,
    line: { color: series.style === "dashes" ? colour("quiet") : ink, width: 2, dash: series.style === "dashes" ? "dot" : "solid" },
    marker: { color: ink, size: series.style === "line" ? 6 : 10, symbol: series.style === "crosses" ? "x" : series.style === "points" ? "diamond" : "circle" },
  };
}

function shapeOf(mark, figure, scales) {
  const across = mark.axis === "y";
  const value = scaled(mark.value, across ? scales.y : scales.x);
  const far = Math.max(...figure.series.flatMap((series) => series.x).filter(Number.isFinite)) / 2;
  const low = figure.marks.some((other) => other.axis === "y"); // a line across lies near the top
  const ends = across ? { xref: "paper", x0: 0, x1: 1, y0: value, y1: value } : { yref: "paper", y0: 0, y1: 1, x0: value, x1: value };
  return {
    type: "line", layer: "below", ...ends, line: { color: colour("quiet"), width: 1, dash: "dash" },
    label: {
      text: plain(mark.label), textangle: 0, font: { size: 12, color: colour("quiet") }, padding: 4,
      textposition: across || low ? "start" : "end", yanchor: across || !low ? "top" : "bottom",
      xanchor: across || mark.value < far ? "left" : "right",
    },
  };
}

function draw(figure) {
  const xs = figure.series.flatMap((series) => series.x), ys = figure.series.flatMap((series) => series.y);
  const marked = (axis) => figure.marks.filter((mark) => mark.axis === axis).map((mark) => mark.value);
  const scales = { x: scaleOf(figure.x.unit, [...xs, ...marked("x")]), y: scaleOf(figure.y.unit, [...ys, ...marked("y")]) };
  const room = Math.max(3, Math.round(document.getElementById("figure-" + figure.name).clientWidth / 90));
  const layout = {
    paper_bgcolor: "transparent", plot_bgcolor: "transparent", margin: { l: 12, r: 12, t: 12, b: 12 },
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") },
    xaxis: axisOf(figure.x, scales.x, xs, room), yaxis: axisOf(figure.y, scales.y, ys, 7),
    barmode: figure.y.unit === "share" ? "stack" : "group",  // shares are parts of a whole, times are not
    shapes: figure.marks.map((mark) => shapeOf(mark, figure, scales)),
    showlegend: figure.series.length > 1, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    hoverlabel: { bgcolor: colour("shade"), bordercolor: colour("rule"), font: { color: colour("ink") } },
    modebar: { bgcolor: "transparent", color: colour("rule"), activecolor: colour("quiet") },
  };
  const traces = figure.series.map((series, place) => traceOf(series, place, figure, scales));
  // plotly would offer to upload the chart to its makers' service
  const nowhere = { showSendToCloud: false, plotlyServerURL: "", showLink: false };
  const config = { ...nowhere, displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  return Plotly.react("figure-" + figure.name, traces, layout, config);
}

const figures = JSON.parse(document.getElementById("figures").textContent);
const drawAll = () => Promise.all(figures.map(draw));
drawAll().then(() => { document.documentElement.dataset.drawn = figures.length; });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
