# SPDX-License-Identifier: Apache-2.0
"""Labels with a boundary between objects that touch."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import cli, data
from floodtide.data.copies import eroded
from floodtide.data.resampling import Resampled
from floodtide.errors import InvalidArgumentError


def twin(labels: np.ndarray, steps: tuple[int, int, int]) -> np.ndarray:
    near = np.zeros(labels.shape, bool)
    for axis, count in enumerate(steps):
        line = np.moveaxis(labels, axis, 0)
        for i in range(len(line) - 1):
            face = (line[i] > 0) & (line[i + 1] > 0) & (line[i] != line[i + 1])
            np.moveaxis(near, axis, 0)[max(0, i - count + 1) : i + count + 1] |= face & (count > 0)
    return np.where(near, 0, labels)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    steps=st.tuples(*[st.integers(0, 3)] * 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_erosion_is_that_of_a_slow_twin_and_does_not_depend_on_blocks(
    shape: tuple[int, int, int], steps: tuple[int, int, int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 4, [-(-n // 3) for n in shape]).astype(np.uint32)
    labels = coarse.repeat(3, 0).repeat(3, 1).repeat(3, 2)[tuple(map(slice, shape))]
    expected = twin(labels, steps)
    found = eroded(data.Volume(labels.copy()), steps)
    np.testing.assert_array_equal(found.read(((0, 0, 0), shape)), expected)
    start = tuple(int(random.integers(0, n)) for n in shape)
    size = tuple(int(random.integers(1, n - a + 1)) for n, a in zip(shape, start, strict=True))
    where = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
    np.testing.assert_array_equal(found.read((start, size)), expected[where])


def test_voxels_without_a_label_are_no_object() -> None:
    labels = np.full((2, 2, 8), 2**32 - 1, np.uint32)
    labels[..., :3], labels[..., 6:] = 1, 2
    found = eroded(data.Volume(labels), (1, 1, 1)).read()
    assert np.isin(found[..., :3], 1).all()
    assert np.isin(found[..., 6:], 2).all()


@pytest.mark.parametrize("ratio", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("phase", range(8))
def test_half_of_a_coarse_voxel_keeps_a_boundary_at_every_place(ratio: int, phase: int) -> None:
    """What `floodtide init` erodes before it resamples."""
    labels = np.ones((2, 2, 48), np.uint32)
    labels[..., 24 + phase :] = 2
    fine = eroded(data.Volume(labels), (0, 0, math.ceil(ratio / 2)))
    coarse = Resampled(fine, (8, 8, 8), (8, 8, 8 * ratio), labels=True)
    line = coarse.read(((0, 0, 0), coarse.shape))[0, 0].tolist()
    changes = [pair for pair in itertools.pairwise(line) if pair in ((1, 2), (2, 1))]
    assert not changes
    assert {1, 2} <= set(line)


def test_objects_with_a_boundary_stay_as_they_are() -> None:
    labels = np.ones((6, 6, 6), np.uint16)
    labels[3] = 0
    labels[4:] = 2
    np.testing.assert_array_equal(eroded(data.Volume(labels), (2, 2, 2)).read(), labels)


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
    with pytest.raises(InvalidArgumentError, match=r"erode\.0 is -1"):
        data.convert(f"{tmp_path}/l.h5:l", f"{tmp_path}/f.h5:l", labels=True, erode=-1)
