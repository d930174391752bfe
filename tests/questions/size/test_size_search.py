"""In which order trials run, how long they should take, and what a run that was killed does when it goes on."""

from dataclasses import replace

import pytest

from legroom.logbook import FILE_NAME
from legroom.questions.size.evidence import gather
from legroom.questions.size.foresight import foreseen
from legroom.questions.size.records import SizeQuestion
from legroom.session import read_records
from legroom.testing import FakeSizes

PLANTED = FakeSizes(a=40.0, k1=0.8, k2=0.5, b=60.0)
WIDER_IS_FASTER = FakeSizes(a=2e5, k1=0.8, k2=1.0, b=0.0, parameters_per_second=1e12)


def places(requests):
    return [(each.value, each.fraction) for each in requests]


def test_where_wider_models_are_done_sooner_they_go_first_those_held_out_too(ask, trials, tmp_path):
    _, machine = ask(WIDER_IS_FASTER, tmp_path)
    order = {place: number for number, place in enumerate(places(trials(machine)))}
    assert [place[0] for place in sorted(order, key=order.__getitem__) if place[1] == 1.0] == [128, 64, 32, 16]
    assert order[128, 0.25] < order[16, 0.25]


def test_less_data_goes_first_until_three_places_settled(ask, trials, tmp_path):
    _, machine = ask(WIDER_IS_FASTER, tmp_path)
    assert places(trials(machine))[:3] == [(16, 0.01562), (32, 0.01562), (64, 0.01562)]


def evidence_of(ask, folder, fake, **words):
    answer, _ = ask(fake, folder, **words)
    records = read_records(folder, "size")
    question = SizeQuestion(**records.head.question)
    return answer, gather(records.entries, question), question


@pytest.mark.parametrize("fake", [PLANTED, WIDER_IS_FASTER], ids=["as usual", "wider is faster"])
def test_seconds_foreseen_are_those_that_trials_take(ask, tmp_path, fake):
    answer, evidence, question = evidence_of(ask, tmp_path, replace(fake, noise=0.1))
    seen = {(each["width"], each["fraction"]): each["seconds"] for each in answer.points}
    ratios = [foreseen(evidence, question, place, "own") / seconds for place, seconds in seen.items()]
    assert all(1 / 2.5 < ratio < 2.5 for ratio in ratios)


def test_what_one_optimizer_took_says_nothing_of_another(ask, tmp_path):
    _, evidence, question = evidence_of(ask, tmp_path, PLANTED)
    assert foreseen(evidence, question, (64, 1.0), "own") > 0
    assert foreseen(evidence, question, (64, 1.0), "adam") == 0.0


def runs(answer):
    return sorted((each["width"], each["fraction"], each["seed"], each["outcome"]) for each in answer.points)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_run_that_was_killed_and_goes_on_spends_what_was_left_and_runs_the_same_trials(ask, tmp_path, share):
    fake, words = replace(PLANTED, noise=0.1, parameters_per_second=1e6), {"seeds": 3}
    full, _ = ask(fake, tmp_path / "full", **words)
    words["budget"] = 0.4 * full.seconds
    whole, _ = ask(fake, tmp_path / "whole", **words)
    lines = (tmp_path / "whole" / FILE_NAME).read_bytes().splitlines(keepends=True)
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / FILE_NAME).write_bytes(b"".join(lines[: round(share * len(lines))]))
    again, _ = ask(fake, tmp_path / "killed", resume=True, **words)
    assert runs(again) == runs(whole)
