"""The laws in the page's language: the same numbers as in Python, and a refusal of what would mean another thing."""

import inspect
import json
import random
from types import FunctionType

import pytest

from legroom.laws import time_to_target, what_if
from legroom.reports.laws_in_js import NotTranslated, translate_source
from legroom.reports.what_if import script

NUM_CASES = 300


def functions(module):
    return [one for one in vars(module).values() if isinstance(one, FunctionType) and one.__module__ == module.__name__]


def rising(rng):
    return sorted(rng.sample(range(1, 5000), 5))


def argument(name, rng):
    """A value that a law may be given, by the name of its argument."""
    match name:
        case "sizes" | "candidates":
            return rising(rng)
        case "numbers":
            return [1, *sorted(rng.sample(range(2, 16), 4))]
        case "extras":
            return [rng.uniform(-0.1, 0.1) for _ in range(5)]
        case "on_one_machine":
            return rng.choice([0, 1])
        case "seconds" | "slowdowns" | "values" | "updates":
            return [rng.uniform(1e-4, 2) for _ in range(5)]
        case "factors":
            return factors(rng)
        case "first" | "second" | "steps_spread" | "seconds_spread":
            return rng.uniform(1.0, 3.0)
        case "num_workers":
            return rng.randint(0, 32)
        case "critical_batch_size" | "contention" | "coherence" | "core_seconds":
            return rng.choice([0.0, rng.uniform(0, 5000)])
        case "device_bytes" | "fixed_bytes":
            return rng.uniform(1e6, 1e11)
        case "num_passes" | "num_devices":
            return rng.randint(1, 16)
    return rng.choice([rng.randint(1, 5000), rng.uniform(1e-3, 5000)])


def factors(rng):
    """A run, its critical batch known or not, what other targets take as well."""
    found = {name: argument(name, rng) for name in what_if.Factors.__annotations__}
    unknown = rng.choice([{}, {"values": [], "updates": []}])
    return {**found, **unknown, "critical_batch_size": rng.choice([None, found["critical_batch_size"]])}


def arguments(law, rng):
    names = list(inspect.signature(law).parameters)
    if law in (time_to_target.money, time_to_target.soonest):
        found = {"seconds": rng.uniform(1, 9999)} if law is time_to_target.money else {}
        return [found.get(name, argument(name, rng)) for name in names]
    return [argument(name, rng) for name in names]


@pytest.fixture(scope="module")
def run_js(browser):
    """Runs the script and returns what each of its laws gives for each list of arguments."""
    page = browser.new_page()

    def run(script, cases):
        calls = f"({json.dumps(cases)}).map(([name, given]) => LAWS[name](...given))"
        return page.evaluate(f"() => {{ {script}\nreturn {calls}; }}")

    yield run
    page.close()


def alike(found, wanted):
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(alike, found, wanted))
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(alike(found[key], wanted[key]) for key in wanted)
    return found == wanted if wanted is None else found == pytest.approx(wanted, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("module", [time_to_target, what_if])
def test_every_law_gives_in_the_browser_what_it_gives_in_python(run_js, module):
    rng = random.Random(17)
    cases = [(law, arguments(law, rng)) for law in functions(module) for _ in range(NUM_CASES)]
    assert len({law for law, _ in cases}) >= 12
    found = run_js(script(), [(law.__name__, given) for law, given in cases])
    wanted = json.loads(json.dumps([law(*given) for law, given in cases]))
    wrong = [case for case, one, other in zip(cases, found, wanted, strict=True) if not alike(one, other)]
    assert wrong == []


WHOLE = """
START = 2
"A sentence."
def law(values, limit):
    "A sentence."
    total = 0.0
    for place in range(len(values)):
        if values[place] is None or not 0 < values[place] <= limit:
            total = total + START
        else:
            total = total + values[place] ** -1
    shown = [total, limit]
    return [*[one * one for one in shown], -total, max(total, 1, 2), abs(-total)] if total != 3 else [limit]
"""


def test_loops_conditions_chains_and_constants_mean_the_same_there(run_js):
    space = {}
    exec(WHOLE, space)
    cases = [([1, 4, 9, None], 5), ([2.0, -1], 3), ([0], 1), ([1, 1, 1], 1)]
    found = run_js(translate_source(("planted", WHOLE)), [("law", case) for case in cases])
    assert found == [space["law"](*case) for case in cases]


@pytest.mark.parametrize(
    "line",
    [
        "return a // b",
        "return a % b",
        "return round(a)",
        "return max(a)",
        "return a or b",
        "return not a",
        "return 1 if a else 2",
        "return 'a'",
        "return f'{a}'",
        "return a.real",
        "return unknown",
        "return unknown(a)",
        "return other(a)",
        "return other(a=a, b=b)",
        "return other(*a)",
        "return a is b",
        "return a == [1]",
        "return a in b",
        "return a[-1]",
        "return a[1:]",
        "return (a, b)",
        "return {1: a}",
        "return [one for one in a if one]",
        "return lambda: a",
        "return math.gamma(a)",
        "return math.log(a, b)",
        "return 9007199254740993",
        "return",
        "a += 1",
        "a, b = b, a",
        "while a: pass",
        "for one in a: b = one",
        "for one in range(a, b): b = one",
        "new = a",
        "with a: pass",
        "raise a",
        "import os",
        "assert a",
        "def inner(): return a",
    ],
)
def test_whatever_means_another_thing_there_is_refused_with_its_line(line):
    text = f"def other(a, b):\n    return a\ndef law(a, b):\n    {line}\n    return b\n"
    with pytest.raises(NotTranslated, match=r"planted, line [34]: .* cannot be translated"):
        translate_source(("planted", text))


@pytest.mark.parametrize(
    "text", ["class A: pass", "x = [1, 'a']", "def law(a=1): return a", "def law(*a): return 1", "print(1)"]
)
def test_modules_of_laws_hold_laws_alone(text):
    with pytest.raises(NotTranslated, match=r"planted, line 1"):
        translate_source(("planted", text))
