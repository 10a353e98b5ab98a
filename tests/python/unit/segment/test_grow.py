# SPDX-License-Identifier: Apache-2.0
"""Segments that grow into unsegmented voxels, against SciPy."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from floodtide import _core, nn, segment

FACES = ndimage.generate_binary_structure(3, 1)


def twin(labels: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        ids = np.where(labels > 0, labels, np.iinfo(labels.dtype).max)
        smallest = ndimage.minimum_filter(ids, footprint=FACES, mode="constant", cval=ids.max())
        found = np.where(smallest == np.iinfo(labels.dtype).max, 0, smallest)
        labels = np.where(labels > 0, labels, found)
    return labels


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    steps=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_growing_is_that_of_scipy(shape: tuple[int, int, int], steps: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = random.integers(1, 5, shape) * (random.random(shape) < 0.1)
    labels = labels.astype(np.int32)
    np.testing.assert_array_equal(_core.segment.grow(labels, steps), twin(labels, steps))


def test_a_segmentation_grows_at_its_end() -> None:
    network = nn.FFN(depth=2, fov=(7, 7, 7), deltas=(2, 2, 2), features=4, seed=3)
    image = np.random.default_rng(0).integers(0, 255, (20, 20, 20)).astype(np.uint8)
    options = segment.SegmentOptions(
        mean=128.0, std=33.0, min_segment_size=1, seed_policy="grid", move_threshold=0.6
    )
    plain = segment.Segmenter(network, options).segment(image).segmentation
    more = dataclasses.replace(options, grow=2)
    found = segment.Segmenter(network, more).segment(image)
    grown = found.segmentation
    assert [one.voxels for one in found.origins] == [
        np.sum(grown == one.id) for one in found.origins
    ]
    assert 0 < np.count_nonzero(plain) < plain.size
    np.testing.assert_array_equal(grown, twin(plain.astype(np.int32), 2))
