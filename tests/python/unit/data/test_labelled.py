# SPDX-License-Identifier: Apache-2.0
"""Where labels are, what 0 means between them, and whether they are objects or classes."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import data
from floodtide.data import look
from floodtide.data.boxes import Box
from floodtide.data.look import labelled, problems
from floodtide.data.look.labels import LabelStatistics

Array = np.ndarray[Any, Any]

DATA = Path(os.environ.get("FLOODTIDE_DATA", Path(__file__).parents[5] / "shared" / "data"))
BOX = ((10, 12, 14), (30, 34, 40))
OTHER = ((44, 2, 4), (18, 50, 60))


@pytest.fixture(scope="module")
def walled() -> Array:
    """Labels of 64 x 64 x 72 voxels with walls of 0 between the objects."""
    return data.synth((64, 64, 72), seed=5)[1].astype(np.uint32)


@pytest.fixture(scope="module")
def touching() -> Array:
    """Labels of 64 x 64 x 72 voxels without 0, in cells of 8 voxels."""
    z, y, x = np.indices((64, 64, 72)) // 8
    return (1 + z + 8 * (y + 8 * x)).astype(np.uint32)


def part(labels: Array, *boxes: Box) -> Array:
    """Return labels that are 0 outside of some boxes."""
    result = np.zeros_like(labels)
    for start, size in boxes:
        inside = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
        result[inside] = labels[inside]
    return result


def statistics(labels: Array, **more: Any) -> LabelStatistics:
    return look.label_statistics(data.Volume(labels), **more)


def doubts(labels: Array) -> list[str]:
    return [one.text for one in problems.of_labels(statistics(labels), "v")]


@pytest.mark.parametrize(("form", "boxes"), [("box", [BOX]), ("boxes", [BOX, OTHER])])
def test_boxes_of_labels_are_found(touching: Array, form: str, boxes: list[Box]) -> None:
    found = statistics(part(touching, *boxes))
    assert (found.form, list(found.boxes), found.exact) == (form, boxes, True)
    assert (found.share, found.zero_between) == (1, 0)
    (text,) = doubts(part(touching, *boxes))
    assert "10:40,12:46,14:54" in text
    assert ("in 1 box (" if len(boxes) == 1 else "in 2 boxes (") in text


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("whole", [True, False])
def test_single_sections_are_found(touching: Array, axis: int, whole: bool) -> None:
    boxes = []
    for plane in (7, 20, 50):
        start, size = ([0, 0, 0], list(touching.shape)) if whole else ([5, 6, 7], [40, 41, 42])
        start[axis], size[axis] = plane, 1
        boxes.append((tuple(start), tuple(size)))
    found = statistics(part(touching, *boxes))  # type: ignore[arg-type]
    assert (found.form, list(found.boxes)) == ("sections", boxes)
    assert found.zero_between == 0
    assert found.kind == "objects"


def test_labels_everywhere_nowhere_and_scattered(touching: Array, walled: Array) -> None:
    for labels in (touching, walled):
        found = statistics(labels)
        assert (found.form, found.boxes) == ("everywhere", (((0, 0, 0), (64, 64, 72)),))
        assert doubts(labels) == []
    none = statistics(np.zeros_like(walled))
    assert (none.form, none.boxes, none.kind) == ("none", (), "unsure")
    z, y, x = np.ogrid[:64, :64, :72]
    balls = np.zeros((64, 64, 72), np.uint8)
    for label, centre in enumerate(((20, 20, 20), (44, 40, 50)), 1):
        away = sum((n - c) ** 2 for n, c in zip((z, y, x), centre, strict=True))
        balls[away < 100] = label
    found = statistics(balls)
    assert (found.form, found.boxes) == ("scattered", (((11, 11, 11), (43, 39, 49)),))
    assert found.kind == "unsure"
    (text,) = doubts(balls)
    assert "whether 0 is background, or not labelled, cannot be told" in text


def test_what_lies_between_objects_is_judged_where_labels_are(
    walled: Array, touching: Array
) -> None:
    for boxes in ([BOX], [BOX, OTHER], [((9, 0, 0), (1, 64, 72)), ((30, 0, 0), (1, 64, 72))]):
        assert statistics(part(touching, *boxes)).zero_between == 0
        found = statistics(part(walled, *boxes))
        assert found.zero_between > 0.9
        assert 1 <= found.zero_width <= 6


def test_objects_with_hardly_any_0_between_them_touch(walled: Array) -> None:
    found = statistics(walled)
    few = dataclasses.replace(found, zero_between=0.004, zero_width=3)
    assert few.words.endswith(", neighbours touch")
    some = dataclasses.replace(found, zero_between=0.01, zero_width=3)
    assert some.words.endswith(", 1 % of neighbours have 3 voxels of label 0 between them")


@pytest.mark.parametrize("budget", [1 << 9, 1 << 11])
def test_sampled_boxes_contain_all_labels(
    touching: Array, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelled, "_TILE", 1 << 12)
    labels = part(touching, BOX)
    found = labelled.labelled(data.Volume(labels), ((0, 0, 0), labels.shape), budget)
    assert not found.exact
    ((start, size),) = found.boxes
    assert all(a <= b for a, b in zip(start, BOX[0], strict=True))
    ends = [(a + n, b + m) for a, n, b, m in zip(start, size, *BOX, strict=True)]
    assert all(a >= b for a, b in ends)


@pytest.mark.parametrize("cells", [1 << 18, 1 << 14, 1 << 12])
def test_boxes_are_exact_on_a_coarse_map(
    touching: Array, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelled, "_CELLS", cells)
    monkeypatch.setattr(labelled, "_TILE", 1 << 13)
    found = statistics(part(touching, BOX))
    assert (found.form, found.boxes) == ("box", (BOX,))


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20)),
    share=st.sampled_from([0.0, 0.001, 0.05, 0.9]),
    seed=st.integers(0, 999),
)
def test_boxes_contain_all_labels(shape: tuple[int, int, int], share: float, seed: int) -> None:
    labels = (np.random.default_rng(seed).random(shape) < share).astype(np.uint8)
    found = labelled.labelled(data.Volume(labels), ((0, 0, 0), shape), 1 << 20)
    assert found.voxels == np.count_nonzero(labels)
    assert np.count_nonzero(part(labels, *found.boxes)) == found.voxels
    assert found.empty_sections == np.count_nonzero(~labels.any(axis=(1, 2)))
    assert (found.form == "none") == (found.voxels == 0)


def spots(values: Sequence[int], dtype: str = "uint8") -> Array:
    """Return blocks of 4 voxels in a row of 8, with values in turn."""
    result = np.zeros((48, 48, 48), dtype)
    places = np.stack(np.meshgrid(*[np.arange(2, 48, 8)] * 3, indexing="ij"), -1).reshape(-1, 3)
    for index, (z, y, x) in enumerate(places):
        result[z : z + 4, y : y + 4, x : x + 4] = values[index % len(values)]
    return result


def test_classes_and_objects_are_told_apart(walled: Array, touching: Array) -> None:
    for values in ((255,), (1,), (1, 2, 3), (70, 140, 210)):
        found = statistics(spots(values))
        assert (found.kind, [value for value, _ in found.values]) == ("classes", [0, *values])
        assert dict(found.values) == dict(zip(*np.unique(spots(values), return_counts=True)))  # noqa: B905
        assert f"value {values[0]} lies in" in found.kind_reason
    smoothed = spots((255,))
    smoothed[0, 0] = np.arange(48)  # the edges of a mask that was resampled
    assert statistics(smoothed).kind == "classes"
    assert statistics(touching).kind == statistics(walled).kind == "objects"
    mask = np.zeros((20, 30, 40), np.uint8)
    mask[:, 5:20] = 255
    assert statistics(mask).kind == "classes"  # one organ
    mask[:, 22:] = 254
    assert statistics(mask).kind == "unsure"  # two objects, or two classes
    neurons = np.where(mask > 0, mask.astype(np.uint32) + 4711, 0)
    assert statistics(neurons).kind == "objects"


def test_objects_that_are_labelled_in_every_fourth_section_are_objects() -> None:
    labels = np.zeros((32, 60, 60), np.uint32)
    for index in range(10):  # each object crosses a section at two places
        for x in (5 + 5 * index, 55 - 5 * index):
            labels[::4, 4 + 5 * index : 8 + 5 * index, x : x + 4] = 1000 + index
    found = statistics(labels)
    assert (found.form, found.kind) == ("sections", "objects")


def test_objects_that_cross_two_labelled_boxes_are_objects() -> None:
    y = np.arange(60)[None, :, None]
    labels = np.broadcast_to(100 + y // 3 % 10, (40, 60, 60)).astype(np.uint32)  # two branches each
    boxed = part(labels, ((0, 0, 0), (16, 60, 30)), ((24, 0, 30), (16, 60, 30)))
    found = statistics(boxed)
    assert (found.form, found.kind) == ("boxes", "objects"), found.kind_reason


WAYS = ["linear", "area", "cubic", "in z"]  # JPEG adds noise around a class between two others


@pytest.mark.parametrize(
    ("values", "way"),
    [((0, 255), way) for way in (*WAYS, "jpeg")] + [((0, 100, 200), way) for way in WAYS],
)
def test_resized_masks_are_recognised(walled: Array, way: str, values: tuple[int, ...]) -> None:
    """Grey levels at smooth edges are no classes and no objects."""
    from scipy import ndimage

    pillow = pytest.importorskip("PIL.Image")
    masks = np.asarray(values, np.uint8)[walled % len(values)]
    if way == "in z":
        made = ndimage.zoom(masks.astype(np.float32), (3, 1, 1), order=1)
    elif way == "jpeg":
        made = []
        for section in masks:
            pillow.fromarray(section).save(file := io.BytesIO(), "JPEG", quality=90)
            made.append(np.asarray(pillow.open(file)))
    else:
        kinds = {"linear": pillow.BILINEAR, "area": pillow.BOX, "cubic": pillow.BICUBIC}
        size = (50, 50) if way == "area" else (130, 130)
        made = [np.asarray(pillow.fromarray(one).resize(size, kinds[way])) for one in masks]
    found = statistics(np.asarray(made).round().astype(np.uint8))
    assert (found.inner, found.kind) == (values, "classes")
    ends = [a for pair in found.ranges for a in pair]
    assert ends[:-1] == ([0, 127, 128] if len(values) == 2 else [0, 50, 51, 150, 151])
    assert ends[-1] == found.highest
    assert statistics(masks).inner == ()


def test_labels_that_are_no_resized_masks(walled: Array, touching: Array) -> None:
    for labels in (walled, touching, walled % 5, walled % 40, data.synth((20, 60, 60), seed=1)[0]):
        assert statistics(labels).inner == ()
    one = np.zeros((20, 60, 60), np.uint8)
    one[4:16, 10:50, 10:50], one[6:14, 12:48, 12:48] = 1, 2  # a shell around an object
    assert statistics(one).inner == ()


@pytest.mark.data
@pytest.mark.skipif(not (DATA / "fib25").exists(), reason="needs the volumes of $FLOODTIDE_DATA")
def test_parts_of_real_labels() -> None:
    with h5py.File(DATA / "fib25" / "training_sample2" / "groundtruth.h5") as file:
        labels = file["stack"][:]
    with h5py.File(DATA / "fib25" / "training_sample2" / "grayscale_maps.h5") as file:
        image = data.Volume(file["raw"][:])
    for boxes, form in (
        ([((50, 60, 30), (128, 130, 170))], "box"),
        ([((10, 20, 30), (70, 70, 90)), ((120, 100, 90), (110, 140, 110))], "boxes"),
        ([((z, 0, 0), (1, 250, 250)) for z in (40, 120, 200)], "sections"),
    ):
        some = data.Volume(part(labels, *boxes))  # type: ignore[arg-type]
        found = look.label_statistics(some, budget=look.QUICK)
        assert (found.form, list(found.boxes), found.zero_between) == (form, boxes, 0)
        assert found.kind == "objects"
        assert look.alignment(image, some).verdict == "aligned"
