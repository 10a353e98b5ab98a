# SPDX-License-Identifier: Apache-2.0
"""`floodtide resegment`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from floodtide import _core, config
from floodtide.base.counts import count_of
from floodtide.base.outputs import files_in, files_of, refuse_inputs
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data.look.problems import settle
from floodtide.segment import SegmentOptions
from floodtide.segment.masks import volumes_of
from floodtide.segment.settings import checked, resolved


@click.command()
@click.argument("file", metavar="CONFIG.toml")
@click.argument("segmentation", metavar="SEGMENTATION")
@click.argument("folder", metavar="FOLDER")
@click.option(
    "--out",
    metavar="VOLUME",
    help="Also write the segmentation with the merges, a volume of any format.",
)
@shared.overrides
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    file: str,
    segmentation: str,
    folder: str,
    out: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Find out which segments of SEGMENTATION belong to one object, with the network that made them.

    Where two segments come close, both are erased and flooded again from inside each of them. They are merged if both
    floodings find the same object; [resegment] in CONFIG.toml has the rule. Image, network and thresholds are those
    of [segment]. FOLDER gets the scores of all pairs (pairs.csv) and the merges (equivalences.csv). Ranks share the
    pairs. The same command continues after a crash, on any number of ranks.

    \b
    Example:
      floodtide resegment fib25.toml out.h5:segmentation pairs --out out.h5:objects
    """
    shared.require_same_arguments()
    with world.agreed():
        settings = config.load(file, overrides)
        options = resolved(file, settings, None)
        if world.rank() == 0:
            settle(checked(settings, options))
    report = run(settings, options, segmentation, folder, out)
    if world.rank() == 0:
        click.echo(json.dumps(report) if as_json else text(report))


def run(
    settings: config.Config,
    options: SegmentOptions,
    segmentation: str,
    folder: str,
    out: str | None,
) -> dict[str, Any]:
    """Flood all pairs of a segmentation again and merge them. Collective."""
    from floodtide.agglomerate import merge, resegment_on_ranks, write_merged
    from floodtide.base.progress import bar
    from floodtide.data import Volume
    from floodtide.data.formats import format_of
    from floodtide.data.volumes import require_same_size
    from floodtide.segment import Segmenter
    from floodtide.segment.flooding import call_rate

    with world.agreed():
        if settings.run.threads > 0:
            _core.set_num_threads(settings.run.threads)
        inputs: list[str | Path] = [
            *files_of([segmentation, *volumes_of(options)]),
            *files_in(options.checkpoint),
        ]
        refuse_inputs("resegment", [folder], inputs)
        if out is not None:
            format_of(out)
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        volume, labels = Volume(options.image), Volume(segmentation)
        require_same_size("resegment", labels, volume)
    with bar("pairs", "resegment", line_every_s=10.0, note=call_rate(segmenter)) as progress:
        pairs = resegment_on_ranks(
            folder, segmenter, volume, labels, settings.resegment, progress=progress
        )
    with world.agreed():
        report: dict[str, Any] = {}
        if world.rank() == 0:
            merged = merge(pairs, settings.resegment)
            if out is not None:
                with bar("voxels", "resegment") as progress:
                    write_merged(labels, merged, out, progress)
            report = {
                "pairs": len(pairs.points),
                "scored": sum(scores is not None for scores in merged.scores),
                "merged_pairs": sum(merged.merged),
                "merged_segments": len(merged.ids),
                "objects_of_them": len(set(merged.objects.tolist())),
                "network_calls": sum(s.network_calls for s in merged.scores if s is not None),
                "folder": folder,
                "out": out,
            }
    return report


def text(report: dict[str, Any]) -> str:
    where = report["folder"] + (f", {report['out']}" if report["out"] else "")
    return (
        f"{report['scored']} of {count_of(report['pairs'], 'pair')} flooded again in"
        f" {count_of(report['network_calls'], 'network call')}; {count_of(report['merged_pairs'], 'pair')} merged, from"
        f" {count_of(report['merged_segments'], 'segment')} to {count_of(report['objects_of_them'], 'object')}: {where}"
    )
