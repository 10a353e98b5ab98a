# SPDX-License-Identifier: Apache-2.0
"""Patches of labelled images against NumPy and SciPy: places, augmentation, labels and targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from floodtide import _core, errors
from floodtide.data import no_label
from floodtide.data.volumes import Volume

core = _core.data
Vec3 = tuple[int, int, int]
Array = np.ndarray[Any, Any]
Regions = Sequence[tuple[Vec3, Vec3]]

MEAN, STD = 100.0, 50.0
NONE = 255  # class of voxels without a label


def scene(shape: Vec3 = (24, 40, 44)) -> tuple[Array, Array]:
    """Return a smooth random image and its three classes."""
    smooth = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=shape), 2)
    smooth = (smooth - smooth.min()) / np.ptp(smooth)
    return (smooth * 255).astype(np.uint8), (smooth > 0.45).astype(np.uint8) + (smooth > 0.6)


IMAGE, LABELS = scene()


def source(
    patch: Vec3,
    *,
    image: Array = IMAGE,
    labels: Sequence[Array] = (LABELS,),
    values: Sequence[tuple[int, int]] | None = None,
    start: Vec3 = (0, 0, 0),
    regions: Regions | None = None,
    targets: Any = None,
    augmentation: dict[str, Any] | None = None,
    order: tuple[int, int, int] = (1, 1, 3),
    **more: Any,
) -> Any:
    """Return the patches of one image; `more` are fields of PatchOptions."""
    walkers, batch, seed = order
    options = core.PatchOptions(
        patch=patch,
        augmentation=core.Augmentation(**augmentation or {}),
        order=core.SampleOrderOptions(walkers=walkers, batch=batch, seed=seed),
        **{"patches": 20, **more},
    )
    parts = [
        core.LabelPart(Volume(one).core, values=values or [], refuse=values is not None)
        for one in labels
    ]
    channel = core.Channel(Volume(image).core, mean=MEAN, std=STD)
    labelled = core.LabelledImage(name="v", channels=[channel], labels=parts, labels_start=start)
    boxes = [
        core.Region(image=0, box=box, group=0) for box in regions or [(start, labels[0].shape)]
    ]
    return core.PatchSource(
        [labelled], boxes, ["v"], targets or core.class_targets(3), options, None
    )


def box(start: Vec3, size: Vec3) -> tuple[slice, ...]:
    return tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))


def inside(regions: Regions, shape: Vec3) -> Array:
    mask = np.zeros(shape, bool)
    for one in regions:
        mask[box(*one)] = True
    return mask


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_windows_count_every_labelled_voxel_once(data: st.DataObject) -> None:
    patch = data.draw(st.tuples(st.integers(1, 24), st.integers(1, 40), st.integers(1, 44)))
    regions = []
    for begin in (0, 12):  # two boxes that do not overlap
        start = tuple(data.draw(st.integers(0, n - 1)) for n in (12, 40, 44))
        size = tuple(
            data.draw(st.integers(1, n - a)) for n, a in zip((12, 40, 44), start, strict=True)
        )
        regions.append(((begin + start[0], *start[1:]), size))
    patches = source(patch, regions=regions)
    counted = np.zeros(IMAGE.shape, int)
    for number in range(patches.fixed_size):
        _, image, classes = patches.fixed(number)
        start, size = patches.fixed_place(number).box
        known = classes != NONE
        np.testing.assert_array_equal(classes[known], LABELS[box(start, size)][known])
        np.testing.assert_allclose(image[..., 0], (IMAGE[box(start, size)] - MEAN) / STD, atol=1e-6)
        counted[box(start, size)] += known
    np.testing.assert_array_equal(counted, inside(regions, IMAGE.shape))
    expected = np.bincount(LABELS[inside(regions, IMAGE.shape)], minlength=3)
    assert patches.label_counts == expected.tolist()


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_windows_count_every_pair_of_a_box_once(data: st.DataObject) -> None:
    patch = data.draw(st.tuples(st.integers(2, 24), st.integers(2, 40), st.integers(2, 44)))
    step = st.tuples(*(st.integers(1 - n, n - 1) for n in patch)).filter(any)
    offsets = data.draw(st.lists(step, min_size=1, max_size=3))
    start = tuple(data.draw(st.integers(0, n - 2)) for n in IMAGE.shape)
    size = tuple(data.draw(st.integers(2, n - a)) for n, a in zip(IMAGE.shape, start, strict=True))
    labels = np.random.default_rng(1).choice([-1, 0, 5, 6], IMAGE.shape, p=(0.1, 0.3, 0.3, 0.3))
    patches = source(
        patch,
        labels=[labels],
        regions=[(start, size)],
        targets=core.affinity_targets(offsets, balance=True, descriptors=(0, 0, 0)),
    )
    known = np.where(inside([(start, size)], IMAGE.shape), labels, -1)
    far = 44
    around = np.pad(known, far, constant_values=-1)
    counted = np.zeros((*IMAGE.shape, len(offsets)), int)
    for number in range(patches.fixed_size):
        _, _, targets, weights = patches.fixed(number)
        place = patches.fixed_place(number).box
        counted[box(*place)] += weights > 0
        for channel, offset in enumerate(offsets):
            there = tuple(a + far + o for a, o in zip(place[0], offset, strict=True))
            own, other = known[box(*place)], around[box(there, place[1])]
            same = (own > 0) & (own == other)
            here = weights[..., channel] > 0
            np.testing.assert_array_equal(targets[..., channel][here], same[here])
    for channel, offset in enumerate(offsets):
        there = tuple(far + o for o in offset)
        pairs = (known >= 0) & (around[box(there, IMAGE.shape)] >= 0)
        np.testing.assert_array_equal(counted[..., channel], pairs)


def test_a_window_shows_both_voxels_of_pairs_up_to_a_quarter_of_its_size() -> None:
    far = [(0, -10, 0), (0, 10, 0)]
    patches = source(
        (4, 40, 44),
        image=np.zeros((4, 90, 44), np.uint8),
        labels=[np.ones((4, 90, 44), np.uint8)],
        targets=core.affinity_targets(far, balance=False, descriptors=(0, 0, 0)),
    )
    for number in range(patches.fixed_size):
        weights = patches.fixed(number)[3]
        assert not weights[:, :10, :, 0].any()
        assert not weights[:, 30:, :, 1].any()


def test_training_patches_have_a_labelled_voxel_and_learn_nothing_else() -> None:
    regions: Regions = [((3, 5, 5), (1, 30, 30)), ((20, 0, 0), (1, 40, 44))]
    wrong = LABELS.copy()
    wrong[~inside(regions, IMAGE.shape)] = 77  # would be refused if it were read
    patches = source((8, 16, 16), labels=[wrong], regions=regions)
    seen = np.zeros(IMAGE.shape, bool)
    for epoch in range(20):
        for index in range(20):
            _, _, classes = patches.load(0, epoch, index)
            start, size = patches.training_place(epoch, patches.number(0, epoch, index)).box
            known = classes != NONE
            assert known.any()
            np.testing.assert_array_equal(known, inside(regions, IMAGE.shape)[box(start, size)])
            seen[box(start, size)] |= known
    assert seen.sum() > 0.95 * inside(regions, IMAGE.shape).sum()


def test_rare_classes_are_drawn_as_often_as_their_weights_say() -> None:
    labels = np.zeros(IMAGE.shape, np.uint8)
    labels[5, 10, 12] = 2
    often = source((4, 8, 8), labels=[labels], class_weights=[1.0, 0.0, 1.0], patches=200)
    assert 80 < sum((often.load(0, 0, i)[2] == 2).any() for i in range(200)) < 130
    seldom = source((4, 8, 8), labels=[labels], patches=200)
    assert sum((seldom.load(0, 0, i)[2] == 2).any() for i in range(200)) < 10


def test_a_training_patch_depends_on_seed_epoch_and_number_only() -> None:
    changes = {"rotation_deg": 30.0, "elastic": 2.0, "noise": 0.1, "dark_section": 0.3}
    one = source((8, 16, 16), augmentation=changes)
    three = source((8, 16, 16), augmentation=changes, order=(3, 2, 3))
    expected = {one.number(0, 1, i): one.load(0, 1, i)[1] for i in range(20)}
    for walker in range(3):
        for index in range(three.per_walker(walker, 1)):
            number = three.number(walker, 1, index)
            np.testing.assert_array_equal(three.load(walker, 1, index)[1], expected[number])
    other = source((8, 16, 16), augmentation=changes, order=(1, 1, 4))
    assert not np.array_equal(other.load(0, 1, 0)[1], one.load(0, 1, 0)[1])


# augmentation


CHANGES: dict[str, dict[str, Any]] = {
    "none": {},
    "out-of-the-volume": {"elastic": 40.0, "rotate_in_space": True},
    "far-out": {"scale": 1e6},  # smaller values of these keys follow: "all" has the last ones
    "axes": {"permutable_axes": [0, 1, 2], "reflectable_axes": [0, 1, 2]},
    "rotation": {"rotation_deg": 40.0},
    "space": {"rotation_deg": 90.0, "rotate_in_space": True, "permutable_axes": [1, 2]},
    "scale": {"scale": 0.3},
    "elastic": {"elastic": 4.0},
    "elastic-in-space": {"elastic": 3.0, "rotate_in_space": True},
    "blur": {"blur": 2.0},
    "gamma": {"gamma": 0.5},
    "gain": {"gain": 0.3, "offset": 0.4},
    "sections": {
        "missing_section": 0.2,
        "dark_section": 0.3,
        "defocused_section": 0.3,
        "shifted_section": 0.5,
    },
}
CHANGES["all"] = {name: value for changes in CHANGES.values() for name, value in changes.items()}


def places(drawn: dict[str, Any], start: Vec3, size: Vec3) -> Array:
    """Return the place (3, z, y, x) in the volume that each voxel of a patch shows."""
    grid = np.stack(np.meshgrid(*[np.arange(n) - (n - 1) / 2 for n in size], indexing="ij"))
    moved = np.einsum("ij,jzyx->izyx", np.array(drawn["matrix"]), grid)
    for axis, control in enumerate(drawn["control"]):
        if (
            control is not None
        ):  # points of a cubic B-spline every 32 voxels; the second lies on voxel 0
            knots = np.meshgrid(*[np.arange(n) / 32 + 1 for n in size], indexing="ij")
            moved[axis] += ndimage.map_coordinates(control, knots, order=3, prefilter=False)
    if drawn["shift"]:
        moved[1:] += np.array(drawn["shift"]).T[:, :, None, None]
    result = np.empty_like(moved)
    for axis, source_axis in enumerate(drawn["source_axis"]):
        sign = -1 if drawn["reversed"][axis] else 1
        middle = start[source_axis] + (size[source_axis] - 1) / 2
        result[source_axis] = middle + sign * moved[axis]
    return result


def changed(image: Array, drawn: dict[str, Any]) -> Array:
    """Return normalised intensities after the drawn changes, without noise."""
    sections = drawn["sections"] or [(0.0, 1.0, 0.0, False)] * len(image)
    result = image.copy()
    for z, (blur, *_) in enumerate(sections):
        if sigma := np.hypot(drawn["blur"], blur):
            result[z] = ndimage.gaussian_filter(result[z], sigma, mode="nearest", truncate=4)
    low, high = result.min(), result.max()
    result = low + (high - low) * ((result - low) / (high - low)) ** drawn["gamma"]
    result = drawn["gain"] * result + drawn["offset"]
    for z, (_, gain, offset, missing) in enumerate(sections):
        result[z] = -MEAN / STD if missing else gain * result[z] + offset
    return result


@pytest.mark.parametrize("name", CHANGES)
def test_augmentation_equals_its_twin(name: str) -> None:
    size = (12, 12, 12) if "permutable_axes" in CHANGES[name] else (9, 40, 35)
    patches = source(size, augmentation=CHANGES[name])
    for index in range(8):
        _, image, classes = patches.load(0, 0, index)
        number = patches.number(0, 0, index)
        start = patches.training_place(0, number).box[0]
        drawn = core.Augmentation(**CHANGES[name]).drawn(size, 3, 0, number)
        at = places(drawn, start, size)
        truth = ndimage.map_coordinates(IMAGE.astype(float), at, order=1, mode="nearest")
        truth = changed((truth - MEAN) / STD, drawn)
        np.testing.assert_allclose(image[..., 0], truth, atol=3e-6)
        nearest = np.floor(at + 0.5).astype(int)
        limits = np.array(IMAGE.shape)[:, None, None, None]
        known = ((nearest >= 0) & (nearest < limits)).all(axis=0)
        labels = LABELS[tuple(np.clip(nearest, 0, limits - 1))]
        np.testing.assert_array_equal(classes, np.where(known, labels, NONE))


def test_noise_is_normal() -> None:
    plain = source((16, 32, 32)).load(0, 0, 0)[1]
    noise = source((16, 32, 32), augmentation={"noise": 0.5}).load(0, 0, 0)[1] - plain
    assert abs(noise.mean()) < 0.02
    assert abs(noise.std() - 0.5) < 0.02
    assert abs(np.abs(noise / 0.5 < 1).mean() - 0.8413) < 0.02


def boundary_level(image: Array, labels: Array, none: int) -> float:
    """Return the mean of the pairs of neighbours with different labels, of which none is `none`."""
    values: list[Array] = []
    for axis in range(3):
        shade, label = np.moveaxis(image, axis, 0), np.moveaxis(labels, axis, 0)
        pairs = (label[1:] != label[:-1]) & (label[1:] != none) & (label[:-1] != none)
        values += [shade[1:][pairs], shade[:-1][pairs]]
    return float(np.concatenate(values).mean(dtype=float))


def test_objects_become_faint_about_the_level_of_boundaries() -> None:
    objects = LABELS + 3 * (np.arange(44) > 20).astype(np.uint8)  # 0 is background
    objects[:, 38:] = 9
    targets = core.affinity_targets([(0, 0, -2)], balance=False, descriptors=(0, 0, 0))
    more: dict[str, Any] = {"labels": [objects], "targets": targets}
    more["values"] = [(9, -1), *[(n, n) for n in range(6)]]
    plain = source((9, 20, 20), **more)
    faint = source((9, 20, 20), augmentation={"faint_object": 0.4}, **more)
    contrasts = []
    for index in range(20):
        image, before = (one.load(0, 0, index)[1][..., 0] for one in (faint, plain))
        place = plain.training_place(0, plain.number(0, 0, index))
        labels = objects[box(*place.box)].astype(int)
        level = boundary_level(before, labels, none=9)
        clear = np.abs(before - level) > 0.05
        for label in np.unique(labels[clear]):
            inner = (labels == label) & clear
            ratio = (image[inner] - level) / (before[inner] - level)
            np.testing.assert_allclose(ratio, ratio.mean(), atol=2e-4)
            if label in (0, 9):  # background, and voxels without a label
                assert ratio.mean() == pytest.approx(1, abs=1e-5)
            else:
                contrasts.append(ratio.mean())
    drawn = [one for one in contrasts if abs(one - 1) > 1e-4]
    assert 0.2 < len(drawn) / len(contrasts) < 0.6
    assert -0.501 < min(drawn) < -0.2
    assert 0.2 < max(drawn) < 0.501


def test_patches_of_few_sections_lose_none() -> None:
    lost = {"missing_section": 1.0}
    assert (source((3, 8, 8), augmentation=lost).load(0, 0, 0)[1] == -MEAN / STD).all()
    assert source((2, 8, 8), augmentation=lost).load(0, 0, 0)[1].std() > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rotation_deg": 181.0}, "rotation_deg is 181, expected 0 to 180"),
        ({"gain": 1.0}, "gain is 1, expected 0 .off. or more, below 1"),
        ({"elastic": -1.0}, "elastic is -1"),
        ({"gamma": float("nan")}, "gamma is nan"),
        (
            {"missing_section": 0.6, "dark_section": 0.6},
            "missing_section .* is 1.2, expected a prob",
        ),
        ({"faint_object": 1.1}, "faint_object is 1.1, expected a probability"),
        ({"faint_object": 0.4}, "faint_object is 0.4, but the labels are classes"),
        ({"permutable_axes": [0, 1]}, "axes 0 and 1 have different patch sizes"),
        ({"reflectable_axes": [3]}, "different axes out of 0"),
    ],
)
def test_wrong_augmentation_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        source((4, 8, 9), augmentation=changes)


# whole sections


@pytest.mark.parametrize("size", [(40, 44), (48, 48), (30, 45)])
def test_whole_sections_are_padded_or_cut(size: tuple[int, int]) -> None:
    patches = source((1, *size), whole=True, patches=None)
    assert patches.fixed_size == len(IMAGE)
    _, image, classes = patches.fixed(5)
    for axis, (n, stored) in enumerate(zip(size, IMAGE.shape[1:], strict=True)):
        assert image.shape[1 + axis] == n
        low = max(0, (n - stored) // 2)
        assert (classes.take(range(low), axis=1 + axis) == NONE).all()
    start = patches.fixed_place(5).box[0]
    y, x = (range(a, a + n) for a, n in zip(start[1:], size, strict=True))
    rows = [i for i, at in enumerate(y) if 0 <= at < IMAGE.shape[1]]
    columns = [i for i, at in enumerate(x) if 0 <= at < IMAGE.shape[2]]
    part = IMAGE[5][np.ix_([y[i] for i in rows], [x[i] for i in columns])]
    np.testing.assert_allclose(
        image[0, :, :, 0][np.ix_(rows, columns)], (part - MEAN) / STD, atol=1e-6
    )
    padded = np.ones(size, bool)
    padded[np.ix_(rows, columns)] = False
    assert (image[0, :, :, 0][padded] == 0).all()
    assert sorted(patches.number(0, 0, i) for i in range(len(IMAGE))) == list(range(len(IMAGE)))


# labels


def test_values_are_translated() -> None:
    stored = np.array([0, 255, 9, 255], np.uint8)[LABELS]
    patches = source((24, 40, 44), labels=[stored], values=[(0, 0), (255, 1), (9, -1)])
    _, _, classes = patches.fixed(0)
    np.testing.assert_array_equal(classes, np.array([0, 1, NONE], np.uint8)[LABELS])


def test_values_of_64_bits_without_sign_are_translated() -> None:
    large = [2**64 - 1, 2**63 + 1, 2**53 + 1]
    stored = np.array(large, np.uint64)[LABELS]
    pairs = [(value, label) for label, value in enumerate(large)]
    _, _, classes = source((24, 40, 44), labels=[stored], values=pairs).fixed(0)
    np.testing.assert_array_equal(classes, LABELS)
    with pytest.raises(errors.InvalidArgumentError, match="18446744073709551616"):
        source((24, 40, 44), values=[(2**64, 1)])


def test_a_value_without_class_is_named_with_its_place() -> None:
    stored = LABELS.astype(np.int32)
    stored[3, 7, 11] = 254
    message = (
        r"value 254 at \(3, 7, 11\) \(z, y, x\) is no class, expected 0, 1, 2; accept it by "
        r'task.classes = \{ ..., 254 = "NAME" \}, or by data.unlabelled = 254'
    )
    with pytest.raises(errors.InvalidFileError, match=message):
        source((8, 16, 16), labels=[stored], values=[(0, 0), (1, 1), (2, 2)])


def test_several_masks_are_classes_that_must_not_overlap() -> None:
    one, two = (LABELS == 1).astype(np.uint8), 2 * (LABELS == 2).astype(np.uint8)
    _, _, classes = source((24, 40, 44), labels=[one, two]).fixed(0)
    np.testing.assert_array_equal(classes, LABELS)
    two[2, 3, 4], one[2, 3, 4] = 2, 1
    with pytest.raises(errors.InvalidFileError, match=r"data.volumes.masks overlap at \(2, 3, 4\)"):
        source((24, 40, 44), labels=[one, two])


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64, np.uint32])
def test_no_label_is_minus_one_of_every_type(dtype: Any) -> None:
    stored = LABELS.astype(dtype)
    stored[0, 0, :5] = np.array(-1).astype(dtype)
    _, _, classes = source((24, 40, 44), labels=[stored]).fixed(0)
    assert (classes[0, 0, :5] == NONE).all()
    assert (classes != NONE).sum() == LABELS.size - 5


def test_labels_may_be_smaller_than_the_image() -> None:
    part = np.ascontiguousarray(LABELS[4:14, 10:30, 3:40])
    patches = source((16, 32, 44), labels=[part], start=(4, 10, 3))
    start, size = patches.fixed_place(0).box
    _, _, classes = patches.fixed(0)
    expected = np.full(IMAGE.shape, NONE)
    expected[4:14, 10:30, 3:40] = part
    np.testing.assert_array_equal(classes, expected[box(start, size)])
    with pytest.raises(errors.OutOfRangeError, match="are not inside the image"):
        source((8, 8, 8), labels=[part], start=(20, 0, 0))


@pytest.mark.parametrize(
    ("given_", "error", "message"),
    [
        ({"patch": (25, 8, 8)}, errors.InvalidArgumentError, "are larger than the volume .24, 40, 44."),
        ({"regions": [((0, 0, 0), (25, 1, 1))]}, errors.OutOfRangeError, "is not inside the volume"),
        ({"labels": [np.full_like(LABELS, 5)], "values": [(5, -1)]}, errors.InvalidArgumentError,
         "no voxel of box = .0:24,0:40,0:44. has a label"),
        ({"class_weights": [1.0]}, errors.InvalidArgumentError, "1 given, expected one for each of the 3"),
        ({"values": [(1, 0), (1, 1)]}, errors.InvalidArgumentError, "value 1 has two labels"),
        ({"order": (30, 1, 0)}, errors.InvalidArgumentError, "need more than the 20 patches"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(given_: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        source(**{"patch": (8, 16, 16), **given_})


# targets


def objects() -> Array:
    """Return labels of 18 x 30 x 26 voxels: objects, 0 between them, and a corner without labels."""
    image, _ = scene((18, 30, 26))
    labels, count = ndimage.label(image > 128)
    assert count > 5
    labels[:4, :6] = -1
    return labels.astype(np.int64)


def descriptors(labels: Array, deviation: tuple[float, float, float]) -> Array:
    """Return local shape descriptors, from their definition with filters of SciPy."""

    def window(values: Array) -> Array:
        result: Array = ndimage.gaussian_filter(values, deviation, mode="constant", truncate=3)
        return result

    at = np.stack(np.meshgrid(*map(np.arange, labels.shape), indexing="ij")).astype(float)
    result = np.zeros((*labels.shape, 10))
    for label in np.unique(labels[labels > 0]):
        mask = (labels == label).astype(float)
        mass = np.where(mask, window(mask), 1)
        mean = [window(mask * c) / mass for c in at]
        spread = [
            np.maximum(1e-3, window(mask * c * c) / mass - m * m)
            for c, m in zip(at, mean, strict=True)
        ]
        own = [0.5 * (m - c) / s + 0.5 for m, c, s in zip(mean, at, deviation, strict=True)]
        own += [v / s**2 for v, s in zip(spread, deviation, strict=True)]
        for a, b in ((0, 1), (0, 2), (1, 2)):
            together = window(mask * at[a] * at[b]) / mass - mean[a] * mean[b]
            own.append(0.5 * together / np.sqrt(spread[a] * spread[b]) + 0.5)
        innerobject = np.clip(np.stack([*own, mass], -1), 0, 1)
        result[mask > 0] = innerobject[mask > 0]
    return result


@pytest.mark.parametrize("zero_is_boundary", [False, True])
def test_affinities_equal_their_definition(zero_is_boundary: bool) -> None:
    labels = objects()
    labels[labels == 0] = 0 if zero_is_boundary else -1
    offsets = [(-1, 0, 0), (0, 3, 0), (2, -1, -5)]
    targets = core.affinity_targets(offsets, balance=False, descriptors=(0.0, 0.0, 0.0))
    _, _, found, weights = targets.make(labels, True)
    for channel, offset in enumerate(offsets):
        to = np.indices(labels.shape) + np.reshape(offset, (3, 1, 1, 1))
        limits = np.reshape(labels.shape, (3, 1, 1, 1))
        fits = ((to >= 0) & (to < limits)).all(axis=0)
        other = np.where(fits, labels[tuple(np.clip(to, 0, limits - 1))], -1)
        np.testing.assert_array_equal(found[..., channel], (labels > 0) & (labels == other))
        np.testing.assert_array_equal(weights[..., channel], (labels >= 0) & (other >= 0))


def test_balanced_affinities_weigh_ones_and_zeros_alike() -> None:
    targets = core.affinity_targets(
        [(-1, 0, 0), (0, 0, -4)], balance=True, descriptors=(0.0, 0.0, 0.0)
    )
    _, _, found, weights = targets.make(objects(), True)
    for channel in range(2):
        ones = weights[..., channel][found[..., channel] == 1].sum()
        assert ones == pytest.approx(weights[..., channel].sum() / 2, rel=1e-5)
    assert set(np.unique(targets.make(objects(), False)[3])) == {0.0, 1.0}


@pytest.mark.parametrize("deviation", [(1.5, 2, 2.4), (0.1, 3, 2.4), (2.4, 4.5, 2)])
def test_shape_descriptors_equal_their_definition(deviation: tuple[float, float, float]) -> None:
    labels, border = objects(), [int(3 * one + 0.5) for one in deviation]
    targets = core.affinity_targets([(0, 0, -1)], balance=True, descriptors=deviation)
    _, _, found, weights = targets.make(labels, True)
    inner = tuple(slice(b, n - b) for b, n in zip(border, labels.shape, strict=True))
    np.testing.assert_allclose(found[..., 1:], descriptors(labels, deviation)[inner], atol=1e-4)
    for channel in range(1, 11):
        np.testing.assert_array_equal(weights[..., channel], labels[inner] > 0)


@pytest.mark.parametrize("scale", [6.0, 11.0])
def test_distances_equal_their_definition(scale: float) -> None:
    labels, voxel = objects(), (4.0, 2.0, 2.0)
    _, _, found, weights = core.distance_targets(scale, voxel_size=voxel).make(labels, True)
    signed = -ndimage.distance_transform_edt(labels <= 0, sampling=voxel)
    for label in np.unique(labels[labels > 0]):
        own = ndimage.distance_transform_edt(labels == label, sampling=voxel)
        signed[labels == label] = own[labels == label]
    inner = tuple(
        slice(int(np.ceil(2 * scale / v)), n - int(np.ceil(2 * scale / v)))
        for v, n in zip(voxel, labels.shape, strict=True)
    )
    hidden = ndimage.distance_transform_edt(labels >= 0, sampling=voxel).astype(np.float32)
    known = ((hidden > np.abs(signed).astype(np.float32)) | (hidden >= 2 * scale))[inner]
    np.testing.assert_array_equal(weights[..., 0], known)
    assert known.any()
    expected = 0.5 + 0.5 * np.tanh(signed[inner] / scale)
    np.testing.assert_allclose(found[..., 0][known], expected[known], atol=1e-6)


def test_an_object_that_fills_its_box_has_no_known_boundary() -> None:
    labels = np.full((40, 40, 40), -1)
    labels[14:26, 14:26, 14:26] = 7
    _, _, _, weights = core.distance_targets(4, voxel_size=(1, 1, 1)).make(labels, True)
    assert not weights.any()


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
)  # fmt: skip
def test_python_and_the_core_agree_about_values_without_a_label(dtype: str) -> None:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        values = [-3, -1, 0, 1, 2**24, 2**32, 2**32 - 1, 2**40]
    else:
        least, largest = np.iinfo(kind).min, np.iinfo(kind).max
        odd = [-3, -2, -1, 0, 1, *(2**bits - k for bits in (31, 32, 53, 63, 64) for k in range(5))]
        values = sorted({least, largest, *(v for v in odd if least <= v <= largest)})
    labels = np.tile(np.array(values, kind), (2, 3, 1))
    shape = labels.shape
    patches = source(
        shape,
        image=np.zeros(shape, np.uint8),
        labels=[labels],
        targets=core.distance_targets(0.25, voxel_size=(1, 1, 1)),
    )
    _, _, _, weights = patches.fixed(0)
    none = no_label.missing(labels)
    expected = np.zeros(shape, bool) if none is None else none
    np.testing.assert_array_equal(weights[..., 0] == 0, expected)


def test_labels_of_64_bits_are_objects_up_to_the_largest() -> None:
    labels = np.zeros((4, 8, 8), np.uint64)
    labels[:, :4], labels[:, 4:] = 2**63 + 5, 2**63 + 6
    patches = source(
        (4, 8, 8),
        image=np.zeros(labels.shape, np.uint8),
        labels=[labels],
        targets=core.affinity_targets([(0, -1, 0)], balance=False, descriptors=(1, 1, 1)),
    )
    _, _, targets, weights = patches.fixed(0)
    np.testing.assert_array_equal(
        targets[:, 1:, :, 0] == 0, (np.arange(1, 8) == 4)[None, :, None] & np.ones((4, 7, 8), bool)
    )
    assert (weights[..., 1:] == 1).all()  # the shape of an object is learnt in every voxel
    assert (targets[..., 10] > 0).all()
