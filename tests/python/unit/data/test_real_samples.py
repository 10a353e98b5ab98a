# SPDX-License-Identifier: Apache-2.0
"""Patches of real data: livers in CT, and affinities of FIB-25."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from floodtide.base.tasks import Affinities, Classes
from floodtide.data import (
    Augmentation,
    DataOptions,
    Patches,
    Split,
    TrainingVolume,
)

Array = np.ndarray[Any, Any]

WHOLE = DataOptions(patch="whole")
PLAIN = Augmentation(permutable_axes=(), reflectable_axes=())


def liver_volume(liver: Path, name: str) -> TrainingVolume:
    path = liver / f"liver_{name}.h5"
    names = (f"{path}:image", f"{path}:mask")
    return TrainingVolume(*names, groups=f"{path}:patient", mean=23.57, std=49.01)


@pytest.mark.data
def test_liver_sections(data_folder: Path) -> None:
    liver = data_folder / "msd_liver_ct"
    options = DataOptions(patch="whole", size=(240, 240))
    task = Classes(classes={0: "background", 1: "liver"})
    training = Patches(liver_volume(liver, "train"), options, task=task, walkers=4, batch=8)
    validation = Patches(liver_volume(liver, "validation"), options, task=task)
    assert (len(training), len(training.groups)) == (430, 82)
    assert (len(validation), len(validation.groups)) == (97, 20)
    assert not set(training.groups) & set(validation.groups)
    with h5py.File(liver / "liver_train.h5") as file:
        raw, mask = file["image"][17, 8:248, 8:248], file["mask"][17, 8:248, 8:248]
        patient = file["patient"][17]
    (number,) = (i for i in range(430) if training.core.fixed_place(i).box[0][0] == 17)
    group, image, classes = training.core.fixed(number)
    assert training.groups[group] == str(patient)
    np.testing.assert_allclose(image[0, ..., 0], (raw - 23.57) / 49.01, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(classes[0], mask)
    # Parts of these patients: the poster's 10 % for validation.
    parts = [
        Patches(liver_volume(liver, "train"), options, task=task, split=Split(part, 0.1))
        for part in ("training", "validation")
    ]
    assert [len(part.groups) for part in parts] == [74, 8]
    assert sum(len(part) for part in parts) == 430


@pytest.mark.data
def test_augmented_liver_keeps_mask_and_image_together(data_folder: Path) -> None:
    """The liver's mean intensity, 97 HU as stored, survives turning, scaling and reflecting."""
    path = data_folder / "msd_liver_ct/liver_train.h5"
    patches = Patches(
        TrainingVolume(f"{path}:image", f"{path}:mask", mean=0.0, std=1.0),
        DataOptions(patch="whole", size=(240, 240)),
        Augmentation(rotation_deg=30, scale=0.2, reflectable_axes=(1,), permutable_axes=()),
        task=Classes(),
    )
    pairs = [patches.load(0, index) for index in range(60)]
    image, mask = np.stack([p[0][..., 0] for p in pairs]), np.stack([p[1] for p in pairs])
    inside = image[mask == 1].mean()
    assert abs(inside - 97) < 5
    shifted = image[np.roll(mask, 30, axis=3) == 1].mean()
    assert shifted < inside - 10


@pytest.mark.data
def test_affinities_of_fib25(data_folder: Path) -> None:
    sample = data_folder / "fib25/training_sample2"
    patches = Patches(
        TrainingVolume(
            f"{sample}/grayscale_maps.h5:raw",
            f"{sample}/groundtruth.h5:stack",
            box="190:250,0:250,0:250",
        ),
        DataOptions(patch=(20, 125, 125)),
        task=Affinities(),
    )
    kept = ones = 0.0
    for number in range(patches.fixed_size):
        _, targets, weights = patches.fixed(number)
        assert targets.shape == (20, 125, 125, 3)
        kept += (weights > 0).sum()
        ones += targets[weights > 0].sum()
    # Dense labels: nearly all pairs are counted, and most voxels continue their neighbour's body.
    assert kept / (60 * 250 * 250 * 3) > 0.98
    assert 0.9 < ones / kept < 0.99
