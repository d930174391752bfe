"""Private names of torch: each that we touch exists, and none is touched elsewhere."""

import ast
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

import legroom
from legroom.training import torch_internals as internals

SOURCE = Path(legroom.__file__).parent
DOCUMENTED = ("_foreach_",)
"""Starts of names that torch documents in spite of their underscore."""
PRIVATE = {
    "_accelerator_setAllocatorSettings": torch._C,
    "_AutoDispatchBelowAutograd": torch._C,
    "_dispatch_get_registrations_for_dispatch_key": torch._C,
    "_sleep": torch.cuda,
    "_schema": torch.ops.aten.mm.default,
    "_destroy": torch.library.Library,
    "_cdata": torch.zeros(1).untyped_storage(),
    "_indices": torch.Tensor,
    "_values": torch.Tensor,
    "_maybe_opt_step": torch.amp.GradScaler,
    "_shutdown_workers": internals.LoaderIterator,
}


@pytest.mark.parametrize("name", PRIVATE)
def test_what_we_touch_exists(name):
    assert hasattr(PRIVATE[name], name)


@pytest.mark.skipif(torch.version.cuda is None, reason="this build of torch knows no CUDA")
def test_what_we_touch_of_cuda_exists():
    assert hasattr(torch._C, "_cuda_clearCublasWorkspaces")


def test_a_loader_keeps_its_iterator_and_that_its_processes():
    loader = DataLoader([0, 1], num_workers=1, persistent_workers=True)
    assert internals.iterator_of(loader) is None
    assert sorted(int(batch) for batch in loader) == [0, 1]
    iterator = internals.iterator_of(loader)
    assert isinstance(iterator, internals.LoaderIterator)
    (process,) = internals.processes_of(iterator)
    assert process.is_alive()
    internals.end_processes(iterator)
    assert not process.is_alive()


def test_buffers_are_those_of_the_module_and_told_apart():
    module = torch.nn.BatchNorm1d(2)
    module.register_buffer("passing", torch.zeros(1), persistent=False)
    buffers, saved = internals.buffers_of(module)
    assert buffers["passing"] is module.passing
    assert saved == set(buffers) - {"passing"} == set(module.state_dict()) - {"weight", "bias"}


def test_a_scheduler_does_not_warn_of_an_optimizer_that_is_marked():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
    internals.mark_stepped(optimizer)
    scheduler.step()  # a warning is an error in tests


def test_a_scaler_updates_though_a_gradient_is_no_number():
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = internals.UpdatingScaler("cpu")
    scaler.scale(weight.sum() * float("inf")).backward()
    scaler.step(optimizer)
    assert not torch.isfinite(weight).all()


def test_the_raw_events_of_a_profile_can_be_read():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        torch.ones(2).sum()
    assert any("sum" in event.name() for event in internals.kernel_events(seen))


def test_operators_have_names_and_arguments():
    assert "mm" in internals.operators_with("AutocastCPU")
    assert [argument.name for argument in internals.schema_of(torch.ops.aten.mm.default).arguments] == ["self", "mat2"]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_other_file_touches_a_private_name(path):
    if path.name == "torch_internals.py":
        return
    touched = [name for node in ast.walk(ast.parse(path.read_text())) for name in private_names(node)]
    assert not touched, f"{path}: move {touched} to training/torch_internals.py"


def private_names(node):
    """Private parts of what a node imports from torch, or reads of it by a name that begins with `torch.`."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
        names = [*node.module.split("."), *(alias.name for alias in node.names)]
    elif isinstance(node, ast.Import):
        names = [part for alias in node.names if alias.name.split(".")[0] == "torch" for part in alias.name.split(".")]
    elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch."):
        names = [] if ast.unparse(node).startswith("torch.ops.") else [node.attr]
    else:
        names = []
    return [name for name in names if name.startswith("_") and not name.startswith(("__", *DOCUMENTED))]
