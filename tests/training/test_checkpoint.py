"""Checkpoints: what an earlier run left behind never becomes part of a later one."""

import contextlib
import errno
import json
import zipfile
from dataclasses import asdict

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from legroom.errors import UsageError
from legroom.job import Job, Settings
from legroom.training.checkpoint import load
from legroom.training.loop import Run
from legroom.training.records import Train

SETTINGS = Settings(batch_size=4, learning_rate=0.1, num_epochs=4)
NAMES = ("checkpoint.pt", "best.pt", "metrics.jsonl")


def points(num_samples):
    inputs = torch.linspace(-1, 1, 2 * num_samples).reshape(-1, 2)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def make_run(folder, *, dies_at=None, **more):
    """A run of 16 updates that raises in the given one."""
    num_losses = 0

    def loss(model, batch):
        nonlocal num_losses
        num_losses += model.training
        if num_losses == dies_at:
            raise KeyboardInterrupt
        return nn.functional.mse_loss(model(batch[0]), batch[1])

    job = Job(
        model=lambda: nn.Linear(2, 1),
        train_data=lambda: points(16),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )
    request = Train(device="cpu", settings=asdict(SETTINGS), folder=str(folder), **more)
    return Run(job, request, points(16), points(8))


def test_a_run_begun_anew_and_killed_early_does_not_resume_the_run_before(tmp_path):
    make_run(tmp_path).go()
    with pytest.raises(KeyboardInterrupt):
        make_run(tmp_path, dies_at=2).go()
    result = make_run(tmp_path, resume=True).go()
    assert result.resumed_from is None
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len([value for line in lines for value in line.get("losses", [])]) == result.num_steps == 16


def test_files_of_a_run_can_be_read_by_whoever_may_read_new_files(tmp_path):
    make_run(tmp_path).go()
    (tmp_path / "other").touch()
    modes = {name: (tmp_path / name).stat().st_mode for name in ("checkpoint.pt", "best.pt", "metrics.jsonl", "other")}
    assert len(set(modes.values())) == 1, modes


def test_a_run_begun_anew_keeps_all_that_each_earlier_one_left(tmp_path):
    kept = []
    for number in range(3):
        if kept:
            kept[-1] = {name: (tmp_path / name).read_bytes() for name in NAMES}
        result = make_run(tmp_path, num_steps=4 * (3 - number)).go()
        assert any(f"earlier-{number}" in note for note in result.notes) == (number > 0)
        kept.append({})
    for number in (1, 2):
        assert {name: (tmp_path / f"earlier-{number}" / name).read_bytes() for name in NAMES} == kept[number - 1]
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["progress"]["step"] == 4


def test_a_run_that_cannot_be_built_leaves_the_earlier_ones_where_they_are(tmp_path):
    make_run(tmp_path).go()
    with pytest.raises(UsageError):
        make_run(tmp_path, target=("score", 0.9)).go()
    assert not list(tmp_path.glob("earlier-*"))


def test_a_refusal_to_resume_lists_no_settings_that_only_share_the_update_out(tmp_path):
    saved = {"batch_size": 32, "num_devices": 1, "learning_rate": 0.1}
    make_run(tmp_path, identity={"settings": saved}).go()
    shared = {"batch_size": 16, "num_devices": 2, "learning_rate": 0.1}
    assert load(tmp_path / "checkpoint.pt", {"settings": shared})
    with pytest.raises(UsageError, match=r"\(its settings: learning_rate 0.1, not 0.2\)"):
        load(tmp_path / "checkpoint.pt", {"settings": {**shared, "learning_rate": 0.2}})
    with pytest.raises(UsageError, match="batch_size 32, not 8, num_devices 1, not 2"):
        load(tmp_path / "checkpoint.pt", {"settings": {**shared, "batch_size": 8}})


def test_resuming_without_a_checkpoint_says_that_it_began_anew(tmp_path):
    assert "no checkpoint in" in make_run(tmp_path, resume=True).go().notes[0]
    assert make_run(tmp_path, resume=True).go().notes == []


@pytest.mark.parametrize("first", range(0, 3200, 400))
def test_bytes_changed_in_a_checkpoint_are_noticed(tmp_path, first):
    make_run(tmp_path).go()
    path = tmp_path / "checkpoint.pt"
    content = bytearray(path.read_bytes())
    start = content.index(b"data/0") + 64 + first
    content[start : start + 400] = bytes(255 - byte for byte in content[start : start + 400])
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"damaged.*Put back a copy of it, or start without --resume"):
        make_run(tmp_path, resume=True).go()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_checkpoint_cut_short_is_told_in_words_of_ours(tmp_path, share):
    make_run(tmp_path).go()
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(UsageError, match="cut short or damaged") as caught:
        make_run(tmp_path, resume=True).go()
    assert "weights_only" not in str(caught.value)


@pytest.mark.parametrize("header", [b"PK\3\4", b"PK\1\2"], ids=["of a part", "of the directory"])
def test_a_bit_flipped_in_a_header_is_told_in_words_of_ours(tmp_path, header):
    make_run(tmp_path).go()
    path = tmp_path / "checkpoint.pt"
    whole = path.read_bytes()
    for place in range(4, 26):  # version, flags, how it is packed, times, checksum, sizes
        for bit in range(8):
            content = bytearray(whole)
            content[whole.index(header) + place] ^= 1 << bit
            path.write_bytes(content)
            with contextlib.suppress(UsageError):  # times and the like mean nothing to a reader
                load(path, {})


def test_a_checkpoint_that_may_not_be_read_is_told_so(tmp_path, monkeypatch):
    def refuse(*words, **more):
        raise PermissionError(errno.EACCES, "Permission denied")

    make_run(tmp_path).go()
    monkeypatch.setattr(zipfile, "ZipFile", refuse)
    with pytest.raises(UsageError, match="cannot be read as a checkpoint: Permission denied"):
        load(tmp_path / "checkpoint.pt", {})


def test_checksums_are_written_where_the_job_turned_torchs_off(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        make_run(tmp_path).go()
        assert torch.serialization.get_crc32_options() is False
    finally:
        torch.serialization.set_crc32_options(True)
    assert make_run(tmp_path, resume=True).go().resumed_from == 16


def test_lost_metrics_do_not_fill_the_new_file_with_zeros(tmp_path):
    make_run(tmp_path).go()
    (tmp_path / "metrics.jsonl").unlink()
    make_run(tmp_path, resume=True).go()
    assert b"\0" not in (tmp_path / "metrics.jsonl").read_bytes()
