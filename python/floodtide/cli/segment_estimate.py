# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment --estimate`: what a segmentation takes, before it is begun or while it is under way."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import _core, config
from floodtide.base import reading
from floodtide.base.counts import count_of
from floodtide.comm import world
from floodtide.data import Box, Vec3, Volume, parse_box
from floodtide.errors import InvalidArgumentError
from floodtide.segment import Segmenter, SegmentOptions, in_subvolumes
from floodtide.segment.blocks import cut_of
from floodtide.segment.canvas_image import BYTES_PER_VOXEL
from floodtide.segment.coarse import coarse_shape
from floodtide.segment.pieces import PLAN
from floodtide.segment.schedule import forecast, network_calls
from floodtide.segment.seeds import seed_bytes_per_voxel

_NETWORK_BYTES = 300 << 20  # network, libraries and the program itself
_TIMED_CALLS = 5


def run(
    settings: config.Config, options: SegmentOptions, out: str, ranks: Sequence[int] | None
) -> dict[str, Any]:
    """Estimate what segmenting takes, with the rate of the network on this machine, measured now. Collective."""
    with world.agreed():
        if settings.run.threads > 0:
            _core.set_num_threads(settings.run.threads)
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        volume = Volume(options.image)
        box = parse_box(options.box) or ((0, 0, 0), volume.shape)
        cut = cut_of(
            segmenter,
            volume,
            subvolume=options.subvolume or box[1],
            overlap=options.overlap,
            box=box,
        )
        model, coarse = segmenter.model, 0
        places = _places(model, cut.size)
        if options.coarse != (1, 1, 1):
            coarse = _places(model, coarse_shape(cut.size, options.coarse))
        missing, measured = len(cut), list[int]()
        if options.subvolume is not None and reading.exists(Path(out) / PLAN):
            missing, measured = _under_way(segmenter, volume, options, out, box)
        if ranks is not None and not measured:
            raise InvalidArgumentError(
                f"--ranks: no subvolume in {out} is segmented yet, expected some, because the forecast takes their"
                " network calls"
            )
        each = float(np.mean(measured)) if measured else places + coarse
        rate = _rate(segmenter)
        size = world.size()
        longest = missing * each / max(1, min(size, missing))
        return {
            "subvolumes": len(cut),
            "segmented": len(cut) - missing,
            "counts": cut.counts,
            "size": cut.size,
            "memory_bytes_per_rank": (BYTES_PER_VOXEL + seed_bytes_per_voxel(options))
            * math.prod(cut.size)
            + _NETWORK_BYTES,
            "network_calls": round(missing * each),
            "coarse_network_calls": 0 if measured else missing * coarse,
            "network_calls_from": "subvolumes" if measured else "grid",
            "network_calls_per_s": rate,
            "ranks": size,
            "hours": longest / rate / 3600,
            "forecasts": [_forecast(measured, missing, n, rate) for n in ranks or ()],
        }


def _under_way(
    segmenter: Segmenter, volume: Volume, options: SegmentOptions, out: str, box: Box
) -> tuple[int, list[int]]:
    """Return how many subvolumes are missing, and the network calls of the others."""
    assert options.subvolume is not None
    pieces = in_subvolumes(
        out, segmenter, volume, subvolume=options.subvolume, overlap=options.overlap, box=box
    )
    return sum(1 for _ in pieces.missing()), network_calls(pieces)


def _forecast(measured: Sequence[int], missing: int, ranks: int, rate: float) -> dict[str, Any]:
    if missing == 0:
        return {"ranks": ranks, "hours": 0.0, "efficiency": 1.0, "first_idle": 1.0}
    found = forecast(measured, missing, ranks)
    return {
        "ranks": ranks,
        "hours": found.calls / rate / 3600,
        "efficiency": found.efficiency,
        "first_idle": found.first_idle,
    }


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


def text(report: dict[str, Any]) -> str:
    counts = " x ".join(map(str, report["counts"]))
    size = " x ".join(map(str, report["size"]))
    calls = f"about {count_of(report['network_calls'], 'network call')}"
    if report["network_calls_from"] == "subvolumes":
        calls += f" for the missing {report['subvolumes'] - report['segmented']}, if they are like the others"
    elif report["coarse_network_calls"] > 0:
        calls += f" ({report['coarse_network_calls']} at the coarse level, fewer in all if it finds objects)"
    lines = [
        f"{count_of(report['subvolumes'], 'subvolume')} ({counts}) of {size} voxels;"
        f" {report['memory_bytes_per_rank'] / 2**20:.0f} MiB of memory for each rank; {calls},"
        f" {report['network_calls_per_s']:.1f} per second and rank here; {report['hours']:.2f} hours on"
        f" {count_of(report['ranks'], 'rank')}"
    ]
    lines += [
        f"{count_of(row['ranks'], 'rank')}: {row['hours']:.2f} hours, of which {100 * row['efficiency']:.1f} % are"
        f" work; the first rank has nothing left to do after {100 * row['first_idle']:.1f} % of it"
        for row in report["forecasts"]
    ]
    return "\n".join(lines)
