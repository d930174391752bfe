"""`legroom size` beside what was held out, and beside planted laws.

    python benchmarks/size.py planted [NUM_CASES]
    python benchmarks/size.py JOB [BUDGET] [SEED]        digits, char-lm, word-lm or speech; budget as 4min

The jobs are those of N. Ardalani, J. Hestness and G. Diamos (2018), reduced so that two cores train them in minutes:
less text, shorter sequences, smaller batches, narrower and shallower models, and a higher rate. Widths and shares of
the data are chosen so that the held-out width is 4 times the largest of the fit, and the whole 4 times its most data.
Printed is a row for every trial and for every point held out.
"""

import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from legroom import Job, api
from legroom.logbook import Entry
from legroom.questions.size.answer import SizeAnswer
from legroom.questions.size.evidence import fit_steps, gather
from legroom.questions.size.fake import FakeSizes
from legroom.questions.size.records import SizeQuestion
from legroom.questions.size.scores import score_held_out
from legroom.questions.size.search import planned as planned_of
from legroom.units import parse_seconds

PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("digits", {"widths": [8, 16, 32, 128]}),
    "char-lm": (f"{__file__}:char_lm", {"widths": [4, 8, 16, 64]}),
    "word-lm": (f"{__file__}:word_lm", {"widths": [4, 8, 16, 64]}),
    "speech": (f"{__file__}:speech", {"widths": [8, 16, 32], "fractions": [0.125, 0.25]}),
}


def _cut(job: Job, num_train: int, num_valid: int) -> Job:
    """The job on the beginning of its text."""
    train, valid = job.train_data, job.valid_data
    assert valid is not None

    def part(make: Any, num_words: int) -> Any:
        whole = make()
        return whole.part(min(1.0, num_words / len(whole)))

    return replace(job, train_data=lambda: part(train, num_train), valid_data=lambda: part(valid, num_valid))


def char_lm() -> Job:
    """A recurrent highway 2 deep on 40,000 characters: batches of 16 sequences of 16, Adam at 0.01."""
    from legroom.workloads import char_lm

    job = _cut(char_lm.job(hidden=64, depth=2, sequence=16), 40_000, 6_000)
    return replace(job, baseline=replace(job.baseline, batch_size=16, learning_rate=1e-2))


def word_lm() -> Job:
    """Two LSTMs on 40,000 words of WikiText-2, 500 of them known: batches of 16 sequences of 16, Adam at 0.01."""
    from legroom.workloads import word_lm

    job = _cut(word_lm.job(hidden=64, words=500, sequence=16), 40_000, 6_000)
    return replace(job, baseline=replace(job.baseline, batch_size=16, learning_rate=1e-2))


def speech() -> Job:
    """The speech job with one bidirectional LSTM."""
    from legroom.workloads import speech

    job = speech.job(hidden=32, layers=1)
    return replace(job, baseline=replace(job.baseline, learning_rate=3e-3))


def plant(seed: int) -> FakeSizes:
    """A law with a plateau in half of the cases, and 2 to 20 % of noise on every count of updates."""
    rng = np.random.default_rng(seed)
    k1, k2, level = rng.uniform(0.3, 1.2), rng.uniform(0.2, 1.1), 10 ** rng.uniform(1.8, 3.2)
    share = rng.choice([0.0, rng.uniform(0.05, 0.7)])
    a = (1 - share) * level * (32 * 32.0**2) ** k2 / 1250**k1
    return FakeSizes(a=a, k1=k1, k2=k2, b=share * level, noise=rng.uniform(0.02, 0.2))


def planted(num_cases: int) -> None:
    """How often the evidence of the question, its trials and their curves, finds what was planted."""
    inside: list[list[bool]] = []
    held: list[bool] = []
    for seed in range(num_cases):
        fake = plant(seed)
        evidence = gather(entries(fake), question_of(fake))
        law = fit_steps([trial for trial in evidence.of() if not trial.held_out])
        spans = ((law.k1_range, fake.k1), (law.k2_range, fake.k2), (law.b_range, fake.b))
        inside.append([low <= truth <= high for (low, high), truth in spans])
        held += [each["inside"] for each in score_held_out(law, None, evidence)]
    for name, column in zip(("k1", "k2", "b"), zip(*inside, strict=True), strict=True):
        print(f"{name} in its range: {sum(column)} of {num_cases}")
    print(f"all three: {sum(map(all, inside))} of {num_cases}; points held out: {sum(held)} of {len(held)}")


def question_of(fake: FakeSizes) -> SizeQuestion:
    """Four widths and three shares of the data, three seeds each, as by default."""
    return SizeQuestion(
        device="cpu",
        settings={"seed": 0, "learning_rate": 0.1, "batch_size": 32},
        vary="width",
        values=(16, 32, 64, 128),
        own_value=128,
        num_parameters=[fake.parameters(width) for width in (16, 32, 64, 128)],
        fractions=(0.0625, 0.125, 0.25),
        num_samples=fake.num_samples,
    )


