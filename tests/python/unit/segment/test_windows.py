# SPDX-License-Identifier: Apache-2.0
"""Windows over a volume: every voxel once, with all its context, in equal sizes that begin at the pools' multiples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floodtide.base.networks import UNetOptions
from floodtide.errors import InvalidArgumentError
from floodtide.segment.windows import Axis, choose_windows


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    extent = draw(st.integers(1, 300))
    begin = draw(st.integers(0, extent - 1))
    pool = draw(st.sampled_from((1, 2, 3, 8)))
    context = pool * draw(st.integers(0, 5))
    return Axis(extent, begin, draw(st.integers(begin + 1, extent)), context, pool)


@given(axes(), st.data())
def test_windows_keep_every_wanted_voxel_once_with_its_context(
    axis: Axis, data: st.DataObject
) -> None:
    size = data.draw(st.sampled_from(axis.sizes()))
    windows = axis.windows(size)
    kept = [voxel for w in windows for voxel in range(w.keep_start, w.keep_stop)]
    assert kept == list(range(axis.begin, axis.end))
    start, stop = axis.region
    for w in windows:
        assert w.stop - w.start == min(size, stop - start)
        assert w.start % axis.pool == 0
        assert w.start < axis.extent
        cells = (
            w.keep_start // axis.pool,
            -(-w.keep_stop // axis.pool),
        )  # a pool's voxels go together
        assert w.start == 0 or cells[0] * axis.pool - w.start >= axis.context
        reaches_the_end = w.stop >= axis.extent
        assert reaches_the_end or w.stop - cells[1] * axis.pool >= axis.context


def test_the_fewest_voxels_are_computed_within_the_memory() -> None:
    wide = [Axis(1, 0, 1, 0, 1), Axis(100, 0, 100, 8, 4), Axis(400, 0, 400, 8, 4)]
    assert choose_windows(wide, 3 * 102 * 402) == (1, 100, 400)  # all at once, with a border of 1
    sizes = choose_windows(wide, 3 * 102 * 122)
    assert sizes[2] <= 120
    assert sizes[1] == 100  # cutting the short axis, too, would repeat more context
    with pytest.raises(
        InvalidArgumentError, match=r"smallest one with its context is \[1, 20, 20\]"
    ):
        choose_windows(wide, 3 * 22 * 22 - 1)


def test_sections_of_slices_are_computed_together_as_memory_allows() -> None:
    slices = [Axis(97, 0, 97, 0, 1), Axis(64, 0, 64, 24, 4), Axis(64, 0, 64, 24, 4)]
    sizes = choose_windows(slices, 12 * 66 * 66)
    assert sizes[1:] == (64, 64)
    assert 1 <= sizes[0] <= 10


@pytest.mark.parametrize(
    ("depth", "kernels", "pools", "expected"),
    [
        (1, [(3, 3, 3)], [(2, 2, 2)], (2, 2, 2)),  # two convolutions
        (1, [(1, 3, 3)], [(1, 2, 2)], (0, 2, 2)),
        # By hand: 2 of the decoder; 4 below, as 2 of its own are 4 above; 2 of the encoder: 8, and then
        # the odd ends that pools round outwards: [-2, 4) is [-1, 2) below, [-3, 4) with its own, [-6, 8), [-8, 10).
        (2, [(1, 3, 3)], [(1, 2, 2)], (0, 8, 8)),
        (2, [(1, 3, 3), (3, 3, 3)], [(2, 2, 2)], (4, 8, 8)),
    ],
)
def test_the_context_is_what_convolutions_and_pools_reach(
    depth: int,
    kernels: list[tuple[int, int, int]],
    pools: list[tuple[int, int, int]],
    expected: tuple[int, int, int],
) -> None:
    options = UNetOptions(depth=depth, kernels=tuple(kernels), pools=tuple(pools))
    assert options.context == expected
