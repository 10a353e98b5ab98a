# SPDX-License-Identifier: Apache-2.0
"""What all pictures share: scale bars, and markers that tell runs apart."""

from __future__ import annotations

import numpy as np
import pytest

from floodtide.base import style


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("pixels", [5, 17, 200])
def test_a_scale_bar_lies_inside_of_its_picture(pixels: int, right: bool) -> None:
    """A bar below a small picture makes its subplot smaller than those beside it."""
    with style.figure(2.0, 2.0) as drawn:
        axis = drawn.subplots()
        axis.imshow(np.zeros((pixels, pixels)))
        style.scale_bar(axis, pixels, pixels, 8.0, right=right)
        (bar,) = axis.patches
        low, high = sorted(axis.get_ylim())
        assert low <= bar.get_y() <= bar.get_y() + bar.get_height() <= high
        low, high = axis.get_xlim()
        assert low <= bar.get_x() <= bar.get_x() + bar.get_width() <= high
        assert (bar.get_x() > pixels / 2) == right


def test_pictures_of_one_scale_have_equal_bars() -> None:
    with style.figure(2.0, 2.0) as drawn:
        axes = drawn.subplots(1, 3)
        for axis, columns in zip(axes, (100, 40, 2), strict=True):
            axis.imshow(np.zeros((50, columns)))
            style.scale_bar(axis, columns, 50, 8.0, 100.0)
        bars = [axis.patches[0] for axis in axes]
        assert [bar.get_width() for bar in bars] == [12.5, 12.5, 1.25]  # the last one would not fit
        assert bars[0].get_height() == bars[1].get_height()


def test_a_scale_bar_is_thin_in_a_picture_of_high_voxels() -> None:
    with style.figure(2.0, 2.0) as drawn:
        axis = drawn.subplots()
        axis.imshow(np.zeros((20, 200)), aspect=10.0)
        style.scale_bar(axis, 200, 20, 4.0)
        (bar,) = axis.patches
        assert 10.0 * bar.get_height() < 0.1 * bar.get_width()


def test_runs_differ_in_their_markers() -> None:
    looks = [style.series_look(style.series_colour(run), 80) for run in range(6)]
    assert len({look["marker"] for look in looks}) == 6
    assert {look["markevery"] for look in looks} == {10}
    assert style.series_look(style.SERIES[0])["markevery"] == 1  # a single point is seen
