# SPDX-License-Identifier: Apache-2.0
"""Slices and affinity patches as Python sees them: who gets what when, and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import _core, data, errors

Array = np.ndarray[Any, Any]


def write(path: Path, **arrays: Array) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    return path


def numbered_slices(path: Path, patients: Array) -> Path:
    """Slice i has intensity i everywhere and a mask of class 1."""
    images = np.broadcast_to(np.arange(len(patients))[:, None, None], (len(patients), 2, 3))
    return write(path, image=images.astype(np.uint16), mask=np.ones_like(images), patient=patients)


def stack(path: Path) -> data.Stack:
    return data.Stack(f"{path}:image", f"{path}:mask", f"{path}:patient")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("samples")


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 40),
    walkers=st.integers(1, 6),
    batch=st.integers(1, 5),
    seed=st.integers(0, 2**64 - 1),
    epochs=st.integers(1, 4),
)
def test_shards_are_disjoint_complete_and_full(
    folder: Path, n: int, walkers: int, batch: int, seed: int, epochs: int
) -> None:
    path = folder / f"{n}.h5"
    if not path.exists():
        numbered_slices(path, np.arange(n))
    if walkers * batch > n:
        with pytest.raises(errors.InvalidArgumentError, match=f"more than the {n} slices"):
            data.Slices(stack(path), walkers=walkers, batch=batch)
        return
    slices = data.Slices(stack(path), walkers=walkers, batch=batch, seed=seed)
    assert len(slices) == n
    shards = {
        (walker, epoch): [
            slices.core.number(walker, epoch, index)
            for index in range(slices.core.per_walker(walker, epoch))
        ]
        for walker in range(walkers)
        for epoch in range(epochs + 2)
    }
    for epoch in range(epochs):
        dealt = [number for walker in range(walkers) for number in shards[walker, epoch]]
        assert sorted(dealt) == list(range(n))  # nothing twice, nothing left out, nothing padded
    # A walker's steps follow one another in its shards: every step has its `batch` slices.
    for walker in range(walkers):
        row = [(e, i) for e in range(epochs + 2) for i in range(len(shards[walker, e]))]
        for step in range(epochs * n // (walkers * batch)):
            assert slices.core.at_step(walker, step) == row[step * batch]
    image, _ = slices.load(0, 0)
    assert (image == slices.core.number(0, 0, 0)).all()


@settings(max_examples=40, deadline=None)
@given(
    patients=st.lists(st.integers(-3, 12), min_size=2, max_size=30),
    share=st.floats(0.01, 0.99),
    split_seed=st.integers(0, 2**64 - 1),
)
def test_no_patient_is_in_both_parts(
    folder: Path, patients: list[int], share: float, split_seed: int
) -> None:
    path = numbered_slices(folder / "split.h5", np.array(patients))
    held_out = int(share * len(set(patients)) + 0.5)
    if held_out in (0, len(set(patients))):
        empty = "validation" if held_out == 0 else "training"
        with pytest.raises(errors.InvalidArgumentError, match=f"leaves none for {empty}"):
            data.Slices(stack(path), split=data.Split(empty, share, split_seed))
        return
    training, validation = (
        data.Slices(stack(path), split=data.Split(part, share, split_seed))
        for part in ("training", "validation")
    )
    assert len(validation.patients) == held_out
    assert not set(training.patients) & set(validation.patients)
    assert {*training.patients, *validation.patients} == {str(number) for number in patients}
    places = [part.core.place(i)[1] for part in (training, validation) for i in range(len(part))]
    assert sorted(places) == list(range(len(patients)))
    for part in (training, validation):
        for i in range(len(part)):
            patient, image, _ = part.fixed(i)
            assert patient == str(patients[part.core.place(i)[1]])
            assert image[0, 0] == part.core.place(i)[1]


def test_slices_refuse_lists_that_do_not_match(tmp_path: Path) -> None:
    three = stack(numbered_slices(tmp_path / "a.h5", np.arange(3)))
    with pytest.raises(errors.InvalidArgumentError, match="part is 'test'"):
        data.Slices(three, split=data.Split("test"))
    four = stack(numbered_slices(tmp_path / "b.h5", np.arange(4)))
    with pytest.raises(errors.ShapeError, match="3 slices"):
        data.Slices(data.Stack(three.images, three.masks, four.patients))


def test_patients_in_both_files_are_refused(tmp_path: Path) -> None:
    training = data.Slices(stack(numbered_slices(tmp_path / "a.h5", np.array([1, 2, 2]))))
    validation = data.Slices(stack(numbered_slices(tmp_path / "b.h5", np.array([3, 2]))))
    with pytest.raises(errors.InvalidArgumentError, match="patient 2 has slices in the training"):
        _core.data.require_different_patients(training.core, validation.core)


def test_a_mask_with_an_unexpected_class_is_named(tmp_path: Path) -> None:
    path = numbered_slices(tmp_path / "a.h5", np.array([4, 4, 5]))
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["mask"][2, 1, 0] = 7
    slices = data.Slices(stack(path))
    with pytest.raises(errors.InvalidFileError, match=r"a\.h5:mask: slice 2 has class 7 at 1, 0"):
        slices.core.check_masks(0, slices.fixed_size, None)
    for part in ("training", "validation"):  # one of them has patient 4 alone
        slices = data.Slices(stack(path), split=data.Split(part, 0.5))
        if slices.patients == ["4"]:
            slices.core.check_masks(0, slices.fixed_size, None)
            break
    else:
        pytest.fail("patient 4 is in neither part")


@pytest.mark.data
def test_liver_slices(data_folder: Path) -> None:
    liver = data_folder / "msd_liver_ct"
    options = data.DataOptions(size=(240, 240), mean=23.57, std=49.01)
    training = data.Slices(stack(liver / "liver_train.h5"), options, walkers=4, batch=8)
    validation = data.Slices(stack(liver / "liver_validation.h5"), options)
    assert (len(training), len(training.patients)) == (430, 82)
    assert (len(validation), len(validation.patients)) == (97, 20)
    _core.data.require_different_patients(training.core, validation.core)
    with h5py.File(liver / "liver_train.h5") as file:
        raw, mask = file["image"][17, 8:248, 8:248], file["mask"][17, 8:248, 8:248]
        patient = file["patient"][17]
    name, image, classes = training.fixed(17)
    assert name == str(patient)
    mean, scale = np.float32(23.57), np.float32(1 / 49.01)
    np.testing.assert_array_equal(image, (raw.astype(np.float32) - mean) * scale)
    np.testing.assert_array_equal(classes, mask)
    # Parts of these patients: the poster's 10 % for validation.
    parts = [
        data.Slices(stack(liver / "liver_train.h5"), options, split=data.Split(part, 0.1))
        for part in ("training", "validation")
    ]
    assert [len(part.patients) for part in parts] == [74, 8]
    assert sum(len(part) for part in parts) == 430


@pytest.mark.data
def test_augmented_liver_keeps_mask_and_image_together(data_folder: Path) -> None:
    """The liver's mean intensity, 97 HU as stored, survives turning, scaling and flipping."""
    slices = data.Slices(
        stack(data_folder / "msd_liver_ct/liver_train.h5"),
        data.DataOptions(size=(240, 240)),
        data.Augmentation(rotation_deg=30, scale=0.2, flip_y=True),
    )
    pairs = [slices.load(0, index) for index in range(60)]
    image, mask = np.stack([p[0] for p in pairs]), np.stack([p[1] for p in pairs])
    inside = image[mask == 1].mean()
    assert abs(inside - 97) < 5
    shifted = image[np.roll(mask, 30, axis=2) == 1].mean()
    assert shifted < inside - 10


