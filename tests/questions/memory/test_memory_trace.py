"""Traces of small jobs whose bytes can be counted by hand, and jobs fake tensors cannot run."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from legroom.errors import NothingMeasured
from legroom.job import Job, Score, Settings
from legroom.questions.memory.allocator.estimate import MemoryEstimate
from legroom.questions.memory.child import cuda_rnn, cuda_rules
from legroom.questions.memory.child.storage_ledger import Ledger
from legroom.questions.memory.child.trace import trace

WIDTH = 256
"""A multiple of 128: every tensor of the small nets fills whole blocks."""
CONSTANT, SHARE = cuda_rules.SLACK_BYTES, cuda_rules.SLACK_SHARE
CUBLAS = cuda_rules.CUBLAS_WORKSPACE_BYTES[9]


def estimate(
    model: Callable[[], nn.Module],
    batch: Callable[[int], Any] = lambda size: torch.ones(size, WIDTH),
    loss: Callable[[Any, Any], Any] = lambda model, batch: model(batch).mean(),
    optimizer: Callable[..., Any] = lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    score: Score | None = None,
    **settings: Any,
) -> MemoryEstimate:
    job = Job(model=model, train_data=list, loss=loss, optimizer=optimizer, score=score)
    return trace(job, Settings(**settings), batch)


def slope(found: MemoryEstimate) -> float:
    """Bytes allocated for each sample at large batches."""
    return round(found.train.lines[-1].bytes_per_sample / (1 + SHARE), 3)


def linear() -> nn.Module:
    return nn.Linear(WIDTH, WIDTH, bias=False)


WEIGHTS = WIDTH * WIDTH * 4

OPTIMIZERS = {
    "sgd": (lambda model, rate: torch.optim.SGD(model.parameters(), rate), 0, 0),
    "momentum": (lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9), 1, 0),
    "adam": (lambda model, rate: torch.optim.Adam(model.parameters(), rate), 2, 1),
    "adamw": (lambda model, rate: torch.optim.AdamW(model.parameters(), rate), 2, 1),
    "fused": (lambda model, rate: torch.optim.AdamW(model.parameters(), rate, fused=True), 2, 0),
}
"""Name -> optimizer, tensors of state and of temporaries for each weight: foreach Adam takes one square root."""


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_bytes_of_the_update_are_weights_gradients_state_and_temporaries(name: str) -> None:
    optimizer, num_states, num_temporaries = OPTIMIZERS[name]
    peak = estimate(linear, optimizer=optimizer).train.peak(1)
    step_count = 512 if name == "fused" else 0
    assert peak.parts["weights"] == WEIGHTS
    assert peak.parts["gradients"] == WEIGHTS
    assert peak.parts["optimizer"] == (num_states + num_temporaries) * WEIGHTS + step_count
    assert peak.phase == ("update" if num_temporaries else "backward")


def test_evaluation_runs_beside_the_optimizers_state() -> None:
    evaluation = estimate(linear, optimizer=OPTIMIZERS["adam"][0]).evaluation
    assert evaluation is not None
    assert evaluation.peak(1).parts["optimizer"] == 2 * WEIGHTS
    assert evaluation.peak(1).parts["gradients"] == 0


def test_slope_of_a_linear_layer_is_its_input_and_output() -> None:
    found = estimate(linear)
    assert (found.method, found.notes) == ("fake", ())
    assert slope(found) == 2 * WIDTH * 4
    assert found.train.peak(1000).parts["workspace"] == 2 * CUBLAS


def test_deep_net_keeps_every_activation() -> None:
    def stack(depth: int) -> nn.Module:
        return nn.Sequential(*(nn.Sequential(linear(), nn.ReLU()) for _ in range(depth)))

    shallow, deep = (slope(estimate(lambda depth=depth: stack(depth))) for depth in (4, 12))
    assert deep - shallow == 8 * WIDTH * 4  # ReLU keeps its output, which is what the next layer keeps as well


def test_checkpointing_lowers_activations() -> None:
    class Checkpointed(nn.Module):
        def __init__(self, again: bool) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(*(nn.Linear(WIDTH, WIDTH), nn.GELU()) * 4) for _ in range(4))
            self.again = again

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
            return x

    plain, again = estimate(lambda: Checkpointed(False)), estimate(lambda: Checkpointed(True))
    assert plain.method == again.method == "fake"
    assert slope(again) < 0.5 * slope(plain)


def convolutional() -> nn.Module:
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), *head)


def images(size: int) -> Any:
    return torch.rand(size, 3, 16, 16), torch.zeros(size, dtype=torch.long)


def classify(model: Any, batch: Any) -> torch.Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1])


def test_convolution_net_peaks_at_four_maps() -> None:
    found = estimate(convolutional, images, classify)
    one_map = 32 * 16 * 16 * 4
    # The fullest moment holds the outputs of convolution and ReLU, two gradients, the images and their labels.
    assert slope(found) == 4 * one_map + 3 * 16 * 16 * 4 + 8
    assert found.evaluation is not None
    assert found.evaluation.largest_batch(2**30) > found.train.largest_batch(2**30)


def test_half_precision_needs_less_and_fp16_as_much_as_bf16() -> None:
    full, bf16, fp16 = (estimate(convolutional, images, classify, precision=p) for p in ("fp32", "bf16", "fp16"))
    assert slope(bf16) < 0.7 * slope(full)
    assert slope(fp16) == pytest.approx(slope(bf16), rel=0.02)
    assert bf16.notes == fp16.notes == ()


def test_autocast_follows_cudas_lists() -> None:
    """Layer norm gives fp32 under CUDA's autocast, half under the CPU's own."""
    found: list[torch.dtype] = []

    def loss(model: Any, batch: Any) -> torch.Tensor:
        normed = functional.layer_norm(model(batch), (WIDTH,))
        found.append(normed.dtype)
        return normed.mean()

    estimate(linear, loss=loss, precision="bf16")
    assert set(found) == {torch.float32}


def test_dropout_keeps_one_byte_an_element() -> None:
    def stack(rate: float) -> nn.Module:
        return nn.Sequential(linear(), *(nn.Sequential(nn.Tanh(), nn.Dropout(rate)) for _ in range(20)))

    with_dropout, without = slope(estimate(lambda: stack(0.5))), slope(estimate(lambda: stack(0.0)))
    assert with_dropout - without == 20 * WIDTH


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_recurrent_layer_keeps_the_reserve_of_the_table(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn_tanh": nn.RNN}[kind]

    def found() -> float:
        model = lambda: made(64, 128, 2, batch_first=True)  # noqa: E731
        return slope(estimate(model, lambda size: torch.rand(size, 10, 64), lambda m, batch: m(batch)[0].mean()))

    before = found()
    monkeypatch.setitem(cuda_rnn.RESERVE, kind, cuda_rnn.RESERVE[kind] + 1)
    assert found() - before == pytest.approx(2 * 10 * 128 * 4)


def attend(length: int) -> tuple[Callable[[int], Any], Callable[[Any, Any], Any]]:
    def loss(model: Any, batch: Any) -> torch.Tensor:
        q = model(batch).unflatten(-1, (4, 64)).transpose(1, 2)
        return functional.scaled_dot_product_attention(q, q, q, dropout_p=0.1).mean()

    return (lambda size: torch.rand(size, length, WIDTH)), loss


def test_attention_is_linear_in_the_length() -> None:
    short, long = (slope(estimate(linear, *attend(length))) for length in (128, 512))
    assert long == pytest.approx(4 * short, rel=0.02)


def test_accumulation_keeps_gradients_through_the_next_forward() -> None:
    def held(steps: int) -> int:
        return estimate(linear, accumulation_steps=steps).train.peak(10_000).parts["gradients"]

    assert held(4) >= WEIGHTS
    assert held(4) == held(2)


def test_clipping_and_channels_last_are_traced() -> None:
    model = lambda: convolutional().to(memory_format=torch.channels_last)  # noqa: E731
    found = estimate(model, images, classify, clip_norm=1.0, precision="fp16")
    assert (found.method, found.notes) == ("fake", ())


def test_score_that_reads_a_number_needs_no_fallback() -> None:
    def correct(model: Any, batch: Any) -> tuple[Any, int]:
        return (model(batch[0]).argmax(1) == batch[1]).sum().item(), len(batch[1])

    assert estimate(convolutional, images, classify, score=Score(correct)).method == "fake"


def test_boolean_mask_falls_back_to_a_real_step_and_says_so() -> None:
    found = estimate(linear, loss=lambda model, batch: model(batch)[batch[:, 0] > 0].mean())
    assert found.method == "real"
    assert "nonzero" in found.reason
    assert found.batch_sizes == (2, 4)


def test_real_step_and_shapes_alone_agree() -> None:
    def loss(model: Any, batch: Any) -> torch.Tensor:
        if real:
            batch[0].numpy()
        return classify(model, batch)

    real = False
    shapes = estimate(convolutional, images, loss)
    real = True
    computed = estimate(convolutional, images, loss)
    assert (shapes.method, computed.method) == ("fake", "real")
    assert slope(computed) == pytest.approx(slope(shapes))
    assert computed.train.peak(64).num_bytes == pytest.approx(shapes.train.peak(64).num_bytes, rel=1e-3)


def test_ctc_falls_back_and_names_the_operator() -> None:
    def spell(model: Any, batch: Any) -> torch.Tensor:
        letters = functional.log_softmax(model(batch).transpose(0, 1), -1)
        size = letters.shape[1]
        lengths = torch.full((size,), 5, dtype=torch.long)
        times = torch.full((size,), 20, dtype=torch.long)
        return functional.ctc_loss(letters, torch.ones(size, 5, dtype=torch.long), times, lengths)

    found = estimate(linear, lambda size: torch.rand(size, 20, WIDTH), spell)
    assert found.method == "real"
    assert "ctc_loss" in found.reason


def test_sparse_embedding_falls_back() -> None:
    found = estimate(
        lambda: nn.Embedding(1000, 64, sparse=True),
        lambda size: torch.arange(20).repeat(size, 1),
    )
    assert found.method == "real"
    assert "sparse" in found.reason


def test_operator_that_runs_nowhere_here_is_refused_by_name() -> None:
    library = torch.library.Library("legroom_test", "DEF")
    library.define("only_cuda(Tensor x) -> Tensor")
    with pytest.raises(NothingMeasured, match="only_cuda"):
        estimate(linear, loss=lambda model, batch: torch.ops.legroom_test.only_cuda(model(batch)).mean())
    library._destroy()


def test_the_process_is_left_as_it_was() -> None:
    x = torch.ones(4, 8, requires_grad=True)
    before = str(functional.dropout(x, 0.5).grad_fn)
    estimate(linear)
    assert str(functional.dropout(x, 0.5).grad_fn).split(" ")[0] == before.split(" ")[0]


def test_what_the_collector_was_spared_it_is_spared_after_a_trace() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    estimate(linear)
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before / 2 > 0  # some of it has ended since


def test_larger_batches_never_need_less() -> None:
    law = estimate(convolutional, images, classify).train
    peaks = [law.peak(size).num_bytes for size in (1, 2, 8, 64, 512, 4096)]
    assert peaks == sorted(peaks)
    assert law.peak(1).num_bytes > CONSTANT


def test_a_bias_is_added_in_place_as_outside_of_traces() -> None:
    found = estimate(
        lambda: nn.Linear(WIDTH, 64 * WIDTH),
        batch=lambda size: torch.ones(size, WIDTH, 2),
        loss=lambda model, batch: model(batch.transpose(1, 2)).mean(),  # laid out so that bias and product part
    )
    assert found.evaluation is not None
    made = found.evaluation.lines[-1].bytes_per_sample / (1 + SHARE)
    assert made == pytest.approx(2 * WIDTH * 4 * (64 + 2), rel=0.01)  # the result once; batch and its copy in order


def test_what_a_recurrent_call_keeps_is_born_while_its_workspace_is_taken() -> None:
    x = torch.ones(64, 8, WIDTH)
    with cuda_rules.installed(), Ledger() as ledger:
        nn.LSTM(WIDTH, WIDTH)(x)
        events = ledger.cut(8, 0, ledger.mark()).events
    taken = next(n for n, event in enumerate(events) if event.category == "workspace")
    given = next(n for n, event in enumerate(events) if event.storage == events[taken].storage and n > taken)
    reserve = 5 * x.numel() * 4
    assert [event.num_bytes for event in events[taken + 1 : given]] == [reserve]


def test_a_convolution_copies_what_it_reads_and_writes_to_channels_last() -> None:
    plane = 16 * 64 * 64 * 4
    found = estimate(
        lambda: nn.Conv2d(16, 16, 3, padding=1, bias=False),
        batch=lambda size: torch.ones(size, 16, 64, 64),
        loss=lambda model, batch: model(batch).mean(),
    )
    assert found.evaluation is not None
    per_sample = found.evaluation.lines[-1].bytes_per_sample / (1 + SHARE)
    assert per_sample == pytest.approx(4 * plane, rel=0.001)  # batch, result, and a copy of each
    # Backward: batch, the gradient of the result and a copy of each; the batch itself needs no gradient.
    assert slope(found) == pytest.approx(4 * plane, rel=0.001)
