"""A plan holds where its batch still fits and its steps are as fast; what changed since is listed."""

import dataclasses

import pytest

from legroom import api
from legroom.errors import UsageError
from legroom.logbook import RunStarted
from legroom.questions.check.known import Known, differences
from legroom.questions.check.view import check_rows, sentence
from legroom.questions.memory.records import StepPeaks
from legroom.questions.speed.fake import FakeSteps
from legroom.questions.speed.records import TimeSteps
from legroom.questions.variants.fake import FakeVariants
from legroom.session import advise_again
from legroom.testing import FakeMachine, FakeMemory, plant_host

GIB = 2**30


def host(gib=64):
    return plant_host(memory_bytes=gib * GIB)


def machine(step_seconds=0.05, **memory):
    return FakeMachine(memory=FakeMemory(**memory), steps=FakeSteps(seconds=lambda size: step_seconds))


def planned(folder, engine=None, more=""):
    """A folder in which speed was asked, and a plan beside its logbook."""
    run = api.Run(out=folder, engine=engine or machine(), host=host())
    api.speed("digits", device="cpu", batch_sizes=[64, 256], run=run)
    path = folder / "plan.toml"
    path.write_text(f'job = "digits"\nmachine = "{host().name}"\n[batch_size]\nvalue = 256\n{more}')
    return path


def check(path, engine=None, gib=64, **words):
    return api.check(path, device="cpu", run=api.Run(engine=engine or machine(), host=host(gib)), **words)


def test_a_plan_that_nothing_happened_to_holds_and_is_advised_again(tmp_path):
    answer = check(planned(tmp_path))
    assert (answer.holds, answer.fits, answer.differences, answer.exit_code) == (True, True, [], 0)
    assert answer.expected_seconds == pytest.approx(0.05)
    assert answer.step_seconds == pytest.approx(0.05)
    assert advise_again(tmp_path, "check") == answer


def test_it_takes_one_proof_and_three_timings_at_the_plans_batch(tmp_path):
    path, engine = planned(tmp_path), machine()
    check(path, engine)
    kinds = [request.kind for request in engine.asked]
    assert kinds == ["describe", "step_peaks", "time_steps", "time_steps", "time_steps"]
    assert all(request.batch_sizes == (256,) for request in engine.asked if isinstance(request, TimeSteps))


def test_a_batch_of_more_samples_than_there_are_is_refused_before_anything_is_proved(tmp_path):
    engine = FakeMachine(memory=FakeMemory(num_samples=100), steps=FakeSteps())
    path = planned(tmp_path)
    with pytest.raises(UsageError, match=r"line 4, \[batch_size\]: the training data has 100 samples"):
        check(path, engine)
    assert not [request for request in engine.asked if isinstance(request, StepPeaks)]


def test_a_plan_for_another_model_size_is_checked_at_that_size(tmp_path):
    engine, addresses = machine(), []
    start = engine.start

    def keep(address, *words, **more):
        addresses.append(address)
        return start(address, *words, **more)

    engine.start = keep
    answer = check(planned(tmp_path, more='[model_size]\nvalue = "width=16"\n'), engine)
    assert answer.fits
    assert {address.options["model_size"] for address in addresses} == {"width=16"}
    assert (tmp_path / "width=16" / "logbook.jsonl").is_file(), "another job's logbook was written to"


def test_more_workers_than_this_machine_may_have_are_refused(tmp_path):
    path, engine = planned(tmp_path, more="[num_workers]\nvalue = 4096\n"), machine()
    with pytest.raises(UsageError, match="num_workers is 4096; it must be a whole number from 0 to 64"):
        check(path, engine)
    assert [request.kind for request in engine.asked] == ["describe"]


def test_a_batch_that_fits_no_longer_ends_with_exit_code_1(tmp_path):
    answer = check(planned(tmp_path), machine(bytes_per_sample=1e9))
    assert (answer.holds, answer.fits, answer.exit_code) == (False, False, 1)
    assert any("fits no longer" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("seconds", "holds", "word"), [(0.08, False, "slower"), (0.03, True, "faster"), (0.052, True, "")]
)
def test_steps_are_held_against_what_was_timed_for_the_plan(tmp_path, seconds, holds, word):
    answer = check(planned(tmp_path), machine(seconds))
    assert answer.holds == holds
    assert any("A step is" in note for note in answer.notes) == bool(word)
    assert not word or any(f"A step is {word}" in note for note in answer.notes)


def test_where_other_programs_use_the_machine_slower_steps_fail_no_plan_and_misfits_still_do(tmp_path):
    path, busy = planned(tmp_path), plant_host(memory_bytes=64 * GIB, busy_cores=2.0)
    slow, fast, large = (
        api.check(path, device="cpu", run=api.Run(engine=engine, host=busy))
        for engine in (machine(0.08), machine(0.05), machine(bytes_per_sample=1e9))
    )
    assert (slow.holds, slow.disturbed, slow.exit_code) == (True, True, 0)
    assert "cannot be told, since other programs" in sentence(slow)
    assert any("whether steps are as fast" in what for what in slow.not_measured)
    assert not any("A step is slower" in note for note in slow.notes)
    assert (fast.holds, fast.disturbed) == (True, False)
    assert "its steps are as fast as they were" in sentence(fast)
    assert (large.holds, large.exit_code) == (False, 1)


