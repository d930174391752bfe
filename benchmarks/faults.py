"""Twenty planted faults, each of one line, that tests must notice: before the move of the code and after it.

    python benchmarks/faults.py TREE --side before|after [--only NAME]

TREE is a checkout: 4bfd319 is the last commit before the move. The tests selected for each fault must pass in a copy of
TREE as it is and fail in a copy with the fault in it. Prints a table, and exits with 1 if a fault went unnoticed. Tests
that cannot even be collected notice nothing: a fault must be wrong in what it does, not in how it is spelled.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "legroom-out", "validation", "*.egg-info")
TIMEOUT_SECONDS = 300
FAILED = 1
"""pytest's exit status where tests ran and some failed; 2 and above: they did not run as they should."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A line of the source, what takes its place, and the tests that must fail then."""

    name: str
    line: str
    """A line, or a part of one, that stands once in src/legroom before the move."""
    faulty: str
    tests: str
    tests_after: str
    """The file of the same tests after the move."""
    keyword: str
    """Of pytest's -k: the same on both sides."""
    line_after: str = ""
    """Its counterpart after the move; empty where the line is as it was."""
    faulty_after: str = ""

    def on(self, side: str) -> tuple[str, str, str]:
        """Line, faulty line and file of tests on that side."""
        if side == "before":
            return self.line, self.faulty, self.tests
        return self.line_after or self.line, self.faulty_after or self.faulty, self.tests_after


