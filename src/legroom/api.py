"""One function a question, and `Run` for how to ask. The command line calls the same."""

from legroom.questions.check.ask import check as check
from legroom.questions.devices.ask import devices as devices
from legroom.questions.explain.ask import explain as explain
from legroom.questions.loading.ask import loading as loading
from legroom.questions.machine.ask import machine as machine
from legroom.questions.memory.ask import memory as memory
from legroom.questions.plan.ask import plan as plan
from legroom.questions.prove.ask import prove as prove
from legroom.questions.rate.ask import rate as rate
from legroom.questions.size.ask import size as size
from legroom.questions.speed.ask import speed as speed
from legroom.questions.sweep.ask import sweep as sweep
from legroom.questions.train.ask import train as train
from legroom.questions.variants.ask import variants as variants
from legroom.questions.vocabulary.ask import vocabulary as vocabulary
from legroom.reports.comparison import report as report
from legroom.session import Run as Run
from legroom.workloads import jobs as jobs
