"""A batch is any nest of tensors."""

import math
from collections import UserDict, namedtuple

import torch

from legroom.training.data.batch import holds_nan, move, num_bytes, num_rows, tensors_of

Pair = namedtuple("Pair", ["inputs", "labels"])
META = torch.device("meta")


def nest():
    return {"house": Pair(torch.zeros(3, 2), [torch.ones(3)]), "name": "a", "first": True, "scale": torch.tensor(2.0)}


def test_tensors_are_found_in_order_at_any_depth():
    assert [tuple(tensor.shape) for tensor in tensors_of(nest())] == [(3, 2), (3,), ()]


def test_bytes_are_those_of_all_tensors():
    assert num_bytes(nest()) == 4 * (6 + 3 + 1)
    assert num_bytes(["no", "tensors"]) == 0


def test_nan_and_infinity_are_found_and_a_mask_is_neither():
    bad = [torch.tensor([0.0, math.nan]), torch.tensor([math.inf, 0.0]), torch.tensor(math.nan, dtype=torch.bfloat16)]
    assert all(holds_nan({"labels": torch.tensor([3]), "inputs": [tensor]}) for tensor in bad)
    fine = [torch.tensor([0.0, -math.inf]), torch.full((2,), -math.inf), torch.empty(0), torch.tensor([2**40])]
    assert not holds_nan(fine)


def test_rows_are_the_length_of_the_first_tensor_that_has_one():
    assert num_rows((torch.tensor(1.0), torch.zeros(5, 2), torch.zeros(7))) == 5
    assert num_rows({"only": torch.tensor(1.0)}) == 1
    assert num_rows(["words"]) == 1


def test_moving_keeps_the_nest_and_what_is_no_tensor():
    moved = move(nest(), META)
    assert all(tensor.device == META for tensor in tensors_of(moved))
    assert isinstance(moved["house"], Pair)
    assert isinstance(moved["house"].labels, list)
    assert moved["name"] == "a"
    assert moved["first"] is True


def test_moving_leaves_the_original_where_it_was():
    batch = nest()
    move(batch, META)
    assert all(tensor.device.type == "cpu" for tensor in tensors_of(batch))


def test_moving_keeps_mappings_of_other_types():
    moved = move(UserDict(inputs=torch.zeros(2)), META)
    assert isinstance(moved, UserDict)
    assert moved["inputs"].device == META
