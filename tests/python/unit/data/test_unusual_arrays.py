# SPDX-License-Identifier: Apache-2.0
"""Arrays that NumPy has and a kernel cannot read: refused in one line, or read by their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flat_unet import flat_unet

from floodtide import allreduce, data, evaluate
from floodtide.errors import Error, InvalidArgumentError
from floodtide.segment import Predictor

LABELS = np.array([[[1, 1, 2, 2]]], np.uint32)
MASKED = np.ma.masked_where(LABELS == 2, LABELS)
NETWORK = flat_unet(1)


def predicted(image: Any) -> np.ndarray[Any, Any]:
    return Predictor(NETWORK, mean=0.0, std=1.0).probabilities(image)


@pytest.mark.parametrize(
    "call",
    [
        lambda array, _: evaluate.scores(LABELS, array),
        lambda array, _: allreduce(array.astype(np.float32)),
        lambda array, _: NETWORK.forward(array.astype(np.float32)[..., None]),
        lambda array, _: predicted(array.astype(np.uint8)),
        lambda array, folder: data.write_volume(folder / "v.h5", {"d": array}),
    ],
)
def test_masked_arrays_are_refused(call: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    """What is behind a mask must not be scored, learnt or written."""
    with pytest.raises(InvalidArgumentError, match="it is a masked array: fill it first"):
        call(MASKED, tmp_path)
    assert not any(tmp_path.iterdir())


def test_values_of_another_byte_order_count(tmp_path: Path) -> None:
    swapped = LABELS.astype(LABELS.dtype.newbyteorder())
    assert evaluate.scores(swapped, LABELS)["adapted_rand_error"] == 0
    data.write_volume(tmp_path / "v.h5", {"d": swapped})
    assert (data.Volume(f"{tmp_path}/v.h5:d").read() == LABELS).all()
    np.testing.assert_array_equal(predicted(swapped.astype(">u2")), predicted(LABELS.astype("<u2")))


@pytest.mark.parametrize("kind", ["c8", "U3", "O"])
def test_a_prediction_refuses_what_is_no_number(kind: str) -> None:
    with pytest.raises(Error, match="expected"):
        predicted(LABELS.astype(kind))


def test_an_array_without_a_name_is_refused(tmp_path: Path) -> None:
    given: Any = LABELS
    with pytest.raises(
        InvalidArgumentError, match=r"arrays is ndarray, expected \{dataset: array\}"
    ):
        data.write_volume(tmp_path / "v.h5", given)
