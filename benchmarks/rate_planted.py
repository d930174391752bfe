"""`legroom rate` on learners whose best rate and critical batch size are planted.

    python benchmarks/rate_planted.py [--cases 100] [--first 0] [--law kept|broken] [--rows FILE] [--quiet]

Every case draws S_min, B_crit, the best rate, noise, the rate at which the learner diverges, a batch size within 8
times of B_crit and the job's own rate within a factor 10 of the best. A case is found where the rate is within a factor
1.5 of the planted one, and where B_crit lies within the range told. With `--law broken` updates fall with the root of
the batch, whatever it is: no critical batch size is right, and what counts is that rates are still found.
"""

import argparse
import json
import math
import random
import statistics
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from legroom import api
from legroom.job import Settings
from legroom.questions.rate.fake import FakeLearner, FakeLearning, LawlessLearner
from legroom.testing import FakeMachine, plant_host


@dataclass(frozen=True)
class Row:
    """One case."""

    seed: int
    rate_ratio: float
    """The rate found, over the one planted."""
    is_plausible: bool
    """Whether the planted rate lies in the range told."""
    rate_width: float
    """High over low of that range."""
    batch_ratio: float | None
    """The critical batch size found, over the one planted; None where no number was told."""
    noise_ratio: float | None
    inside: bool
    width: float
    """High over low of its range."""
    steps_ratio: float
    """Updates told, over those planted at the best rate."""
    num_trials: int
    num_samples: int


def plant(seed: int, kind: type[FakeLearner] = FakeLearner) -> tuple[FakeLearner, int, float]:
    """A learner, the batch size of a job on it and the job's own rate, all drawn at random."""
    rng = random.Random(seed)
    batch_size, best = rng.choice([16, 32, 64, 128]), 10 ** rng.uniform(-3.5, 0)
    learner = kind(
        s_min=rng.uniform(80, 250),
        b_crit=batch_size * 8 ** rng.uniform(-1, 1),
        best_rate=best,
        noise=rng.choice([0.0, 0.01, 0.03]),
        rate_exponent=1.0,
        seed=seed,
    )
    at_batch = learner.best_rate_at(batch_size)
    learner = replace(learner, best_rate=best * best / at_batch, diverges_above=best * rng.uniform(4, 40))
    return learner, batch_size, best * 10 ** rng.uniform(-1, 0.3)


def ask(seed: int, out: Path, kind: type[FakeLearner] = FakeLearner) -> Row:
    """One case, asked as a user would."""
    learner, size, own = plant(seed, kind)
    num_epochs = max(1, round(3 * learner.updates_needed(size) * size / 10_000))
    baseline = Settings(batch_size=size, learning_rate=own, num_epochs=num_epochs)
    machine = FakeMachine(FakeLearning(learner), baseline=baseline)
    run = api.Run(out=out, engine=machine, host=plant_host(), clock=machine.clock)
    answer = api.rate("digits", device="cpu", target="loss=0.12", budget=1e6, run=run)
    low, high = answer.critical_range or (math.nan, math.nan)
    told, guess = answer.critical_batch_size, answer.noise_scale
    return Row(
        seed=seed,
        rate_ratio=answer.learning_rate / learner.best_rate_at(size),
        is_plausible=answer.range[0] <= learner.best_rate_at(size) <= answer.range[1],
        rate_width=answer.range[1] / answer.range[0],
        batch_ratio=None if told is None else told / learner.b_crit,
        noise_ratio=None if guess is None else guess / learner.b_crit,
        inside=low <= learner.b_crit <= high,
        width=high / low,
        steps_ratio=answer.num_steps / learner.updates_needed(size),
        num_trials=answer.num_trials,
        num_samples=answer.num_samples,
    )


def main() -> None:
    """Ask all cases, print each and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--law", choices=("kept", "broken"), default="kept")
    parser.add_argument("--rows", type=Path, default=None, help="a file for every row")
    parser.add_argument("--quiet", action="store_true", help="print misses alone")
    words = parser.parse_args()
    kind = FakeLearner if words.law == "kept" else LawlessLearner
    with tempfile.TemporaryDirectory() as folder:
        rows = [ask(seed, Path(folder) / str(seed), kind) for seed in range(words.first, words.first + words.cases)]
    if words.rows is not None:
        words.rows.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
    for row in rows:
        good = abs(math.log(row.rate_ratio)) <= math.log(1.5) and row.inside
        if not (words.quiet and good):
            print(row)
    rates = sum(abs(math.log(row.rate_ratio)) <= math.log(1.5) for row in rows)
    told = [row for row in rows if row.batch_ratio is not None]
    guesses = [row.noise_ratio for row in rows if row.noise_ratio is not None]
    print(f"rate within a factor 1.5: {rates} of {len(rows)}")
    print(f"rate within its range:    {sum(row.is_plausible for row in rows)} of {len(rows)}; "
          f"range {statistics.median(row.rate_width for row in rows):.1f} wide in the middle")  # fmt: skip
    print(f"B_crit within its range:  {sum(row.inside for row in rows)} of {len(rows)}; a number told in {len(told)}")
    print(f"told B_crit within a factor 1.5: {sum(abs(math.log(r.batch_ratio or 1)) < math.log(1.5) for r in told)}")
    print(f"range at most 4 wide: {sum(row.width <= 4.001 for row in rows)} of {len(rows)}")
    print(f"noise scale within a factor 2: {sum(abs(math.log(g)) < math.log(2) for g in guesses)} of {len(guesses)}")
    print(f"updates told over planted, middle: {sorted(row.steps_ratio for row in rows)[len(rows) // 2]:.2f}")


if __name__ == "__main__":
    main()
