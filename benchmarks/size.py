"""`legroom size` beside what was held out, and beside planted laws.

    python benchmarks/size.py planted [NUM_CASES]
    python benchmarks/size.py JOB [BUDGET] [SEED] [FOLDER] [DEVICE]
    python benchmarks/size.py over FOLDER                             the last line alone

JOB is digits, char-lm, word-lm or speech, BUDGET as 4min, and DEVICE cpu where none is named.

The jobs are those of N. Ardalani, J. Hestness and G. Diamos (2018), reduced so that two cores train them in minutes:
less text, shorter sequences, smaller batches, narrower and shallower models, and a higher rate. Widths and shares of
the data are chosen so that the held-out width is 4 times the largest of the fit, and the whole 4 times its most data.
That is 16 times its least, of words 4 times: of fewer they learn no more than how frequent each is. Printed is a row
for every trial and for every point held out; the last line is over all answers that FOLDER holds, each kept there as
JOB-SEED.json, its losses to four digits: by them other rules of when a trial has settled can be judged.
"""

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from legroom import Job, api
from legroom.questions.size.answer import SizeAnswer
from legroom.questions.size.fits import fit_steps
from legroom.questions.size.planted import evidence_of, plant
from legroom.questions.size.scores import score_held_out
from legroom.units import parse_seconds
from legroom.workloads.text.chance import unigram_loss

SHARES = [1 / 64, 1 / 16, 1 / 4]
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("digits", {"widths": [8, 16, 32, 128]}),
    "char-lm": (f"{__file__}:char_lm", {"widths": [4, 8, 16, 64], "fractions": SHARES}),
    "word-lm": (f"{__file__}:word_lm", {"widths": [4, 8, 16, 64], "fractions": [1 / 16, 1 / 8, 1 / 4]}),
    "speech": (f"{__file__}:speech", {"widths": [8, 16, 32], "fractions": [0.125, 0.25]}),
}
NUM_TRAIN, NUM_VALID = 160_000, 6_000
"""Characters or words."""
CURVES = ("curve", "cooled_curve")
AS_GOOD = 1.15
"""Times the fastest size's time to the loss wanted: what is asked of the size chosen."""


def _cut(job: Job, num_train: int, num_valid: int) -> Job:
    """The job on the beginning of its text; what learned nothing knows how frequent each letter or word is there."""
    assert job.valid_data is not None
    assert job.score is not None
    assert job.score.finish is not None
    train, valid = job.train_data(), job.valid_data()
    train, valid = train.part(min(1.0, num_train / len(train))), valid.part(min(1.0, num_valid / len(valid)))
    num_codes = 1 + int(max(train.words.max(), valid.words.max()))
    chance = job.score.finish(unigram_loss(train.words.numpy(), valid.words.numpy(), num_codes))
    return replace(job, train_data=lambda: train, valid_data=lambda: valid, score=replace(job.score, chance=chance))


def char_lm() -> Job:
    """A recurrent highway 2 deep on 160,000 characters: batches of 16 sequences of 16, Adam at 0.003."""
    from legroom.workloads import char_lm

    job = _cut(char_lm.job(hidden=64, depth=2, sequence=16), NUM_TRAIN, NUM_VALID)
    return replace(job, baseline=replace(job.baseline, batch_size=16, learning_rate=3e-3))


def word_lm() -> Job:
    """One LSTM on 160,000 words of WikiText-2, 500 of them known: batches of 16 sequences of 16, Adam at 0.01."""
    from legroom.workloads import word_lm

    job = _cut(word_lm.job(hidden=64, layers=1, words=500, sequence=16), NUM_TRAIN, NUM_VALID)
    return replace(job, baseline=replace(job.baseline, batch_size=16, learning_rate=1e-2))


def speech() -> Job:
    """The speech job with one bidirectional LSTM."""
    from legroom.workloads import speech

    job = speech.job(hidden=32, layers=1)
    return replace(job, baseline=replace(job.baseline, learning_rate=3e-3))


def planted(num_cases: int) -> None:
    """How often the evidence of the question, its trials and their curves, finds what was planted."""
    inside: list[list[bool]] = []
    held: list[bool] = []
    for seed in range(num_cases):
        fake = plant(seed)
        evidence = evidence_of(fake)
        law = fit_steps([trial for trial in evidence.of() if not trial.held_out])
        spans = ((law.k1_range, fake.k1), (law.k2_range, fake.k2), (law.b_range, fake.b))
        inside.append([low <= truth <= high for (low, high), truth in spans])
        held += [each["inside"] for each in score_held_out(law, None, evidence)]
    for name, column in zip(("k1", "k2", "b"), zip(*inside, strict=True), strict=True):
        print(f"{name} in its range: {sum(column)} of {num_cases}")
    print(f"all three: {sum(map(all, inside))} of {num_cases}; points held out: {sum(held)} of {len(held)}")


