"""`legroom plan`: what should I run?"""

import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from legroom.errors import UsageError
from legroom.host.target import Target, choose_target
from legroom.job import Settings
from legroom.job_address import AnyJob, address_of, out_folder
from legroom.offers import card_of, read_offers
from legroom.plan_file import GOALS, Plan, write_plan
from legroom.questions.base import (
    Foreseen,
    ForeseenProbe,
    check_budget,
    check_counts,
    check_precision,
    check_word,
    read_target,
)
from legroom.questions.devices.ask import check_link, num_devices_here
from legroom.questions.memory.ask import foresee as foresee_memory
from legroom.questions.memory.ask import open_memory_session
from legroom.questions.plan.advice import advise
from legroom.questions.plan.answer import PlanAnswer
from legroom.questions.plan.asking import Search
from legroom.questions.plan.batch import limit_of
from legroom.questions.plan.code import NAMES
from legroom.questions.plan.each_size import Sizes
from legroom.questions.plan.found import found_words
from legroom.questions.plan.groups import read_numbers
from legroom.questions.plan.known import Circumstances
from legroom.questions.plan.proving import learn_memory, memory_asked, prove_named
from legroom.questions.plan.records import PlanQuestion, SizedPlan
from legroom.questions.plan.search import ask_others
from legroom.questions.plan.sizes import read_sizes
from legroom.requests import MeasureDevice
from legroom.session import Run, Session, keep

LEAST_SECONDS = 20.0
PEAK_SECONDS = 10.0
"""That a CPU may need to show how fast it is."""
FORESEEN = (
    ("speed: a first look at 6 to 12 batch sizes", (6.0, 30.0)),
    ("rate: runs by the job's own settings, then trials of rates", (15.0, 45.0)),
    ("rate again, where another batch should be sooner", (0.0, 25.0)),
    ("loading: loaders compared with the step", (0.0, 30.0)),
    ("variants: bf16 and the like, where the run lasts longer than 3 s", (0.0, 60.0)),
    ("environment: reused memory and the like, on a CPU, where the run lasts longer than 3 s", (0.0, 60.0)),
    ("device: its fastest products and copies, on a CPU where the budget has time for them", (0.0, 10.0)),
)
"""What is asked besides memory, and its seconds on two cores; jobs whose own run takes minutes take longer."""

ONE_HERE = "--devices all is one: this machine has no more. --devices 1,8 --link nvlink forecasts others"
FORESEEN_DEVICES = ("devices: steps of one device, then of 2, 4, 8 ... together", (5.0, 60.0))


def plan(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    goal: str = "fastest",
    target: str = "same",
    budget: float | None = None,
    price: float | None = None,
    devices: str = "1",
    link: str | None = None,
    offers: str | None = None,
    model_sizes: str | None = None,
    batch_size: int | None = None,
    memory: int | str | None = None,
    card: str | None = None,
    precision: str | None = None,
    code: str | None = None,
    fresh: bool = False,
    run: Run | None = None,
) -> PlanAnswer:
    """What should I run? Asks speed, rate, loading and memory as far as they can change it, and writes plan.toml.

    goal: "fastest", "cheapest" (needs no price on one device), or "frugal": the least energy.
    target: "score=0.97", "loss=1.5", or "same" for what the job's own settings reach.
    budget: seconds that the plan may take; what it left no time for is told. Absent: five minutes, or half of a run
    by the job's own settings where that takes two to ten minutes. price: of the device's hour.
    batch_size: leaves the rest to be found.
    devices: how many may be taken, as "4", "1,2,4" or "all" that are here; more than those are forecast.
    link: between devices that are not here, as of `devices`.
    offers: cards with the price of their hour, as "h100=2.9/h,l4=0.7/h": what the plan's run would take on them.
    model_sizes: as "width=32,64,128": models that the job's `resize` makes are planned for the same target too.
    code: prints the plan as lines for "pytorch", "lightning", "transformers" or "accelerate"; the answer has all.
    fresh: asks all anew, and leaves the answers in the folder alone.
    """
    words = dict(locals())
    run = run or Run()
    begun, address = run.clock(), address_of(job, options)
    _check_words(goal, target, budget, price, batch_size, precision)
    if fresh and run.resume:
        raise UsageError("--fresh asks all anew, and --resume uses what was measured before. Leave one of them out")
    if code is not None:
        check_word("library", code, NAMES)
    if offers is not None:
        read_offers(offers, precision or "fp32")
    place = choose_target(run.host, device, memory, card)
    num_here = num_devices_here(run.host, place.device) if place.is_here else 1
    numbers = _numbers(devices, link, place, num_here)
    run = replace(run, together=run.together or uuid.uuid4().hex[:12])
    about = Circumstances(
        folder=out_folder(address, run.out),
        digest=address.digest,
        machine=run.host.name,
        device=place.device,
        precision=precision,
        target=target,
        fresh=fresh,
    )
    question = PlanQuestion(
        path=str(about.folder / "plan.toml"),
        goal=goal,
        price_per_hour=price,
        batch_size=batch_size,
        numbers=numbers,
        num_devices_here=num_here,
        offers=offers or "",
        notes=[*([ONE_HERE] if devices.strip() == "all" and num_here == 1 else []), *run.busy_notes()],
        num_cores=run.host.limits.num_cores,
        driver=run.host.gpus[0].driver if place.device == "cuda" and run.host.gpus else "",
        code=code or "",
    )
    search = Search(job, options, run, about, question, budget, link, begun)
    if model_sizes is None:
        return _ask_all(search, place)
    return _ask_sizes(search, place, _read_sizes(model_sizes, goal, search.budget, place), words)


