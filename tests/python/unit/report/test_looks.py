# SPDX-License-Identifier: Apache-2.0
"""What all pictures share: scale bars, and markers that tell runs apart."""

from __future__ import annotations

import numpy as np
import pytest

from floodtide.base import style


@pytest.mark.parametrize("pixels", [5, 17, 200])
def test_a_scale_bar_lies_inside_of_its_picture(pixels: int) -> None:
    """A bar below a small picture makes its subplot smaller than those beside it."""
    with style.figure(2.0, 2.0) as drawn:
        axis = drawn.subplots()
        axis.imshow(np.zeros((pixels, pixels)))
        style.scale_bar(axis, pixels, pixels, 8.0)
        (bar,) = axis.patches
        low, high = sorted(axis.get_ylim())
        assert low <= bar.get_y() <= bar.get_y() + bar.get_height() <= high


def test_runs_differ_in_their_markers() -> None:
    looks = [style.series_look(style.series_colour(run), 80) for run in range(6)]
    assert len({look["marker"] for look in looks}) == 6
    assert {look["markevery"] for look in looks} == {10}
    assert style.series_look(style.SERIES[0])["markevery"] == 1  # a single point is seen
