# SPDX-License-Identifier: Apache-2.0
"""Statistics of volumes: against NumPy's on whole arrays, on damaged copies of real and synthetic volumes."""

from __future__ import annotations

import dataclasses
import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import data, errors
from floodtide.data import look
from floodtide.data.look import sampling
from floodtide.data.look.alignment import Orientation
from floodtide.data.look.image import BINS, ImageStatistics, bin_edges
from floodtide.data.look.sections import SectionSums
from floodtide.data.look.trained_on import from_text, to_text

Array = np.ndarray[Any, Any]

DATA = Path(os.environ.get("FLOODTIDE_DATA", Path(__file__).parents[5] / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not (DATA / "gala_fib").exists(), reason="needs the volumes of $FLOODTIDE_DATA"
)


@pytest.fixture(scope="module")
def synthetic() -> tuple[Array, Array]:
    """A synthetic volume of 48 x 80 x 96 voxels and its labels."""
    return data.synth((48, 80, 96), seed=3)


@pytest.fixture(scope="module")
def cube() -> tuple[Array, Array]:
    """A synthetic volume of 64 x 64 x 64 voxels and its labels."""
    return data.synth((64, 64, 64), seed=5)


def statistics(image: Array, **more: Any) -> ImageStatistics:
    return look.image_statistics(data.Volume(image), **more)


def kinds(image: Array) -> list[tuple[int, str]]:
    found = statistics(image).sections
    assert found is not None
    return [(one.section, one.kind) for one in found.findings]


@given(extent=st.integers(1, 3000), cube=st.integers(2, 80), count=st.integers(1, 9))
def test_cubes_lie_inside_and_mirror_each_other(extent: int, cube: int, count: int) -> None:
    edge = sampling.edge_of(extent, cube)
    first = sampling.starts(extent, edge, count)
    assert 0 < edge <= extent
    assert len(first) <= count
    assert first == sorted(set(first))
    assert all(b - a >= edge for a, b in itertools.pairwise(first))
    assert first[0] >= 0
    assert first[-1] + edge <= extent
    assert [extent - edge - one for one in reversed(first)] == first


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 20), st.integers(1, 90), st.integers(1, 90)),
    budget=st.integers(1, 200_000),
)
def test_columns_are_disjoint_and_cover_a_small_box(
    shape: tuple[int, int, int], budget: int
) -> None:
    whole = ((3, 5, 7), shape)
    hits = np.zeros(shape, int)
    for start, size in sampling.columns(whole, budget):
        assert (start[0], size[0]) == (3, shape[0])
        hits[:, start[1] - 5 : start[1] - 5 + size[1], start[2] - 7 : start[2] - 7 + size[2]] += 1
    assert hits.max() == 1
    assert hits.min() == 1 or budget < hits.size


@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(["uint8", "int8", "uint16", "int16", "float32", "float64"]),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 12), st.integers(1, 12)),
    seed=st.integers(0, 99),
)
def test_image_statistics_are_those_of_numpy(
    dtype: str, shape: tuple[int, int, int], seed: int
) -> None:
    image = (np.random.default_rng(seed).normal(60, 20, shape)).astype(dtype)
    found = statistics(image)
    assert found.whole
    assert (found.shape, found.dtype, found.sampled) == (shape, dtype, image.size)
    assert (found.minimum, found.maximum) == (image.min(), image.max())
    # Sums of n values in double precision, some of them over squares of up to 2 ** 14.
    assert found.mean == pytest.approx(image.mean(dtype=np.float64), rel=1e-12)
    assert found.std == pytest.approx(image.std(dtype=np.float64), rel=1e-9, abs=1e-9)
    assert sum(found.histogram) == image.size
    assert len(found.histogram) <= BINS
    assert found.sections is not None
    assert found.sections.means == pytest.approx(image.mean((1, 2), dtype=np.float64), rel=1e-9)
    assert found.sections.stds == pytest.approx(
        image.std((1, 2), dtype=np.float64), rel=1e-6, abs=1e-6
    )


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize("levels", [1, 2, 64, 65, 163, 256])
def test_the_bins_of_evenly_spread_integers_are_even(dtype: str, levels: int) -> None:
    least = 0 if dtype == "uint8" else -90
    image = (least + np.arange(levels)).astype(dtype).reshape(1, 1, -1)
    *counts, last = statistics(image).histogram
    assert len({*counts, last} if levels % BINS == 0 or levels <= BINS else set(counts)) == 1
    edges = bin_edges(least, least + levels - 1, whole=True)
    assert edges[0] < least < edges[1]
    assert edges[-2] < least + levels - 1 < edges[-1]