def _ask_sizes(search: Search, place: Target, sizes: Sizes, words: Mapping[str, Any]) -> PlanAnswer:
    """A plan for the job's own size and one for each other, in equal parts of the budget; `words` are those of all."""
    run, folder, until = search.run, search.about.folder, search.started + search.budget
    search.run, search.budget = sizes.part_of(run, 0), search.budget / sizes.num_plans
    search.is_budget_named = True  # a part of all
    sizes.count(search)

    def ask_at(number: int, size: str, target: str, seconds: float) -> PlanAnswer:
        again = replace(sizes.part_of(run, number), out=folder / size, together="")
        sized = {"job": search.address.at_size(size), "target": target, "budget": seconds, "run": again}
        return plan(**{**words, **sized, "options": None, "model_sizes": None, "offers": None, "code": None})

    def ask_sizes(own: PlanAnswer) -> list[SizedPlan]:
        # What the job's own settings reach is known by a plan that has a forecast; else it is what a run cut short had.
        is_known = words["target"] != "same" or own.predicted_seconds is not None
        return sizes.ask_each(own.target if is_known else "", ask_at, until, run.clock, LEAST_SECONDS)

    return _ask_all(search, place, ask_sizes)


def _ask_all(
    search: Search, place: Target, ask_sizes: Callable[[PlanAnswer], list[SizedPlan]] | None = None
) -> PlanAnswer:
    """Other questions where they can be asked, memory in a session of the plan's own, and what comes of both."""
    if place.is_here:
        search.look_up()
    proved = prove_named(search, place) if place.is_named and place.is_here else None
    way = ask_others(search, limit_of(proved) if proved else None) if place.is_here else None
    run, mark = search.run, search.mark()
    with open_memory_session("plan", search.address, run, place) as session:
        # Gradients that travel lie in buckets beside the model, on each GPU.
        asked = memory_asked(search, session, place, way.num_devices if way and place.device == "cuda" else 1)
        session.progress("memory", 0.88)
        search.learn_job(session.records.description())
        is_late = place.is_here and search.clock() - search.started + search.proof_seconds() >= search.budget
        learn_memory(search, session, asked, way, proved, is_late=is_late)
        assert search.question.memory is not None
        search.note("memory", mark, session.records.seconds(), found_words(search.question.memory))
        if place.is_here and not is_late:
            _measure_peak(search, session)
        if ask_sizes is not None:
            session.release()
            search.learn(sizes=ask_sizes(advise(session.records, search.question)))
        session.note(search.question)
        answer = advise(session.records, search.question)
        write_plan(_plan_of(answer, search.address.options), Path(search.question.path))
        return keep(session, answer)


