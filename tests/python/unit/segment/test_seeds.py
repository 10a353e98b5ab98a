# SPDX-License-Identifier: Apache-2.0
"""Peak seeds against scipy and scikit-image, which google/ffn uses: equal lists, not near ones."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from skimage import morphology
from skimage.feature import peak_local_max

from floodtide import _core, errors

MEAN, STD = 128.0, 33.0


def oracle(raw, margin, mask=None, segments=None):
    """google/ffn's PolicyPeaks, with its margin filter and that of the segments."""
    image = (raw - np.float32(MEAN)) / np.float32(STD)
    edges = ndimage.generic_gradient_magnitude(image, ndimage.sobel)
    threshold = np.zeros(edges.shape, np.float32)
    ndimage.gaussian_filter(edges, 49.0 / 6.0, output=threshold, mode="reflect")
    edge = edges > threshold
    if mask is not None:
        edge |= mask
    if not edge.any() or edge.all():
        return np.zeros((0, 3), np.int64)
    distance = ndimage.distance_transform_edt(~edge).astype(np.float32)
    if mask is not None:
        distance[mask] = -1
    if segments is not None:
        distance[segments] = -1
    return noisy_peaks(distance, 3, 0, margin)


def noisy_peaks(values, min_distance, threshold, margin):
    """google/ffn's _find_peaks, sorted, with its margin filter."""
    noise = np.random.RandomState(42).random_sample(values.shape)
    peaks = peak_local_max(
        values + noise * 1e-4, min_distance=min_distance, threshold_abs=threshold, threshold_rel=0
    )
    peaks = np.array(sorted(map(tuple, peaks)), np.int64).reshape(-1, 3)
    inside = (peaks >= margin) & (peaks + margin < values.shape)
    return peaks[inside.all(axis=1)]


def seeds(raw, margin):
    return _core.segment.find_seeds(raw, MEAN, STD, "peaks", {}, list(margin), None)


def grid(raw, step, margin):
    return _core.segment.find_seeds(raw, MEAN, STD, "grid", {"grid_step": step}, list(margin), None)


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(*[st.integers(7, 24)] * 3),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1.0, 2.5]),
    st.tuples(*[st.integers(0, 4)] * 3),
)
def test_seeds_equal_the_oracle_on_random_images(shape, seed, blur, margin):
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(size=shape), blur)
    raw = np.round(128 + 60 * noise / noise.std()).clip(0, 255).astype(np.float32)
    np.testing.assert_array_equal(seeds(raw, margin), oracle(raw, margin))


@settings(deadline=None, max_examples=40)
@given(st.tuples(*[st.integers(7, 24)] * 3), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_seeds_beside_a_mask_equal_the_oracle(shape, seed, share):
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(size=shape), 1.5)
    raw = np.round(128 + 60 * noise / noise.std()).clip(0, 255).astype(np.float32)
    blobs = ndimage.gaussian_filter(rng.normal(size=shape), 1.5)
    mask = blobs > np.quantile(blobs, share)
    found = _core.segment.find_seeds(
        raw, MEAN, STD, "peaks", {}, [1, 1, 1], None, mask.astype(np.uint8)
    )
    expected = oracle(raw, (1, 1, 1), mask)
    np.testing.assert_array_equal(found, expected)
    assert not mask[tuple(found.T)].any()


def cells(shape, seed, blur=1.5):
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=shape), blur)
    return np.round(128 + 60 * noise / max(noise.std(), 1e-9)).clip(0, 255).astype(np.float32)


CLOSED = _core.segment.closed_bits()
CLOSED_TO_SEEDS = CLOSED["moves"] | CLOSED["seeds"] | CLOSED["segment"]


@st.composite
def closings(draw):
    """An image, and bits of all kinds in blobs."""
    shape = draw(st.tuples(*[st.integers(7, 22)] * 3))
    raw = cells(shape, draw(st.integers(0, 2**32 - 1)))
    closed = np.zeros(shape, np.uint8)
    for bit in CLOSED.values():
        blobs = cells(shape, draw(st.integers(0, 2**32 - 1)))
        closed[blobs > np.quantile(blobs, draw(st.floats(0.5, 1)))] |= bit
    return raw, closed, draw(st.tuples(*[st.integers(0, 3)] * 3))


