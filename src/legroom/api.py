"""One function a question, and `Run` for how to ask. The command line calls the same."""

from legroom.questions.loading.ask import loading
from legroom.questions.machine.ask import machine
from legroom.questions.memory.ask import memory
from legroom.questions.plan.ask import plan
from legroom.questions.speed.ask import speed
from legroom.questions.train.ask import train
from legroom.questions.vocabulary.ask import vocabulary
from legroom.reports.page import report
from legroom.session import Run
from legroom.workloads import jobs

__all__ = ["Run", "jobs", "loading", "machine", "memory", "plan", "report", "speed", "train", "vocabulary"]
