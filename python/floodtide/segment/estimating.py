# SPDX-License-Identifier: Apache-2.0
"""What a segmentation takes, before it is begun or while it is under way."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import config
from floodtide.base import reading
from floodtide.comm import world
from floodtide.config import SegmentOptions
from floodtide.data import Box, Vec3, Volume, parse_box
from floodtide.segment.blocks import cut_of, in_subvolumes
from floodtide.segment.canvas_image import BYTES_PER_VOXEL
from floodtide.segment.flooding import Segmenter
from floodtide.segment.image_check import note_without_statistics
from floodtide.segment.pieces import PLAN
from floodtide.segment.seeds import seed_bytes_per_voxel
from floodtide.segment.settings import prepared

_NETWORK_BYTES = 300 << 20  # network, libraries and the program itself
_TIMED_CALLS = 5


def estimate(
    file: str, settings: config.Config, out: str, box: str | None = None
) -> dict[str, Any]:
    """Estimate what segmenting takes, with the rate of the network on this machine, measured now. Collective.

    Subvolumes in `out` that are segmented already make the estimate better.

    Args:
        file: Name of the configuration, for messages.
        settings: Its content.
        out: What `segment` will write: "file:dataset", or with segment.subvolume a folder.
        box: The box, z0:z1,y0:y1,x0:x1 in voxels; None: segment.box.

    Returns:
        The report, with sizes in voxels (z, y, x): subvolumes, memory in bytes, network calls, hours.

    Raises:
        floodtide.errors.Error: If the configuration or a file is wrong.
    """
    with world.agreed():
        options = prepared(file, settings, box)
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        volume = Volume(options.image)
        whole = parse_box(options.box) or ((0, 0, 0), volume.shape)
        size, overlap = options.subvolume or whole[1], options.overlap
        cut = cut_of(segmenter, volume, subvolume=size, overlap=overlap, box=whole)
        missing, measured = len(cut), list[int]()
        if options.subvolume is not None and reading.exists(Path(out) / PLAN):
            missing, measured = _under_way(segmenter, volume, options, out, whole)
        each = float(np.mean(measured)) if measured else _places(segmenter.model, cut.size)
        rate = _rate(segmenter)
        ranks = world.size()
        longest = missing * each / max(1, min(ranks, missing))
        if world.rank() == 0:
            note_without_statistics(options.checkpoint, options.image)
        return {
            "subvolumes": len(cut),
            "segmented": len(cut) - missing,
            "counts": cut.counts,
            "size": cut.size,
            "memory_bytes_per_rank": (BYTES_PER_VOXEL + seed_bytes_per_voxel(options))
            * math.prod(cut.size)
            + _NETWORK_BYTES,
            "network_calls": round(missing * each),
            "network_calls_from": "subvolumes" if measured else "grid",
            "network_calls_per_s": rate,
            "ranks": ranks,
            "hours": longest / rate / 3600,
        }


def _under_way(
    segmenter: Segmenter, volume: Volume, options: SegmentOptions, out: str, box: Box
) -> tuple[int, list[int]]:
    """Return how many subvolumes are missing, and the network calls of the others."""
    assert options.subvolume is not None
    pieces = in_subvolumes(
        out, segmenter, volume, subvolume=options.subvolume, overlap=options.overlap, box=box
    )
    return sum(1 for _ in pieces.missing()), pieces.network_calls()


def _rate(segmenter: Segmenter) -> float:
    """Return the network calls per second on this machine."""
    view = np.zeros(segmenter.model.fov, np.float32)
    segmenter.evaluate(view, view)
    start_s = time.monotonic()
    for _ in range(_TIMED_CALLS):
        segmenter.evaluate(view, view)
    return _TIMED_CALLS / (time.monotonic() - start_s)


def _places(model: Any, size: Vec3) -> int:
    """Return the number of places of the field of view on a grid whose spacing is the distance that it moves."""
    return math.prod(
        1 + max(0, n - fov) // max(1, delta)
        for n, fov, delta in zip(size, model.fov, model.deltas, strict=True)
    )
