// What a figure shows, as plotly names it: curves with their ranges, bars, cells.

function numberOf(axis, scale) {
  return axis.unit === "share" ? "%{y:.1%}" : `%{y:,.4~g} ${plain(scale.name)}`;
}

// How far the whiskers of each point reach, from its range or from its spread.
function whiskersOf(series, y, scale, ink) {
  if (!series.low.length && !series.spread.length) return undefined;
  const off = series.spread.map((share, place) => (share || 0) * (y[place] || 0));
  const up = series.low.length ? y.map((value, place) => Math.max(0, scaled(series.high[place], scale) - value) || 0) : off;
  const down = series.low.length ? y.map((value, place) => Math.max(0, value - scaled(series.low[place], scale)) || 0)
    : off.map((size, place) => Math.min(size, y[place] || 0));
  return { type: "data", symmetric: false, array: up, arrayminus: down, color: ink, thickness: 1, width: 3 };
}

function bandOf(series, x, scale, ink) {
  const seen = x.map((_, place) => place).filter((place) => series.low[place] != null && series.high[place] != null);
  const y = (values) => seen.map((place) => scaled(values[place], scale));
  return {
    type: "scatter", mode: "lines", x: [...seen.map((place) => x[place]), ...seen.map((place) => x[place]).reverse()],
    y: [...y(series.high), ...y(series.low).reverse()], fill: "toself", fillcolor: ink + "26", line: { width: 0 },
    hoverinfo: "skip", showlegend: false,
  };
}

// A law without a group or a range stays in the background.
function colourOf(series, place) {
  return colour(series.style === "dashes" && !series.group && !series.low.length ? "quiet" : "series-" + (place % 6));
}

function tracesOf(series, place, figure, scales) {
  const ink = colourOf(series, place), lines = series.style === "line" || series.style === "dashes";
  const y = series.y.map((value) => scaled(value, scales.y)), number = numberOf(figure.y, scales.y);
  const x = series.x.map((value) => (typeof value === "string" ? plain(value) : scaled(value, scales.x)));
  const trace = {
    name: plain(series.name), x, y, hovertemplate: `%{x:,} ${plain(scales.x.name)}: ${number}<extra>${plain(series.name)}</extra>`,
    error_y: lines && series.low.length ? undefined : whiskersOf(series, y, scales.y, series.style === "bars" ? colour("ink") : ink),
  };
  if (series.style === "bars") return [{ ...trace, type: "bar", marker: { color: ink }, hovertemplate: `%{x}: ${number}<extra></extra>` }];
  const drawn = { line: "lines+markers", dashes: "lines" }[series.style] || "markers";
  const symbol = { crosses: "x", points: "diamond", rings: "circle-open" }[series.style] || "circle";
  const curve = {
    ...trace, type: "scatter", mode: drawn,
    line: { color: ink, width: 2, dash: series.style === "dashes" ? "dot" : "solid" },
    marker: { color: ink, size: series.style === "line" ? 6 : 10, symbol, line: { color: ink, width: series.style === "rings" ? 2 : 0 } },
  };
  return lines && series.low.length ? [bandOf(series, x, scales.y, ink), curve] : [curve];
}

// Each group, and each series without one, has its own colour.
function placesOf(figure) {
  const known = [];
  return figure.series.map((series, place) => {
    const key = series.group || `series ${place}`;
    if (!known.includes(key)) known.push(key);
    return known.indexOf(key);
  });
}

// By the value in the middle: the largest may be a run that never came to its end.
function heatScale(heat) {
  const values = heat.values.flat().filter(Number.isFinite).sort((one, other) => one - other);
  return scaleOf(heat.unit, values.length ? [values[Math.floor(values.length / 2)]] : []);
}

function heatOf(figure) {
  const heat = figure.heat, scale = heatScale(heat);
  const shown = heat.values.map((row) => row.map((value) => scaled(value, scale)));
  const text = shown.map((row) => row.map((value) => (value == null ? "" : heat.unit === "share" ? `${(100 * value).toFixed(1)}%` : short(+value.toPrecision(3)))));
  const depth = heat.log ? shown.map((row) => row.map((value) => (value > 0 ? Math.log(value) : null))) : shown;
  const words = (values) => values.map((value) => (typeof value === "string" ? plain(value) : short(value)));
  return {
    type: "heatmap", x: words(heat.x), y: words(heat.y), z: depth, text, texttemplate: "%{text}", xgap: 2, ygap: 2,
    colorscale: [[0, colour("shade")], [1, colour("series-0")]], showscale: false, hoverongaps: false,
    hovertemplate: `${plain(figure.x.label)} %{x}, ${plain(figure.y.label)} %{y}: %{text} ${plain(scale.name)}<extra></extra>`,
  };
}

function frameOf(heat) {
  if (!heat || !heat.chosen) return [];
  const [x, y] = [heat.x.indexOf(heat.chosen[0]), heat.y.indexOf(heat.chosen[1])];
  const corners = { x0: x - 0.5, x1: x + 0.5, y0: y - 0.5, y1: y + 0.5 };
  return x < 0 || y < 0 ? [] : [{ type: "rect", ...corners, line: { color: colour("ink"), width: 2 } }];
}

// What the cells count, above them.
function titlesOf(heat) {
  if (!heat) return [];
  const { name } = heatScale(heat), text = plain(name ? `${heat.label} (${name})` : heat.label);
  return [{ text, xref: "paper", yref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "bottom", showarrow: false, font: { color: colour("quiet") } }];
}
