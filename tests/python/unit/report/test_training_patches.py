# SPDX-License-Identifier: Apache-2.0
"""`floodtide inspect CONFIG --patches`: what the picture shows of targets, and of voxels without a label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_patches import text, write_patches

from floodtide import config
from floodtide.report import drawing
from floodtide.report import training_patches as picture

Array = np.ndarray[Any, Any]


def drawn(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> list[list[Array]]:
    """Return the pictures of each example, from the rows of the figure."""
    file = write_patches(folder).with_suffix(".toml")
    file.write_text(text(folder, kind))
    shown: list[Array] = []
    monkeypatch.setattr(drawing, "show", lambda axis, plane: shown.append(plane))
    picture.write_patches(config.load(file), folder / "patches.png")
    assert (folder / "patches.png").read_bytes().startswith(b"\x89PNG")
    each = len(shown) // 12
    return [shown[k : k + each] for k in range(0, len(shown), each)]


def test_all_outputs_of_lsd_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pictures in drawn(tmp_path, "lsd", monkeypatch):
        assert len(pictures) == 1 + 5  # image; affinities, offsets, variances, correlations, size
        image, _, offsets, *_, size = pictures
        outside = size[..., 0] != size[..., 1]
        assert not outside.any()  # one output is grey
        inside = offsets.max(-1) > image[..., 0] * 0.3 + 1e-6
        assert 0.3 < inside.mean() < 1.0
        np.testing.assert_allclose(offsets[~inside], 0.3 * image[~inside], atol=1e-6)


def test_affinities_that_leave_the_patch_are_darker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for image, affinities in drawn(tmp_path, "affinities in sections", monkeypatch):
        assert set(np.unique(affinities[1:, 1:])) <= {0.0, 1.0}
        assert affinities[0, 1:].max() <= 0.3 + 1e-6  # no label along y
        assert affinities[1:, 0].max() <= 0.3 + 1e-6
        np.testing.assert_allclose(affinities[0, 0], 0.3 * image[0, 0], atol=1e-6)
