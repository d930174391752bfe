"""The language models read text as published, tell what chance scores, and train; the highway is the paper's."""

import math
import zipfile
from collections import Counter
from dataclasses import replace

import pytest
import torch

from legroom.errors import UsageError
from legroom.workloads import char_lm, word_lm
from legroom.workloads.models.recurrent_highway import RecurrentHighway
from legroom.workloads.text.running_text import Columns, Words

LINES = [" the cat saw <unk> ", "", "the cat ran"] * 40


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text").write_text("\n".join(LINES) + "\n")
    return str(tmp_path / "text")


@pytest.fixture
def wikitext(tmp_path, monkeypatch):
    """A zip of the published names, taken for the published one."""
    parts = {"train": LINES, "valid": LINES[:3], "test": LINES[1:3]}
    with zipfile.ZipFile(tmp_path / "wikitext-2-v1.zip", "w") as archive:
        for part, lines in parts.items():
            archive.writestr(f"wikitext-2/wiki.{part}.tokens", "\n".join(lines) + "\n")
    sizes = {part: len("\n".join(lines)) + 1 for part, lines in parts.items()}
    monkeypatch.setattr(word_lm, "MEMBER_BYTES", sizes)
    return tmp_path


def test_words_are_cut_to_the_most_frequent_and_lines_end(wikitext):
    job = word_lm.job(data=str(wikitext), words=4)  # <eos> 0, <unk> 1, cat, the
    assert job.valid_data().words.tolist() == [3, 2, 1, 1, 0, 0, 3, 2, 1, 0]
    assert job.model().word.out_features == 4
    assert len(word_lm.job(data=str(wikitext), evaluate="test").valid_data()) == 5


def test_an_update_sees_80_words_of_two_lstms():
    job = word_lm.job(data="synthetic", hidden=4)
    batch = next(iter(job.loader(job.train_data(), job.baseline)))
    assert batch["words"].shape == (80, 128)
    assert job.model().reader.num_layers == 2
    assert job.model().word.out_features == 10_000


def test_a_damaged_or_missing_wikitext_is_told_with_size_and_source(wikitext, monkeypatch):
    monkeypatch.setattr(word_lm, "MEMBER_BYTES", {"train": 7, "valid": 7})
    with pytest.raises(UsageError, match=r"wiki.train.tokens in .* as published it has 7. Get it .*smerity"):
        word_lm.job(data=str(wikitext))
    path = wikitext / "wikitext-2-v1.zip"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UsageError, match=r"truncated or damaged.*It has 4,458,331 bytes; get it again from .*smerity"):
        word_lm.job(data=str(wikitext))
    path.unlink()
    with pytest.raises(UsageError, match=r"no wikitext-2.zip or wikitext-2-v1.zip .*smerity"):
        word_lm.job(data=str(wikitext))


def test_chance_is_what_shares_of_the_training_text_score(text):
    job = char_lm.job(text=text, min_frequency=1)
    train, valid = (data.words.tolist() for data in (job.train_data(), job.valid_data()))
    counts, num_codes = Counter(train), job.model().word.out_features
    bits = [-math.log2((counts[code] + 1) / (len(train) + num_codes)) for code in valid]
    assert job.score.chance == pytest.approx(sum(bits) / len(bits))


def test_characters_are_numbered_by_frequency_and_rare_ones_are_unknown(tmp_path):
    (tmp_path / "text").write_text("aab" * 40 + "é" + "ba" * 4)
    job = char_lm.job(text=str(tmp_path / "text"), min_frequency=2)
    assert set(job.train_data().words.tolist()) == {0, 1, 2}
    assert job.valid_data().words.tolist() == [2, 1, 2, 1, 2, 1][-len(job.valid_data()) :]
    with pytest.raises(UsageError, match=r"min_frequency=1000 leaves no character of .*text: at most 81 are alike"):
        char_lm.job(text=str(tmp_path / "text"), min_frequency=1000)


def test_the_default_text_of_characters_is_the_standard_library(tmp_path, monkeypatch):
    for name in ("a.py", "b.py", "test/c.py", "sub/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    assert char_lm.read_library(tmp_path) == ("# a.py\n# b.py\n# sub/d.py\n", "")
    monkeypatch.setattr(char_lm, "JUDGED_IN", 2)
    assert char_lm.read_library(tmp_path) == ("# a.py\n# sub/d.py\n", "# b.py\n")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "text").write_bytes(b"\xff\xfe")
    for module in (word_lm, char_lm):
        with pytest.raises(UsageError, match=r"is no text in UTF-8"):
            module.job(text=str(tmp_path / "text"))