FAULTS = (
    Fault(
        name="memory: climbs past the budget",
        line="JUMP = 0.7",
        faulty="JUMP = 1.3",
        tests="tests/probes/test_largest_batch.py",
        tests_after="tests/questions/memory/test_largest_batch.py",
        keyword="while_climbing or is_the_law_planted",
    ),
    Fault(
        name="memory: takes a batch of one pass for a micro-batch",
        line="request.accumulation_steps > 1 and result.fits(",
        faulty="request.accumulation_steps >= 1 and result.fits(",
        tests="tests/probes/test_largest_batch.py",
        tests_after="tests/questions/memory/test_largest_batch.py",
        keyword="gradients_held_between_passes or make_the_batch_asked_for",
    ),
    Fault(
        name="memory: does not weigh a request against the cap",
        line="self.needed_bytes = max(self.needed_bytes, self.reserved_bytes + asked)",
        faulty="self.needed_bytes = max(self.needed_bytes, self.reserved_bytes)",
        tests="tests/laws/test_allocator.py",
        tests_after="tests/questions/memory/test_growing_pool.py",
        keyword="weighed",
    ),
    Fault(
        name="laws: draws a line of memory through noise",
        line="clear = [point for point in points if point[1] - points[0][1] >= CLEAR_BYTES]",
        faulty="clear = [point for point in points if point[1] - points[0][1] >= 0]",
        tests="tests/laws/test_memory.py",
        tests_after="tests/laws/test_memory.py",
        keyword="in_the_noise",
    ),
    Fault(
        name="speed: tells a gain that one process had by chance",
        line="return len(again) >= NUM_CONFIRMED and all(is_faster(point, timed) for point in again)",
        faulty="return any(is_faster(point, timed) for point in again)",
        tests="tests/probes/test_speed_search.py",
        tests_after="tests/questions/speed/test_speed_search.py",
        keyword="one_process_by_chance or setting_that_pays",
    ),
    Fault(
        name="speed: believes timings that no device can reach",
        line="if peak is None or needed <= tolerance * peak:",
        faulty="if peak is None or needed > 0:",
        tests="tests/probes/test_speed_search.py",
        tests_after="tests/questions/speed/test_speed_search.py",
        keyword="above_the_devices_peak or every_timing_is_impossible",
    ),
    Fault(
        name="loading: fills all of /dev/shm",
        line="by_shm = int(_ahead_bytes(shm_bytes / num_devices, batch_bytes) / max(1.0, waiting))",
        faulty="by_shm = int(shm_bytes / num_devices / max(1.0, waiting))",
        line_after="ahead = ROOM_SHARE * shm_bytes / num_devices - NUM_TAKEN * batch_bytes",
        faulty_after="ahead = shm_bytes / num_devices",
        tests="tests/probes/test_loading_search.py",
        tests_after="tests/questions/loading/test_search.py",
        keyword="a_shm_that_limits or a_shm_too_small",
    ),
    Fault(
        name="loading: takes a slow moment for the pace of the step",
        line='return self.step.median_seconds if self.question.device == "cpu" else min(self.step.batch_seconds)',
        faulty="return self.step.median_seconds",
        line_after='return seen.step.median_seconds if seen.question.device == "cpu" else min(seen.step.batch_seconds)',
        faulty_after="return seen.step.median_seconds",
        tests="tests/probes/test_loading_search.py",
        tests_after="tests/questions/loading/test_search.py",
        keyword="slow_moment_of_the_host",
    ),
    Fault(
        name="train: weighs uneven batches alike",
        line="self._update(len(batches) * counts[0] / sum(counts) if len(batches) > 1 else None)",
        faulty="self._update(1.0 if len(batches) > 1 else None)",
        tests="tests/training/test_step.py",
        tests_after="tests/training/test_step.py",
        keyword="accumulating_uneven or clip_bounds",
    ),
    Fault(
        name="train: resumes with other random numbers",
        line='torch.set_rng_state(state["torch"])',
        faulty="torch.set_rng_state(torch.get_rng_state())",
        tests="tests/training/test_loop.py",
        tests_after="tests/training/test_loop.py",
        keyword="bit_for_bit and indexed and fp32",
    ),
    Fault(
        name="train: says of every run that it never left chance",
        line="if left is not False:",
        faulty="if left is None:",
        tests="tests/cli/test_train.py",
        tests_after="tests/questions/train/test_train_command.py",
        keyword="never_left_chance",
    ),
    Fault(
        name="plan: leaves an epoch hardly any updates",
        line="learns = UNBOUNDED if memory.data_limit is None else max(1, memory.data_limit // FEWEST_UPDATES)",
        faulty="learns = UNBOUNDED if memory.data_limit is None else memory.data_limit",
        tests="tests/test_plan.py",
        tests_after="tests/questions/plan/test_plan.py",
        keyword="keeps_ten_updates or past_the_knee",
    ),
    Fault(
        name="logbook: glues a record to a torn one",
        line=r'os.truncate(path, content.rfind(b"\n") + 1)',
        faulty=r'os.truncate(path, content.rfind(b"\n"))',
        tests="tests/test_logbook.py",
        tests_after="tests/test_logbook.py",
        keyword="torn_tail",
    ),
    Fault(
        name="logbook: uses records of an edited job",
        line="same = {other.run for other in heads if other.digest == head.digest} & same_machine",
        faulty="same = {other.run for other in heads} & same_machine",
        tests="tests/test_logbook.py",
        tests_after="tests/test_logbook.py",
        keyword="edited_job_or_another_machine",
    ),
    Fault(
        name="child: lets loader processes free what they inherit",
        line="os.register_at_fork(after_in_child=gc.freeze)",
        faulty="os.register_at_fork(after_in_child=gc.isenabled)",
        tests="tests/engines/test_forks.py",
        tests_after="tests/engines/test_forks.py",
        keyword="free_what_they_inherit",
    ),
    Fault(
        name="engines: empties variables that it should unset",
        line="return {name: value for name, value in joined.items() if value is not None}",
        faulty='return {name: value or "" for name, value in joined.items()}',
        tests="tests/engines/test_local.py",
        tests_after="tests/engines/test_local.py",
        keyword="default_allocator_is_not or users_own_variables",
    ),
    Fault(
        name="page: lets data end its script",
        line=r'for character in "<>&\u2028\u2029":',
        faulty=r'for character in ">&\u2028\u2029":',
        tests="tests/reports/test_page.py",
        tests_after="tests/reports/test_page.py",
        keyword="embedded_json or never_markup",
    ),
    Fault(
        name="adapters: gives all groups of an optimizer one rate",
        line='group["lr"] = learning_rate * (_configured_rate(group) / peak) if peak > 0 else learning_rate',
        faulty='group["lr"] = learning_rate',
        tests="tests/adapters/test_lightning.py",
        tests_after="tests/adapters/test_lightning.py",
        keyword="ratio_of_their_rates",
    ),
    Fault(
        name="host: looks at the tightest limit alone",
        line="available_bytes=max(0, min(available for _, available, _ in bounds)),",
        faulty="available_bytes=max(0, min(bounds)[1]),",
        tests="tests/probes/test_limits.py",
        tests_after="tests/host/test_limits.py",
        keyword="full_outer_group or over_its_limit",
    ),
    Fault(
        name="digest: misses modules named in an import from a package",
        line='yield from ((f"{module}.{alias.name}".lstrip("."), node.level) for alias in node.names)',
        faulty="yield from ((alias.name, node.level) for alias in node.names)",
        tests="tests/test_job_digest.py",
        tests_after="tests/test_job_digest.py",
        keyword="an_edit_of_any_imported_file",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What the tests of a fault did."""

    status: int
    failed: tuple[str, ...]
    """Names of tests, a parametrized one as often as it failed."""
    summary: str


@contextmanager
def copy_of(tree: Path) -> Iterator[Path]:
    """A copy of the checkout that may be broken."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        yield Path(shutil.copytree(tree, Path(folder) / "tree", ignore=LEFT_OUT))


def place_of(tree: Path, line: str) -> Path:
    """The file in which the line stands; an error where it stands nowhere, or twice."""
    counts = {path: path.read_text().count(line) for path in sorted((tree / "src" / "legroom").rglob("*.py"))}
    if sum(counts.values()) != 1:
        raise SystemExit(f"{line!r} stands {sum(counts.values())} times in {tree / 'src' / 'legroom'}, not once")
    return max(counts, key=lambda path: counts[path])


def run_tests(tree: Path, tests: str, keyword: str) -> Outcome:
    """Run the selected tests on the sources of that tree."""
    command = [sys.executable, "-m", "pytest", tests, "-k", keyword, "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_WAIT_POLICY": "passive", "COLUMNS": "300"}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    failed = re.findall(r"^FAILED \S+?::(\w+)", done.stdout, re.MULTILINE)
    lines = [*done.stdout.strip().splitlines(), *done.stderr.strip().splitlines()]
    return Outcome(done.returncode, tuple(failed), lines[-1] if lines else "")


def caught_by(outcome: Outcome) -> str:
    """The tests that failed, for a cell of the table; empty where none did, or where they did not run."""
    if outcome.status != FAILED:
        return ""
    counts = collections.Counter(outcome.failed)
    return ", ".join(f"{name} ({count} times)" if count > 1 else name for name, count in counts.items())


def check_sound(tree: Path, faults: list[Fault], side: str) -> None:
    """See that every line is there and that all selected tests pass without a fault."""
    for fault in faults:
        line, _, tests = fault.on(side)
        place_of(tree, line)
        outcome = run_tests(tree, tests, fault.keyword)
        if outcome.status:
            raise SystemExit(f"{fault.name}: its tests do not pass without the fault: {outcome.summary}")
        print(f"{fault.name}: {outcome.summary}", file=sys.stderr)


def try_fault(tree: Path, fault: Fault, side: str) -> tuple[str, str]:
    """The file that the fault was planted in, and the tests that caught it."""
    line, faulty, tests = fault.on(side)
    with copy_of(tree) as copy:
        path = place_of(copy, line)
        path.write_text(path.read_text().replace(line, faulty))
        outcome = run_tests(copy, tests, fault.keyword)
    print(f"{fault.name}: {outcome.summary}", file=sys.stderr)
    return str(path.relative_to(copy / "src" / "legroom")), caught_by(outcome)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--side", choices=("before", "after"), required=True)
    parser.add_argument("--only", help="part of the name of a fault")
    words = parser.parse_args()
    faults = [fault for fault in FAULTS if words.only is None or words.only in fault.name]
    if not faults:
        parser.error(f"no fault is called {words.only!r}")
    started = time.monotonic()
    with copy_of(words.tree) as tree:  # as it is now: it may be worked on meanwhile
        check_sound(tree, faults, words.side)
        rows = [(fault.name, *try_fault(tree, fault, words.side)) for fault in faults]
    print("| fault | file | caught by |", "|---|---|---|", sep="\n")
    for name, file, caught in rows:
        print(f"| {name} | `{file}` | {caught or '**nothing**'} |")
    num_caught = sum(bool(caught) for _, _, caught in rows)
    print(f"\n{num_caught} of {len(rows)} caught in {time.monotonic() - started:.0f} s")
    return int(num_caught < len(rows))


if __name__ == "__main__":
    sys.exit(main())
