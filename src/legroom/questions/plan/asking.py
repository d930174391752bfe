"""How a plan asks other questions: their time noted, their progress told, and all of them within one budget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from legroom.errors import LegroomError
from legroom.job_address import AnyJob, address_of
from legroom.logbook import FILE_NAME, Entry, read_lines
from legroom.plan_use import samples_between_looks
from legroom.questions.base import Answer, Foreseen
from legroom.questions.plan.factors import pace_of
from legroom.questions.plan.found import found_words
from legroom.questions.plan.known import Circumstances, KnownAnswers, find_known, has_answers
from legroom.questions.plan.records import PlanQuestion
from legroom.requests import JobDescription
from legroom.session import Run, Session, open_session
from legroom.units import format_seconds

Found = TypeVar("Found", bound=Answer)
SHARES = {
    "speed": (0.0, 0.1),
    "loading first": (0.1, 0.15),
    "rate": (0.15, 0.6),
    "baseline": (0.6, 0.65),
    "devices": (0.65, 0.67),
    "rate again": (0.67, 0.75),
    "loading": (0.75, 0.8),
    "variants": (0.8, 0.82),
    "environment": (0.82, 0.83),
    "rehearsal": (0.83, 0.87),
}
"""Of the progress bar."""
MOST_SECONDS, OWN_RUN_SHARE, LONG = 300.0, 0.5, 120.0
"""Of a plan whose budget nobody named: so many seconds, and that share of a run by the job's own settings, where that
is longer than so many seconds."""
OWN_RUN = "A run by the job's own settings"
PROOF_SECONDS, PROOF_STEPS, PROOF_SHARE = 10.0, 10, 0.15
"""Of the budget, that are kept for the proof of memory: so many seconds, or so many updates by the job's own settings
where these take longer; at most that share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment of a plan."""

    seconds: float
    recalled_seconds: float
    """Of these, what was not measured now."""


class Search:
    """Asks one question after the other, and keeps what they said in the plan's own question."""

    def __init__(
        self,
        job: AnyJob,
        options: Mapping[str, str] | None,
        run: Run,
        about: Circumstances,
        question: PlanQuestion,
        budget: float | None,
        link: str | None = None,
        started: float | None = None,
    ) -> None:
        self.job, self.address, self.about = job, address_of(job, options), about
        self.run = replace(run, recalled=self._recall)
        self.question, self.link = question, link
        self.budget, self.is_budget_named = MOST_SECONDS if budget is None else budget, budget is not None
        self.started = run.clock() if started is None else started
        self.known = KnownAnswers()
        self.recalled_seconds = 0.0
        """What measurements took that a plan made before this one goes on."""
        self._heads, self._entries, _ = read_lines(about.folder / FILE_NAME)
        self._counted: set[str] = set()
        self.words: dict[str, Any] = {"options": options, "device": about.device, "precision": about.precision}

    def look_up(self) -> None:
        """What lies in the folder and still holds: of this job, machine, torch and legroom."""
        if self.about.fresh or not has_answers(self.about.folder):
            return
        with self.session() as session:
            version = session.describe(self.run.seed).torch_version
        self.about = replace(self.about, torch_version=version)
        self.known = find_known(self.about)
        self.learn(notes=[*self.question.notes, *self.known.notes])

    def ask(self, name: str, function: Callable[..., Found], **words: Any) -> Found:
        """One question, its time noted and its progress told as a part of the whole."""
        low, high = SHARES[name]

        def progress(what: str, share: float) -> None:
            self.run.progress(f"{name}: {what}", low + share * (high - low))

        mark = self.mark()
        try:
            found = function(self.job, run=replace(self.run, progress=progress), **self.words, **words)
        except LegroomError as error:  # it was paid for all the same
            self.note(name, mark, self.clock() - mark.seconds, f"nothing: {str(error).partition('. ')[0]}")
            raise
        self.note(name, mark, found.seconds, found_words(found))
        return found

    def use(self, name: str, answers: Sequence[Answer]) -> None:
        """Write down and tell what lay in the folder, and what measuring it took."""
        runs = {head.run for head in self._heads if head.command == name}
        entries = [entry for entry in self._entries if entry.run in runs]
        self.use_entries(name, entries, "; ".join(map(found_words, answers)))

    def use_entries(self, name: str, entries: Sequence[Entry], found: str) -> None:
        """The same of measurements that an earlier command left; nothing where it left none."""
        asked = {head.run: head for head in self._heads}
        entries = [entry for entry in entries if entry.run in asked]
        for entry in entries:
            if self.run.resume and asked[entry.run].together:  # a part of the plan that goes on
                self._recall(entry)
        key = f"{name}, before"
        if not entries or key in self.question.before:
            return
        before = {**self.question.before, key: sum(entry.seconds for entry in entries)}
        self.learn(before=before, found={**self.question.found, key: found})
        self.run.found(f"{name}, in the folder already: {found}")

    def _recall(self, entry: Entry) -> None:
        """Count what a plan that goes on had measured before, each measurement once."""
        name = f"{entry.run} {entry.at} {entry.request!r}"
        if name not in self._counted and any(head.run == entry.run for head in self._heads):
            self._counted.add(name)
            self.recalled_seconds += entry.seconds

    def clock(self) -> float:
        """Seconds by which the budget ends: what was recalled counts as it did when it was measured."""
        return self.run.clock() + self.recalled_seconds

    def mark(self) -> Mark:
        """Now, for `note`."""
        return Mark(seconds=self.clock(), recalled_seconds=self.recalled_seconds)

    def left(self) -> float:
        """Seconds of the budget that the next question may take, those of a proof of memory kept back."""
        kept_back = min(max(PROOF_SECONDS, self.proof_seconds()), PROOF_SHARE * self.budget)
        return self.budget - (self.clock() - self.started) - kept_back

    def proof_seconds(self) -> float:
        """Of the steps that a proof of memory makes, as far as is known."""
        pace, own = pace_of(self.question), self.question.baseline
        return PROOF_STEPS * pace.step(own["batch_size"], own["num_workers"]) if pace and own else 0.0

    def bound_by(self, whole: float) -> None:
        """A plan of a long job costs no more than a share of that job's own run, unless somebody named a budget."""
        most = min(MOST_SECONDS, OWN_RUN_SHARE * whole)
        if self.is_budget_named or whole <= LONG or most < self.clock() - self.started:
            return
        self.budget = most
        notes = [note for note in self.question.notes if not note.startswith(OWN_RUN)]
        if self.budget < MOST_SECONDS:
            half = f"the plan was given half of that, {format_seconds(self.budget)}. --budget names another"
            notes.append(f"{OWN_RUN} takes about {format_seconds(whole)}: {half}")
        self.learn(notes=notes)

    def affords(self, foresee: Callable[..., Foreseen], **words: Any) -> bool:
        """Whether what is left is enough for a question at its quickest."""
        given = {name: self.words[name] for name in ("options", "device")}
        foreseen = foresee(self.job, run=self.run, **given, **words)
        return self.left() >= sum(probe.seconds[0] for probe in foreseen.probes)

    def note(self, name: str, mark: Mark, measured: float, found: str) -> None:
        """Write down and tell what a question took since the mark, and what it found for that; nothing where it neither
        measured anything nor recalled what this plan measured before it went on."""
        if not measured and self.recalled_seconds == mark.recalled_seconds:
            return
        seconds = self.clock() - mark.seconds
        spent = {**self.question.spent, name: self.question.spent.get(name, 0.0) + seconds}
        self.learn(spent=spent, found={**self.question.found, name: found})
        self.run.found(f"{name}, {format_seconds(seconds)}: {found}")

    def learn(self, **found: Any) -> None:
        """Keep what was found."""
        self.question = replace(self.question, **found)

    def learn_job(self, description: JobDescription) -> None:
        """Keep what the job says of itself."""
        self.learn(
            baseline=dict(description.baseline),
            num_samples=description.epoch_samples,
            parameter_bytes=description.parameter_bytes,
            looks_samples=samples_between_looks(description),
        )

    def miss(self, sentence: str) -> None:
        """Say what stays open."""
        self.learn(missing=[*self.question.missing, sentence])

    def session(self) -> Session:
        """A session of the plan's own."""
        return open_session("plan", self.address, self.run)

    def told(self) -> str:
        """Seconds left, as a sentence has them."""
        return f"{max(0.0, self.left()):.0f} s"
