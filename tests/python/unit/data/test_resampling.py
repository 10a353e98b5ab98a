# SPDX-License-Identifier: Apache-2.0
"""Volumes at another voxel size, against slow twins that go through every voxel."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import cli, data
from floodtide.data.resampling import Resampled, labels_at
from floodtide.errors import InvalidArgumentError

sizes = st.tuples(*[st.integers(1, 9)] * 3)
voxels = st.tuples(*[st.sampled_from([3.0, 4.0, 5.0, 8.0, 10.0, 21.0])] * 3)


def volume(shape: tuple[int, ...], seed: int, most: int = 255) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, most, shape).astype(np.uint8)


def mean_twin(line: np.ndarray[Any, Any], ratio: float, count: int) -> list[float]:
    """One axis of an image, voxel by voxel."""
    found = []
    for i in range(count):
        if ratio >= 1:
            parts = [
                (max(0.0, min((i + 1) * ratio, j + 1) - max(i * ratio, j)), float(value))
                for j, value in enumerate(line)
            ]
            total = sum(weight for weight, _ in parts)
            found.append(sum(w * v for w, v in parts) / total)
        else:
            at = min(max((i + 0.5) * ratio - 0.5, 0.0), len(line) - 1.0)
            low = min(math.floor(at), len(line) - 1)
            high = min(low + 1, len(line) - 1)
            found.append(float(line[low]) * (1 - (at - low)) + float(line[high]) * (at - low))
    return found


def test_long_lines_need_little_memory() -> None:
    line = np.arange(1 << 18, dtype=np.float64)
    found = Resampled(data.Volume(line[None, :, None]), (8, 8, 8), (8, 12, 8))
    values = found.read(((0, 0, 0), found.shape)).ravel()
    starts = np.arange(len(values) - 1) * 1.5
    np.testing.assert_allclose(values[:-1], starts + np.where(starts % 1 == 0, 1 / 3, 2 / 3 - 0.5))


@given(
    n=st.integers(1, 40),
    old=st.sampled_from([3.0, 4.0, 10.0]),
    new=st.sampled_from([3.0, 5.0, 10.0, 17.0]),
)
@settings(max_examples=60, deadline=None)
def test_images_are_means_or_interpolated(n: int, old: float, new: float) -> None:
    line = np.random.default_rng(n).normal(100, 30, n).astype(np.float32)
    source = data.Volume(np.ascontiguousarray(line[:, None, None]))
    found = Resampled(source, (old, 1, 1), (new, 1, 1))
    inside = [
        i for i in range(found.shape[0]) if i * new / old < n
    ]  # the rest reaches over the end
    values = found.read(((0, 0, 0), found.shape))[:, 0, 0]
    np.testing.assert_allclose(
        values[: len(inside)], mean_twin(line, new / old, len(inside)), rtol=2e-5, atol=1e-3
    )


def axis_twin(ratio: Fraction, count: int, whole: int) -> list[dict[int, Fraction]]:
    """Weights of the old voxels of each new voxel along an axis."""
    found: list[dict[int, Fraction]] = []
    for i in range(count):
        if ratio >= 1:
            shares = {
                j: min((i + 1) * ratio, j + 1) - max(i * ratio, Fraction(j)) for j in range(whole)
            }
            kept = {j: share for j, share in shares.items() if share > 0}
        else:
            at = (i + Fraction(1, 2)) * ratio - Fraction(1, 2)
            at = min(max(at, Fraction(0)), Fraction(whole - 1))
            kept = {j: 1 - abs(at - j) for j in range(whole) if abs(at - j) < 1}
        found.append(kept or {whole - 1: Fraction(1)})  # over the end, by rounding of the shape
    total = [sum(one.values()) for one in found]
    return [{j: w / n for j, w in one.items()} for one, n in zip(found, total, strict=True)]


def election_twin(
    labels: np.ndarray[Any, Any], ratio: list[Fraction], shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    result = np.zeros(shape, labels.dtype)
    axes = [axis_twin(*axis) for axis in zip(ratio, shape, labels.shape, strict=True)]
    for at in np.ndindex(*shape):
        votes: dict[int, Fraction] = defaultdict(Fraction)
        for old in itertools.product(*(axis[i] for axis, i in zip(axes, at, strict=True))):
            weights = (axis[i][j] for axis, i, j in zip(axes, at, old, strict=True))
            votes[int(labels[old])] += math.prod(weights)
        most = max(votes.values())
        result[at] = min(label for label, share in votes.items() if share == most)
    return result


@given(shape=sizes, old=voxels, new=voxels, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_labels_have_the_largest_weight(
    shape: tuple[int, int, int],
    old: tuple[float, float, float],
    new: tuple[float, float, float],
    seed: int,
) -> None:
    labels = volume(shape, seed, 4)
    found = Resampled(data.Volume(labels), old, new, labels=True)
    if math.prod(found.shape) > 1500:
        return
    whole = found.read(((0, 0, 0), found.shape))
    ratio = [Fraction(b) / Fraction(a) for a, b in zip(old, new, strict=True)]
    np.testing.assert_array_equal(whole, election_twin(labels, ratio, found.shape))
    # The way back reads the part of the new grid that covers a box.
    start, size = found.box_of(((0, 0, 0), shape))
    part = whole[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))]
    back = labels_at(part, start, found.ratio, ((0, 0, 0), shape))
    np.testing.assert_array_equal(back, election_twin(part, [1 / r for r in ratio], shape))


def test_parts_that_are_looked_at_together_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = volume((7, 8, 9), 1, 5)
    found = Resampled(data.Volume(labels), (4.0,) * 3, (3.0,) * 3, labels=True)
    whole = found.read(((0, 0, 0), found.shape))
    for at_once in (1, 8 * 12 * 4, 8 * 12 * 11 * 3):
        monkeypatch.setattr("floodtide.data.resampling._AT_ONCE", at_once)
        np.testing.assert_array_equal(found.read(((0, 0, 0), found.shape)), whole)


def test_a_curved_surface_is_smooth_at_finer_voxels() -> None:
    """A ball at half the voxel size has fewer wrong voxels than copies of its large voxels."""
    truth = sum((axis - 15.5) ** 2 for axis in np.indices((32, 32, 32))) < 11.0**2
    coarse = Resampled(data.Volume(truth.astype(np.uint8)), (4.0,) * 3, (8.0,) * 3, labels=True)
    labels = coarse.read(((0, 0, 0), coarse.shape))
    smooth = labels_at(labels, (0, 0, 0), coarse.ratio, ((0, 0, 0), truth.shape))
    copied = labels.repeat(2, 0).repeat(2, 1).repeat(2, 2)
    assert np.count_nonzero(smooth != truth) < 0.9 * np.count_nonzero(copied != truth)


def test_a_box_inside_is_read_without_what_is_around() -> None:
    """At the faces of a part, its own voxels continue."""
    labels = volume((6, 6, 6), 3, 9)
    found = labels_at(labels[2:4, 2:4, 2:4], (2, 2, 2), (2.0,) * 3, ((4, 4, 4), (4, 4, 4)))
    assert found.shape == (4, 4, 4)
    assert set(np.unique(found)) <= set(np.unique(labels[2:4, 2:4, 2:4]))
    corner = labels_at(labels[2:4, 2:4, 2:4], (2, 2, 2), (2.0,) * 3, ((4, 4, 4), (1, 1, 1)))
    assert corner[0, 0, 0] == labels[2, 2, 2]


@given(shape=sizes, old=voxels, new=voxels, seed=st.integers(0, 99), labels=st.booleans())
@settings(max_examples=40, deadline=None)
def test_boxes_are_parts_of_the_whole(
    shape: tuple[int, int, int],
    old: tuple[float, float, float],
    new: tuple[float, float, float],
    seed: int,
    labels: bool,
) -> None:
    found = Resampled(data.Volume(volume(shape, seed)), old, new, labels=labels)
    whole = found.read(((0, 0, 0), found.shape))
    rng = np.random.default_rng(seed)
    start = [int(rng.integers(0, n)) for n in found.shape]
    size = [int(rng.integers(1, n - a + 1)) for n, a in zip(found.shape, start, strict=True)]
    part = whole[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))]
    box = ((start[0], start[1], start[2]), (size[0], size[1], size[2]))
    difference = found.read(box).astype(int) - part.astype(int)
    assert np.abs(difference).max() <= (0 if labels else 1)  # rounding of sums


@given(shape=sizes, factor=st.integers(1, 4), seed=st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_there_and_back(shape: tuple[int, int, int], factor: int, seed: int) -> None:
    """Labels of at least two voxels along each axis come back from finer voxels as they were."""
    labels = volume(shape, seed, 9).repeat(2, 0).repeat(2, 1).repeat(2, 2)
    shape = labels.shape
    fine = Resampled(data.Volume(labels), (8.0,) * 3, (8.0 / factor,) * 3, labels=True)
    whole = fine.read(((0, 0, 0), fine.shape))
    back = labels_at(whole, (0, 0, 0), fine.ratio, ((0, 0, 0), shape))
    np.testing.assert_array_equal(back, labels)
    box = fine.box_of(((0, 0, 0), shape))
    assert box == ((0, 0, 0), fine.shape)


def test_the_same_size_changes_nothing() -> None:
    image = volume((5, 6, 7), 0)
    for labels in (False, True):
        same = Resampled(data.Volume(image), (4.0,) * 3, (4.0,) * 3, labels=labels)
        np.testing.assert_array_equal(same.read(((0, 0, 0), same.shape)), image)


def test_wrong_sizes_are_refused(tmp_path: Path) -> None:
    image = data.Volume(volume((5, 6, 7), 0))
    with pytest.raises(InvalidArgumentError, match="at most a factor of 64"):
        Resampled(image, (1.0,) * 3, (100.0,) * 3)
    with pytest.raises(InvalidArgumentError, match="voxel_size_nm"):
        Resampled(image, (0.0,) * 3, (1.0,) * 3)
    floats = data.Volume(np.zeros((2, 2, 2), np.float32))
    sizes_nm = {"voxel_size_nm": (4.0,) * 3, "resample_nm": (8.0,) * 3}
    with pytest.raises(InvalidArgumentError, match="expected integers for labels"):
        data.convert(floats, f"{tmp_path}/a.h5:a", labels=True, **sizes_nm)
    with pytest.raises(InvalidArgumentError, match="expected integers for labels"):
        data.convert(floats, f"{tmp_path}/a.h5:a", labels=True)


def test_convert_resamples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = volume((8, 8, 8), 0)
    data.write_volume(tmp_path / "a.h5", {"raw": image})
    source, out = f"{tmp_path}/a.h5:raw", f"{tmp_path}/b.h5:raw"
    line = ["convert", source, out, "--resample-nm", "8,8,8"]
    assert cli.run(line) == 2
    assert "states no voxel size" in capsys.readouterr().err
    assert cli.run([*line, "--voxel-nm", "4,4,4"]) == 0
    found = data.Volume(out)
    means = image.reshape(4, 2, 4, 2, 4, 2).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(found.read(), means, atol=0.501)
    assert found.geometry.voxel_size_nm == (8.0, 8.0, 8.0)


def test_a_part_of_a_volume_stays_at_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "part.h5", "w") as file:
        file["v"] = np.ones((4, 6, 8), np.uint8)
        file["v"].attrs["box_start"] = [7, 0, 3]
    for new, expected in ((10.0, (14, 0, 6)), (40.0, (4, 0, 2))):
        made = data.convert(
            f"{tmp_path}/part.h5:v",
            f"{tmp_path}/{new:g}.h5:v",
            voxel_size_nm=(20.0,) * 3,
            resample_nm=(new,) * 3,
        )
        assert made.geometry.offset == expected
        noted = "puts the first voxel at 3.5, 0, 1.5" in capsys.readouterr().err
        assert noted == (new == 40.0)
