# SPDX-License-Identifier: Apache-2.0
"""How a box is cut into overlapping subvolumes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import errors
from floodtide.data.boxes import intersection
from floodtide.segment.pieces import Cut


@st.composite
def cuts(draw):
    start, whole, size, overlap = [], [], [], []
    for _ in range(3):
        start.append(draw(st.integers(0, 5)))
        whole.append(draw(st.integers(1, 30)))
        size.append(draw(st.integers(max(2, whole[-1] // 6), 12)))
        overlap.append(draw(st.integers(1, size[-1] // 2)))
    return Cut((tuple(start), tuple(whole)), tuple(size), tuple(overlap))


def slices(box, start):
    return tuple(slice(a - b, a - b + n) for a, b, n in zip(box[0], start, box[1], strict=True))


@settings(deadline=None, max_examples=50)
@given(cuts())
def test_cores_cover_every_voxel_once_and_lie_in_their_subvolumes(cut):
    seen = np.zeros(cut.box[1], int)
    for number in range(len(cut)):
        core, whole = cut.core(number), cut.subvolume(number)
        assert intersection(core, whole) == core
        assert whole[1] == cut.size
        assert intersection(whole, cut.box) == whole
        seen[slices(core, cut.box[0])] += 1
    assert (seen == 1).all()


@settings(deadline=None, max_examples=50)
@given(cuts())
def test_neighbours_overlap_by_at_least_what_was_asked(cut):
    for starts, size, overlap in zip(cut.starts, cut.size, cut.overlap, strict=True):
        for before, after in itertools.pairwise(starts):
            assert overlap <= before + size - after < size


@settings(deadline=None, max_examples=50)
@given(cuts())
def test_neighbours_are_the_subvolumes_beside_each_other(cut):
    places = list(itertools.product(*map(range, cut.counts)))
    expected = [
        (a, b)
        for (a, here), (b, there) in itertools.combinations(enumerate(places), 2)
        if max(abs(i - j) for i, j in zip(here, there, strict=True)) == 1
    ]
    assert sorted(cut.neighbours()) == expected


@settings(deadline=None, max_examples=50)
@given(cuts(), st.data())
def test_cores_in_a_box_are_those_that_share_voxels_with_it(cut, data):
    start = tuple(data.draw(st.integers(a, a + n - 1)) for a, n in zip(*cut.box, strict=True))
    size = tuple(
        data.draw(st.integers(1, a + n - b)) for a, n, b in zip(*cut.box, start, strict=True)
    )
    box = (start, size)
    expected = [n for n in range(len(cut)) if intersection(cut.core(n), box) is not None]
    assert cut.cores_in(box) == expected


def test_a_box_that_is_smaller_than_a_subvolume_is_one_subvolume():
    cut = Cut(((3, 0, 0), (10, 20, 30)), (100, 100, 100), (50, 0, 0))
    assert len(cut) == 1
    assert cut.subvolume(0) == cut.core(0) == ((3, 0, 0), (10, 20, 30))
    assert list(cut.neighbours()) == []


@pytest.mark.parametrize(
    ("size", "overlap", "says"),
    [
        ((0, 8, 8), (0, 0, 0), "subvolumes of"),
        ((8, 8, 8), (5, 4, 4), "at most half"),
        ((8, 8, 8), (-1, 0, 0), "an overlap of"),
        ((30, 1, 8), (0, 0, 2), "expected at least 1 voxel"),
    ],
)
def test_sizes_that_cannot_work_are_refused(size, overlap, says):
    with pytest.raises(errors.InvalidArgumentError, match=says):
        Cut(((0, 0, 0), (20, 20, 20)), size, overlap)


@pytest.mark.parametrize("number", [-1, 8])
def test_subvolumes_that_do_not_exist_are_refused(number):
    cut = Cut(((0, 0, 0), (20, 20, 20)), (12, 12, 12), (2, 2, 2))
    assert len(cut) == 8
    with pytest.raises(errors.OutOfRangeError, match="expected one from 0 to 7"):
        cut.subvolume(number)
