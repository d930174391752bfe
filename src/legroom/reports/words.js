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

// Text in which no line ends between a number and its unit.
function typeset(place, text) {
  const parts = text.split(/(\d[\d,.]* (?:ms|µs|s|min|h|%|[KMGT]?i?B)(?: \d+ (?:s|min))?(?!\w))/);
  place.replaceChildren(...parts.map((part, number) => {
    if (number % 2 === 0) return part;
    const whole = document.createElement("span");
    whole.className = "whole";
    whole.textContent = part;
    return whole;
  }));
}
