# SPDX-License-Identifier: Apache-2.0
"""The picture of objects that differ: what it draws can be told apart in grey, and it has a scale bar."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from floodtide import data
from floodtide.base import style
from floodtide.evaluate.voxels import Compared
from floodtide.report import differences

LUMINANCE = np.array([0.299, 0.587, 0.114])


def test_all_four_kinds_of_voxels_differ_in_grey_print() -> None:
    grey = np.tile(np.linspace(0.0, 1.0, 32), (4, 1))
    mine, theirs = np.zeros(grey.shape, bool), np.zeros(grey.shape, bool)
    mine[[1, 3]] = True
    theirs[[1, 2]] = True
    outside, both, missing, additional = (
        differences.coloured(np.repeat(grey[..., None], 3, axis=-1), mine, theirs) @ LUMINANCE
    )
    assert missing.max() + 0.05 < both.min()
    assert both.max() < additional.min()
    assert (
        both.max() <= outside.min()
    )  # additional voxels lie in the range of the image, so they get a black outline


def test_the_picture_shows_nanometres_and_rings_around_few_voxels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = np.zeros((3, 100, 120), np.int64)
    reference[1, 30:60, 30:70] = 1
    labels = reference.copy()
    labels[1, 30, 30], labels[1, 60, 40] = 0, 1
    data.write_volume(tmp_path / "image.h5", {"raw": np.full(labels.shape, 90, np.uint8)})
    image = f"{tmp_path}/image.h5:raw"
    volume: Any = SimpleNamespace(
        text=lambda _: image, geometry=SimpleNamespace(voxel_size_nm=None)
    )
    pair = Compared(found=volume, other=volume, start=(0, 0, 0), labels=labels, stored=reference)
    drawn: list[Any] = []
    rendered = style.rendered
    monkeypatch.setattr(
        style,
        "rendered",
        lambda one, *rest, **more: drawn.append(one) or rendered(one, *rest, **more),
    )
    out = tmp_path / "differences.png"
    for size in ((40.0, 8.0, 8.0), None):
        differences.save_differences(pair, out, size)
        assert out.read_bytes()[:4] == b"\x89PNG"
    texts = [{text.get_text() for text in one.axes[0].texts} for one in drawn]
    assert texts == [{"100 nm"}, {"10 voxels"}]
    rings = [line for line in drawn[0].axes[0].lines if line.get_marker() == "o"]
    assert [(line.get_ydata()[0], line.get_xdata()[0]) for line in rings[::2]] == [
        (25, 30),  # the panel begins at y = 5
        (55, 40),
    ]
    assert len(rings) == 4  # white, and black on it
    legend = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert legend == ["in both", "in the reference alone", "in the segmentation alone"]


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