def found_by(policy, raw, closed, margin):
    return _core.segment.find_seeds(raw, MEAN, STD, policy, {}, list(margin), None, closed)


def open_only(seeds, closed):
    return seeds[(closed[tuple(seeds.T)] & CLOSED_TO_SEEDS) == 0]


@settings(deadline=None, max_examples=30)
@given(closings())
def test_seeds_beside_masks_and_segments_equal_the_oracle(case):
    raw, closed, margin = case
    masks = (closed & (CLOSED["moves"] | CLOSED["seeds"])) > 0
    expected = oracle(raw, margin, masks, (closed & CLOSED["segment"]) > 0)
    np.testing.assert_array_equal(
        found_by("peaks", raw, closed, margin), open_only(expected, closed)
    )


@settings(deadline=None, max_examples=30)
@given(closings())
def test_brightest_voxels_come_first(case):
    raw, closed, margin = case
    order = np.argsort(raw.ravel(), kind="stable")[::-1]
    voxels = np.stack(np.unravel_index(order, raw.shape), axis=1)
    inside = ((voxels >= margin) & (voxels + margin < raw.shape)).all(axis=1)
    expected = open_only(voxels[inside], closed)
    np.testing.assert_array_equal(found_by("max", raw, closed, margin), expected)


@settings(deadline=None, max_examples=30)
@given(closings())
def test_peaks_of_the_intensity_equal_the_oracle(case):
    raw, closed, margin = case
    image = (raw - np.float32(MEAN)) / np.float32(STD)
    image[(closed & CLOSED_TO_SEEDS) > 0] = 0
    expected = open_only(noisy_peaks(image, 3, 0, margin), closed)
    np.testing.assert_array_equal(found_by("max_peaks", raw, closed, margin), expected)


@settings(deadline=None, max_examples=30)
@given(closings())
def test_peaks_of_the_empty_space_equal_the_oracle(case):
    raw, closed, margin = case
    empty = (closed & CLOSED["segment"]) == 0
    expected = np.zeros((0, 3), np.int64)
    if not empty.all():
        distance = ndimage.distance_transform_edt(empty).astype(np.float32)
        expected = open_only(noisy_peaks(distance, 2, 0.5, margin), closed)
    np.testing.assert_array_equal(found_by("fill_empty", raw, closed, margin), expected)


@pytest.mark.parametrize("shape", [(0, 9, 9), (1, 9, 0)])
def test_an_empty_image_is_refused(shape: tuple[int, int, int]) -> None:
    image = np.zeros(shape, np.float32)
    for policy in ("peaks", "grid", "max"):
        with pytest.raises(errors.ShapeError, match="expected at least one"):
            _core.segment.find_seeds(image, MEAN, STD, policy, {}, [2**63 - 1, 0, 0], None)


def test_the_oracles_of_further_policies_find_seeds():
    raw = cells((20, 21, 22), 5)
    closed = np.zeros(raw.shape, np.uint8)
    closed[0] = closed[-1] = CLOSED["segment"]
    for policy in ("max", "max_peaks", "fill_empty", "dense", "image_peaks", "disk_peaks"):
        assert len(found_by(policy, raw, closed, (2, 2, 2))) >= 5
    assert len(found_by("fill_empty", raw, 0 * closed, (2, 2, 2))) == 0


def normalised(raw):
    return (raw - np.float32(MEAN)) / np.float32(STD)


def inner(seeds, shape, margin):
    seeds = np.array(seeds, np.int64).reshape(-1, 3)
    return seeds[((seeds >= margin) & (seeds + margin < shape)).all(axis=1)]


def found_with(policy, values, raw, closed, margin):
    return _core.segment.find_seeds(raw, MEAN, STD, policy, values, list(margin), None, closed)


