# SPDX-License-Identifier: Apache-2.0
"""Objects of google/ffn's published segmentation of FIB-25, flooded again one by one.

Each object starts from its published seed, among the objects that were found before it. So an object is compared even
if an earlier one differs.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import pytest

from floodtide.nn.load import load_ffn
from floodtide.segment import Segmenter, SegmentOptions

CONTEXT = 48  # voxels around an object


class Published(NamedTuple):
    """The published segmentation: labels, and id, number of network calls and seed of each object."""

    image: np.ndarray
    labels: np.ndarray
    ids: np.ndarray
    calls: np.ndarray
    seeds: np.ndarray


@pytest.fixture(scope="module")
def published(data_folder: Path, published_file: Path) -> Published:
    with h5py.File(data_folder / "fib25/training_sample2/grayscale_maps.h5") as file:
        image = file["raw"][()]
    with h5py.File(published_file) as file:
        rows = (file[f"origins/{name}"][()] for name in ("id", "iters", "start_zyx"))
        return Published(image, file["segmentation"][()], *rows)


@pytest.fixture(scope="module")
def segmenter(data_folder: Path) -> Segmenter:
    checkpoint = data_folder / "ffn_fib25_checkpoint/model.ckpt-27465036"
    model = load_ffn(checkpoint, fov=(33, 33, 33), deltas=(8, 8, 8))
    return Segmenter(model, SegmentOptions(mean=128.0, std=33.0))


def test_objects_of_several_calls_are_the_published_ones(
    published: Published, segmenter: Segmenter
) -> None:
    for calls in (6, 7, 8, 9):
        row = int(np.flatnonzero(published.calls == calls)[0])
        name = int(published.ids[row])
        own = published.labels == name
        voxels = np.argwhere(own)
        low = np.maximum(voxels.min(axis=0) - CONTEXT, 0)
        high = np.minimum(voxels.max(axis=0) + 1 + CONTEXT, own.shape)
        z, y, x = (int(n) for n in low)
        nz, ny, nx = (int(n) for n in high - low)
        earlier = np.where(published.labels < name, published.labels, 0)
        grown = segmenter.segment_at(
            published.image,
            [int(n) for n in published.seeds[row]],
            box=((z, y, x), (nz, ny, nx)),
            initial=earlier,
        )
        part = (slice(z, z + nz), slice(y, y + ny), slice(x, x + nx))
        with np.errstate(invalid="ignore"):  # NaN where no field of view was
            found = (grown.logits >= np.float32(np.log(0.6 / 0.4))) & (earlier[part] == 0)
        assert len(grown.moves) == published.calls[row]
        np.testing.assert_array_equal(found, own[part], err_msg=f"object {name}")
