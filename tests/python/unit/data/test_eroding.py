# SPDX-License-Identifier: Apache-2.0
"""Labels with a boundary between objects that touch, against SciPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from floodtide import cli, data
from floodtide.data.eroding import Eroded
from floodtide.errors import InvalidArgumentError

FACES = ndimage.generate_binary_structure(3, 1)


def twin(labels: np.ndarray, steps: int) -> np.ndarray:
    beside = np.zeros(labels.shape, bool)
    for offset in np.argwhere(FACES) - 1:
        moved = ndimage.shift(labels.astype(np.float64), offset, order=0, cval=0)
        beside |= (moved > 0) & (labels > 0) & (moved != labels)
    near = ndimage.binary_dilation(beside, FACES, steps - 1) if steps > 1 else beside
    return np.where(near, 0, labels)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    steps=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_erosion_is_that_of_scipy_and_does_not_depend_on_blocks(
    shape: tuple[int, int, int], steps: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 4, [-(-n // 3) for n in shape]).astype(np.uint32)
    labels = coarse.repeat(3, 0).repeat(3, 1).repeat(3, 2)[tuple(map(slice, shape))]
    expected = twin(labels, steps)
    eroded = data.Volume(Eroded(data.Volume(labels.copy()), steps))
    np.testing.assert_array_equal(eroded.read(((0, 0, 0), shape)), expected)
    start = tuple(int(random.integers(0, n)) for n in shape)
    size = tuple(int(random.integers(1, n - a + 1)) for n, a in zip(shape, start, strict=True))
    where = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
    np.testing.assert_array_equal(eroded.read((start, size)), expected[where])


def test_objects_with_a_boundary_stay_as_they_are() -> None:
    labels = np.ones((6, 6, 6), np.uint16)
    labels[3] = 0
    labels[4:] = 2
    np.testing.assert_array_equal(Eroded(data.Volume(labels), 2)[0:6, 0:6, 0:6], labels)


def test_convert_erodes_before_it_resamples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = np.ones((8, 8, 8), np.uint32)
    labels[4:] = 2
    data.write_volume(tmp_path / "l.h5", {"l": labels})
    words = ["convert", f"{tmp_path}/l.h5:l", f"{tmp_path}/e.h5:l", "--erode", "1"]
    size = ["--voxel-nm", "10,10,10", "--resample-nm", "20,20,20"]
    assert cli.run([*words, "--labels", *size]) == 0
    found = data.Volume(f"{tmp_path}/e.h5:l").read(((0, 0, 0), (4, 4, 4)))
    assert found[:, 0, 0].tolist() == [1, 0, 0, 2]  # of two labels, the smaller one
    assert cli.run(words) == 2
    assert "erode is 1, expected it only for labels" in capsys.readouterr().err
    with pytest.raises(InvalidArgumentError, match="erode is -1"):
        data.convert(f"{tmp_path}/l.h5:l", f"{tmp_path}/f.h5:l", labels=True, erode=-1)