@settings(deadline=None, max_examples=30)
@given(closings(), st.floats(-1.5, 1.5, width=32), st.integers(0, 3), st.booleans())
def test_dense_seeds_equal_the_oracle(case, threshold, erosions, invert):
    raw, closed, margin = case
    chosen = normalised(raw) > np.float32(threshold)
    chosen = ~chosen if invert else chosen
    for _ in range(erosions):
        chosen = ndimage.binary_erosion(chosen, border_value=True)
    expected = open_only(inner(np.argwhere(chosen), raw.shape, margin), closed)
    values = {
        "dense_threshold": threshold,
        "dense_num_erosions": erosions,
        "dense_invert": float(invert),
    }
    np.testing.assert_array_equal(found_with("dense", values, raw, closed, margin), expected)


@settings(deadline=None, max_examples=60)
@given(closings(), st.integers(-1, 6), st.integers(-1, 6), st.sampled_from([1, 16, 64]))
@pytest.mark.filterwarnings("ignore:When min_distance < 1")
def test_image_peaks_equal_the_oracle(case, distance_2d, distance_3d, step):
    """With few grey levels there are plateaus, of which only voxels far from each other are seeds."""
    raw, closed, margin = case
    raw = raw // step * step
    image = normalised(raw)
    rows = []
    if distance_3d >= 0:
        rows += peak_local_max(image, min_distance=distance_3d).tolist()
    for z in range(len(image) if distance_2d >= 0 else 0):
        rows += [(z, y, x) for y, x in peak_local_max(image[z], min_distance=distance_2d)]
    expected = open_only(inner(rows, raw.shape, margin), closed)
    values = {
        "image_peaks_min_distance_2d": distance_2d,
        "image_peaks_min_distance_3d": distance_3d,
    }
    np.testing.assert_array_equal(found_with("image_peaks", values, raw, closed, margin), expected)


@settings(deadline=None, max_examples=60)
@given(
    closings(),
    st.integers(1, 6),
    st.floats(-1, 1, width=32),
    st.integers(0, 4),
    st.sampled_from([1, 16, 64]),
)
def test_disk_peaks_equal_the_oracle(case, distance, share, radius, step):
    raw, closed, margin = case
    raw = raw // step * step
    image = normalised(raw)
    rows = []
    for z, plane in enumerate(image):
        peaks = peak_local_max(
            plane,
            min_distance=distance,
            p_norm=2,
            threshold_rel=share,
            exclude_border=True,
            footprint=morphology.disk(radius=radius),
        )
        rows += [(z, y, x) for y, x in peaks]
    expected = open_only(inner(rows, raw.shape, margin), closed)
    values = {
        "disk_peaks_min_distance_2d": distance,
        "disk_peaks_threshold_rel": share,
        "disk_peaks_disk_radius": radius,
    }
    np.testing.assert_array_equal(found_with("disk_peaks", values, raw, closed, margin), expected)


def planar_oracle(raw, margin, mask, min_distance, threshold):
    """google/ffn's PolicyPeaks2d, with its margin filter."""
    found = [np.zeros((0, 3), np.int64)]
    for z, plane in enumerate((raw - np.float32(MEAN)) / np.float32(STD)):
        edges = ndimage.generic_gradient_magnitude(plane, ndimage.sobel)
        level = np.zeros(edges.shape, np.float32)
        ndimage.gaussian_filter(edges, 49.0 / 6.0, output=level, mode="reflect")
        edge = (edges > level) | mask[z]
        if not edge.any():
            continue
        distance = ndimage.distance_transform_edt(~edge).astype(np.float32)
        distance[mask[z]] = -1
        noise = np.random.RandomState(42).random_sample(distance.shape)
        peaks = peak_local_max(
            distance + noise * 1e-4,
            min_distance=min_distance,
            threshold_abs=threshold,
            threshold_rel=0,
        )
        peaks = np.array(sorted(map(tuple, peaks)), np.int64).reshape(-1, 2)
        found.append(np.insert(peaks, 0, z, axis=1))
    seeds = np.concatenate(found)
    inside = (seeds >= margin) & (seeds + margin < raw.shape)
    return seeds[inside.all(axis=1)]


