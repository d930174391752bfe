"""What the text jobs score when nothing is learned, and when they are trained: one row each, baselines beside it.

    python benchmarks/workloads.py                       # baselines and start-up seconds, no training
    python benchmarks/workloads.py --train --device cuda # and a run of each job with its own settings

Data is read from LEGROOM_DATA. Start-up is what the job takes to be built the second time, from the cache.
"""

import argparse
import json
import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from legroom.job import Job
from legroom.job_address import load_job
from legroom.training.loop import Run
from legroom.training.records import Train
from legroom.workloads.text.chance import constant_accuracies
from legroom.workloads.text.pairs import Pairs
from legroom.workloads.text.vocabulary import PAD

TATOEBA = {"pairs": "tatoeba", "min_frequency": "5", "masking": "true", "batches": "places"}
ROWS: list[tuple[str, dict[str, str]]] = [
    ("translation", {}),
    ("translation", {"network": "bidirectional"}),
    ("translation", TATOEBA),
    ("translation", TATOEBA | {"network": "bidirectional"}),
    ("word-lm", {}),
    ("char-lm", {}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seconds", type=float, help="most that one run may take")
    parser.add_argument("--only", default="", help="jobs whose name begins so")
    words = parser.parse_args()
    for name, options in ROWS:
        if not name.startswith(words.only):
            continue
        load_job(name, options)  # fills the cache
        started = time.perf_counter()
        job = load_job(name, options)
        row = {"job": name, "options": options, "start_up_seconds": round(time.perf_counter() - started, 2)}
        row |= baselines(name, job)
        if words.train:
            row |= train(job, words.device, words.epochs, words.seconds)
        print(json.dumps(row), flush=True)


def baselines(name: str, job: Job) -> dict[str, Any]:
    """Scores of models that learned nothing."""
    assert job.score is not None
    found: dict[str, Any] = {"chance": job.score.chance, "notes": list(job.notes)}
    if name != "translation":
        return found
    parts = job.train_data(), job.valid_data()  # type: ignore[misc]
    return found | constant_accuracies(*parts) | place_accuracies(*parts)


def place_accuracies(train: Pairs, valid: Pairs) -> dict[str, float]:
    """Shares right of the answer most frequent at each place in training, all padded to the longest sentence."""
    longest = valid.borders[-1]
    learned, judged = (part.target.padded(np.arange(len(part)), longest) for part in (train, valid))
    any_entry = np.array([np.bincount(column).argmax() for column in learned.T])
    a_word = np.array([np.bincount(column[column != PAD], minlength=1).argmax() for column in learned.T])
    return {
        "most frequent of each place, unmasked": float((judged == any_entry).mean()),
        "most frequent of each place, masked": float((judged == a_word)[judged != PAD].mean()),
    }


def train(job: Job, device: str, num_epochs: int | None, max_seconds: float | None) -> dict[str, Any]:
    """The job's own settings to their end, or until the best score has not been beaten five times."""
    settings = replace(job.baseline, num_epochs=num_epochs or job.baseline.num_epochs)
    request = Train(device=device, settings=asdict(settings), patience=5, watch="score", max_seconds=max_seconds)
    done = Run(job, request, job.train_data(), job.valid_data()).go()  # type: ignore[misc]
    scores = [found.score for found in done.evaluations if found.score is not None]
    best = (max if done.goal == "max" else min)(scores)
    return {
        "best_score": best,
        "num_epochs": done.num_epochs,
        "seconds": round(done.seconds, 1),
        "stopped_because": done.stopped_because,
    }


if __name__ == "__main__":
    main()