def test_steps_of_a_few_milliseconds_are_told_in_three_digits(tmp_path):
    answer = check(planned(tmp_path, machine(0.00112)), machine(0.00149))
    told = {name: (value, remark) for name, value, remark in check_rows(answer)}
    assert told["a step"] == ("1.49 ms", "when the plan was made 1.02 ms to 1.23 ms")


def test_steps_are_timed_with_the_plans_own_variables_and_only_their_like_is_compared(tmp_path):
    path, engine = planned(tmp_path, more='[environment]\nvalue = "OMP_NUM_THREADS=2"\n'), machine()
    answer = check(path, engine)
    assert {request.num_threads for request in engine.asked if isinstance(request, TimeSteps)} == {2}
    assert answer.expected_seconds is None
    assert any("how long a step took" in what for what in answer.not_measured)


def test_a_batch_is_proved_with_the_plans_own_variables(tmp_path):
    path, engine = planned(tmp_path, more='[environment]\nvalue = "MALLOC_MMAP_MAX_=0"\n'), machine()
    answer = check(path, engine)
    (proof,) = (request for request in engine.asked if isinstance(request, StepPeaks))
    assert proof.environment == {"MALLOC_MMAP_MAX_": "0"}
    assert advise_again(tmp_path, "check") == answer


def test_a_batch_that_a_check_proved_bounds_no_later_question(tmp_path):
    check(planned(tmp_path))
    run = api.Run(out=tmp_path, engine=machine(), host=host(), resume=True)
    assert api.speed("digits", device="cpu", run=run).largest_batch_size > 256


FASTER = "[fused]\nvalue = true\n[channels_last]\nvalue = true\n"


def test_a_plan_with_variants_is_proved_and_timed_with_them(tmp_path):
    path, engine = planned(tmp_path, more=FASTER), machine()
    answer = check(path, engine)
    asked = [request for request in engine.asked if isinstance(request, StepPeaks | TimeSteps)]
    assert [request.options for request in asked] == [{"channels_last": True, "fused": True}] * 4
    assert answer.expected_seconds is None, "steps without the variants are another matter"


def test_steps_with_variants_are_held_against_what_the_variants_took_when_the_plan_was_made(tmp_path):
    words = {"batch_size": 256, "only": ["fused"], "device": "cpu"}
    engine = FakeMachine(FakeVariants(ratios={"fused": 1.25}, step_seconds=0.05))
    api.variants("digits", run=api.Run(out=tmp_path, engine=engine, host=host()), **words)
    path = planned(tmp_path, more="[fused]\nvalue = true\n")
    slow, fast = (check(path, machine(seconds)) for seconds in (0.05, 0.04))
    assert fast.expected_seconds == pytest.approx(0.04)
    assert (slow.holds, fast.holds) == (False, True)


def test_what_changed_in_job_and_torch_is_listed(tmp_path):
    class Newer(FakeMemory):
        def answer(self, request):
            found, seconds = super().answer(request)
            changed = {"torch_version": "9.9", "num_trainable": 5} if request.kind == "describe" else {}
            return dataclasses.replace(found, **changed), seconds

    answer = check(planned(tmp_path), FakeMachine(memory=Newer(), steps=FakeSteps(seconds=lambda size: 0.05)))
    assert answer.holds
    assert answer.differences == [
        "Torch was planted and is 9.9",
        "The number of trained parameters was 1,000 and is 5",
    ]


def test_a_plan_of_another_machine_is_refused_unless_forced_and_its_step_times_are_not_compared(tmp_path):
    path = planned(tmp_path)
    path.write_text(path.read_text().replace(host().name, "a toaster"))
    with pytest.raises(UsageError, match=r"was made on a toaster, and this is .*--force"):
        check(path)
    answer = check(path, force=True)
    assert answer.holds
    assert answer.expected_seconds is None
    assert answer.differences[0].startswith("The plan was made on a toaster")


def test_a_plan_of_another_job_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"is a plan for digits, and this run is of mnist-lstm"):
        check(planned(tmp_path), job="mnist-lstm")


def test_a_plan_without_a_job_needs_one_named(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("[batch_size]\nvalue = 256\n")
    with pytest.raises(UsageError, match=r"names no job\. Name it: --job"):
        check(path)
    run = api.Run(out=tmp_path / "out", engine=machine(), host=host())
    answer = api.check(path, job="digits", device="cpu", run=run)
    assert any("no logbook beside it" in what for what in answer.not_measured)


@pytest.mark.parametrize(("before", "now", "told"), [("570", "580", 1), ("580", "580", 0), ("", "580", 0)])
def test_another_driver_of_the_gpu_is_told_where_the_plan_kept_its_own(before, now, told):
    names = ("run", "job", "digest", "machine", "command", "legroom_version", "started_at")
    head = RunStarted(**dict.fromkeys(names, "1"), options={}, question={"driver": before})
    found = list(differences(Known(head=head), "1", None, "1", now))
    assert found == [f"The GPU's driver was {before} and is {now}"] * told
