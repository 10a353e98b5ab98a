# SPDX-License-Identifier: Apache-2.0
"""Networks take and return tensors of another library; mpi/test_tensors_ranks.py has the collectives."""

from __future__ import annotations

import collections
import sys
import types
from typing import Any

import numpy as np
import pytest

import floodtide as ft
from floodtide import errors
from floodtide.comm.arrays import accepts_tensors


class Tensor:
    """A tensor of a library that is this module: it has only what DLPack needs."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def from_dlpack(array: np.ndarray[Any, Any]) -> Tensor:
    return Tensor(array)


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


def test_networks_take_and_return_tensors() -> None:
    network = ft.nn.FFN(1, (3, 3, 3), (1, 1, 1), features=2)
    image = ones(3, 4, 5)
    logits = network.forward(image, image)
    np.testing.assert_array_equal(logits.array, network.forward(image.array, image.array))
    loss, gradients = network.loss_and_gradients(image, logits=image, labels=image)
    assert isinstance(loss, float)
    assert {type(one) for one in gradients.values()} == {Tensor}
    unet = ft.nn.UNet(ft.nn.UNetOptions(depth=2))
    assert unet.forward(ones(1, 4, 4, 4)).array.shape == (1, 4, 4, 4, 2)


def test_tensors_of_an_extending_class_and_in_any_sequence() -> None:
    class Extended(Tensor):
        __module__ = "a_package_that_extends_it"

    sys.modules[Extended.__module__] = types.ModuleType(Extended.__module__)
    network = ft.nn.FFN(1, (3, 3, 3), (1, 1, 1), features=2)
    image = Extended(np.ones((3, 3, 3), np.float32))
    assert type(network.forward(image, image)) is Tensor
    pair = collections.namedtuple("pair", "first second")(ones(1), ones(2))
    doubled = accepts_tensors(lambda arrays: [2 * array for array in arrays])
    assert [one.array.tolist() for one in doubled(pair)] == [[2], [2, 2]]


def test_a_tensor_that_is_no_array_is_refused() -> None:
    class Elsewhere(Tensor):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("it is on a GPU")

    with pytest.raises(
        errors.InvalidArgumentError, match=r"allreduce: a Elsewhere is no array .*: it is on a GPU"
    ):
        ft.allreduce(Elsewhere(np.ones(1)))
    turned = Tensor(np.ones((2, 3)).T)
    with pytest.raises(errors.InvalidArgumentError, match="not C-contiguous"):
        ft.allreduce_(turned)
