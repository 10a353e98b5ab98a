# SPDX-License-Identifier: Apache-2.0
"""Patches as Python sees them: who gets what when, what is in it for each task, and what labels may look like."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import _core, data, errors
from floodtide.base.tasks import Affinities, Classes, Distance, PatchTask, ShapeDescriptors
from floodtide.data import (
    Augmentation,
    Channel,
    DataOptions,
    Patches,
    Split,
    TrainingVolume,
    Volume,
)
from floodtide.data.patches import UNLABELLED

Array = np.ndarray[Any, Any]

WHOLE = DataOptions(patch="whole")
PLAIN = Augmentation(permutable_axes=(), reflectable_axes=())
TASKS: dict[str, PatchTask] = {
    "classes": Classes(),
    "affinities": Affinities(zero_is_boundary=True),
    "lsd": ShapeDescriptors(window=(1.0, 2.0, 2.0)),
    "distance": Distance(scale=3.0),
}


def sections(groups: Array) -> TrainingVolume:
    """Section i has intensity i everywhere, and label 1 but for one voxel."""
    image = np.broadcast_to(np.arange(len(groups))[:, None, None], (len(groups), 2, 3))
    labels = np.ones(image.shape, np.uint8)
    labels[:, 0, 0] = 0
    return volume(image.astype(np.uint16), labels, mean=0.0, std=1.0)


def volume(image: Array, labels: Array | None = None, **more: Any) -> TrainingVolume:
    """A volume of arrays."""
    given = "" if labels is None else Volume(labels, name="labels")
    return TrainingVolume(Volume(image, name="image"), given, **more)


def in_file(path: Path, groups: Array) -> TrainingVolume:
    """The same as `sections`, with the numbers of groups in a file."""
    with h5py.File(path, "w") as file:
        file["groups"] = groups
    return dataclasses.replace(sections(groups), groups=f"{path}:groups")


def of_box(array: Array, box: tuple[Any, Any]) -> Array:
    return array[tuple(slice(a, a + n) for a, n in zip(*box, strict=True))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("samples")


# order, and groups


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 40),
    walkers=st.integers(1, 6),
    batch=st.integers(1, 5),
    seed=st.integers(0, 2**64 - 1),
    epochs=st.integers(1, 4),
)
def test_shards_are_disjoint_complete_and_full(
    n: int, walkers: int, batch: int, seed: int, epochs: int
) -> None:
    given_ = sections(np.arange(n))
    more: dict[str, Any] = {"augmentation": PLAIN, "task": Classes()}
    more |= {"walkers": walkers, "batch": batch}
    if walkers * batch > n:
        with pytest.raises(errors.InvalidArgumentError, match=f"more than the {n} sections"):
            Patches(given_, WHOLE, **more)
        return
    patches = Patches(given_, WHOLE, **more, seed=seed)
    assert len(patches) == n
    shards = {
        (walker, epoch): [
            patches.core.number(walker, epoch, index)
            for index in range(patches.core.per_walker(walker, epoch))
        ]
        for walker in range(walkers)
        for epoch in range(epochs)
    }
    for epoch in range(epochs):
        dealt = [number for walker in range(walkers) for number in shards[walker, epoch]]
        assert sorted(dealt) == list(range(n))  # nothing twice, nothing left out, nothing padded
    image, _ = patches.load(0, 0)
    assert image.shape == (1, 2, 3, 1)
    assert (image == patches.core.number(0, 0, 0)).all()


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.lists(st.integers(-3, 12), min_size=2, max_size=30),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**64 - 1),
)
def test_no_group_is_in_both_parts(
    folder: Path, numbers: list[int], share: float, seed: int
) -> None:
    given_ = in_file(folder / "split.h5", np.array(numbers))
    held_out = max(1, round(share * len(set(numbers))))
    if held_out >= len(set(numbers)):
        with pytest.raises(
            errors.InvalidArgumentError, match=r"group\(s\) leaves none for training"
        ):
            Patches(given_, WHOLE, PLAIN, task=Classes(), split=Split("validation", share, seed))
        return
    training, validation = parts = [
        Patches(given_, WHOLE, PLAIN, task=Classes(), split=Split(part, share, seed))
        for part in ("training", "validation")
    ]
    assert len(validation.groups) == held_out
    assert not set(training.groups) & set(validation.groups)
    assert {*training.groups, *validation.groups} == {str(number) for number in numbers}
    seen = []
    for part in parts:
        for i in range(part.fixed_size):
            group, image, _ = part.core.fixed(i)
            section = part.core.fixed_place(i).box[0][0]
            assert part.groups[group] == str(numbers[section])
            assert (image == section).all()
            seen.append(section)
    assert sorted(seen) == list(range(len(numbers)))


def test_volumes_without_numbers_are_groups_that_a_split_keeps_together() -> None:
    volumes = [
        dataclasses.replace(sections(np.arange(n)), name=name)
        for n, name in ((3, "a"), (4, "b"), (5, "c"))
    ]
    training, validation = (
        Patches(volumes, WHOLE, PLAIN, task=Classes(), split=Split(part, 0.4, 1))
        for part in ("training", "validation")
    )
    assert sorted(training.groups + validation.groups) == ["a", "b", "c"]
    sizes = {"a": 3, "b": 4, "c": 5}
    assert validation.fixed_size == sum(sizes[name] for name in validation.groups)
    assert training.fixed_size == sum(sizes[name] for name in training.groups)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_windows_of_several_volumes_count_every_voxel_of_their_boxes_once(
    data: st.DataObject,
) -> None:
    shapes = data.draw(st.lists(st.tuples(*[st.integers(3, 12)] * 3), min_size=1, max_size=3))
    patch = tuple(data.draw(st.integers(1, min(sizes))) for sizes in zip(*shapes, strict=True))
    random, volumes, total = np.random.default_rng(0), [], 0
    for number, shape in enumerate(shapes):
        ends = [data.draw(st.integers(1, n)) for n in shape]
        starts = [data.draw(st.integers(0, end - 1)) for end in ends]
        box = ",".join(f"{a}:{b}" for a, b in zip(starts, ends, strict=True))
        labels = random.integers(0, 2, shape).astype(np.uint8)
        labels[tuple(starts)] = 1
        image = random.integers(0, 255, shape).astype(np.uint8)
        volumes.append(volume(image, labels, name=f"v{number}", box=box))
        total += int(np.prod([b - a for a, b in zip(starts, ends, strict=True)]))
    options = DataOptions(patch=patch)
    table = Classes(classes={0: "background", 1: "object"})
    patches = Patches(volumes, options, PLAIN, task=table)
    counted = sum(int((patches.fixed(i)[1] != UNLABELLED).sum()) for i in range(patches.fixed_size))
    assert counted == total == sum(patches.core.label_counts)
    for index in range(min(len(patches), 5)):
        image, classes = patches.load(0, index)
        assert image.shape == (*patch, 1)
        assert classes.shape == patch
        assert (classes != UNLABELLED).any()


# what a task makes of labels


def scene(shape: tuple[int, int, int] = (16, 24, 24)) -> tuple[Array, Array]:
    image, labels = data.synth(shape, seed=2)
    return image, labels.astype(np.uint64)


IMAGE, OBJECTS = scene()


@pytest.mark.parametrize("name", TASKS)
def test_patches_have_the_outputs_of_their_task(name: str) -> None:
    task = TASKS[name]
    labels = (OBJECTS > 0).astype(np.uint8) if name == "classes" else OBJECTS
    channel = Channel(Volume(255 - IMAGE, name="second"), mean=100.0, std=10.0)
    given_ = volume(IMAGE, labels, mean=50.0, std=20.0, channels=(channel,))
    patches = Patches(given_, DataOptions(patch=(4, 8, 12)), PLAIN, task=task)
    for image, *truth in (patches.load(0, 3, epoch=2), patches.fixed(1)):
        assert (image.shape, image.dtype) == ((4, 8, 12, 2), np.float32)
        np.testing.assert_allclose(
            image[..., 1] * 10 + 100, 255 - (image[..., 0] * 20 + 50), atol=1e-3
        )
        if name == "classes":
            (classes,) = truth
            assert (classes.shape, classes.dtype) == ((4, 8, 12), np.uint8)
            assert set(np.unique(classes)) <= {0, 1, UNLABELLED}
        else:
            targets, weights = truth
            outputs = len(task.channels)
            assert targets.shape == weights.shape == (4, 8, 12, outputs)
            assert targets.min() >= 0
            assert targets.max() <= 1
            assert weights.min() >= 0
    assert patches.channels == 2
    assert patches.core.outputs == len(patches.task.channels)


def reference_affinities(labels: Array, zero_is_boundary: bool) -> tuple[Array, Array]:
    targets, weights = np.zeros((2, *labels.shape, 3), np.float32)
    for axis in range(3):
        own, before = (labels.take(range(s, labels.shape[axis] - 1 + s), axis) for s in (1, 0))
        inner = tuple(slice(1, None) if a == axis else slice(None) for a in range(3))
        targets[(*inner, axis)] = (own == before) & (own != 0)
        weights[(*inner, axis)] = zero_is_boundary | ((own != 0) & (before != 0))
    return targets, weights


@pytest.mark.parametrize("zero_is_boundary", [False, True])
def test_affinities_of_a_synthetic_volume(zero_is_boundary: bool) -> None:
    """Windows overlap, so that all pairs of the box count. A training patch has the pairs of its own voxels."""
    image, labels = scene((24, 32, 40))
    patches = Patches(
        volume(image, labels, box="2:22,0:32,0:40", mean=100, std=50),
        DataOptions(patch=(8, 12, 12)),
        PLAIN,
        task=Affinities(zero_is_boundary=zero_is_boundary),
        walkers=2,
        batch=3,
    )
    part = labels[2:22]
    expected, allowed = reference_affinities(part, zero_is_boundary)
    counted = np.zeros((*labels.shape, 3), int)
    for number in range(patches.fixed_size):
        start, size = patches.core.fixed_place(number).box
        inside = ((start[0] - 2, *start[1:]), size)
        patch, targets, weights = patches.fixed(number)
        np.testing.assert_allclose(
            patch[..., 0], (of_box(image, (start, size)) - 100.0) / 50, atol=1e-6
        )
        kept = weights > 0
        np.testing.assert_array_equal(targets[kept], of_box(expected, inside)[kept])
        assert not weights[of_box(allowed, inside) == 0].any()
        of_box(counted, (start, size))[...] += kept
    np.testing.assert_array_equal(counted[2:22], allowed)
    assert not counted[:2].any()
    start, size = patches.core.training_place(4, patches.core.number(1, 4, 2)).box
    _, targets, weights = patches.load(1, 2, epoch=4)
    kept = weights > 0
    first = [max(a, b) for a, b in zip(start, (2, 0, 0), strict=True)]
    ends = [min(a + n, b) for a, n, b in zip(start, size, (22, 32, 40), strict=True)]
    here = (first, [b - a for a, b in zip(first, ends, strict=True)])
    there = (tuple(a - b for a, b in zip(first, start, strict=True)), here[1])
    expected, allowed = reference_affinities(of_box(labels, here), zero_is_boundary)
    np.testing.assert_array_equal(of_box(kept, there), allowed > 0)
    np.testing.assert_array_equal(targets[kept], expected[allowed > 0])


# labels as people have them


def classes_of(labels: Array, *, task: Classes | None = None, **more: Any) -> Patches:
    options = DataOptions(patch="whole", unlabelled=more.pop("unlabelled", None))
    given_ = volume(np.zeros(more.pop("image", labels).shape, np.uint8), labels, **more)
    return Patches(given_, options, PLAIN, task=task or Classes())


MASK = (np.indices((3, 6, 7)).sum(0) % 3 == 0).astype(np.uint8)


@pytest.mark.parametrize(
    ("labels", "value"),
    [
        (255 * MASK, 255),
        (MASK, 1),
        (MASK.astype(np.uint64) * np.uint64(2**53 + 1), 2**53 + 1),
        (MASK.astype(np.int64) * -7, -7),
    ],
    ids=["255", "1", "above 2^53", "negative"],
)
def test_one_value_beside_0_needs_no_table(labels: Array, value: int) -> None:
    if value < 0:  # no label, so nothing is left beside 0
        with pytest.raises(errors.InvalidArgumentError, match="expected"):
            classes_of(labels)
        return
    patches = classes_of(labels)
    assert isinstance(patches.task, Classes)
    assert patches.task.classes == {"0": "background", str(value): "foreground"}
    for number in range(3):
        np.testing.assert_array_equal(patches.fixed(number)[1][0], MASK[number])


def test_labels_of_several_values_are_refused_with_the_line_that_accepts_them() -> None:
    labels = MASK.astype(np.int32) * 5
    labels[0, 0, 1] = 9
    with pytest.raises(errors.ConfigurationError) as caught:
        classes_of(labels)
    line = 'task.classes = { 0 = "background", 5 = "class 5", 9 = "class 9" }'
    assert line in str(caught.value)
    assert "labels" in str(caught.value)
    table = {0: "background", 5: "mitochondria", 9: "mitochondria"}
    np.testing.assert_array_equal(
        classes_of(labels, task=Classes(classes=table)).fixed(0)[1][0], labels[0] > 0
    )


def test_values_outside_of_the_boxes_are_not_looked_at() -> None:
    labels = MASK.astype(np.int32)
    labels[2] = 77
    patches = classes_of(labels, box="0:2,0:6,0:7")
    assert isinstance(patches.task, Classes)
    assert patches.task.classes == {"0": "background", "1": "foreground"}
    assert patches.fixed_size == 2


def test_the_value_of_voxels_without_label_is_no_class() -> None:
    labels = MASK.copy()
    labels[1, 2, 3] = 9
    patches = classes_of(labels, unlabelled=9)
    classes = np.concatenate([patches.fixed(i)[1] for i in range(3)])
    assert classes[1, 2, 3] == UNLABELLED
    assert (classes == UNLABELLED).sum() == 1
    table = Classes(classes={0: "background", 1: "object", 9: "other"})
    with pytest.raises(errors.ConfigurationError, match=r"data\.unlabelled is 9, which is a class"):
        classes_of(labels, task=table, unlabelled=9)


def test_masks_are_classes_in_their_order() -> None:
    second = (np.indices(MASK.shape).sum(0) % 3 == 1).astype(np.uint8)
    masks = {name: Volume(array, name=name) for name, array in (("mito", MASK), ("er", second))}
    given_ = volume(np.zeros(MASK.shape, np.uint8), masks=masks)
    patches = Patches(given_, WHOLE, PLAIN, task=Classes())
    assert isinstance(patches.task, Classes)
    assert patches.task.classes == {"0": "background", "1": "mito", "2": "er"}
    np.testing.assert_array_equal(patches.fixed(1)[1][0], (MASK + 2 * second)[1])


def test_labels_smaller_than_the_image_lie_at_their_start() -> None:
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, (4, 9, 8)).astype(np.uint8)
    image = random.integers(0, 255, (10, 20, 20)).astype(np.uint8)
    given_ = volume(image, labels, labels_start=(3, 5, 7), mean=0.0, std=1.0)
    patches = Patches(given_, DataOptions(patch=(4, 9, 8)), PLAIN, task=Classes())
    np.testing.assert_array_equal(patches.fixed(0)[1], labels)
    np.testing.assert_array_equal(patches.fixed(0)[0][..., 0], image[3:7, 5:14, 7:15])
    boxed = dataclasses.replace(given_, box="4:5,5:14,7:15")
    patches = Patches(boxed, DataOptions(patch=(1, 9, 8)), PLAIN, task=Classes())
    np.testing.assert_array_equal(patches.fixed(0)[1], labels[1:2])


@pytest.mark.parametrize("weights", [{"rare": 1.0}, {"rare": 1.0, "background": 1.0}, {}])
def test_rare_classes_are_drawn_as_often_as_their_weights_say(weights: dict[str, float]) -> None:
    labels = np.zeros((8, 64, 64), np.uint8)
    labels[3, 20, 30] = 9
    task = Classes(classes={0: "background", 9: "rare"}, class_weights=weights)
    options = DataOptions(patch=(2, 8, 8), patches=200)
    patches = Patches(volume(labels, labels), options, task=task)
    share = sum((patches.load(0, i)[1] == 1).any() for i in range(200)) / 200
    expected = {0: 0.0, 1: 1.0, 2: 0.5}[len(weights)]
    assert abs(share - expected) < 0.15


# mistakes


SECTIONS = MASK.shape
ZEROS = np.zeros(SECTIONS, np.uint8)
TABLE = Classes(classes={0: "background", 1: "object"})
BAD: dict[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {
    "a class value without a row": (
        {"labels": np.where(MASK > 0, 3, 0).astype(np.uint8), "task": TABLE},
        ("labels", "value 3 at (0, 0, 0)", "task.classes", "data.unlabelled = 3"),
    ),
    "overlapping masks": (
        {"labels": None, "masks": {"a": Volume(MASK, name="a"), "b": Volume(MASK, name="b")}},
        ("b", "masks overlap at (0, 0, 0)"),
    ),
    "a mask of the background": (
        {"labels": None, "masks": {"background": Volume(MASK, name="a")}},
        ("data.volumes.masks has the name 'background'", "another name"),
    ),
    "a box outside of the volume": (
        {"box": "0:4,0:6,0:7"},
        ("volume 'v'", "box 0:4,0:6,0:7 is not inside the labels, 0:3,0:6,0:7"),
    ),
    "the second of two boxes outside": (
        {"box": "0:1,0:6,0:7; 2:3,0:6,3:8"},
        ("volume 'v'", "box 2:3,0:6,3:8 is not inside the labels"),
    ),
    "no box": ({"box": "0:3,0:6"}, ("box '0:3,0:6'", "expected z0:z1,y0:y1,x0:x1")),
    "a patch larger than the volume": (
        {"patch": (4, 4, 4)},
        ("(4, 4, 4)", "(3, 6, 7)", "data.patch"),
    ),
    "no labelled voxel": (
        {"labels": np.full(SECTIONS, 9, np.uint8), "unlabelled": 9, "task": TABLE},
        ("no voxel", "label"),
    ),
    "no labels": ({"labels": None}, ("volume 'v': labels is empty",)),
    "labels and masks": (
        {"masks": {"a": Volume(MASK, name="a")}},
        ("volume 'v': labels and masks are both given",),
    ),
    "masks of another task": (
        {"labels": None, "masks": {"a": Volume(MASK, name="a")}, "task": Affinities()},
        ("data.volumes.masks", "'affinities'", "'classes'"),
    ),
    "masks and another table": (
        {"labels": None, "masks": {"a": Volume(MASK, name="a")}, "task": TABLE},
        ("task.classes", "expected it left out"),
    ),
    "labels larger than the image": (
        {"labels": np.zeros((3, 6, 8), np.uint8)},
        ("volume 'v': the labels labels have shape (3, 6, 8)", "(3, 6, 7)", "labels_start"),
    ),
    "two volumes of one name": (
        {"twice": True},
        ("volumes has two tables with the name 'v'",),
    ),
    "labels that end outside": (
        {"labels_start": (1, 0, 0)},
        ("volume 'v'", "1:4,0:6,0:7", "labels_start"),
    ),
    "a channel of another shape": (
        {"channels": (Channel(Volume(np.zeros((3, 6, 8), np.uint8), name="second")),)},
        ("second", "(3, 6, 8)", "(3, 6, 7)"),
    ),
    "unlabelled that is a class": (
        {"unlabelled": 1, "task": TABLE},
        ("data.unlabelled is 1", "task.classes"),
    ),
    "a size without whole sections": (
        {"patch": (1, 4, 4), "size": (4, 4)},
        ("data.size is [4, 4]", 'data.patch = "whole"'),
    ),
    "boxes that overlap": (
        {"box": "0:2,0:6,0:7; 1:3,0:6,0:7"},
        ("volume 'v'", "0:2,0:6,0:7 and 1:3,0:6,0:7 overlap"),
    ),
    "floats that are not whole": (
        {"labels": np.where(MASK > 0, np.nan, 0.0).astype(np.float32)},
        ("holds nan, expected whole numbers",),
    ),
    "one value": ({"labels": np.zeros((3, 6, 7), np.uint8)}, ("one value, 0", "two classes")),
    "depth in a section": (
        {"patch": (1, 4, 4), "task": Affinities()},
        ("task.offsets has [-1, 0, 0]", "task.offsets = [[0, -1, 0], [0, 0, -1]]"),
    ),
    "distances along unlike axes": (
        {
            "patch": (2, 4, 2),
            "task": Distance(),
            "augmentation": Augmentation(permutable_axes=(0, 2)),
            "voxel_size_nm": (40.0, 8.0, 8.0),
        },
        ("'distance' has voxels of [(5.0, 1.0, 1.0)]", "[0, 2]"),
    ),
    "weights of whole sections": (
        {"task": Classes(class_weights={"foreground": 1.0})},
        ("task.class_weights has no meaning",),
    ),
    "axes of different lengths": (
        {"patch": (1, 4, 5), "augmentation": Augmentation(permutable_axes=(1, 2))},
        ("permutable_axes", "different patch sizes", "(1, 4, 5)"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(name: str) -> None:
    given_, words = BAD[name]
    keys = ("patch", "size", "unlabelled")
    options = DataOptions(**{"patch": "whole"} | {k: given_[k] for k in keys if k in given_})
    augmentation = given_.get("augmentation", PLAIN)
    others = {k: v for k, v in given_.items() if k not in (*keys, "task", "augmentation", "labels")}
    number = 2 if others.pop("twice", False) else 1
    bad = [volume(ZEROS, given_.get("labels", MASK), name="v", **others)] * number
    with pytest.raises(errors.Error) as caught:
        Patches(bad, options, augmentation, task=given_.get("task", Classes()))
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text, text


def test_groups_with_another_filter_or_elsewhere_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "lzf.h5", "w") as file:
        file.create_dataset("g", data=np.arange(3), chunks=(3,), compression="lzf")
    with h5py.File(tmp_path / "elsewhere.h5", "w") as file:
        layout = h5py.VirtualLayout(shape=(3,), dtype=int)
        layout[...] = h5py.VirtualSource("other.h5", "g", shape=(3,))
        file.create_virtual_dataset("g", layout)
    for name, message in (("lzf", "with h5py"), ("elsewhere", "another dataset")):
        given_ = volume(ZEROS, MASK, groups=f"{tmp_path}/{name}.h5:g")
        with pytest.raises(errors.InvalidFileError, match=message):
            Patches(given_, WHOLE, PLAIN, task=Classes())


def test_groups_must_fit(tmp_path: Path) -> None:
    for groups, message in (
        (np.arange(4), "has 4 numbers, the image 3 sections"),
        (np.zeros((3, 1), int), "an HDF5 dataset of integers of one axis"),
        (np.zeros(3), "an HDF5 dataset of integers of one axis"),
    ):
        with h5py.File(tmp_path / "g.h5", "w") as file:
            file["g"] = groups
        given_ = volume(ZEROS, MASK, groups=f"{tmp_path}/g.h5:g")
        with pytest.raises(errors.InvalidArgumentError, match=message):
            Patches(given_, WHOLE, task=Classes())
    with h5py.File(tmp_path / "g.h5", "a") as file:
        file["circle"] = h5py.SoftLink("/circle")  # raises in h5py
    missing = volume(ZEROS, MASK, groups=f"{tmp_path}/g.h5:none")
    with pytest.raises(errors.Error, match=r"g\.h5.*'none'.*datasets are: g$") as caught:
        Patches(missing, WHOLE, task=Classes())
    assert "\n" not in str(caught.value)
    for text in (f"{tmp_path}/g.h5", "g"):
        given_ = volume(ZEROS, MASK, groups=text)
        with pytest.raises(errors.Error, match=r"'volume': groups is '.*', expected FILE"):
            Patches(given_, WHOLE, task=Classes())


def test_other_masks_of_another_volume_are_refused() -> None:
    one, two = (
        volume(ZEROS, masks={name: Volume(MASK, name=name)}, name=f"v{name}") for name in "ab"
    )
    with pytest.raises(errors.ConfigurationError, match=r"data\.volumes\.masks names \['a'\] and"):
        Patches([one, two], WHOLE, task=Classes())


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
