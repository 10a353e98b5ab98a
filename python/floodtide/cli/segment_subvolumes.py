# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment` with segment.subvolume: subvolumes on any number of ranks."""

from __future__ import annotations

import time
from typing import Any

from floodtide import _core, config
from floodtide.base.counts import count_of
from floodtide.base.outputs import files_in, files_of, refuse_inputs
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.data import Volume, parse_box
from floodtide.errors import InvalidArgumentError
from floodtide.segment import Segmenter, SegmentOptions, in_subvolumes, segment_on_ranks
from floodtide.segment.blocks import cut_of
from floodtide.segment.flooding import call_rate
from floodtide.segment.masks import volumes_of


def run(
    settings: config.Config,
    options: SegmentOptions,
    out: str,
    subvolumes: str | None,
) -> dict[str, Any]:
    """Segment the box of the options in subvolumes. Collective."""
    with world.agreed():
        if settings.run.threads > 0:
            _core.set_num_threads(settings.run.threads)
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        volume = Volume(options.image)
        numbers = None if subvolumes is None else _range(subvolumes)
        assert options.subvolume is not None
        if ":" in out:
            raise InvalidArgumentError(
                f"--out {out}: names a dataset, expected a folder, because segment.subvolume cuts the box"
            )
        inputs = files_of(volumes_of(options))
        refuse_inputs("segment", [out], [*inputs, *files_in(options.checkpoint)])
        places: dict[str, Any] = {
            "subvolume": options.subvolume,
            "overlap": options.overlap,
            "box": parse_box(options.box),
        }
        if numbers is not None:
            cut = cut_of(segmenter, volume, **places)
            for number in (numbers.start, numbers.stop - 1):
                cut.subvolume(number)
        pieces = in_subvolumes(out, segmenter, volume, **places)
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


def text(report: dict[str, Any]) -> str:
    rest = f", {report['missing']} are missing" if report["missing"] else ""
    coarse = report["coarse_network_calls"]
    levels = f" ({coarse} at the coarse level and for checks)" if coarse > 0 else ""
    cut = count_of(report["subvolumes"], "subvolume")
    calls = count_of(report["network_calls"], "network call")
    return (
        f"{report['segmented']} of {cut} segmented in {calls}{levels}"
        f" and {report['seconds']:.0f} s{rest}: {report['out']}"
    )


def _range(text: str) -> range:
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise InvalidArgumentError(f"--subvolumes {text}: expected A:B with A below B")
    return range(int(first), int(end))
