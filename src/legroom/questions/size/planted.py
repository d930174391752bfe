"""Seeded laws to plant, and the evidence that a question of their trials would gather."""

from typing import NamedTuple

import numpy as np

from legroom.logbook import Entry
from legroom.questions.size.evidence import Evidence, gather
from legroom.questions.size.fake import FakeSizes
from legroom.questions.size.planning import planned
from legroom.questions.size.records import SizeQuestion

WIDTHS, FRACTIONS = (16, 32, 64, 128), (0.0625, 0.125, 0.25)


class Chances(NamedTuple):
    """A law about the middle of what is measured: a plateau in half of the cases, 2 to 20 % of noise on every count."""

    k1: float
    k2: float
    level: float
    share: float
    noise: float


def draw(rng: np.random.Generator, levels: tuple[float, float]) -> Chances:
    """One of them; levels: between which powers of ten the updates in the middle lie."""
    k1, k2, level = rng.uniform(0.3, 1.2), rng.uniform(0.2, 1.1), 10 ** rng.uniform(*levels)
    return Chances(k1, k2, level, float(rng.choice([0.0, rng.uniform(0.05, 0.7)])), rng.uniform(0.02, 0.2))


def plant(seed: int) -> FakeSizes:
    """Trials by such a law, with noise of their own."""
    k1, k2, level, share, noise = draw(np.random.default_rng(seed), (1.8, 3.2))
    a = (1 - share) * level * (32 * 32.0**2) ** k2 / 1250**k1
    return FakeSizes(a=a, k1=k1, k2=k2, b=share * level, noise=noise, noise_seed=seed)


def evidence_of(fake: FakeSizes) -> Evidence:
    """What a logbook would hold of all that is planned: four widths, three shares and the whole, three seeds each."""
    question = SizeQuestion(
        device="cpu",
        settings={"seed": 0, "learning_rate": 0.1, "batch_size": 32},
        vary="width",
        values=WIDTHS,
        own_value=128,
        num_parameters=[fake.parameters(width) for width in WIDTHS],
        fractions=FRACTIONS,
        num_samples=fake.num_samples,
    )
    requests = [question.trial(each.value, each.fraction, each.more, 1e6, each.solver) for each in planned(question)]
    entries = [Entry(run="", request=each, result=fake.train(each), seconds=0.0, at="") for each in requests]
    return gather(entries, question)
