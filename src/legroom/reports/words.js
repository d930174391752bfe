// Numbers as people read them, as `reports/numbers.py` writes them.

function grouped(value, digits) {
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

function inBytes(value) {
  const found = SCALES.bytes.find(([size]) => Math.abs(value) >= size && size > 1);
  return found ? `${grouped(value / found[0], 1)} ${found[1]}` : `${value.toFixed(0)} B`;
}

function inSeconds(value) {
  if (value < 0.1) return `${+(value * 1000).toPrecision(3)} ms`;
  if (Math.round(value * 1000) < 1000) return `${(value * 1000).toFixed(0)} ms`;
  if (Math.round(value * 10) < 600) return `${value.toFixed(1)} s`;
  const whole = Math.round(value), minutes = Math.round(value / 60);
  return whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function inWords(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: Math.max(4, Math.ceil(Math.log10(Math.abs(value) + 1))) });
}

const WHOLE = /((?<![\w-])--[a-z][\w-]*|\d[\d,.]* (?:ms|µs|s|min|h|%|[KMGT]?i?B(?:\/s)?|samples\/s)(?: \d+ (?:s|min))?(?!\w))/;

// Lets no line end within an option or between a number and its unit.
function typeset(place) {
  for (const node of [...place.childNodes]) {
    if (node.nodeType !== Node.TEXT_NODE) typeset(node);
    else if (WHOLE.test(node.data)) node.replaceWith(...node.data.split(WHOLE).map((part, number) => number % 2 ? whole(part) : part));
  }
}

function whole(text) {
  const made = document.createElement("span");
  made.className = "whole";
  made.textContent = text;
  return made;
}
