# SPDX-License-Identifier: Apache-2.0
"""Scores of a network on patches, against NumPy: the confusion of classes, and the errors of soft channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from floodtide import _core
from floodtide.data.volumes import Volume

core = _core.data
SHAPE = (6, 20, 24)
IMAGE = np.random.default_rng(1).integers(0, 256, SHAPE).astype(np.uint8)
LABELS = (IMAGE // 64).astype(np.int16) - 1  # -1: no label; classes 0 to 2


def source(targets: Any) -> Any:
    """Return patches of the image."""
    options = core.PatchOptions(patch=(4, 16, 16), order=core.SampleOrderOptions(seed=3))
    image = core.LabelledImage(
        name="v",
        channels=[core.Channel(Volume(IMAGE).core, mean=128.0, std=70.0)],
        labels=[core.LabelPart(Volume(LABELS).core, values=[])],
        labels_start=(0, 0, 0),
    )
    region = core.Region(image=0, box=((0, 0, 0), SHAPE), group=0)
    return core.PatchSource([image], [region], ["v"], targets, options, None)


def network(outputs: int, output: str) -> Any:
    return _core.UNet(
        _core.UNetOptions(
            classes=outputs, depth=2, features=16, kernels=[(3, 3, 3)], pools=[(2, 2, 2)], output=output
        )
    )  # fmt: skip


def test_confusion_counts_each_labelled_voxel_once() -> None:
    patches, model = source(core.class_targets(3)), network(3, "softmax")
    scores = _core.score_segmentation(model, patches, _core.comm.self())
    expected = np.zeros((3, 3), int)
    for number in range(patches.fixed_size):
        _, image, classes = patches.fixed(number)
        predicted = model.forward(image[None])[0].argmax(-1)
        known = classes != 255
        np.add.at(expected, (classes[known], predicted[known]), 1)
    assert scores["confusion"] == expected.tolist()
    assert expected.sum() == (LABELS >= 0).sum()
    assert scores["channels"] == []
    everywhere = 2 * expected.sum(1) / (expected.sum() + expected.sum(1))
    assert scores["dice_everything"] == pytest.approx(everywhere.tolist(), rel=1e-12)


def test_soft_channels_have_errors_and_the_variance_of_their_targets() -> None:
    targets = core.affinity_targets([(0, 0, -1)], balance=False, descriptors=(1.0, 2.0, 2.0))
    patches, model = source(targets), network(11, "sigmoid")
    assert (targets.soft_from, patches.outputs) == (1, 11)
    channels = _core.score_segmentation(model, patches, _core.comm.self())["channels"]
    truth, found = [], []
    for number in range(patches.fixed_size):
        _, image, wanted, weights = patches.fixed(number)
        probabilities = model.forward(image[None])[0].astype(np.float64)
        counted = (weights > 0).all(-1, where=np.arange(11) > 0)
        truth.append(wanted[counted].astype(np.float64))
        found.append(probabilities[counted])
    all_truth, all_found = np.concatenate(truth), np.concatenate(found)
    assert set(channels[0]) == {
        "average_precision", "share_of_ones", "boundary_average_precision", "f1", "mcc"
    }  # fmt: skip
    for channel, scores in enumerate(channels[1:], start=1):
        assert scores["voxels"] == len(all_truth)
        error = np.mean((all_truth[:, channel] - all_found[:, channel]) ** 2)
        assert scores["mean_squared_error"] == pytest.approx(error, rel=1e-9)
        assert scores["variance"] == pytest.approx(all_truth[:, channel].var(), rel=1e-6, abs=1e-12)
