"""How large a model: in a terminal and on the page."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from legroom.questions.size.answer import SizeAnswer
from legroom.questions.size.figures import figures_of, tables_of
from legroom.questions.size.plateau import about
from legroom.questions.size.wording import if_known, part, short
from legroom.reports.figures import Section
from legroom.reports.numbers import quantity
from legroom.reports.terminal import Row, print_remarks, print_rows, print_title
from legroom.reports.views import View

ONE = {True: "holds 1", False: "does not hold 1", None: "open whether it is 1"}
FALLS = {True: "fall", False: "rise", None: "open"}


def print_size(console: Console, answer: SizeAnswer) -> None:
    """The size, the law, and what the next doubling would buy."""
    print_title(console, answer, f"{answer.device}, batch {answer.batch_size:,}, {answer.rate_rule} rate")
    print_rows(console, size_rows(answer))
    print_remarks(console, answer)


def size_rows(answer: SizeAnswer) -> Iterable[Row]:
    """What was found, a fact a row."""
    yield from _choice_rows(answer)
    yield from _law_rows(answer)
    yield "plateau", _count(answer.plateau), _plateau_words(answer)
    yield from _held_out_rows(answer)
    yield from _next_rows(answer)
    yield from _memory_rows(answer)
    yield from _solver_rows(answer)
    yield "search", f"{answer.num_trials} trials", f"compared by time on {part(answer.judged_fraction)}"


def _choice_rows(answer: SizeAnswer) -> Iterable[Row]:
    best, loss = recommended(answer), answer.target["loss"]
    if best is None:
        return
    low, high = answer.recommendations[0].range or (best["value"], best["value"])
    near = f"; {low:,} to {high:,} are nearly as soon, some of their runs at least" if low != high else ""
    own = f"; the job's own is {answer.own_value:,}" if answer.own_value else ""
    yield answer.vary, f"{best['value']:,}", f"reaches a loss of {loss:.4g} soonest at a constant rate{near}{own}"
    runs = f"; {best['num_reached']} of {best['num_seeds']} runs got there" if "num_reached" in best else ""
    yield "  time to it", quantity(best["seconds"], "seconds"), f"{best['steps']:,.0f} updates{runs}"
    yield from _cooled_rows(answer)
    if answer.within.get("value") is not None:
        seconds = quantity(answer.within["seconds"], "seconds")
        best_loss = f"{answer.within['loss']:.4g}"
        how = ", cooled down at its end" if answer.within.get("cools_down") else ""
        yield f"best within {seconds}", best_loss, f"a loss, by {answer.vary} {answer.within['value']:,}{how}"


def _cooled_rows(answer: SizeAnswer) -> Iterable[Row]:
    """The size that a cooldown brings there first: its runs are too few to recommend by."""
    there = [each for each in answer.times if each.get("cooled_seconds") is not None]
    if there:
        first = min(there, key=lambda each: float(each["cooled_seconds"]))
        remark = f"by {answer.vary} {first['value']:,}, of runs of a few lengths whose rate falls to 0 at their end"
        yield "  cooled down", quantity(first["cooled_seconds"], "seconds"), remark


def recommended(answer: SizeAnswer) -> dict[str, Any] | None:
    """The row of the recommended size."""
    value = answer.recommended_width if answer.vary == "width" else answer.recommended_depth
    return next((each for each in answer.times if each["value"] == value), None)


def _law_rows(answer: SizeAnswer) -> Iterable[Row]:
    remark = "M parameters, D samples, to within 1 % of the least loss; fitted to what was not held out"
    yield "updates", "a D^k1 / M^k2 + b", remark
    for name, what in (("k1", "data"), ("k2", "parameters")):
        low, high = getattr(answer, f"{name}_range")
        value = getattr(answer, name)
        remark = f"{low:.2f} to {high:.2f}; {ONE[answer.holds_one[name]]}"
        yield f"  {name} ({what})", "open" if value is None else f"{value:.2f}", remark
    low, high = answer.a_range
    if low is not None and high is not None:  # older answers have none
        yield "  a", "open" if answer.a is None else short(answer.a), f"{short(low)} to {short(high)}"
    low, high = answer.b_range
    yield "  b", _count(answer.b), f"{low:,.0f} to {high:,.0f} updates that no larger model gets below"
    yield f"by {answer.vary}", FALLS[answer.falls_with_size], "updates of larger models, by all trials"


def _count(number: float | None) -> str:
    return "open" if number is None else f"{number:,.0f}"


def _plateau_words(answer: SizeAnswer) -> str:
    low, high = answer.plateau_range
    span = f"between {about(low or 0)} and {'any number' if high is None else about(high)}"
    if answer.plateau_passed:
        span = "at the smallest size tried or below"
    return f"parameters from which on twice as many save less than 5 % of the updates: {span}"


def _held_out_rows(answer: SizeAnswer) -> Iterable[Row]:
    known = [each for each in answer.held_out if each["error"] is not None]
    if not known:
        return
    errors = sorted(abs(each["error"]) for each in known)
    inside = sum(each["inside"] for each in answer.held_out)
    remark = f"median error of the updates; {inside} of {len(answer.held_out)} points inside their range"
    yield "held out", quantity(errors[len(errors) // 2], "share"), remark
    losses = sorted(abs(each["loss_error"]) for each in answer.held_out if each.get("loss_error") is not None)
    if losses:
        inside = sum(each["loss_inside"] for each in answer.held_out)
        remark = f"median error of the least loss; {inside} of {len(answer.held_out)} inside their range"
        yield "  loss", quantity(losses[len(losses) // 2], "share"), remark


def _next_rows(answer: SizeAnswer) -> Iterable[Row]:
    for name, found in (("twice the model", answer.next_model), ("twice the data", answer.next_data)):
        if found["steps_ratio"] is None:
            yield name, "open", "nothing was seen of it"
            continue
        parts = [f"the updates{_span(found, 'steps_ratio')}"]
        if found["loss_ratio"] is not None:
            parts.append(f"{found['loss_ratio']:.3f} times the loss{_span(found, 'loss_ratio')}")
        if found["seconds_ratio"] is not None:
            parts.append(f"{found['seconds_ratio']:.2f} times the time{_span(found, 'seconds_ratio')}")
        yield name, f"{found['steps_ratio']:.2f} times", ", ".join(parts)
    needed = answer.next_model["speedup_needed"]
    if needed is not None:
        words = "it pays already" if needed <= 1 else "its step must become so much faster before it pays"
        yield "  to pay", f"{needed:.2f} times", f"{words}{_span(answer.next_model, 'speedup_needed')}"
    link = answer.next_model.get("link_speedup_needed")
    if link is not None:
        pace = float(f"{answer.next_model['link_bytes_per_second'] / 1e9:.3g}")
        words = f"a link of {pace:,g} GB/s hides its gradients behind its backward pass, where devices share the batch"
        yield "  link", f"{link:.2f} times", words


def _span(found: dict[str, Any], key: str) -> str:
    span = found.get(f"{key}_range")
    return f" ({span[0]:.2f} to {span[1]:.2f})" if span else ""


def _memory_rows(answer: SizeAnswer) -> Iterable[Row]:
    if answer.memory:
        fits = {True: "twice the largest fits", False: "twice the largest does not fit", None: "open what fits"}
        remark = fits[answer.memory["next_fits"]]
        if answer.memory["next_card"] and answer.memory["next_fits"] is False:
            num = answer.memory["next_num_devices"]
            remark += f"; it needs {answer.memory['next_card']}" + (f", {num} of them" if num > 1 else "")
        yield "memory", *_bytes_words(answer.memory, remark)
    if answer.fill:
        shares = ", ".join(f"{each['value']:,}: {quantity(each['share'], 'share')}" for each in answer.fill)
        yield "device filled", quantity(answer.fill[-1]["share"], "share"), f"of its best pace a parameter; {shares}"


def _bytes_words(memory: dict[str, Any], remark: str) -> tuple[str, str]:
    """Bytes of a parameter with their range, or why none are told; and what fits."""
    each, span = memory["bytes_per_parameter"], memory.get("bytes_per_parameter_range")
    if each is None:
        return "open", f"these models are too small to show what a parameter takes; {remark}"
    return f"{each:,.1f} bytes", f"a parameter{f' ({span[0]:,.1f} to {span[1]:,.1f})' if span else ''}; {remark}"


def _solver_rows(answer: SizeAnswer) -> Iterable[Row]:
    for each in answer.solvers:
        rate = f"at a rate of {each['learning_rate']:g}; " if "learning_rate" in each else ""
        numbers = ", ".join(_with_span(each, name) for name in ("a", "k1", "k2"))
        yield each["solver"], f"{each['steps']:,.0f} updates", f"amid the trials; {rate}{numbers}"
    sayings = {True: "yes", False: "no", None: "open"}
    for name, found in answer.solver_claims.items():
        yield name.replace("_", " "), sayings[found], "N. Ardalani et al. (2018) say yes"


def _with_span(solver: dict[str, Any], name: str) -> str:
    """A number of its law, open where its range is wider than itself."""
    value, (low, high) = if_known(solver[name], solver[f"{name}_range"]), solver[f"{name}_range"]
    return f"{name} {'open' if value is None else short(value)} ({short(low)} to {short(high)})"


def section(answer: SizeAnswer, others: Sequence[SizeAnswer] = ()) -> Section:
    """The section of the page."""
    return Section(
        title="How large a model, how much data?",
        summary=_summary(answer),
        facts=list(size_rows(answer)),
        figures=figures_of(answer),
        tables=tables_of(answer, others),
    )


def _summary(answer: SizeAnswer) -> str:
    best = recommended(answer)
    if best is None:
        return f"No {answer.vary} reached the wanted loss."
    ratio = answer.next_model["steps_ratio"]
    twice = "" if ratio is None else f"; twice the parameters would need {ratio:.2f} times the updates"
    took = quantity(best["seconds"], "seconds")
    loss = answer.target["loss"]
    first = f"A {answer.vary} of {best['value']:,} reaches a loss of {loss:.4g} soonest at a constant rate"
    return f"{first}, in {took}{twice}."


def circumstances(answer: SizeAnswer) -> tuple[object, ...]:
    """One answer for each dimension and rule of the rate."""
    return answer.device, answer.vary, answer.rate_rule, answer.batch_size


VIEW = View(answer=SizeAnswer, print=print_size, section=section, circumstances=circumstances)
