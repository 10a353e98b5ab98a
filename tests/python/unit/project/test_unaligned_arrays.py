# SPDX-License-Identifier: Apache-2.0
"""Arrays at addresses that C++ must not read: a public function copies them, or refuses them with one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flat_unet import flat_unet

import floodtide as ft
from floodtide import _core
from floodtide.agglomerate.resegmenting import decision_points
from floodtide.errors import InvalidArgumentError
from floodtide.nn import SegmentationLoss

Call = Callable[..., Any]


@pytest.fixture(autouse=True)
def _initialised() -> None:
    ft.init()


def odd(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values at an odd address, as np.frombuffer gives them after a header of 13 bytes."""
    buffer = bytearray(array.nbytes + 13)
    result = np.frombuffer(buffer, array.dtype, offset=13).reshape(array.shape)
    result[...] = array
    assert not result.flags.aligned
    return result


def outcome(call: Call, *arguments: Any) -> Any:
    """What a call returns, or the message with which it refuses its arguments."""
    try:
        return call(*arguments)
    except InvalidArgumentError as error:
        return str(error)


def require_right(found: Any, expected: Any) -> None:
    """The right values, or a refusal of one line."""
    if isinstance(found, str):
        assert "unaligned address; copy it" in found
        assert "\n" not in found
    else:
        np.testing.assert_array_equal(found, expected)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def labels(*shape: int, dtype: str = "int32") -> np.ndarray[Any, Any]:
    return (np.indices(shape).sum(0) % 3).astype(dtype)


def ffn() -> ft.nn.FFN:
    return ft.nn.FFN(depth=1, features=2, fov=(5, 5, 5), deltas=(1, 1, 1))


def in_place(function: Call) -> Call:
    """A call that changes its first argument, as one that returns it."""

    def called(first: Any, *others: Any) -> Any:
        function(first, *others)
        return first

    return called


def optimizer_step(parameters: Any, gradients: Any) -> Any:
    ft.optim.Adam(lr=0.1).step({"a": parameters}, {"a": gradients})
    return parameters


def loaded(array: Any) -> Any:
    network = ffn()
    state = network.state_dict()
    name = next(name for name, values in state.items() if values.shape == array.shape)
    network.load_state_dict({**state, name: array})
    return network.state_dict()[name]


def segmented(image: Any) -> Any:
    options = ft.segment.SegmentOptions(mean=0.0, std=1.0)
    return ft.segment.Segmenter(ffn(), options).segment(image, seeds=[(6, 6, 6)]).segmentation


def written(array: Any, folder: Path) -> Any:
    ft.data.write_volume(folder / "a.h5", {"a": array})
    return ft.data.Volume(f"{folder}/a.h5:a").read()


def trained(image: Any, truth: Any) -> Any:
    return flat_unet().loss_and_gradients(image, truth)[0]


def table_of(a: Any, b: Any) -> Any:
    table = ft.evaluate.ContingencyTable()
    table.add(a, b)
    return table.rows()


CALLS: dict[str, tuple[Call, list[np.ndarray[Any, Any]]]] = {
    "FFN.forward": (lambda a, b: ffn().forward(a, b), [floats(5, 5, 5), floats(5, 5, 5)]),
    "FFN.loss_and_gradients": (
        lambda *a: ffn().loss_and_gradients(*a)[0],
        [floats(5, 5, 5), floats(5, 5, 5), floats(5, 5, 5)],
    ),
    "FFN.load_state_dict": (loaded, [floats(3, 3, 3, 2, 2)]),
    "UNet.forward": (lambda a: flat_unet().forward(a), [floats(2, 1, 8, 8)]),
    "UNet.loss_and_gradients": (
        trained,
        [floats(2, 1, 8, 8), labels(2, 1, 8, 8, dtype="uint8") % 2],
    ),
    "segmentation_loss": (
        lambda a, b: _core.segmentation_loss(
            SegmentationLoss().core(), "softmax", a, b, None, None, None
        )[0]["loss"],
        [floats(1, 2, 8, 8, 3), labels(1, 2, 8, 8, dtype="uint8")],
    ),
    "Optimizer.step": (optimizer_step, [floats(7), floats(7)]),
    **{
        name: (call, [floats(9)])
        for name, call in {
            "allreduce": lambda a: ft.allreduce(a),
            "allreduce_": in_place(lambda a: ft.allreduce_(a)),
            "grouped_allreduce": lambda a: ft.grouped_allreduce([a])[0],
            "reduce_scatter": lambda a: ft.reduce_scatter(a),
            "broadcast": lambda a: ft.broadcast(a),
            "broadcast_": in_place(lambda a: ft.broadcast_(a)),
            "broadcast_parameters": in_place(lambda a: ft.broadcast_parameters({"a": a})),
            "allgather": lambda a: ft.allgather(a),
            "alltoall": lambda a: ft.alltoall(a),
        }.items()
    },
    "evaluate.scores": (
        lambda a, b: ft.evaluate.scores(a, b)["cremi"],
        [labels(6, 6, 6), labels(6, 6, 6, dtype="int64")],
    ),
    "ContingencyTable.add": (table_of, [labels(6, 6, 6), labels(6, 6, 6, dtype="uint16")]),
    "Segmenter.segment": (segmented, [floats(12, 12, 12)]),
    "decision_points": (
        lambda a: len(decision_points(a, max_distance=2.0)),
        [labels(9, 9, 9, dtype="uint64")],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_unaligned_array_is_copied_or_refused(name: str) -> None:
    call, arrays = CALLS[name]
    expected = call(*(array.copy() for array in arrays))
    for place, array in enumerate(arrays):
        given = [one.copy() for one in arrays]
        if array.dtype.itemsize == 1:
            continue
        given[place] = odd(array)
        require_right(outcome(call, *given), expected)


def test_an_unaligned_volume_is_written_or_refused(tmp_path: Path) -> None:
    array = labels(6, 6, 6)
    require_right(outcome(written, odd(array), tmp_path), array)


def test_label_sizes_of_another_shape_are_refused(tmp_path: Path) -> None:
    from floodtide import _core

    ft.data.write_volume(tmp_path / "a.h5", {"a": labels(6, 6, 6)})
    job = _core.data.PartitionJob(f"{tmp_path}/a.h5:a", [0.5], (1, 1, 1), 1, None)
    with pytest.raises(ft.errors.ShapeError, match="label sizes: 1 rows, expected 2"):
        job.keep_large([np.zeros((1, 5), np.int64)])