def reference_affinities(labels: Array, zero_is_boundary: bool) -> tuple[Array, Array]:
    targets, weights = np.zeros((2, *labels.shape, 3), np.float32)
    for axis in range(3):
        own, before = (labels.take(range(s, labels.shape[axis] - 1 + s), axis) for s in (1, 0))
        inner = tuple(slice(1, None) if a == axis else slice(None) for a in range(3))
        targets[(*inner, axis)] = (own == before) & (own != 0)
        weights[(*inner, axis)] = zero_is_boundary | ((own != 0) & (before != 0))
    return targets, weights


@pytest.mark.parametrize("zero_is_boundary", [False, True])
def test_affinities_of_a_synthetic_volume(tmp_path: Path, zero_is_boundary: bool) -> None:
    image, labels = data.synth((24, 32, 40), seed=2)
    path = write(tmp_path / "a.h5", raw=image, labels=labels)
    patches = data.Affinities(
        data.TrainingVolume(
            f"{path}:raw", f"{path}:labels", box="2:22,0:32,0:40", mean=100, std=50
        ),
        data.DataOptions(
            patch=(8, 12, 12),
            zero_is_boundary=zero_is_boundary,
            permutable_axes=(),
            reflectable_axes=(),
        ),
        walkers=2,
        batch=3,
    )
    assert patches.fixed_size == len(patches) == 3 * 3 * 4
    counted = np.zeros((*labels.shape, 3), int)
    for number in range(patches.fixed_size):
        _, start, size = patches.core.fixed_place(number)
        box = tuple(slice(s, s + n) for s, n in zip(start, size, strict=True))
        patch, targets, weights = patches.fixed(number)
        np.testing.assert_array_equal(
            patch, (image[box].astype(np.float32) - 100) * np.float32(0.02)
        )
        expected, allowed = reference_affinities(labels[box], zero_is_boundary)
        np.testing.assert_array_equal(targets, expected)
        assert not weights[allowed == 0].any()
        counted[box] += weights == 1
    assert counted.max() == 1
    assert not counted[:2].any()
    _, start, size = patches.core.training_place(4, patches.core.number(1, 4, 2))
    box = tuple(slice(s, s + n) for s, n in zip(start, size, strict=True))
    patch, targets, weights = patches.load(1, 2, epoch=4)
    expected, allowed = reference_affinities(labels[box], zero_is_boundary)
    np.testing.assert_array_equal(targets, expected)
    np.testing.assert_array_equal(weights, allowed)


