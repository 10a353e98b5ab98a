# SPDX-License-Identifier: Apache-2.0
"""`floodtide agglomerate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from floodtide.agglomerate import agglomerate, resegment
from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data import parse_box
from floodtide.segment.affinities import AffinityFile, offsets_of
from floodtide.segment.decoding import decoding_of_file
from floodtide.segment.linking import AffinityOptions

_FIELDS = ("method", "threshold", "small_size", "min_size")


def _offsets(text: str) -> list[list[int]]:
    try:
        return offsets_of(json.loads(text))
    except (ValueError, TypeError):
        expected = "[[z, y, x], ...], for example [[-1,0,0],[0,-1,0],[0,0,-1]]"
        raise click.BadParameter(f"{text[:60]}, expected {expected}") from None


@click.command()
@click.argument("source", metavar="AFFINITIES.h5:DATASET | CONFIG.toml")
@click.argument("volumes", metavar="OUT | SEGMENTATION [OUT]", nargs=-1, required=True)
@shared.of_fields(AffinityOptions, **dict.fromkeys(_FIELDS))
@shared.box
@shared.text(
    "--offsets", "JSON", "[[z, y, x], ...] of the channels, if the file has none.", type=_offsets
)
@shared.number(
    "--subvolume", limits.EXTENT, "Cut affinities into subvolumes; OUT is a folder.", count=3
)
@shared.text("--pairs", "FOLDER", "Scores of pairs  [default: SEGMENTATION.pairs].")
@shared.overrides
@shared.as_json
def command(
    source: str,
    volumes: tuple[str, ...],
    box: str,
    offsets: list[list[int]] | None,
    subvolume: tuple[int, int, int] | None,
    pairs: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Merge what is one object: voxels by their affinities, or segments of a flood-filling network.

    With CONFIG.toml, the network that made SEGMENTATION tells which segments belong together: it floods places again
    where two segments come close. The folder of --pairs gets the scores and merges. Without OUT, nothing else is
    written. Ranks share subvolumes or pairs. The same command continues after a crash. docs/segmentation.md and
    docs/segmentation_options.md explain both.

    If you leave out a setting, the choice of `floodtide segment` for this network holds. Without a choice, the method
    is mean, the threshold 0.8, the small size 4000 and the smallest size 100.

    \b
    Example:
      floodtide agglomerate affinities.h5:affinities segments.h5:segments
      floodtide agglomerate fib25.toml out.h5:segmentation objects.h5:objects
    """
    shared.require_same_arguments()
    of_config = Path(source).suffix == ".toml"
    if len(volumes) > 1 + of_config:
        most = (
            "two volumes, expected SEGMENTATION and" if of_config else "one volume, expected only"
        )
        raise click.UsageError(f"{volumes[-1]}: more than {most} OUT")
    if of_config:
        shared.refuse_given((*_FIELDS, "box", "offsets", "subvolume"), "is for affinities")
        report = resegment(source, *volumes, pairs=pairs, overrides=overrides)
    else:
        shared.refuse_given(("pairs", "overrides"), "is for a configuration, expected CONFIG.toml")
        with world.agreed():
            file = AffinityFile(source, offsets, box=parse_box(box))
        given = {name: value for name, value in options.items() if value is not None}
        decoding = decoding_of_file(file.checkpoint, file.mirrored, given)
        report = agglomerate(file, volumes[0], decoding.options, subvolume=subvolume)
        report["decoding"] = decoding.source
    shared.show(report, as_json)