def measure(name: str, budget: str, seed: int, kept: Path | None, device: str) -> None:
    """One job, asked as a user would; its answer is kept where a folder is named."""
    job, words = PLANS[name]
    with tempfile.TemporaryDirectory() as folder:
        run = api.Run(out=Path(folder), seed=seed, timeout=600.0)
        answer = api.size(job, device=device, budget=parse_seconds(budget), run=run, **words)
    print_rows(name, answer)
    told = {**answer.to_json(), "chosen_ratios": chosen(answer)[1]}
    told["points"] = [{**each, **{name: _rounded(each[name]) for name in CURVES}} for each in told["points"]]
    told["lines"] = told["pace_line"] = None
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        (kept / f"{name}-{seed}.json").write_text(json.dumps(told) + "\n")
    over([told] if kept is None else read(kept))


def _rounded(curve: dict[str, list[float]]) -> dict[str, list[float]]:
    """To four digits."""
    return {name: [float(f"{value:.4g}") for value in values] for name, values in curve.items()}


def read(folder: Path) -> list[dict[str, Any]]:
    """The answers kept there."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def over(answers: Sequence[dict[str, Any]]) -> None:
    """What was held out over all answers: at more width, at more data, at both, and the time at the size chosen."""
    held = [{**each, "largest": _largest(answer, each)} for answer in answers for each in answer["held_out"]]
    kinds = {
        "width": [each for each in held if each["fraction"] < 1],
        "data": [each for each in held if not each["largest"]],
        "both": [each for each in held if each["largest"] and each["fraction"] == 1],
        "all": held,
    }
    parts = [f"{name}: {_told(rows)}" for name, rows in kinds.items() if rows]
    ratios = [ratio for answer in answers for ratio in answer["chosen_ratios"]]
    good = f"chosen size within {AS_GOOD} of the fastest in {sum(map(_is_good, ratios))} of {len(ratios)} seeds"
    print(f"over {len(answers)} answers: {'; '.join(parts) or 'nothing held out was reached'}; {good}")


def _largest(answer: dict[str, Any], held: dict[str, Any]) -> bool:
    return bool(held["value"] == max(each[answer["vary"]] for each in answer["points"]))


def _told(rows: Sequence[dict[str, Any]]) -> str:
    errors = [abs(each["error"]) for each in rows if each["error"] is not None]
    wide = [each["predicted_range"][1] / each["predicted_range"][0] for each in rows]
    middle = f"{statistics.median(errors):.0%} off in the middle of {len(errors)}" if errors else "none settled"
    inside = f"{sum(each['inside'] for each in rows)} of {len(rows)} inside"
    return f"{middle}, {inside}, high over low {statistics.median(wide):.2f}"


def _is_good(ratio: float | None) -> bool:
    return ratio is not None and ratio <= AS_GOOD


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
    print(f"k1 {answer.k1} {answer.k1_range}; k2 {answer.k2} {answer.k2_range}; b {answer.b} {answer.b_range}")
    print(f"holds 1: {answer.holds_one}; plateau {answer.plateau} {answer.plateau_range}")
    print(f"recommended width {answer.recommended_width} for a loss of {answer.target['loss']}; {chosen(answer)[0]}")
    print("laws:", answer.laws)
    print("twice the model:", answer.next_model)
    for sentence in (*answer.notes, *answer.not_measured):
        print(f"- {sentence}")


def chosen(answer: SizeAnswer) -> tuple[str, list[float | None]]:
    """The size that the first seed alone would choose, by the time that the other seeds took."""
    seeds = sorted({each["seed"] for each in answer.points})
    paces = {each["value"]: each["step_seconds"] for each in answer.times}
    by_seed = {seed: _times(answer, seed, paces) for seed in seeds}
    first, others = by_seed[seeds[0]], [times for seed, times in by_seed.items() if seed != seeds[0] and times]
    if not first or not others:
        return "too few seeds to judge the choice", []
    pick = min(first, key=lambda width: first[width])
    ratios = [times[pick] / min(times.values()) if pick in times else None for times in others]
    told = "; ".join("never" if each is None else f"{each:.2f}" for each in ratios)
    return f"the first seed would choose {pick}, {told} times the others' fastest", ratios


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
    if not words or words[0] not in ("planted", "over", *PLANS):
        raise SystemExit(__doc__)
    if words[0] == "planted":
        planted(int(words[1]) if len(words) > 1 else 100)
    elif words[0] == "over":
        over(read(Path(words[1])))
    else:
        budget, seed, folder, device = (*words[1:], *("4min", "0", "", "cpu")[len(words) - 1 :])
        measure(words[0], budget, int(seed), Path(folder) if folder else None, device)


if __name__ == "__main__":
    main(sys.argv[1:])