@pytest.mark.data
def test_affinities_of_fib25(data_folder: Path) -> None:
    sample = data_folder / "fib25/training_sample2"
    patches = data.Affinities(
        data.TrainingVolume(
            f"{sample}/grayscale_maps.h5:raw",
            f"{sample}/groundtruth.h5:stack",
            box="190:250,0:250,0:250",
        ),
        data.DataOptions(patch=(20, 125, 125)),
    )
    assert patches.fixed_size == 3 * 2 * 2
    _, targets, weights = patches.fixed(5)
    assert targets.shape == (20, 125, 125, 3)
    # Dense labels: nearly all pairs are counted, and most voxels continue their neighbour's body.
    assert weights[1:, 1:, 1:].mean() > 0.999
    assert 0.9 < targets[1:, 1:, 1:].mean() < 0.99


def test_dice_counts_pixels_exactly() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, (6, 9, 7)).astype(np.uint8)
    predicted = np.where(rng.random(truth.shape) < 0.7, truth, 0).astype(np.uint8)
    patients = [7, 7, 3, 3, 3, 5]
    predicted[5], truth[5] = 0, 0
    counts = _core.evaluate.DiceCounts(3, 3)
    for patient, p, t in zip(patients, predicted, truth, strict=True):
        counts.add([7, 3, 5].index(patient), p[None], t[None])

    def reference(which: list[int], c: int) -> float | None:
        p, t = predicted[which] == c, truth[which] == c
        return 2 * int((p & t).sum()) / int(p.sum() + t.sum()) if (p | t).any() else None

    everyone = {7: [0, 1], 3: [2, 3, 4], 5: [5]}
    assert [counts.pooled(c) for c in range(3)] == [reference(list(range(6)), c) for c in range(3)]
    for group, which in enumerate(everyone.values()):
        assert [counts.group(group, c) for c in range(3)] == [reference(which, c) for c in range(3)]
    assert [counts.group(2, c) for c in range(3)] == [1.0, None, None]
    mean = np.mean([counts.group(group, 1) for group in range(2)])
    assert counts.mean_over_groups(1) == pytest.approx(mean, rel=1e-15)
    with pytest.raises(errors.InvalidArgumentError, match="expected 0 to 1"):
        _core.evaluate.DiceCounts(1, 2).add(0, predicted, truth)


def test_average_precision_of_affinities() -> None:
    rng = np.random.default_rng(1)
    targets = rng.integers(0, 2, (3, 4, 5, 3)).astype(np.float32)
    weights = rng.integers(0, 2, targets.shape).astype(np.float32)
    # Logits at the middles of bins 1/128 wide, all different: the histogram orders them exactly.
    steps = rng.permutation(targets.size).reshape(targets.shape) - targets.size / 2 + 0.5
    probabilities = (1 / (1 + np.exp(-steps / 128))).astype(np.float32)
    counts = _core.evaluate.VoxelCounts()
    counts.add_probabilities(probabilities, targets, weights, 1)
    kept = weights[..., 1] > 0
    order = np.argsort(-steps[..., 1][kept])
    hits = targets[..., 1][kept][order]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    assert counts.voxels() == kept.sum()
    assert counts.average_precision() == pytest.approx((precision * hits).sum() / hits.sum())
