"""Speech is read from archives and folders, its features are kept, and its spelling is judged letter by letter."""

import io
import itertools
import random
import tarfile
import wave

import numpy as np
import pytest
import torch

from legroom.errors import UsageError
from legroom.workloads import speech
from legroom.workloads.models.deep_speech import DeepSpeech, collapse, ctc_loss, edit_distance, halve
from legroom.workloads.readers.recordings import DIGITS, find_recordings, read_wav
from legroom.workloads.readers.speech_features import LETTERS, gather, log_mel, pad, spell
from legroom.workloads.text.chance import constant_error_rate


def wav(seconds=0.3, pitch=440.0, rate=8000, width=2, channels=1):
    """A tone, as the bytes of a WAV file."""
    tone = np.sin(2 * np.pi * pitch * np.arange(int(seconds * rate)) / rate).repeat(channels)
    whole = {
        1: lambda: (tone * 127 + 128).astype(np.uint8).tobytes(),
        2: lambda: (tone * 2**15 * 0.99).astype("<i2").tobytes(),
        3: lambda: (tone * 2**31 * 0.99).astype("<i4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes(),
        4: lambda: (tone * 2**31 * 0.99).astype("<i4").tobytes(),
    }[width]()
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(whole)
    return file.getvalue()


def digit_files(num_takes=8):
    """Each digit a tone of its own, by two speakers; takes 0 to 4 are the test part."""
    return {
        f"{digit}_{speaker}_{take}.wav": wav(0.2 + 0.02 * take, 300 + 300 * digit)
        for digit in range(10)
        for speaker in ("ann", "bob")
        for take in range(3, 3 + num_takes)
    }


def write_archive(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / "recordings.tar.xz", "w:xz", preset=0) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"recordings/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def small_job(folder, **more):
    return speech.job(data=str(folder), **({"hidden": 8, "layers": 1} | more))


def test_an_archive_is_read_without_being_unpacked_and_only_once(tmp_path, monkeypatch):
    write_archive(tmp_path / "spoken-digits", digit_files())
    job = small_job(tmp_path)
    train, valid = job.train_data(), job.valid_data()
    assert (len(train), len(valid)) == (120, 40)
    assert [path.name for path in (tmp_path / "spoken-digits").iterdir()] == ["recordings.tar.xz"]
    features, letters = train[0]
    assert (features.shape[1], features.dtype) == (40, torch.float32)
    assert letters.tolist() == spell("zero")
    monkeypatch.setattr("legroom.workloads.readers.speech_features.read_wav", None)
    assert torch.equal(small_job(tmp_path).train_data()[0][0], features)


def test_a_speaker_can_be_held_out(tmp_path):
    write_archive(tmp_path, digit_files())
    job = small_job(tmp_path, held_out="speaker")
    assert (len(job.train_data()), len(job.valid_data())) == (80, 80)


@pytest.mark.parametrize("has_dev", [False, True])
def test_librispeechs_layout_is_read(tmp_path, has_dev):
    root = tmp_path / "spoken-digits"
    for part in ("train-clean-100", *(["dev-clean"] if has_dev else [])):
        folder = root / part / "19" / "198"
        folder.mkdir(parents=True)
        names = [f"19-198-{number:04d}" for number in range(20)]
        (folder / "19-198.trans.txt").write_text("".join(f"{name} IT'S A TEST\n" for name in names))
        for name in names:
            (folder / f"{name}.wav").write_bytes(wav(rate=16000))
    job = small_job(tmp_path)
    assert job.train_data()[0][1].tolist() == spell("it's a test")
    assert len(job.train_data()) + len(job.valid_data()) == 20 * (1 + has_dev)
    assert (len(job.valid_data()) == 20) == has_dev


def test_recordings_that_cannot_be_read_are_counted_up_to_a_limit(tmp_path):
    files = digit_files()
    for number, content in enumerate((b"", b"RIFF no sound", wav()[:-100])):
        files[f"0_ann_{90 + number}.wav"] = content
    write_archive(tmp_path, files)
    with pytest.warns(UserWarning, match=r"0_ann_9\d.wav cannot be read .* is skipped") as said:
        assert small_job(tmp_path).notes == ("3 recordings cannot be read and are left out.",)
    assert len(said) == 3
    assert small_job(tmp_path).notes == ("3 recordings cannot be read and are left out.",)
    write_archive(tmp_path, files | {"0_ann_99.wav": b""})
    with (
        pytest.raises(UsageError, match=r"4 of 164 samples cannot be read; 3 are let pass"),
        pytest.warns(match="skipped"),
    ):
        small_job(tmp_path)


def test_what_is_missing_or_damaged_is_said(tmp_path):
    with pytest.raises(UsageError, match=r"no recordings.tar.xz in .* published at https://github.com/Jakobovski"):
        small_job(tmp_path)
    (tmp_path / "a.flac").touch()
    with pytest.raises(UsageError, match=r"FLAC files, which need to be WAV files"):
        small_job(tmp_path)
    write_archive(tmp_path, digit_files())
    whole = (tmp_path / "recordings.tar.xz").read_bytes()
    (tmp_path / "recordings.tar.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=r"recordings.tar.xz of [\d,]+ bytes is damaged or truncated"):
        small_job(tmp_path)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_every_width_of_sound_gives_the_same_tone(width):
    sound, rate = read_wav(wav(width=width, channels=2))
    expected, _ = read_wav(wav())
    assert rate == 8000
    assert np.abs(sound - expected).max() < 0.02


def test_a_tone_lights_up_the_band_of_its_pitch():
    rate = 8000
    time = np.arange(rate) / rate
    rising = np.sin(2 * np.pi * (200 * time + 1600 * time**2))  # from 200 to 3400 Hz
    brightest = log_mel(rising, rate, 40).argmax(1)
    assert brightest[5] < brightest[50] < brightest[-5]
    assert log_mel(np.zeros(10), rate, 40).shape == (1, 40)


def naive_distance(said, truth):
    if not said or not truth:
        return len(said) + len(truth)
    return min(
        naive_distance(said[1:], truth) + 1,
        naive_distance(said, truth[1:]) + 1,
        naive_distance(said[1:], truth[1:]) + (said[0] != truth[0]),
    )


def test_distances_are_those_of_the_definition():
    rng = random.Random(0)
    for _ in range(60):
        said, truth = ([rng.randint(1, 3) for _ in range(rng.randint(0, 5))] for _ in range(2))
        assert edit_distance(np.array(said), np.array(truth)) == naive_distance(said, truth)
    assert collapse(np.array([], int)).tolist() == []


def test_padding_changes_nothing_of_what_is_heard():
    model = DeepSpeech(40, len(LETTERS), 8, 2).eval()
    sounds = [torch.randn(length, 40) for length in (9, 30)]
    batch = pad([(sound, torch.tensor([1])) for sound in sounds])
    together = model(batch[0], batch[2])
    for index, sound in enumerate(sounds):
        alone = model(sound[None], [len(sound)])
        length = halve([len(sound)])[0]
        assert torch.allclose(together[index, :length], alone[0], atol=1e-5)


def constant_model(letters):
    """Says these letters, whatever it hears."""
    rows = torch.tensor([place for letter in letters for place in (letter, 0)], dtype=torch.long)

    def spell_it(sounds, lengths):
        said = torch.zeros(len(lengths), max(halve(lengths)), 1 + len(LETTERS))
        said[:, torch.arange(len(rows)), rows] = 1.0
        said[:, len(rows) :, 0] = 1.0
        return said

    return spell_it


def test_chance_is_what_the_best_constant_spelling_scores():
    job = speech.job(data="synthetic", hidden=4, layers=1)
    batch = pad([job.valid_data()[index] for index in range(20)])
    rates = {}
    for said in ("", "e", "one", "eie", "three"):
        errors, count = job.score.measure(constant_model(spell(said)), batch)
        rates[said] = errors / count
    assert rates[""] == 1.0
    assert min(rates.values()) == rates["eie"] == pytest.approx(job.score.chance)


def test_the_constant_spelling_found_is_the_best_there_is():
    rng = random.Random(0)
    for _ in range(5):
        truths = [bytes(rng.choices((1, 2, 3), k=rng.randint(0, 5))) for _ in range(6)]
        every = [guess for length in range(6) for guess in itertools.product((1, 2, 3), repeat=length)]
        best = min(sum(edit_distance(np.array(guess), np.array(list(true))) for true in truths) for guess in every)
        assert constant_error_rate(truths, 3) == best / sum(map(len, truths))


def test_many_long_texts_are_taken_whole():
    rng = random.Random(0)
    truths = [bytes(rng.choices(range(1, 29), weights=range(28, 0, -1), k=180)) for _ in range(3000)]
    assert 0.7 < constant_error_rate(truths, 28) < 0.9


@pytest.mark.parametrize("batches", ["padded", "bucketed"])
def test_the_job_trains_and_its_memory_is_known(tmp_path, batches, train_two_epochs, estimate_bytes):
    write_archive(tmp_path, digit_files())
    job = small_job(tmp_path, batches=batches)
    result = train_two_epochs(job, batch_size=16, learning_rate=0.01)
    assert (result.stopped_because, len(result.evaluations)) == ("finished", 2)
    assert result.evaluations[1].train_loss < result.evaluations[0].train_loss
    small, large = estimate_bytes(job, 4, 8)
    assert 0 < small < large
    for dimension in ("width", "depth"):
        assert torch.isfinite(ctc_loss(job.resize[dimension](2)(), pad([job.train_data()[0]])))


def test_the_stand_in_says_that_it_is_one_and_spells_digits():
    job = speech.job(data="synthetic")
    assert "synthetic stand-in" in job.notes[0]
    spelled = {tuple(job.train_data()[index][1].tolist()) for index in range(100)}
    assert spelled == {tuple(spell(word)) for word in DIGITS}
    assert job.sample_size(job.train_data(), 0) == len(job.train_data()[0][0])


def test_files_whose_names_say_the_digit_are_read_from_a_folder(tmp_path):
    for name, content in digit_files().items():
        (tmp_path / name).write_bytes(content)
    found = list(find_recordings(str(tmp_path), "spoken-digits").each())
    assert len(found) == 160
    assert {recording.words for recording in found} == set(DIGITS)
    assert gather([np.zeros((1, 40))], [[1]], found[:1], 0).facts["speakers"] == ["ann"]
