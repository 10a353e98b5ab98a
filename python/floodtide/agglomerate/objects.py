# SPDX-License-Identifier: Apache-2.0
"""From the segments of a flood-filling network to objects, as a configuration describes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floodtide import config
from floodtide.agglomerate.merging import Merged, merge, write_merged
from floodtide.agglomerate.pairs import Pairs
from floodtide.agglomerate.resegmenting import resegment_on_ranks
from floodtide.base.outputs import files_in, files_of, refuse_inputs, volume_folder
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.data import Volume
from floodtide.data.formats.table import format_of
from floodtide.data.volumes import require_same_size
from floodtide.segment import Segmenter
from floodtide.segment.canvas import volumes_of
from floodtide.segment.commands import prepared
from floodtide.segment.flooding import call_rate

_COMMAND = "agglomerate"


def resegment(
    file: str,
    segmentation: str,
    out: str | None = None,
    *,
    pairs: str | None = None,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Flood every pair of neighbouring segments again, and merge a pair that is one object. Collective.

    The same call continues after a crash, on any number of ranks.

    Args:
        file: Name of the configuration (TOML): image, network and thresholds are those of [segment], the rule that of
            [resegment].
        segmentation: Name of a volume of segments of the whole image.
        out: Name of the volume of objects to write; None: only scores and merges are written.
        pairs: Folder for the scores of all pairs and the merges; None: beside the segmentation, with its name
            and `.pairs`.
        overrides: Changed values, as `["resegment.min_iou=0.7"]`.

    Returns:
        The report, empty on all ranks but 0: `pairs`, `scored`, `merged_pairs`, `merged_segments`, `objects_of_them`,
        `network_calls`, `folder`, `out`.

    Raises:
        floodtide.errors.Error: If an input cannot be read or does not fit, or an output cannot be written.
    """
    with world.agreed():
        settings = config.load(file, overrides)
        options, volume, _ = prepared(file, settings)
        folder = pairs or pairs_folder(segmentation)
        inputs: list[str | Path] = [
            *files_of([segmentation, *volumes_of(options)]),
            *files_in(options.checkpoint),
        ]
        refuse_inputs(_COMMAND, [folder], inputs)
        if out is not None:
            format_of(out)
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        labels = Volume(segmentation)
        require_same_size(_COMMAND, labels, volume)
    with bar("pairs", _COMMAND, line_every_s=10.0, note=call_rate(segmenter)) as progress:
        found = resegment_on_ranks(
            folder, segmenter, volume, labels, settings.resegment, progress=progress
        )
    report: dict[str, Any] = {}
    with world.agreed():
        if world.rank() == 0:
            merged = merge(found, settings.resegment)
            if out is not None:
                with bar("voxels", _COMMAND) as progress:
                    write_merged(labels, merged, out, progress)
            report = _report(found, merged) | {"folder": folder, "out": out}
    return report


def pairs_folder(segmentation: str) -> str:
    """Return the folder of the pairs of a segmentation: its name without suffix, and `.pairs`."""
    place = volume_folder(segmentation) or format_of(segmentation).path(segmentation)
    return str(Path(place).with_suffix(".pairs"))


def _report(pairs: Pairs, merged: Merged) -> dict[str, Any]:
    scores = [one for one in merged.scores if one is not None]
    return {
        "pairs": len(pairs.points),
        "scored": len(scores),
        "merged_pairs": sum(merged.merged),
        "merged_segments": len(merged.ids),
        "objects_of_them": len(set(merged.objects.tolist())),
        "network_calls": sum(one.network_calls for one in scores),
    }
