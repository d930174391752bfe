"""Steps of several processes, forecast from one and timed: four jobs from compute-bound to communication-bound.

    python benchmarks/devices.py [--jobs conv:128,wide:32] [--slow 1gbit] [--delay 2ms] [--most N] [--out rows.jsonl]

One device is timed alone, also with DistributedDataParallel around it, and two are asked for what a link costs (all-
reduces) and what copies without sync take of each other's cores. From that every step of 2 processes is forecast; then
it is timed. Of 4, 8, 16, where there are as many cores, forecasts know the steps of 2 too. `--slow RATE` does the same
in a network namespace whose loopback a token bucket holds to that rate; it is made and removed here, and needs root.
`--delay TIME` holds every message of gradients back by so much, by a hook of DistributedDataParallel, in steps and in
the all-reduces that the link is fitted to. `--jobs held-out` are jobs that nothing was tuned on.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from legroom import api
from legroom.logbook import read_records
from legroom.questions.devices.advice import advise
from legroom.questions.devices.evidence import Evidence, gather
from legroom.questions.devices.records import DevicesQuestion

HERE = Path(__file__).parent
JOBS = ("conv:32", "narrow:256", "middle:128", "wide:128", "wide:16")
HELD_OUT = ("deep:128", "table:64", "attention:16", "images:64")
STEP_GOAL, EXPOSED_GOAL = 0.15, 0.3
"""Of steps and of what they expose, with as many processes as the link was measured with."""
NAMESPACE = f"legroom-{os.getpid()}"


def main() -> None:
    """Ask for each job, print a row a step, and what all of them come to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--slow", help="a rate that tc knows, such as 1gbit")
    parser.add_argument("--delay", type=seconds_of, default=0.0, help="of each message of gradients, such as 2ms")
    parser.add_argument("--most", type=int, default=0, help="processes, at most; by default one a core")
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    if words.slow and "LEGROOM_SLOWED" not in os.environ:
        sys.exit(run_slowed(words.slow))
    jobs = HELD_OUT if words.jobs == "held-out" else words.jobs.split(",")
    rows = []
    for row in (row for text in jobs for row in rows_of(text, words.slow, words.most, words.delay)):
        rows.append(row)
        if words.out:
            with words.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    print(summary(rows))


