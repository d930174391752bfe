"""Clips are read from arrays and from folders of frames, a window and a square of them at a time."""

import numpy as np
import pytest
import torch
from PIL import Image

from legroom.errors import UsageError
from legroom.workloads import video
from legroom.workloads.readers.clips import Clips, SyntheticClips, cut_square


def write_clips(root, num_clips=12, length=6):
    """Two classes; frame f of a clip is all 10 f."""
    for name in ("jump", "run"):
        for number in range(num_clips):
            frames = np.full((length, 20, 24, 3), 10, np.uint8) * np.arange(length, dtype=np.uint8)[:, None, None, None]
            place = root / name / f"v_{name}_g{number:02d}_c01"
            if number % 2:
                place.parent.mkdir(parents=True, exist_ok=True)
                np.save(place, frames)
            else:
                place.mkdir(parents=True)
                for at, frame in enumerate(frames):
                    Image.fromarray(frame).save(place / f"{at:03d}.png")


def make_job(folder, **more):
    return video.job(data=str(folder), **({"frames": 4, "size": 16, "width": 4, "depth": 1} | more))


def test_a_clip_is_a_window_of_frames_in_their_order(tmp_path):
    write_clips(tmp_path / "ucf101")
    job = make_job(tmp_path)
    for data in (job.train_data(), job.valid_data()):
        for clip, label in (data[index] for index in range(len(data))):
            assert (clip.shape, clip.dtype) == ((3, 4, 16, 16), torch.uint8)
            times = clip.float().mean((0, 2, 3)) / 10
            assert times.diff().tolist() == [1, 1, 1]
            assert label in (0, 1)
    assert [int(data[0][0][0, 0, 0, 0]) for _ in range(3)] == [10] * 3  # held out: the middle window, always


def test_a_clip_that_is_too_short_starts_over(tmp_path):
    write_clips(tmp_path, length=3)
    clip, _ = make_job(tmp_path, frames=7).valid_data()[0]
    assert (clip[0, :, 0, 0] / 10).tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_arrays_that_are_no_clip_are_skipped_and_empty_folders_refused(tmp_path):
    write_clips(tmp_path)
    data = make_job(tmp_path).train_data()
    array = next(path for path in data.source.paths if path.suffix == ".npy")
    np.save(array, np.zeros((4, 20, 20), np.uint8))
    with pytest.warns(UserWarning, match=r"uint8 \(4, 20, 20\); frames x height x width x 3 .* is skipped"):
        [data[index] for index in range(len(data))]
    (tmp_path / "sit" / "no_frames").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"class folder '.*sit' has no clip in it"):
        make_job(tmp_path)


def test_a_square_is_cut_where_it_should_be():
    frames = torch.arange(100, dtype=torch.uint8).reshape(1, 1, 10, 10)
    assert torch.equal(cut_square(frames, 0.4, 1.0, 0.0, 4), frames[:, :, :4, 6:])
    assert cut_square(frames, 1.0, 0.5, 0.5, 4).shape == (1, 1, 4, 4)


def test_generated_clips_move_by_class_and_repeat_exactly():
    clips = Clips(SyntheticClips(8, 4, 8, 20), 4, 16, train=False)
    assert torch.equal(clips[3][0], clips[3][0])
    assert not torch.equal(clips[3][0][:, 0], clips[3][0][:, 1])
    assert [clips[index][1] for index in range(8)] == [0, 1, 2, 3] * 2


def test_the_job_trains_and_its_memory_is_known(tmp_path, train_two_epochs, estimate_bytes):
    write_clips(tmp_path)
    job = make_job(tmp_path)
    result = train_two_epochs(job, batch_size=4)
    assert (result.stopped_because, len(result.evaluations)) == ("finished", 2)
    small, large = estimate_bytes(job, 4, 8)
    assert 0 < small < large
    for dimension in ("width", "depth"):
        assert job.resize[dimension](2)()(torch.zeros(2, 3, 4, 16, 16, dtype=torch.uint8)).shape == (2, 2)


def test_the_stand_in_says_that_it_is_one_and_has_the_size_of_ucf101():
    job = video.job(data="synthetic", frames=4, size=32)
    assert "generated, not decoded" in job.notes[0]
    assert (len(job.train_data()), len(job.valid_data())) == (9_537, 3_783)
    assert job.train_data()[9_536][0].shape == (3, 4, 32, 32)
    with pytest.raises(UsageError, match="at least 1"):
        video.job(data="synthetic", frames=0)
