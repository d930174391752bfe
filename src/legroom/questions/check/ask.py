"""`legroom check`: does a plan still hold?"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from legroom.errors import UsageError
from legroom.host.target import check_cuda, choose_target
from legroom.job import FASTER, Settings
from legroom.job_address import AnyJob, JobAddress, address_of
from legroom.plan_file import Plan, read_plan
from legroom.plan_use import blaming, check_batch, plan_for, settings_of, variables_of
from legroom.questions.check.advice import advise
from legroom.questions.check.answer import CheckAnswer
from legroom.questions.check.known import differences, expected_step, folder_of, known_of
from legroom.questions.check.records import CheckQuestion
from legroom.questions.memory.ask import memory_question, open_memory_session
from legroom.session import Run, Session, keep
from legroom.setting_rules import check_workers


def check(
    plan: Path | str,
    *,
    job: AnyJob | None = None,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    force: bool = False,
    run: Run | None = None,
) -> CheckAnswer:
    """Does a plan still hold? One proof that its batch fits, and a few timings of its steps, beside what was known.

    job: the plan's own where absent. force: check a plan of another job or machine all the same.
    """
    run, path = run or Run(), Path(plan)
    address = _address(read_plan(path), path, job, options)
    planned = plan_for(path, address, run.host.name, force=force, tell=run.tell)
    check_cuda(run.host, device)
    target, busy = choose_target(run.host, device), run.busy_notes()
    # A plan for another model size was made in a folder of that size, below that of the job.
    size = settings_of(planned).get("model_size", "")
    size = "" if address.at_size(size) == address else size
    address = address.at_size(size) if size else address
    out = folder_of(path, run.out)
    with open_memory_session("check", address, replace(run, out=out and out / size), target) as session:
        own = Settings(**session.describe(run.seed).baseline)
        settings = replace(own, **settings_of(planned))
        with blaming(path, "num_workers"):
            check_workers(settings.num_workers, run.host.limits.num_cores)
        check_batch(path, session.records.description(), settings.batch_size)
        about = memory_question(session, target, settings.precision, run.seed)
        about = replace(
            about,
            most=settings.batch_size,
            num_workers=settings.num_workers,
            allocator=planned.value("allocator") or about.allocator,
            variables=variables_of(planned),
        )
        question = CheckQuestion(
            plan_path=str(path),
            memory=about,
            batch_size=settings.batch_size,
            accumulation_steps=settings.accumulation_steps,
            variables=variables_of(planned),
            options={name: value for name in FASTER if (value := getattr(settings, name)) != getattr(own, name)},
            busy=busy,
        )
        question = _compare(session, question, planned, path.parent / size)
        session.note(question)
        session.progress(f"proving a batch of {question.batch_size:,}", 0.2)
        session.ask(question.proof())
        for number, request in enumerate(question.timings()):
            session.progress("timing steps", 0.5 + 0.15 * number)
            session.ask(request)
        return keep(session, advise(session.records, question))


def _address(plan: Plan, path: Path, job: AnyJob | None, options: Mapping[str, str] | None) -> JobAddress:
    if job is not None:
        return address_of(job, options)
    if not plan.job:
        raise UsageError(f"{path} names no job. Name it: --job file.py:function")
    return address_of(plan.job, {**{name: str(value) for name, value in plan.options.items()}, **(options or {})})


def _compare(session: Session, question: CheckQuestion, plan: Plan, folder: Path) -> CheckQuestion:
    """The question with what was known when the plan was made."""
    from legroom import __version__

    known, description, machine = known_of(folder), session.records.description(), session.records.head.machine
    found = [] if plan.machine in ("", machine) else [f"The plan was made on {plan.machine}, and this is {machine}"]
    gpus = session.host.gpus
    found += differences(known, session.address.digest, description, __version__, gpus[0].driver if gpus else "")
    unknown = []
    if known.head is None:
        unknown.append("what the job and torch were when the plan was made: there is no logbook beside it")
    step = expected_step(known, question.timings()[0]) if plan.machine in ("", machine) else None
    if step is None:
        unknown.append("how long a step took when the plan was made: nothing beside it tells, on this machine")
    return replace(
        question,
        expected_seconds=step[0] if step else None,
        expected_range=step[1] if step else None,
        differences=found,
        unknown=unknown,
    )