def seconds_of(text: str) -> float:
    """The seconds of a time such as 2ms."""
    number, unit = re.fullmatch(r"([\d.]+)(s|ms|us)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[unit]


def rows_of(text: str, slow: str | None, most: int, delay: float) -> Iterator[dict[str, Any]]:
    """The steps of one job. What is held back are gradients, so buffers are not broadcast there."""
    kind, _, batch = text.partition(":")
    with tempfile.TemporaryDirectory() as name:
        run = api.Run(out=Path(name))
        options = {"kind": kind, "batch": batch, "buffers": "false" if delay else "true"}
        words = {"device": "cpu", "delay": delay}
        num = most or run.host.limits.num_cores
        answer = api.devices(f"{HERE / 'devices_jobs.py'}:job", options=options, measured=num, run=run, **words)
        forecast = from_two(Path(name))
    for point in answer.points:
        if point["predicted"] or point["num_devices"] == 1:
            continue
        told = next(each for each in forecast if all(each[key] == point[key] for key in ("num_devices", "scaling")))
        row = {
            "job": text,
            "link": slow or (f"{delay * 1e3:g}ms" if delay else "loopback"),
            "num_devices": point["num_devices"],
            "scaling": point["scaling"],
            "batch_size": point["batch_size"],
            "one_seconds": answer.points[0]["step_seconds"],
            "copies_seconds": point["copies_seconds"],
            "forecast_seconds": told["forecast_seconds"],
            "seconds": point["step_seconds"],
            "forecast_range": told["forecast_range"],
            "range": point["range"],
            "error": told["forecast_seconds"] / point["step_seconds"] - 1,
            "forecast_exposed_seconds": told["forecast_exposed_seconds"],
            "exposed_seconds": point["exposed_seconds"],
            "exposed_range": point["exposed_range"],
            "exposed_error": exposed_error(told["forecast_exposed_seconds"], point),
            "exposed_share": point["exposed_seconds"] / point["step_seconds"],
            "buckets_seconds": point["buckets_seconds"],
            "busy_cores": statistics.median(each["busy_cores"] for each in answer.messages),
            "bandwidth_bytes_per_second": answer.bandwidth_bytes_per_second,
            "latency_seconds": answer.latency_seconds,
        }
        print(line(row), flush=True)
        yield row


def exposed_error(forecast: float, point: dict[str, Any]) -> float | None:
    """How far the forecast is off; None where rounds disagree on whether anything was exposed at all."""
    return forecast / point["exposed_seconds"] - 1 if point["exposed_range"][0] > 0 else None


def from_two(folder: Path) -> list[dict[str, Any]]:
    """Forecasts that know of more than two processes only what copies without sync take: the rest is that of two.

    The link is theirs, and what their steps exposed beyond their own forecast, which knows no step with sync.
    """
    records = read_records(folder, "devices")
    from pydantic import TypeAdapter

    question = TypeAdapter(DevicesQuestion).validate_python(dict(records.head.question))
    evidence: Evidence = gather(records.entries, question)
    assert min(evidence.together, default=2) == 2, "the link is fitted to all-reduces of the fewest, which are two"
    return advise(records, replace(question)).points


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    off, span = row["exposed_error"], " to ".join(f"{end * 1e3:.2f}" for end in row["forecast_range"])
    return (
        f"{row['job']:>10} {row['link']:>8} N={row['num_devices']} {row['scaling']:>6}  "
        f"step forecast {row['forecast_seconds'] * 1e3:.2f} ({span}) "
        f"timed {row['seconds'] * 1e3:.2f} ms {row['error']:+7.1%}   "
        f"exposed {row['forecast_exposed_seconds'] * 1e3:7.2f} {row['exposed_seconds'] * 1e3:7.2f} ms "
        f"{'unresolved' if off is None else f'{off:+7.1%}'} ({row['exposed_share']:.0%} of the step)"
    )


def summary(rows: list[dict[str, Any]]) -> str:
    """Mean and worst of the errors."""
    if not rows:
        return "No step of several processes was timed"
    steps = [abs(row["error"]) for row in rows]
    exposed = [abs(row["exposed_error"]) for row in rows if row["exposed_error"] is not None] or [0.0]
    inside = sum(row["forecast_range"][0] <= row["seconds"] <= row["forecast_range"][1] for row in rows)
    num_resolved = sum(row["exposed_error"] is not None for row in rows)
    return (
        f"{len(rows)} steps: off by {statistics.fmean(steps):.1%} in the mean, {max(steps):.1%} at worst, "
        f"{sum(step > STEP_GOAL for step in steps)} beyond {STEP_GOAL:.0%}; {inside} inside their range; exposed of "
        f"the {num_resolved} resolved by {statistics.fmean(exposed):.1%} and {max(exposed):.1%}, "
        f"{sum(each > EXPOSED_GOAL for each in exposed)} beyond {EXPOSED_GOAL:.0%}"
    )


def run_slowed(rate: str) -> int:
    """This script again in a namespace whose loopback is slow."""
    try:
        with slow_loopback(rate):
            command = ["ip", "netns", "exec", NAMESPACE, sys.executable, *sys.argv]
            return subprocess.run(
                command, env={**os.environ, "LEGROOM_SLOWED": rate, "GLOO_SOCKET_IFNAME": "lo"}
            ).returncode
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skipped: no slow link could be made here ({error})")
        return 0


@contextmanager
def slow_loopback(rate: str) -> Iterator[None]:
    """A namespace whose loopback passes bytes at that rate, gone at the end."""
    inside = ["ip", "netns", "exec", NAMESPACE]
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        bucket = ["root", "tbf", "rate", rate, "burst", "1mb", "latency", "100ms"]
        subprocess.run([*inside, "tc", "qdisc", "add", "dev", "lo", *bucket], check=True)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


if __name__ == "__main__":
    main()