JOBS = [
    (word_lm, {"words": 6, "sequence": 5, "hidden": 8}, lambda model: model.reader.num_layers),
    (char_lm, {"min_frequency": 1, "sequence": 5, "hidden": 8, "depth": 3}, lambda model: len(model.reader.deepen)),
]


@pytest.mark.parametrize(("module", "options", "depth"), JOBS, ids=["words", "characters"])
@pytest.mark.usefixtures("one_thread")
def test_two_epochs_beat_chance_and_other_sizes_are_made(text, module, options, depth, train_two_epochs):
    job = module.job(text=text, **options)
    job = replace(job, baseline=replace(job.baseline, batch_size=2))  # of 128 columns none would hold a window
    first, last = train_two_epochs(job, batch_size=2, learning_rate=0.02).evaluations
    assert last.loss < first.loss
    assert last.score < job.score.chance
    assert depth(job.resize["depth"](4)()) == 4
    assert job.resize["width"](6)().word.in_features == 6


@pytest.mark.parametrize(("module", "options", "depth"), JOBS, ids=["words", "characters"])
def test_memory_is_estimated_and_grows_with_the_batch(text, module, options, depth, estimate_bytes):
    small, large = estimate_bytes(module.job(text=text, **options), 1000, 4000)
    assert large > small


def papers_equations(net, inputs, state):
    """Each formula as printed, left to autograd."""
    now, outputs = state, []
    for step in inputs:
        for place, layer in enumerate(net.deepen):
            entering = step @ net.enter.weight.T if place == 0 else 0
            gates = now @ layer.weight.T + layer.bias + entering
            told, opened = gates[:, : net.hidden].tanh(), gates[:, net.hidden :].sigmoid()
            now = told * opened + now * (1 - opened)
        outputs.append(now)
    return torch.stack(outputs)


@pytest.fixture(params=[1, 3])
def highway(request):
    """A small one in fp64 of that depth, and inputs and a state for it that ask for gradients."""
    torch.manual_seed(0)
    net = RecurrentHighway(3, 4, depth=request.param).double()
    return net, torch.randn(5, 2, 3).double().requires_grad_(), torch.randn(2, 4).double().requires_grad_()


def test_the_highway_and_its_gradient_are_the_papers(highway):
    net, inputs, state = highway
    outputs, (last,) = net(inputs, (state.unsqueeze(0),))
    expected = papers_equations(net, inputs, state)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(last[0], expected[-1])
    weigh = torch.randn_like(outputs)
    learned = [inputs, state, *net.parameters()]
    gradients = [torch.autograd.grad((found * weigh).sum(), learned) for found in (outputs, expected)]
    torch.testing.assert_close(*gradients)


def test_the_gradient_is_the_slope_of_the_forward_pass(highway):
    net, inputs, state = highway
    assert torch.autograd.gradcheck(lambda *given: net(given[0], (given[1].unsqueeze(0),))[0], (inputs, state))


def test_an_evaluation_computes_what_training_does(highway):
    net, inputs, state = highway
    outputs, (last,) = net(inputs, (state.unsqueeze(0),))
    with torch.no_grad():
        judged, (judged_last,) = net(inputs, (state.unsqueeze(0),))
    torch.testing.assert_close((judged, judged_last), (outputs, last))


def test_the_highway_runs_in_bf16_with_its_state_in_fp32():
    torch.manual_seed(0)
    net, inputs = RecurrentHighway(8, 8, depth=2), torch.randn(5, 2, 8)
    found = {}
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            outputs, state = net(inputs)
        assert outputs.dtype == state[0].dtype == torch.float32
        found[enabled] = (outputs, *torch.autograd.grad(outputs.square().sum(), net.parameters()))
    torch.testing.assert_close(found[True], found[False], rtol=0.05, atol=0.02)
    assert not torch.equal(found[True][0], found[False][0])


def test_the_highways_state_joins_batches_into_one_text():
    torch.manual_seed(0)
    model = char_lm.job(data="synthetic", hidden=4, depth=2).model().eval()
    text = Words(torch.randint(90, (120,)))
    short, long = (
        torch.cat([model(b["words"], b["first"], b["row"]) for b in Columns(text, 2, window)]) for window in (5, 55)
    )
    torch.testing.assert_close(short, long)
    assert model.get_extra_state() == {"state": []}
