# SPDX-License-Identifier: Apache-2.0
"""Augmentation of the examples of flood filling, on images and labels whose deformed values are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from floodtide import data

SHAPE = (40, 44, 48)
PATCH = (13, 13, 13)
COUNT = 30
STILL: dict[str, Any] = {"permutable_axes": (), "reflectable_axes": ()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ramp along each axis, and two objects that meet at y = 21.5 beside a background of x below 8."""
    path = tmp_path_factory.mktemp("shards")
    grid = np.indices(SHAPE).astype(np.float32)
    labels = np.where(grid[1] > 21, 2, 1)
    labels[..., :8] = 0
    arrays = dict(zip(("z", "y", "x"), grid, strict=True))
    data.write_volume(path / "v.h5", {**arrays, "labels": labels.astype(np.uint32)})
    data.partition(f"{path}/v.h5:labels", f"{path}/p.h5:af", lom_radius=(6, 6, 6), min_size=10)
    return path


def shards(folder: Path, image: str = "y", box: str = "", **keys: Any) -> data.Shards:
    volume = data.TrainingVolume(
        f"{folder}/v.h5:{image}",
        f"{folder}/v.h5:labels",
        f"{folder}/p.h5:af",
        box=box,
        mean=0.0,
        std=1.0,
    )
    changed = data.Augmentation(**(STILL | keys))
    return data.Shards(volume, augmentation=changed, patch_size=PATCH, seed=5)


TURNED: list[dict[str, Any]] = [
    {"rotation_deg": 180.0},
    {"rotation_deg": 180.0, "rotate_in_space": True, "scale": 0.3},
    {"elastic": 1.5, "rotate_in_space": True},
    {"elastic": 1.5, "permutable_axes": (0, 1, 2), "reflectable_axes": (0, 1, 2)},
]


@pytest.mark.parametrize("keys", TURNED)
def test_image_and_labels_move_together_about_the_centre(
    folder: Path, keys: dict[str, Any]
) -> None:
    places = [shards(folder, axis, **keys) for axis in "zyx"]
    plain = shards(folder)
    turned = 0
    for index in range(COUNT):
        z, y, x = (one.load(0, index)[0] for one in places)
        labels = places[1].load(0, index)[1]
        centre = plain.core.centre(0, 0, index)[1]
        middle = tuple(n // 2 for n in PATCH)
        np.testing.assert_allclose([z[middle], y[middle], x[middle]], centre, atol=1e-4)
        own = 0 if centre[2] < 8 else 1 + (centre[1] > 21)
        truth = np.where(x < 7.5, 0, np.where(y > 21.5, 2, 1))
        clear = (np.abs(x - 7.5) > 0.01) & (np.abs(y - 21.5) > 0.01)
        expected = np.where((truth == own) & (own > 0), 0.95, 0.05)
        np.testing.assert_allclose(labels[clear], expected[clear], atol=1e-6)
        turned += not np.allclose(labels, plain.load(0, index)[1])
    assert turned > COUNT / 3


def test_magnification_is_in_its_range_and_rotations_keep_lengths(folder: Path) -> None:
    sizes = []
    keys = {"rotation_deg": 180.0, "rotate_in_space": True, "scale": 0.3}
    places = [shards(folder, axis, **keys) for axis in "zyx"]
    for index in range(COUNT):
        patches = [one.load(0, index)[0][4:9, 4:9, 4:9] for one in places]
        jacobian = np.array([[np.diff(p, axis=a).mean() for a in range(3)] for p in patches])
        gram = jacobian @ jacobian.T
        size = np.cbrt(np.linalg.det(gram))
        np.testing.assert_allclose(gram, size * np.eye(3), atol=0.05)
        sizes.append(np.sqrt(size))
    assert 1 / 1.31 < min(sizes) < 0.95
    assert 1.05 < max(sizes) < 1.31


def test_nothing_outside_of_the_box_is_seen(folder: Path) -> None:
    keys = {"rotation_deg": 180.0, "rotate_in_space": True}
    box = "0:40,0:20,0:48"
    source = shards(folder, "y", box, **keys)
    seen = np.array([source.load(0, index)[0] for index in range(COUNT)])
    assert 18 < seen.max() < 19.001


def test_intensities_change_and_labels_do_not(folder: Path) -> None:
    plain = shards(folder)
    for keys in ({"gain": 0.3}, {"offset": 5.0}, {"noise": 2.0}, {"gamma": 0.5}, {"blur": 2.0}):
        changed = shards(folder, **keys)
        differs = 0
        for index in range(5):
            image, labels = changed.load(0, index)
            before, same = plain.load(0, index)
            np.testing.assert_array_equal(labels, same)
            differs += not np.allclose(image, before)
            if "gain" in keys:
                ratio = image[before != 0] / before[before != 0]
                np.testing.assert_allclose(ratio, ratio.mean(), rtol=1e-5)
                assert 0.7 <= ratio.mean() <= 1.3
            if "offset" in keys:
                assert np.ptp(image - before) < 1e-4
            if "noise" in keys:
                assert np.std(image - before) == pytest.approx(2.0, rel=0.1)
        assert differs == 5


def test_faint_objects_keep_their_labels_and_the_background(folder: Path) -> None:
    plain, faint = shards(folder), shards(folder, faint_object=1.0)
    two = 0
    for index in range(COUNT):
        before, image = plain.load(0, index)[0], faint.load(0, index)[0]
        np.testing.assert_array_equal(faint.load(0, index)[1], plain.load(0, index)[1])
        changed = ~np.isclose(image, before, atol=1e-4)
        centre = plain.core.centre(0, 0, index)[1]
        x = centre[2] + np.arange(13)[None, None] - 6 + np.zeros(PATCH)
        assert not changed[x < 8].any()
        y = before  # the image shows y
        if (y < 22).any() and (y > 21).any() and (x >= 8).all():  # the boundary lies at 21.5
            two += 1
            contrast = (image - 21.5) / (y - 21.5)
            for part in (contrast[y < 22], contrast[y > 21.9]):
                np.testing.assert_allclose(part, part[0], atol=1e-4)
                assert abs(part[0]) <= 0.5
    assert two > 3


def test_an_example_is_the_same_each_time_and_another_one_in_another_epoch(folder: Path) -> None:
    keys = {"rotation_deg": 90.0, "noise": 1.0}
    one = shards(folder, **keys)
    np.testing.assert_array_equal(one.load(0, 3)[0], shards(folder, **keys).load(0, 3)[0])
    assert not np.allclose(one.load(0, 3)[0], one.load(0, 3, epoch=1)[0])
