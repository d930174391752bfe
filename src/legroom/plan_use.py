"""A plan put to use: whether it was made for this job on this machine, and what a run takes from it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from legroom.environments import read_environment
from legroom.errors import UsageError
from legroom.job import Settings
from legroom.job_address import JobAddress
from legroom.plan_file import Plan, place_of, read_plan
from legroom.requests import JobDescription


def plan_for(
    path: Path, address: JobAddress, machine: str, *, force: bool = False, tell: Callable[[str], None] = lambda _: None
) -> Plan:
    """The plan in the file, refused where it is of another job or machine; `force` lets it pass, told."""
    plan = read_plan(path)
    found = {"job": _other_job(plan, address), "machine": _other_machine(plan, machine)}
    clauses = [clause for clause in found.values() if clause]
    if clauses and not force:
        ways = ["Name the plan's job and options"] if found["job"] else ["Plan again on this machine"]
        raise UsageError(f"{path} {', and it '.join(clauses)}. {ways[0]}, or use it all the same with --force")
    for clause in clauses:
        tell(f"{path} {clause}")
    return plan


def job_of(plan: Plan) -> JobAddress:
    """The address of the job that a plan names."""
    return JobAddress(text=plan.job, options={name: str(value) for name, value in plan.options.items()})


def _other_job(plan: Plan, address: JobAddress) -> str:
    """The same file in another folder is the same job."""
    made_for = job_of(plan)
    is_other = plan.job and not address.is_like(made_for)
    return f"is a plan for {made_for.words}, and this run is of {address.words}" if is_other else ""


def _other_machine(plan: Plan, machine: str) -> str:
    is_other = plan.machine and plan.machine != machine
    return f"was made on {plan.machine}, and this is {machine}" if is_other else ""


def settings_of(plan: Plan) -> dict[str, Any]:
    """The settings that a plan names."""
    known = {item.name for item in fields(Settings)}
    return {item.name: item.value for item in plan.recommendations if item.name in known}


def variables_of(plan: Plan) -> dict[str, str]:
    """The variables of the environment that a plan sets."""
    text = plan.value("environment")
    return read_environment(text, "The plan's environment") if text else {}


@contextmanager
def blaming(path: Path, name: str) -> Iterator[None]:
    """What is refused meanwhile is told with the line of the plan that names it."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{place_of(path, name)}, [{name}]: {error}") from None


def check_batch(path: Path, description: JobDescription, batch_size: int, num_devices: int = 1) -> None:
    """Refuse a plan whose batches have more samples than there are."""
    limit = None if description.own_loader else description.num_samples
    with blaming(path, "batch_size"):
        if limit is not None and num_devices * batch_size > limit:
            each = " for each device" if num_devices > 1 else ""
            raise UsageError(f"the training data has {limit:,} samples. Name at most {limit // num_devices:,}{each}")


NUM_LOOKS = 20
"""Evaluations of the job's own whole run, at least: seldom looks would let it seem slower than it is."""


def samples_between_looks(description: JobDescription, num_samples: int | None = None) -> int | None:
    """Between evaluations of runs that are compared: an epoch, or less where the rival's would see too few of them.

    num_samples: of the rival's whole run, where it is not the job's own. None where its loader alone knows an epoch.
    """
    length = description.num_samples
    if length is None or description.own_loader:
        return None
    whole = num_samples or length * int(description.baseline["num_epochs"])
    return max(1, min(length, whole // NUM_LOOKS))