def entries(fake: FakeSizes) -> list[Entry]:
    """What a logbook would hold of all that is planned."""
    question = question_of(fake)
    requests = [question.trial(each.value, each.fraction, each.more, 1e6, each.solver) for each in planned_of(question)]
    return [Entry(run="", request=each, result=fake.train(each), seconds=0.0, at="") for each in requests]


def measure(name: str, budget: str, seed: int) -> None:
    """One job, asked as a user would."""
    job, words = PLANS[name]
    with tempfile.TemporaryDirectory() as folder:
        run = api.Run(out=Path(folder), seed=seed, timeout=600.0)
        answer = api.size(job, device="cpu", budget=parse_seconds(budget), run=run, **words)
    print_rows(name, answer)


def print_rows(name: str, answer: SizeAnswer) -> None:
    """All rows of an answer."""
    print(f"## {name}: {answer.num_trials} trials, {answer.seconds:.0f} s")
    print(
        "trial | width | data | seed | outcome | updates | loss | cooled updates | cooled loss | ms a step | parameters"
    )
    for each in answer.points:
        row = [each["width"], f"{each['fraction']:.4g}", each["seed"], each["outcome"], _number(each["steps"])]
        row += [_number(each[key]) for key in ("least_loss", "cooled_steps", "cooled_loss")]
        print("trial |", " | ".join(map(str, [*row, _number(1e3 * each["step_seconds"]), each["num_parameters"]])))
    print("held out | width | data | seeds | measured | foretold | low | high | error | inside | loss | foretold loss")
    for each in answer.held_out:
        low, high = each["predicted_range"]
        row = [each["value"], f"{each['fraction']:.4g}", each["num_seeds"], _number(each["steps"])]
        row += [_number(value) for value in (each["predicted_steps"], low, high, each["error"])]
        row += [each["inside"], _number(each["least_loss"]), _number(each["predicted_loss"])]
        print("held out |", " | ".join(map(str, row)), "(at least)" * each["at_least"])
    spans = [each["predicted_range"][1] / each["predicted_range"][0] for each in answer.held_out]
    errors = [abs(each["error"]) for each in answer.held_out if each["error"] is not None]
    if errors:
        num_inside = sum(each["inside"] for each in answer.held_out)
        middle = f"{statistics.median(errors):.0%} error, high over low {statistics.median(spans):.2f}"
        print(f"held out in the middle: {middle}; {num_inside} of {len(spans)} inside")
    print(f"k1 {answer.k1} {answer.k1_range}; k2 {answer.k2} {answer.k2_range}; b {answer.b:.0f} {answer.b_range}")
    print(f"holds 1: {answer.holds_one}; plateau {answer.plateau} {answer.plateau_range}")
    print(f"recommended width {answer.recommended_width} for a loss of {answer.target['loss']}; {chosen(answer)}")
    print("twice the model:", answer.next_model)
    for sentence in (*answer.notes, *answer.not_measured):
        print(f"- {sentence}")


def chosen(answer: SizeAnswer) -> str:
    """The size that the first seed alone would choose, by the time that the other seeds took."""
    seeds = sorted({each["seed"] for each in answer.points})
    paces = {each["value"]: each["step_seconds"] for each in answer.times}
    by_seed = {seed: _times(answer, seed, paces) for seed in seeds}
    first, others = by_seed[seeds[0]], [times for seed, times in by_seed.items() if seed != seeds[0] and times]
    if not first or not others:
        return "too few seeds to judge the choice"
    pick = min(first, key=lambda width: first[width])
    ratios = [times[pick] / min(times.values()) if pick in times else float("inf") for times in others]
    return (
        f"the first seed would choose {pick}, {'; '.join(f'{each:.2f}' for each in ratios)} times the others' fastest"
    )


def _times(answer: SizeAnswer, seed: int, paces: dict[int, float]) -> dict[int, float]:
    """Seconds to the target by width, with that seed."""
    found = {}
    for each in answer.points:
        curve = each["curve"]
        there = [
            step for step, loss in zip(curve["steps"], curve["loss"], strict=True) if loss <= answer.target["loss"]
        ]
        if each["seed"] == seed and each["fraction"] == answer.judged_fraction and there:
            found[each["width"]] = there[0] * paces[each["width"]]
    return found


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def main(words: Sequence[str]) -> None:
    """What the words say."""
    random.seed(0)
    if not words or words[0] not in ("planted", *PLANS):
        raise SystemExit(__doc__)
    if words[0] == "planted":
        planted(int(words[1]) if len(words) > 1 else 100)
    else:
        measure(words[0], words[1] if len(words) > 1 else "4min", int(words[2]) if len(words) > 2 else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