@settings(deadline=None, max_examples=60)
@given(
    st.tuples(st.integers(1, 5), st.integers(3, 60), st.integers(3, 60)),
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.sampled_from([0.0, 1.0, 2.5]),
    st.floats(0, 1),
)
def test_planar_seeds_equal_the_oracle(shape, seed, min_distance, threshold, share):
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(size=shape), 2.0)
    raw = np.round(128 + 60 * noise / max(noise.std(), 1e-9)).clip(0, 255).astype(np.float32)
    mask = noise > np.quantile(noise, share)
    found = _core.segment.find_seeds(
        raw,
        MEAN,
        STD,
        "peaks2d",
        {"peaks2d_min_distance": min_distance, "peaks2d_threshold_abs": threshold},
        [0, 2, 1],
        None,
        mask.astype(np.uint8),
    )
    expected = planar_oracle(raw, (0, 2, 1), mask, min_distance, threshold)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.data
@pytest.mark.parametrize("box", [np.s_[65:185, 65:185, 65:185], np.s_[:50, 100:200, 30:]])
def test_seeds_equal_the_oracle_on_real_images(data_folder, box):
    with h5py.File(data_folder / "fib25/training_sample2/grayscale_maps.h5") as file:
        raw = file["raw"][box].astype(np.float32)
    ours = seeds(raw, (16, 16, 16))
    assert len(ours) > 100
    np.testing.assert_array_equal(ours, oracle(raw, (16, 16, 16)))


def test_seeds_do_not_depend_on_threads():
    raw = np.random.default_rng(0).uniform(0, 255, (20, 21, 22)).astype(np.float32)
    before = _core.num_threads()
    try:
        _core.set_num_threads(1)
        one = seeds(raw, (3, 3, 3))
        _core.set_num_threads(3)
        np.testing.assert_array_equal(seeds(raw, (3, 3, 3)), one)
    finally:
        _core.set_num_threads(before)


@pytest.mark.parametrize("shape", [(16, 16, 16), (3, 4, 5), (1, 1, 1)])
def test_flat_or_tiny_images_have_no_seeds(shape):
    assert seeds(np.full(shape, 7, np.float32), (0, 0, 0)).shape == (0, 3)


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(*[st.integers(7, 40)] * 3), st.integers(1, 20), st.tuples(*[st.integers(0, 4)] * 3)
)
def test_grids_are_those_of_google(shape, step, margin):
    shifts = dict.fromkeys(offset * step // 16 for offset in (0, 8, 4, 12, 2, 10, 14))
    expected = [
        (z, y, x)
        for shift in shifts
        for z in range(shift, shape[0], step)
        for y in range(shift, shape[1], step)
        for x in range(shift, shape[2], step)
        if all(m <= c < s - m for m, c, s in zip(margin, (z, y, x), shape, strict=True))
    ]
    ours = grid(np.zeros(shape, np.float32), step, margin)
    assert list(map(tuple, ours)) == expected


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(*[st.integers(1, 30)] * 3), st.integers(1, 20), st.tuples(*[st.integers(0, 4)] * 3)
)
def test_planar_grids_are_those_of_google(shape, step, margin):
    shifts = dict.fromkeys(offset * step // 16 for offset in (0, 8, 4, 12, 2, 6, 10, 14))
    expected = [
        (z, y, x)
        for shift in shifts
        for z in range(shape[0])
        for y in range(shift, shape[1], step)
        for x in range(shift, shape[2], step)
        if all(m <= c < s - m for m, c, s in zip(margin, (z, y, x), shape, strict=True))
    ]
    image = np.zeros(shape, np.float32)
    ours = _core.segment.find_seeds(
        image, MEAN, STD, "grid2d", {"grid2d_step": step}, list(margin), None
    )
    assert list(map(tuple, ours)) == expected


def test_a_step_that_no_grid_has_is_an_error():
    with pytest.raises(errors.InvalidArgumentError, match="grid_step is 0, expected 1 to 4096"):
        grid(np.zeros((8, 8, 8), np.float32), 0, (0, 0, 0))
    with pytest.raises(errors.InvalidArgumentError, match="no parameter 'grid_step'"):
        _core.segment.find_seeds(
            np.zeros((8, 8, 8), np.float32), MEAN, STD, "peaks", {"grid_step": 3}, [0, 0, 0], None
        )
