# SPDX-License-Identifier: Apache-2.0
"""The demonstration's yardsticks, and all of it with a few steps of training."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from floodtide import _core, errors
from floodtide.cli import demonstration as demo
from floodtide.data import Volume
from floodtide.evaluate import trivial


@pytest.mark.parametrize("share", [0.2, 0.35, 0.6])
def test_connected_components_are_those_of_scipy(share):
    mask = np.random.default_rng(3).random((9, 14, 17)) < share
    expected, _ = ndimage.label(mask)
    sizes = np.bincount(expected.ravel())
    kept = np.flatnonzero((sizes >= 5) & (np.arange(sizes.size) > 0))
    renumbered = np.zeros(sizes.size, np.int32)
    renumbered[kept] = np.arange(1, kept.size + 1)

    pieces = _core.segment.connected_components(mask.astype(np.uint8), 5)

    np.testing.assert_array_equal(pieces, renumbered[expected])


def test_smoothing_keeps_the_mean_of_a_flat_image_and_spreads_a_point():
    image = np.full((3, 5, 5), 7, np.uint8)
    image[1, 2, 2] += 64
    smooth = trivial.smoothed(image)
    assert smooth[0, 0, 0] == 7
    assert smooth[1, 2, 2] == 7 + 8
    assert smooth[0, 1, 2] == 7 + 2


def test_training_that_a_signal_has_ended_is_not_segmented(tmp_path, monkeypatch):
    class Stopped:
        complete, steps_done = False, 7

        @classmethod
        def from_config(cls, *_, **__):
            return cls()

        def run(self):
            pass

    monkeypatch.setattr(demo, "Trainer", Stopped)
    monkeypatch.setattr(demo, "SHAPE", (24, 24, 24))
    with pytest.raises(errors.Error, match="stopped at step 7: the same command resumes") as caught:
        demo.run(tmp_path, steps=4, seed=1)
    assert caught.value.agreed


def test_stages_are_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "SHAPE", (128, 64, 64))
    monkeypatch.setattr(demo, "TRAINING_BOX", "0:80,0:64,0:64")
    monkeypatch.setattr(demo, "HELD_OUT_BOX", "88:128,0:64,0:64")
    monkeypatch.setattr(demo, "_segment", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        demo.run(tmp_path, steps=4, seed=1)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("stage")] == [
        "stage 1 of 3: make a volume of 128 x 64 x 64 voxels, and partition it",
        "stage 2 of 3: train 4 steps",
        "stage 3 of 3: segment with 5 move thresholds, then the held-out part with the best",
    ]
    steps = [line.split(" ", 1)[1][:11] for line in lines if "loss" in line]
    assert steps[-1] == "step 4 of 4"
    assert all(line.endswith("of 4") for line in steps)


@pytest.mark.extra
def test_a_run_leaves_a_segmentation_and_a_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "SHAPE", (128, 64, 64))
    monkeypatch.setattr(demo, "TRAINING_BOX", "0:80,0:64,0:64")
    monkeypatch.setattr(demo, "TUNING_BOX", "48:80,0:64,0:64")
    monkeypatch.setattr(demo, "HELD_OUT_BOX", "88:128,0:64,0:64")
    page = demo.run(tmp_path / "demo", steps=4, seed=1)
    printed = capsys.readouterr()
    assert "warning" not in printed.err
    assert page is not None
    assert page.is_file()
    found = Volume(tmp_path / "demo" / "segmentation.h5", "segmentation")
    assert found.shape == (24, 48, 48)
    assert found.geometry.offset == (96, 8, 8)
    for name in ("segmentation  ", trivial.ONE_OBJECT, trivial.GREY_LEVEL):
        assert f"\n{name}" in printed.out
