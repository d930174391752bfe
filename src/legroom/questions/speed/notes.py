"""What timings mean, as sentences: the knee against other sizes, sizes beside powers of two, padding, throttling."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from legroom.environments import environment_text
from legroom.laws.compute import SpeedLaw
from legroom.questions.speed.batch_sizes import powers_of_two
from legroom.questions.speed.evidence import CLEAR_GAIN, Evidence, Tried
from legroom.questions.speed.records import PaddingSeen, StepTime, TimeSteps
from legroom.questions.speed.step_law import waits_for_host
from legroom.units import format_bytes, format_seconds

CLEAR_DIFFERENCE = 0.02
CLOCK_DRIFT = 0.05
LITTLE_PADDING = 0.02
NOISY = 0.1
"""What a size differs by from process to process, as a share, from which on sizes cannot be ranked."""


def compare(points: Sequence[StepTime], knee: int, own: int, num_samples: int | None) -> Iterator[str]:
    """What the knee costs or gains against the largest batch and against the job's own."""
    by_size = {point.batch_size: point for point in points}
    chosen, largest = by_size[knee], points[-1]
    if knee != largest.batch_size:
        yield f"Against the largest timed ({largest.batch_size:,}), the knee of {knee:,} {_against(chosen, largest)}"
    if own in by_size and own != knee:
        yield f"Against the job's own batch ({own:,}), the knee of {knee:,} {_against(chosen, by_size[own])}"
    if num_samples is not None:
        sizes = dict.fromkeys(size for size in (own, knee, largest.batch_size) if size in by_size)
        times = (f"{format_seconds(num_samples / by_size[size].samples_per_second)} at {size:,}" for size in sizes)
        yield f"The steps of an epoch of {num_samples:,} samples take {', '.join(times)}; loading is not in it"


def _against(chosen: StepTime, other: StepTime) -> str:
    words = [f"gives {chosen.samples_per_second / other.samples_per_second:.2f} times the samples/s"]
    if chosen.peak_bytes and abs(other.peak_bytes / chosen.peak_bytes - 1) > CLEAR_DIFFERENCE:
        words.append(f"a peak memory of {format_bytes(chosen.peak_bytes)} instead of {format_bytes(other.peak_bytes)}")
    mine, its = chosen.load.joules_per_sample, other.load.joules_per_sample
    if mine and its:
        words.append(f"{mine / its:.2f} times the energy a sample")
    return ", ".join(words)


def odd_sizes(points: Sequence[StepTime]) -> Iterator[str]:
    """What a power of two is worth against an odd number and a multiple of 8 right beside it."""
    by_size = {point.batch_size: point for point in points}
    for power in (size for size in powers_of_two([*by_size]) if {size - 1, size - 8} <= set(by_size)):
        ratios = [
            by_size[size].samples_per_second / by_size[power].samples_per_second for size in (power - 8, power - 1)
        ]
        noise = max(by_size[size].noise for size in (power, power - 1, power - 8))
        differs = any(abs(ratio - 1) > max(CLEAR_DIFFERENCE, noise) for ratio in ratios)
        words = "so choose the faster kind" if differs else "no difference beyond the noise: any size will do"
        yield (
            f"Beside the power of two {power:,}, the multiple of 8 {power - 8:,} gives {ratios[0]:.2f} and the odd "
            f"{power - 1:,} {ratios[1]:.2f} times its samples/s (noise {noise:.0%}): {words}"
        )


def launches(points: Sequence[StepTime], law: SpeedLaw) -> Iterator[str]:
    """Where launches set the pace and how much of it the device needs, if both clocks were read."""
    waiting = list(itertools.takewhile(lambda point: waits_for_host(point, law.host_seconds), points))
    if not law.host_seconds or not waiting:
        return
    last = waiting[-1].batch_size
    upto = f"Up to {last:,} samples" if last > 1 else "At one sample"
    where = upto if last < points[-1].batch_size else "At every size timed"
    works = [point.device_seconds for point in waiting]
    needs = " to ".join(dict.fromkeys(_milliseconds(seconds) for seconds in (min(works), max(works))))
    yield (
        f"{where} the host's launches set the pace: {_milliseconds(law.host_seconds)} ms a step, of which the device "
        f"needs {needs} ms. torch.compile or CUDA graphs would help there, a faster device would not"
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.2g}" if seconds < 0.01 else f"{seconds * 1e3:,.0f}"


