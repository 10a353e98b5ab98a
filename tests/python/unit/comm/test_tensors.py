# SPDX-License-Identifier: Apache-2.0
"""Networks take and return tensors of another library; mpi/test_tensors_ranks.py has the collectives."""

from __future__ import annotations

import collections
import sys
import types
from pathlib import Path
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
    before = network.state_dict()
    network.load_state_dict({name: Tensor(array) for name, array in before.items()})
    with pytest.raises(errors.InvalidArgumentError, match="weights is float64, expected float32"):
        network.load_state_dict({name: array.tolist() for name, array in before.items()})
    unet = ft.nn.UNet(ft.nn.UNetOptions(depth=2))
    assert unet.forward(ones(1, 4, 4, 4)).array.shape == (1, 4, 4, 4, 2)


class Negated(Tensor):
    """A view of which PyTorch shares memory without the sign."""

    def is_neg(self) -> bool:
        return True

    def resolve_conj(self) -> Negated:
        return self

    def resolve_neg(self) -> Tensor:
        return Tensor(-self.array)


def test_a_negated_view_has_its_values_and_is_not_changed_in_place() -> None:
    network = ft.nn.FFN(1, (3, 3, 3), (1, 1, 1), features=2)
    image = np.full((3, 3, 3), 2, np.float32)
    got = network.forward(Negated(image), image)
    np.testing.assert_array_equal(got.array, network.forward(-image, image))
    for call in (
        lambda: ft.allreduce_(Negated(image)),
        lambda: ft.optim.SGD(lr=1.0).step({"a": Negated(image)}, {"a": image}),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=r"write?able"):
            call()
    assert (image == 2).all()


def test_an_optimizer_changes_tensors() -> None:
    parameters = {"a": ones(2, 3)}
    ft.optim.SGD(lr=0.5).step(parameters, {"a": ones(2, 3)})
    np.testing.assert_array_equal(parameters["a"].array, np.full((2, 3), 0.5))


class Stored:
    """An array as h5py and zarr have: it has voxels, and no methods of NumPy's arrays."""

    dtype, shape = np.dtype(np.int32), (2, 3, 4)

    def __getitem__(self, box: Any) -> np.ndarray[Any, Any]:
        return np.arange(24, dtype=np.int32).reshape(self.shape)[box]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self[:]


@pytest.mark.parametrize("given", [Stored(), Tensor(Stored()[:]), Stored()[:].tolist()])
def test_arrays_of_other_libraries_are_read(given: Any, tmp_path: Path) -> None:
    array = Stored()[:]
    assert ft.evaluate.scores(given, given) == ft.evaluate.scores(array, array)
    ft.data.write_volume(tmp_path / "v.h5", {"a": given})
    np.testing.assert_array_equal(ft.data.Volume(f"{tmp_path}/v.h5:a").read(), array)
    if not isinstance(given, list):
        np.testing.assert_array_equal(ft.data.Volume(given).read(), array)
        report = ft.evaluate.report(given, given)
        assert report is not None
        assert report.table.scores()["adapted_rand_error"] == 0


def test_what_is_no_array_is_refused_in_one_line(tmp_path: Path) -> None:
    for given in (None, [[1], [1, 2]], ft.data.Volume(Stored())):
        for call in (
            lambda given=given: ft.evaluate.scores(given, given),
            lambda given=given: ft.data.write_volume(tmp_path / "v.h5", {"a": given}),
        ):
            with pytest.raises(errors.InvalidArgumentError, match="expected an array") as raised:
                call()
            assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


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
        dtype = "odd"

        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("it is on a GPU\nof another machine")

    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"allreduce: got Elsewhere of odd, expected .*: it is on a GPU$",
    ):
        ft.allreduce(Elsewhere(np.ones(1)))
    turned = Tensor(np.ones((2, 3)).T)
    with pytest.raises(errors.InvalidArgumentError, match="not C-contiguous"):
        ft.allreduce_(turned)
