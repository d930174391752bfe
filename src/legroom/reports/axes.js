// Units, and the axes of a figure.

const SCALES = {
  bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  seconds: [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
};
SCALES["exact bytes"] = SCALES.bytes;

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

// Short enough for an axis: 0.0003 is 3e-4, 2000000 is 2M.
function short(value) {
  const size = Math.abs(value);
  if (size > 0 && size < 1e-3) return value.toExponential().replace("e-0", "e-");
  if (size >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  return (+value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6 });
}

// Doublings for counts, such as batch sizes; else 1, 2, 5 of each decade, or decades, whichever has room.
function logTicks(values, room) {
  const seen = values.filter((value) => value > 0), low = Math.min(...seen), high = Math.max(...seen);
  const between = (made) => made.filter((value) => value >= low / 1.5 && value <= high * 1.5);
  const powers = (base, from, to, each) => Array.from({ length: to - from + 1 }, (_, place) => base ** (from + place)).flatMap(each);
  if (seen.every(Number.isInteger)) {
    const doublings = between(powers(2, 0, Math.ceil(Math.log2(high)) + 1, (one) => [one]));
    const step = Math.ceil(doublings.length / (room + 2));
    return doublings.filter((value) => Math.log2(value) % step === 0);
  }
  const ends = [Math.floor(Math.log10(low)) - 1, Math.ceil(Math.log10(high))];
  const fine = between(powers(10, ...ends, (one) => [one, 2 * one, 5 * one]));
  const decades = between(powers(10, ...ends, (one) => [one]));
  const step = Math.ceil(decades.length / (room + 2));
  return fine.length <= room + 2 ? fine : decades.filter((_, place) => place % step === 0);
}

function axisOf(axis, scale, values, room) {
  const made = {
    title: { text: plain(scale.name ? `${axis.label} (${scale.name})` : axis.label), standoff: 10 },
    color: colour("quiet"), gridcolor: colour("rule"), linecolor: colour("rule"), zeroline: false, automargin: true,
  };
  if (values.some((value) => typeof value === "string")) return { ...made, type: "category", showgrid: false };
  if (axis.log) {
    const ticks = logTicks(values.filter(Number.isFinite).map((value) => scaled(value, scale)), room);
    const texts = ticks.map((tick) => (axis.unit === "share" ? `${short(tick * 100)}%` : short(tick)));
    return { ...made, type: "log", tickmode: "array", tickvals: ticks, ticktext: texts };
  }
  const few = !axis.unit && values.every(Number.isInteger) && Math.max(...values) <= 12;
  const millions = !axis.unit && Math.max(...values) >= 1e6;  // written out, they would run into each other
  const format = axis.unit === "share" ? ".0%" : millions ? "~s" : ",~r";
  return { ...made, rangemode: "tozero", tickformat: format, nticks: room, tickangle: 0, dtick: few ? 1 : undefined };
}