@settings(max_examples=30, deadline=None)
@given(
    depth=st.integers(2, 12), cut=st.lists(st.integers(1, 11), max_size=3), seed=st.integers(0, 99)
)
def test_sections_do_not_depend_on_slabs(depth: int, cut: list[int], seed: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (depth, 6, 10), dtype=np.uint8)
    image[depth // 2] = image[depth // 2 - 1]
    whole, parts = SectionSums(0, depth), SectionSums(0, depth)
    ends = sorted({0, depth, *(c for c in cut if c < depth)})
    for column in (image[:, :, :4], image[:, :, 4:]):
        whole.add(0, column)
        for first, last in itertools.pairwise(ends):
            parts.add(first, column[first:last])
    a, b = whole.sections(), parts.sections()
    assert a.findings == b.findings
    np.testing.assert_allclose(a.means, b.means, rtol=1e-12)
    # Offsets of the two sums differ.
    np.testing.assert_allclose(a.correlations, b.correlations, rtol=1e-9, atol=1e-9)
    for at in range(depth - 1):
        expected = np.corrcoef(image[at].ravel(), image[at + 1].ravel())[0, 1]
        assert a.correlations[at] == pytest.approx(expected, abs=1e-9)


def test_bad_sections_are_found_and_left_out(synthetic: tuple[Array, Array]) -> None:
    image = synthetic[0].copy()
    assert kinds(image) == []
    clean = statistics(image)
    image[7] = 0
    image[20] = image[20] // 4
    image[30] = image[30, ::-1, ::-1]
    image[47] = image[46]
    found = statistics(image)
    assert kinds(image) == [(7, "missing"), (20, "dark"), (30, "foreign"), (47, "repeated")]
    assert found.left_out == "4 bad sections"
    assert abs(found.proposed_mean - clean.mean) < 1.0 < abs(found.mean - clean.mean)
    assert abs(found.proposed_std - clean.std) < 1.0


def test_a_shift_is_a_jump_and_no_bad_section(synthetic: tuple[Array, Array]) -> None:
    image = synthetic[0].copy()
    image[24:] = np.roll(image[24:], 11, axis=2)
    assert kinds(image) == [(24, "jump")]
    assert statistics(image).left_out == ""


def test_drift_of_brightness_is_measured(synthetic: tuple[Array, Array]) -> None:
    image = synthetic[0].astype(np.float32)
    steady = statistics(image).sections
    drifting = statistics(image + np.linspace(0, 60, len(image))[:, None, None]).sections
    assert steady is not None
    assert drifting is not None
    assert drifting.findings == ()
    assert drifting.drift > 2 * steady.drift > 0


def test_padding_is_left_out_of_the_proposal(synthetic: tuple[Array, Array]) -> None:
    image = synthetic[0]
    padded = statistics(np.pad(image, ((0, 0), (20, 20), (0, 0))))
    clean = statistics(image)
    assert padded.left_out == "voxels of value 0 (padding)"
    assert padded.proposed_mean == pytest.approx(clean.mean, abs=0.5)
    assert padded.proposed_std == pytest.approx(clean.std, abs=0.5)
    assert padded.lowest_share > 0.3


def test_thick_sections_are_the_coarsest_axis() -> None:
    image = data.synth((80, 64, 64), seed=1)[0]
    thick = image.reshape(16, 5, 64, 64).mean(axis=1).astype(np.uint8)  # five times as thick
    isotropic, stored = statistics(image).sharpness, statistics(thick).sharpness
    turned = statistics(np.ascontiguousarray(thick.transpose(1, 2, 0))).sharpness
    lengths = []
    for found in (isotropic, stored, turned):
        assert found is not None
        known = [length for length in found.length if length is not None]
        assert len(known) == 3
        lengths.append(known)
    assert max(lengths[0]) < 2 * min(lengths[0])
    assert max(lengths[1]) > 2 * lengths[1][0]
    assert max(lengths[2]) > 2 * lengths[2][2]


def test_not_a_number_is_named(synthetic: tuple[Array, Array]) -> None:
    image = synthetic[0].astype(np.float32)
    image[3, 4, 5] = np.nan
    with pytest.raises(errors.InvalidFileError, match=r"3, 4, 5 \(z, y, x\) is not a finite"):
        statistics(image)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sign", [1, -1])
def test_grey_levels_whose_squares_overflow_are_named(
    synthetic: tuple[Array, Array], dtype: type, sign: int
) -> None:
    image = synthetic[0].astype(dtype)
    image[3, 4, 5] = sign * (1e300 if dtype is np.float64 else 1e38)
    with pytest.raises(
        errors.InvalidFileError, match=r"3, 4, 5 \(z, y, x\) is -?1e\+.*expected grey"
    ):
        statistics(image)
    image[3, 4, 5] = sign * 1e15 * 0.999
    assert np.isfinite(statistics(image).std)


def test_labels_are_no_image_and_fractions_no_labels(synthetic: tuple[Array, Array]) -> None:
    image, labels = synthetic
    with pytest.raises(errors.InvalidFileError, match="int64, as labels do"):
        statistics(labels)
    with pytest.raises(errors.InvalidFileError, match=r"labels are float32, and 0\.\d+ at 0, 0, 0"):
        look.label_statistics(data.Volume((image / 256).astype(np.float32)))
    assert look.label_statistics(data.Volume(image)).like_image
    assert not look.label_statistics(data.Volume(labels)).like_image


def test_statistics_of_the_largest_ids(synthetic: tuple[Array, Array]) -> None:
    labels = synthetic[1].astype(np.uint64)
    expected = look.label_statistics(data.Volume(labels, name="labels"))
    labels[labels != 0] += np.uint64(2**63)
    found = look.label_statistics(data.Volume(labels, name="labels"))
    assert found.largest == tuple((one + 2**63, size) for one, size in expected.largest)
    assert (found.lowest, found.highest) == (0, expected.highest + 2**63)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_of_whole_floats(synthetic: tuple[Array, Array], dtype: Any) -> None:
    labels = synthetic[1].copy()
    labels[0, 0, :3] = -1  # no label
    expected = look.label_statistics(data.Volume(labels, name="labels"))
    found = look.label_statistics(data.Volume(labels.astype(dtype), name="labels"))
    assert dataclasses.replace(found, dtype="int64") == expected
    for value in (0.5, np.nan, np.inf, 2.0**60):
        stored = labels.astype(dtype)
        stored[1, 2, 3] = value
        with pytest.raises(errors.InvalidFileError, match=r"1, 2, 3 \(z, y, x\); expected whole"):
            look.label_statistics(data.Volume(stored))


@settings(max_examples=30, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
    objects=st.integers(1, 30),
    seed=st.integers(0, 99),
)
def test_label_statistics_are_those_of_numpy(
    shape: tuple[int, int, int], objects: int, seed: int
) -> None:
    labels = np.random.default_rng(seed).integers(0, objects + 1, shape) * 1_000_003
    found = look.label_statistics(data.Volume(labels))
    ids, sizes = np.unique(labels[labels != 0], return_counts=True)
    assert found.objects == len(ids)
    assert found.unlabelled == pytest.approx(float((labels == 0).mean()))
    assert found.at_least[:2] == (len(ids), int((sizes >= 10).sum()))
    assert found.median_size == (float(np.median(sizes)) if len(ids) else 0.0)
    assert dict(found.largest).items() <= dict(zip(ids, sizes, strict=True)).items()
    assert (found.lowest, found.highest) == (labels.min(), labels.max())
    for start, size in found.boxes if len(found.boxes) == 1 else ():  # changes are those inside
        z, y, x = (slice(a, a + n) for a, n in zip(start, size, strict=True))
        differ = [np.diff(labels[z, y, x], axis=axis) != 0 for axis in range(3)]
        shares = [float(one.mean()) if one.size else 0.0 for one in differ]
        assert found.changes == pytest.approx(shares)


ORIENTATIONS = [
    Orientation((z, y, x), (bool(a), bool(b), bool(c)))
    for z, y, x in itertools.permutations(range(3))
    for a, b, c in itertools.product((0, 1), repeat=3)
]


@pytest.mark.parametrize("orientation", ORIENTATIONS[::5], ids=lambda one: one.expression)
def test_every_orientation_of_labels_is_recognised(
    orientation: Orientation, cube: tuple[Array, Array]
) -> None:
    image, labels = cube
    stored = np.ascontiguousarray(orientation.undo(labels))
    found = look.alignment(data.Volume(image), data.Volume(stored))
    assert len(found.candidates) == 48
    turned = eval(found.candidates[0].expression, {"labels": stored})
    assert (turned == labels).all()
    assert found.verdict == ("aligned" if orientation == Orientation() else "other")


def test_alignment_with_other_shapes(synthetic: tuple[Array, Array]) -> None:
    image, labels = synthetic
    turned = np.ascontiguousarray(labels.transpose(2, 0, 1))
    found = look.alignment(data.Volume(image), data.Volume(turned))
    assert len(found.candidates) == 8
    assert found.stored is None
    assert found.clear is not None
    assert (eval(found.clear.expression, {"labels": turned}) == labels).all()
    with pytest.raises(errors.ShapeError, match="cut both to the same part"):
        look.alignment(data.Volume(image), data.Volume(labels[1:].copy()))


def test_without_labels_nothing_is_judged(synthetic: tuple[Array, Array]) -> None:
    image, labels = synthetic
    found = look.alignment(data.Volume(image), data.Volume(np.zeros_like(labels)))
    assert (found.verdict, found.candidates, found.clear) == ("unclear", (), None)
    noise = np.random.default_rng(0).integers(0, 255, image.shape, np.uint8)
    assert look.alignment(data.Volume(noise), data.Volume(labels)).verdict == "unclear"


def test_a_sample_stands_for_the_whole(synthetic: tuple[Array, Array]) -> None:
    z, y, x = np.ogrid[:128, :160, :192]
    noise = np.random.default_rng(0).normal(0, 20, (128, 160, 192))
    image = (120 + z / 8 + 10 * np.sin(y / 9) + 10 * np.sin(x / 7) + noise).astype(np.uint8)
    whole, sample = statistics(image), statistics(image, budget=1 << 19)
    assert whole.whole
    assert not sample.whole
    assert sample.sections is None
    assert sample.mean == pytest.approx(whole.mean, abs=0.3 * whole.std)
    assert sample.std == pytest.approx(whole.std, rel=0.2)


def test_what_checkpoints_keep_is_read_back(synthetic: tuple[Array, Array]) -> None:
    kept = look.trained_on(
        statistics(synthetic[0]), name="cube", mean=128.0, std=33.0, voxel_size_nm=None
    )
    assert from_text(to_text([kept, look.FIB25]), "file") == (kept, look.FIB25)
    assert from_text("", "file") == ()
    for wrong in ("{", "{}", "[1]", '[{"name": "a"}]', to_text([kept]).replace("33.0", "-1.0")):
        with pytest.raises(errors.InvalidFileError, match=r"file: .*expected statistics"):
            from_text(wrong, "file")


@needs_data
@pytest.mark.data
def test_fib25_has_the_published_figures() -> None:
    folder = DATA / "fib25" / "training_sample2"
    image = data.Volume(folder / "grayscale_maps.h5", "raw")
    labels = data.Volume(folder / "groundtruth.h5", "stack")
    found = look.image_statistics(image)
    assert (found.minimum, found.maximum) == (26, 217)
    assert found.mean == pytest.approx(130.03, abs=0.01)
    assert found.std == pytest.approx(33.45, abs=0.01)
    assert found.sections is not None
    assert found.sections.findings == ()
    objects = look.label_statistics(labels)
    assert (objects.objects, objects.at_least[3], objects.at_least[4]) == (525, 209, 93)
    assert objects.largest[0][1] / objects.sampled == pytest.approx(0.237, abs=0.001)
    assert objects.unlabelled == pytest.approx(1.6e-5, abs=1e-6)
    aligned = look.alignment(image, labels)
    assert aligned.verdict == "aligned"
    assert aligned.stored is not None
    assert aligned.stored.difference == pytest.approx(-35.1, abs=1.5)  # over cubes of 64 voxels
    assert max(abs(one.difference) for one in aligned.candidates[1:]) < 7
    flat = look.label_statistics(data.Volume(folder / "groundtruth.h5", "superpixels"))
    assert flat.flat_axis == 0
    assert flat.changes[0] == pytest.approx(0.998, abs=0.003)


@needs_data
@pytest.mark.data
def test_gala_has_the_published_figures() -> None:
    folder = DATA / "gala_fib" / "train"
    image = data.Volume(folder / "grayscale_maps.h5", "raw")
    labels = data.Volume(folder / "groundtruth.h5", "stack")
    found = look.image_statistics(image)
    assert found.mean == pytest.approx(148.22, abs=0.01)
    assert found.std == pytest.approx(55.28, abs=0.01)
    assert (found.proposed_mean, found.proposed_std) == pytest.approx((found.mean, found.std))
    assert kinds(image.read()) == []
    objects = look.label_statistics(labels)
    assert (objects.objects, objects.at_least[3], objects.at_least[4]) == (87, 43, 20)
    assert objects.unlabelled == pytest.approx(0.067, abs=0.001)
    aligned = look.alignment(image, labels)
    assert (aligned.verdict, len(aligned.candidates)) == ("aligned", 8)
    damaged = image.read()
    damaged[20] = 0
    damaged[33] = np.random.default_rng(0).permutation(damaged[33].ravel()).reshape(100, 200)
    assert kinds(damaged) == [(20, "missing"), (33, "foreign")]
    turned = np.ascontiguousarray(labels.read()[:, :, ::-1])
    wrong = look.alignment(image, data.Volume(turned)).clear
    assert wrong is not None
    assert wrong.expression == "labels[:, :, ::-1]"