def _measure_peak(search: Search, session: Session) -> None:
    """How fast the device is at its best: what holds this plan against cards that may be named later."""
    has_time = search.about.device == "cuda" or search.budget - (search.clock() - search.started) >= PEAK_SECONDS
    if not (has_time or (search.question.offers and card_of(search.run.host.name) is None)):
        return
    mark, before = search.mark(), session.records.seconds()
    session.progress("the device at its best", 0.95)
    session.ask(MeasureDevice(device=search.about.device))
    search.note("device", mark, session.records.seconds() - before, "its fastest products and copies")


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    card: str | None = None,
    devices: str = "1",
    link: str | None = None,
    model_sizes: str | None = None,
    run: Run | None = None,
) -> Foreseen:
    """Which probes would `plan` run, and how long should they take? Runs none."""
    foreseen = foresee_memory(job, options=options, device=device, memory=memory, card=card, run=run)
    run = run or Run()
    place = choose_target(run.host, device, memory, card)
    is_here, words = place.is_here, list(FORESEEN)
    if max(_numbers(devices, link, place, num_devices_here(run.host, place.device))) > 1:
        words.insert(2, FORESEEN_DEVICES)
    others = [ForeseenProbe(what=what, num_probes=(1, 1), seconds=seconds) for what, seconds in words]
    note = "Answers in the folder that still hold take the place of asking again"
    first, *rest = foreseen.probes
    probes = [first, *(others if is_here else []), *rest]
    if model_sizes is not None:
        num = len(read_sizes(model_sizes)[1])
        low, high = (num * sum(probe.seconds[end] for probe in probes) for end in (0, 1))
        probes.append(
            ForeseenProbe(what="all of it for another model size", num_probes=(num, num), seconds=(low, high))
        )
    return replace(foreseen, probes=probes, notes=[*foreseen.notes, note])


def _read_sizes(text: str, goal: str, budget: float, place: Target) -> Sizes:
    """Which sizes are planned for; refused where they could not be compared."""
    if not place.is_here:
        raise UsageError("--model-sizes are trained to be compared; leave them out beside a card that is not here")
    if goal == "frugal":
        raise UsageError("--model-sizes are compared by time or money; leave --goal frugal out")
    sizes = Sizes(*read_sizes(text))
    if budget / sizes.num_plans < LEAST_SECONDS:
        least = LEAST_SECONDS * sizes.num_plans
        raise UsageError(
            f"--budget {budget:g} s is too little for {sizes.num_plans} plans; they take {least:g} s at least"
        )
    return sizes


def _check_words(
    goal: str, target: str, budget: float | None, price: float | None, batch_size: int | None, precision: str | None
) -> None:
    check_word("goal", goal, GOALS)
    if target != "same":
        read_target(target, "same")
    if budget is not None:
        check_budget(budget, LEAST_SECONDS)
    if price is not None and not 0 <= price < math.inf:
        raise UsageError(f"--price is {price:g}; it must be at least 0, as 2.5/h")
    check_counts({"--batch-size": batch_size})
    check_precision(precision)


def _numbers(text: str, link: str | None, place: Target, num_here: int) -> list[int]:
    check_link(link)
    if text.strip() != "1" and not place.is_here:
        raise UsageError(
            "--devices is about devices of which one is here to be measured; leave it out beside a card that is not"
        )
    numbers = read_numbers(text, num_here, link)
    if link is not None and max(numbers) == 1:
        raise UsageError("--link is between several devices. Say how many with --devices, as --devices 1,8")
    return numbers


def _plan_of(answer: PlanAnswer, options: Mapping[str, str]) -> Plan:
    """The answer as plan.toml has it."""
    return Plan(
        job=answer.job,
        options=options,
        machine=answer.machine,
        goal=answer.goal,
        settings=Settings(**answer.settings),
        recommendations=answer.recommendations,
        notes=answer.notes,
        not_measured=answer.not_measured,
        target=answer.target,
        predicted_seconds=answer.predicted_seconds,
        predicted_range=answer.predicted_range,
        cost_seconds=answer.cost_seconds or None,
    )
