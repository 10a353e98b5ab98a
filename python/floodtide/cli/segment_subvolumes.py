# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment` with segment.subvolume: subvolumes on any number of ranks, and the estimate before."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from floodtide import _core, config
from floodtide.base.outputs import files_in, files_of, refuse_inputs
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.data import Vec3, Volume, parse_box
from floodtide.errors import InvalidArgumentError
from floodtide.segment import Segmenter, SegmentOptions, in_subvolumes, segment_on_ranks
from floodtide.segment.blocks import cut_of
from floodtide.segment.canvas_image import BYTES_PER_VOXEL
from floodtide.segment.coarse import coarse_shape
from floodtide.segment.flooding import call_rate
from floodtide.segment.masks import volumes_of
from floodtide.segment.seeds import seed_bytes_per_voxel

_NETWORK_BYTES = 300 << 20  # network, libraries and the program itself
_TIMED_CALLS = 5


def run(
    settings: config.Config,
    options: SegmentOptions,
    out: str,
    subvolumes: str | None,
    estimate: bool,
) -> dict[str, Any]:
    """Segment the box of the options in subvolumes, or estimate what that takes. Collective."""
    with world.agreed():
        if settings.run.threads > 0:
            _core.set_num_threads(settings.run.threads)
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        volume = Volume(options.image)
        numbers = None if subvolumes is None else _range(subvolumes)
        if estimate:
            return _estimate(segmenter, volume, options)
        assert options.subvolume is not None
        if ":" in out:
            raise InvalidArgumentError(
                f"--out {out}: names a dataset, expected a folder, because segment.subvolume cuts the box"
            )
        inputs = files_of(volumes_of(options))
        refuse_inputs("segment", [out], [*inputs, *files_in(options.checkpoint)])
        pieces = in_subvolumes(
            out,
            segmenter,
            volume,
            subvolume=options.subvolume,
            overlap=options.overlap,
            box=parse_box(options.box),
        )
    start_s = time.monotonic()
    with bar("voxels", "segment", line_every_s=10.0, note=call_rate(segmenter)) as progress:
        segmented = segment_on_ranks(pieces, segmenter, volume, numbers=numbers, progress=progress)
    calls, coarse = map(
        sum, zip(*allgather_object((segmenter.network_calls, segmenter.coarse_calls)), strict=True)
    )
    return {
        "subvolumes": len(pieces.cut),
        "segmented": segmented,
        "network_calls": calls,
        "coarse_network_calls": coarse,
        "missing": sum(1 for _ in pieces.missing()),
        "seconds": time.monotonic() - start_s,
        "out": out,
    }


def _estimate(segmenter: Segmenter, volume: Volume, options: SegmentOptions) -> dict[str, Any]:
    """Return what segmenting takes, with the rate of the network on this machine, measured now."""
    box = parse_box(options.box) or ((0, 0, 0), volume.shape)
    cut = cut_of(
        segmenter,
        volume,
        subvolume=options.subvolume or box[1],
        overlap=options.overlap,
        box=box,
    )
    voxels = math.prod(cut.size)
    model, coarse = segmenter.model, 0
    calls = len(cut) * _places(model, cut.size)
    if options.coarse != (1, 1, 1):
        coarse = len(cut) * _places(model, coarse_shape(cut.size, options.coarse))
    view = np.zeros(model.fov, np.float32)
    model.forward(view, view)
    start_s = time.monotonic()
    for _ in range(_TIMED_CALLS):
        model.forward(view, view)
    rate = _TIMED_CALLS / (time.monotonic() - start_s)
    return {
        "subvolumes": len(cut),
        "counts": cut.counts,
        "size": cut.size,
        "memory_bytes_per_rank": (BYTES_PER_VOXEL + seed_bytes_per_voxel(options)) * voxels
        + _NETWORK_BYTES,
        "network_calls": calls + coarse,
        "coarse_network_calls": coarse,
        "network_calls_per_s": rate,
        "ranks": world.size(),
        "hours": (calls + coarse) / rate / min(world.size(), len(cut)) / 3600,
    }


def _places(model: Any, size: Vec3) -> int:
    """Return the number of places of the field of view on a grid whose spacing is the distance that it moves."""
    return math.prod(
        1 + max(0, n - fov) // max(1, delta)
        for n, fov, delta in zip(size, model.fov, model.deltas, strict=True)
    )


def text(report: dict[str, Any]) -> str:
    if "hours" in report:
        counts = " x ".join(map(str, report["counts"]))
        size = " x ".join(map(str, report["size"]))
        at_most = ""
        if report["coarse_network_calls"] > 0:
            at_most = f" ({report['coarse_network_calls']} at the coarse level, fewer in all if it finds objects)"
        return (
            f"{report['subvolumes']} subvolumes ({counts}) of {size} voxels;"
            f" {report['memory_bytes_per_rank'] / 2**20:.0f} MiB of memory for each rank;"
            f" about {report['network_calls']} network calls{at_most}, {report['network_calls_per_s']:.1f} per second"
            f" and rank here; {report['hours']:.2f} hours on {report['ranks']} rank{'s' * (report['ranks'] > 1)}"
        )
    rest = f", {report['missing']} are missing" if report["missing"] else ""
    coarse = report["coarse_network_calls"]
    levels = f" ({coarse} at the coarse level and for checks)" if coarse > 0 else ""
    return (
        f"{report['segmented']} of {report['subvolumes']} subvolumes segmented in {report['network_calls']} network"
        f" calls{levels} and {report['seconds']:.0f} s{rest}:"
        f" {report['out']}"
    )


def _range(text: str) -> range:
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise InvalidArgumentError(f"--subvolumes {text}: expected A:B with A below B")
    return range(int(first), int(end))
