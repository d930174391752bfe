"""How often the law of updates by model size recovers what was planted: a hundred seeded cases.

    python benchmarks/size_laws.py [NUM_CASES]

Each case plants a, k1, k2, a plateau in half of them, and noise of 2 to 20 % on every count of updates; three or four
model sizes and four sizes of data are counted, and updates at 4 times the largest model, and at 4 times the most data,
are foretold. Printed is in how many cases k1, k2, the plateau b, all three, and the two runs held out lie within their
ranges, and how wide these are.
"""

import math
import sys

import numpy as np

from legroom.laws.model_size import Count, SizeLaw, fit_size


def case(seed: int) -> tuple[list[bool], list[float], list[float]]:
    """Whether k1, k2, b and two runs held out lie in their ranges; high over low of both, and how far both are off."""
    rng = np.random.default_rng(seed)
    models = 10 ** rng.uniform(3.5, 6) * (4.0 ** np.arange(3) if rng.random() < 0.5 else 2.0 ** np.arange(4))
    data = 10 ** rng.uniform(2, 5) * 2.0 ** np.arange(4)
    k1, k2, middle, noise = (
        rng.uniform(0.3, 1.2),
        rng.uniform(0.2, 1.1),
        10 ** rng.uniform(1.5, 3.5),
        rng.uniform(0.02, 0.2),
    )
    share = rng.choice([0.0, rng.uniform(0.05, 0.7)])
    a, b = (1 - share) * middle * math.exp(k2 * np.log(models).mean() - k1 * np.log(data).mean()), share * middle

    def run(num_parameters: float, num_samples: float) -> float:
        return float((a * num_samples**k1 / num_parameters**k2 + b) * math.exp(noise * rng.standard_normal()))

    law = fit_size([Count(size, amount, run(size, amount)) for size in models for amount in data])
    held = [(4 * models[-1], data[-1]), (models[-1], 4 * data[-1])]
    spans = [law.k1_range, law.k2_range, law.b_range, *(law.steps_range(*place) for place in held)]
    truths = [k1, k2, b, *(run(*place) for place in held)]
    inside = [low <= truth <= high for (low, high), truth in zip(spans, truths, strict=True)]
    return inside, [high / low for low, high in spans[3:]], _errors(law, held, truths[3:])


def _errors(law: SizeLaw, places: list[tuple[float, float]], truths: list[float]) -> list[float]:
    return [abs(law.steps(*place) / truth - 1) for place, truth in zip(places, truths, strict=True)]


def main() -> None:
    """All cases, and what they come to."""
    num_cases = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    found = [case(seed) for seed in range(num_cases)]
    inside = np.array([one for one, _, _ in found])
    for name, column in zip(("k1", "k2", "b"), inside.T, strict=False):
        print(f"{name} in its range: {column.sum()} of {num_cases}")
    print(f"all three: {inside[:, :3].all(axis=1).sum()} of {num_cases}")
    print(f"runs held out: {inside[:, 3:].sum()} of {2 * num_cases}")
    print(f"high over low of their ranges: {np.median([one for _, one, _ in found]):.2f} in the middle")
    print(f"error: {np.median([one for _, _, one in found]):.1%} in the middle")


if __name__ == "__main__":
    main()