def padding(seen: PaddingSeen | None, law: SpeedLaw, batch_size: int) -> Iterator[str]:
    """How much of the batches is padding, and what other ways to batch would save."""
    if seen is None:
        return
    if seen.share < LITTLE_PADDING:
        yield "Samples differ in length, but batches hold no padding that depends on it"
        return
    fixed = max(law.floor_seconds, law.host_seconds)
    work = 1 - fixed / max(law.curve(batch_size), fixed)
    saved = {
        "batches of like length": 1 - seen.bucketed_bytes / seen.shuffled_bytes,
        "a budget of bytes a batch": 1 - seen.budget_bytes / seen.shuffled_bytes,
    }
    words = " and ".join(f"{name} {value:.0%}" for name, value in saved.items())
    yield (
        f"{seen.share:.0%} of a random batch of {batch_size:,} is padding. Of its bytes {words} would save; of its "
        f"time about {work:.0%} goes with the bytes, so about {work * max(saved.values()):.0%} at best"
    )


def refused_law(law: SpeedLaw, held_out: Sequence[float]) -> Iterator[str]:
    """Why no law is drawn."""
    sizes = ", ".join(f"{size:,}" for size in law.sizes)
    yield (
        f"No law is told: the one through {sizes} misses another size by {max(map(abs, held_out)):.0%}. "
        "What was timed stands"
    )


def settings(evidence: Evidence) -> Iterator[str]:
    """What each setting that gains gives, with the variables that make it."""
    return (_setting(tried, evidence.timed()) for tried in evidence.tried if tried.gains)


def _setting(tried: Tried, timed: Mapping[int, StepTime]) -> str:
    ratios = {
        again.batch_size: again.samples_per_second / timed[again.batch_size].samples_per_second
        for again in tried.points
        if again.batch_size in timed
    }
    gains = [f"{tried.gains[size]:.1f} times the samples/s at {size:,}" for size in ratios if size in tried.gains]
    costs = [f", but {ratio:.1f} times at {size:,}" for size, ratio in ratios.items() if ratio < 1 / (1 + CLEAR_GAIN)]
    variables = environment_text(tried.request.environment)
    size = max(tried.gains, key=lambda size: tried.gains[size])
    return f"{_setting_why(tried.request, timed[size])} {variables} gives {' and '.join(gains)}{''.join(costs)}"


def _setting_why(request: TimeSteps, point: StepTime) -> str:
    """What the setting changes, so that a reader knows when it will pay."""
    if request.keeps_memory:
        return (
            f"At {point.batch_size:,} the system takes {point.system_share:.0%} of a step's core seconds, mostly for "
            "memory freed and fetched anew; a process that keeps it holds the memory of its largest step all the time."
        )
    if request.passive_threads:
        return "Idle threads spin, and something else here wants their cores; let them sleep."
    return "Fewer threads are faster here."


def noise(evidence: Evidence) -> Iterator[str]:
    """Whether the timings are too uneven to tell where the knee lies."""
    worst = max(evidence.points, key=lambda point: point.noise)
    low, high = evidence.span
    if worst.noise > NOISY and low < high:
        yield (
            f"Timings vary by up to {worst.noise:.0%} either way (a batch of {worst.batch_size:,}): all that is sure "
            f"is a knee from {low:,} to {high:,}. Stop other programs, or allow more --seconds"
        )


def losses(points: Sequence[StepTime]) -> Iterator[str]:
    """Whether steps ended in losses that are no numbers."""
    lost = [f"{point.batch_size:,}" for point in points if not point.has_finite_loss]
    if lost:
        yield (
            f"The loss was no finite number in the end at batches of {', '.join(lost)}: the times hold, and training "
            "may not. Look for samples that hold NaN, or for a rate too high for batches seen again and again"
        )


def throttling(points: Sequence[StepTime]) -> Iterator[str]:
    """Whether the device slowed down while it was measured."""
    slowed = [f"{point.batch_size:,}" for point in points if point.load.throttled]
    if slowed:
        yield f"The device slowed down for heat or power at batches of {', '.join(slowed)}: cooler, it is faster"
    clocks = [point.load.clock_hertz for point in points if point.load.clock_hertz]
    if clocks and min(clocks) < (1 - CLOCK_DRIFT) * max(clocks):
        low, high = min(clocks) / 1e6, max(clocks) / 1e6
        yield f"The device's clock moved between {low:,.0f} and {high:,.0f} MHz from size to size"
