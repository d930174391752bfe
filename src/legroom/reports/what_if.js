// Reads the controls, asks the laws (LAWS, translated from Python) and shows what they give. No formula stands here.

const PARTS = ["compute", "waiting for data", "update", "communication", "evaluation"];
const asked = JSON.parse(document.getElementById("what-if-data").textContent);
const form = document.getElementById("what-if");
let drawing = 0;

// The numbers of the controls over those of the plan; null, with a sentence shown, where one of them is none.
function readFactors() {
  const factors = { ...asked.factors };
  let wrong = "";
  for (const field of form.querySelectorAll("input")) {
    const empty = field.value.trim() === "", value = Number(field.value) * Number(field.dataset.scale);
    const fine = empty ? "mayBeEmpty" in field.dataset && !field.validity.badInput : field.checkValidity();
    field.setAttribute("aria-invalid", String(!fine));
    const until = field.max ? `to ${field.max}` : "on";
    const needs = `${field.labels[0].innerText.trim()} needs a ${field.step === "1" ? "whole " : ""}number from ${field.min} ${until}.`;
    if (!fine) wrong = wrong || needs;
    // A field that still holds what it held at first may show fewer digits than the plan has.
    if (field.value !== field.defaultValue) factors[field.name] = empty ? null : value;
  }
  document.getElementById("what-if-wrong").textContent = wrong;
  if (factors.price_per_hour === null) factors.price_per_hour = 0;
  return wrong ? null : factors;
}

function show(name, value, text, remark) {
  const place = document.getElementById("result-" + name);
  place.dataset.value = JSON.stringify(value);
  place.textContent = text;
  const beside = document.getElementById("remark-" + name);
  beside.textContent = remark;
  typeset(beside);
}

// The target in words; one that the reader chose, by the name of the plan's own.
function targetOf(factors) {
  return factors.target_value === asked.factors.target_value ? asked.target : `${asked.target.split(" ")[0]} ${inWords(factors.target_value)}`;
}

function showTime(factors) {
  const [low, likely, high] = LAWS.seconds_range(factors), steps = LAWS.steps_range(factors);
  const sure = steps[0] === steps[1], range = `${inSeconds(low)} to ${inSeconds(high)}`;
  const own = targetOf(factors) === asked.target && asked.baseline_seconds, times = own ? `; the job's own settings: ${inSeconds(own)}` : "";
  document.getElementById("label-time").textContent = `Time to ${targetOf(factors)}`;
  show("time", [low, likely, high], sure ? inSeconds(likely) : range, (sure ? range : "the critical batch size is not known") + times);
  const size = `of ${inWords(LAWS.samples_of_update(factors))} samples`;
  show("steps", steps, sure ? inWords(Math.ceil(steps[0])) : `${inWords(Math.ceil(steps[0]))} to ${inWords(Math.ceil(steps[1]))}`, size);
}

function showStep(factors) {
  const parts = LAWS.step_parts(factors), whole = parts.reduce((sum, part) => sum + part, 0);
  const words = parts.map((part, place) => [PARTS[place], part]).filter(([, part]) => part > 0.005 * whole);
  const passes = LAWS.passes(factors), split = passes > 1 ? `; ${inWords(passes)} passes of ${inWords(Math.ceil(LAWS.pass_batch(factors)))}` : "";
  show("step", parts, inSeconds(whole), words.map(([name, part]) => `${name} ${Math.round(100 * part / whole)} %`).join(", ") + split);
}

function showMemory(factors) {
  if ("device_bytes" in asked.guessed) return show("memory", null, "", "not measured");
  const needed = LAWS.memory_needed(factors), most = LAWS.most_in_memory(factors);
  const words = most ? `of ${inBytes(factors.device_bytes)}; a pass of at most ${inWords(most)} fits` : `do not fit ${inBytes(factors.device_bytes)}: no batch does`;
  show("memory", [needed, most], inBytes(needed), words);
  form.classList.toggle("does-not-fit", !most);
}

function showMoney(factors) {
  const cost = LAWS.cost(factors);
  show("money", cost, factors.price_per_hour ? inWords(cost) : "", factors.price_per_hour ? "in the currency of the price" : "no price was named");
}

function showBest(factors, sizes) {
  const button = document.getElementById("take-best"), own = factors.batch_size * factors.num_passes;
  const known = factors.critical_batch_size !== null, best = known ? LAWS.best_batch(factors, sizes) : null;
  button.hidden = !known || best === own;
  if (!known) return show("best", null, "", "not known: it takes the critical batch size, which legroom rate measures");
  const run = LAWS.at_batch(factors, best), seconds = LAWS.seconds_range(run)[1];
  show("best", best, inWords(best), `samples of an update on a device: ${inSeconds(seconds)}`);
  button.textContent = `Take batches of ${inWords(best)}`;
  button.onclick = () => {
    form.elements.batch_size.value = LAWS.pass_batch(run) % 1 ? best : LAWS.pass_batch(run);
    form.elements.num_passes.value = LAWS.pass_batch(run) % 1 ? 1 : LAWS.passes(run);
    compute();
  };
}

// The figure's bars anew: its series are the parts of a run, then the whole with its range.
function redraw(factors, sizes) {
  const figure = figures.find((one) => one.name === asked.figure);
  if (!figure) return;
  const texts = sizes.map((size) => grouped(size, 0)), runs = sizes.map((size) => LAWS.at_batch(factors, size));
  const parts = runs.map(LAWS.run_parts), ranges = runs.map(LAWS.seconds_range);
  figure.series.forEach((series, place) => {
    series.x = texts;
    series.y = series.style === "bars" ? parts.map((run) => run[place]) : ranges.map((ends) => ends[1]);
    if (series.style !== "bars") [series.low, series.high] = [0, 2].map((end) => ranges.map((ends) => ends[end]));
  });
  const own = factors.batch_size * factors.num_passes, first = asked.factors.batch_size * asked.factors.num_passes;
  figure.marks.forEach((mark) => { mark.value = grouped(own, 0); mark.label = own === first ? asked.mark : "chosen"; });
  document.getElementById("caption-" + figure.name).textContent = figure.title.replace(asked.target, targetOf(factors));
  cancelAnimationFrame(drawing); // one drawing for all that was typed meanwhile
  drawing = requestAnimationFrame(() => window.Plotly && draw(figure));
}

function compute() {
  const factors = readFactors();
  if (!factors) return;
  const own = factors.batch_size * factors.num_passes;
  const sizes = [...new Set([...asked.candidates, own])].sort((one, other) => one - other);
  showTime(factors);
  showStep(factors);
  showMemory(factors);
  showMoney(factors);
  showBest(factors, sizes);
  const link = document.getElementById("guessed-bandwidth");
  if (link) link.hidden = factors.num_devices < 2; // one device alone uses none
  redraw(factors, sizes);
}

form.addEventListener("input", compute);
form.addEventListener("reset", () => setTimeout(compute)); // after the fields have their old values again
form.addEventListener("submit", (event) => event.preventDefault());
compute();
