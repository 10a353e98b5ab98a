# SPDX-License-Identifier: Apache-2.0
"""Objects of google/ffn's published segmentation of FIB-25, cut in two and joined again with the published network."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from floodtide.agglomerate.resegmenting import decision_points, resegment_pair, should_merge
from floodtide.config.segment_options import ResegmentOptions
from floodtide.nn.load import load_ffn
from floodtide.segment import Segmenter, SegmentOptions

OBJECT = 26  # its label
MARGIN = 56  # voxels around a decision point


@pytest.mark.extra
def test_halves_of_an_object_are_merged(data_folder: Path, published_file: Path) -> None:
    with h5py.File(published_file) as file:
        labels = file["segmentation"][()].astype(np.int64)
    with h5py.File(data_folder / "fib25/training_sample2/grayscale_maps.h5") as file:
        image = file["raw"][()]
    voxels = np.argwhere(labels == OBJECT)
    axis = int(np.argmax(np.ptp(voxels, axis=0)))
    behind = voxels[voxels[:, axis] >= np.median(voxels[:, axis])]
    labels[tuple(behind.T)] = 9000
    low, high = np.maximum(voxels.min(axis=0) - MARGIN, 0), voxels.max(axis=0) + MARGIN
    part = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
    labels, image = labels[part], image[part]

    points = decision_points(labels, max_distance=1.5)
    point = next(point for point in points if (point.a, point.b) == (OBJECT, 9000))
    checkpoint = data_folder / "ffn_fib25_checkpoint/model.ckpt-27465036"
    model = load_ffn(checkpoint, fov=(33, 33, 33), deltas=(8, 8, 8))
    segmenter = Segmenter(model, SegmentOptions(mean=128.0, std=33.0))
    scores = resegment_pair(segmenter, image, labels, point, ResegmentOptions())
    assert scores is not None
    assert scores["iou"] is not None
    assert scores["iou"] > 0.95
    assert should_merge(scores, ResegmentOptions())
