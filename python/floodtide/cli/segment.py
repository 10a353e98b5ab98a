# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment`."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import click

from floodtide import _comm, _core, config
from floodtide._outputs import files_in, files_of
from floodtide.cli import options as shared
from floodtide.errors import ConfigurationError
from floodtide.segment import MEAN, STD, SegmentOptions, output


@click.command()
@click.argument("file", metavar="CONFIG.toml")
@click.option(
    "--out",
    required=True,
    metavar="FILE.h5:DATASET",
    help="Result, beside other datasets of the file.",
)
@click.option("--box", help="Part to segment, z0:z1,y0:y1,x0:x1; instead of segment.box.")
@shared.overrides
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    file: str, out: str, box: str | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Segment a box of a volume with the network that CONFIG.toml names in [segment].

    \b
    Example:
      floodtide segment fib25.toml --out out.h5:segmentation --box 65:185,65:185,65:185
    """
    shared.require_same_arguments()
    with _comm.agreed():
        if _comm.rank() == 0:
            settings = config.load(file, overrides)
            options = _resolved(settings, box)
            inputs: list[str | Path] = [
                file,
                *files_of([options.image]),
                *files_in(options.checkpoint),
            ]
            with output(out, inputs):
                report = _segment(settings, options, out)
            click.echo(json.dumps(report) if as_json else _text(report))


def _resolved(settings: config.Config, box: str | None) -> SegmentOptions:
    """The options with image, mean and std of a named volume filled in."""
    options = settings.segment
    for name in ("checkpoint", "image"):
        if not getattr(options, name):
            raise ConfigurationError(f"segment.{name} is missing, expected its path")
    volumes = {volume.name: volume for volume in settings.data.volumes}
    mean, std, image = MEAN, STD, options.image
    if image in volumes:
        mean, std, image = volumes[image].mean, volumes[image].std, volumes[image].image
    return dataclasses.replace(
        options,
        image=image,
        box=options.box if box is None else box,
        mean=mean if options.mean is None else options.mean,
        std=std if options.std is None else options.std,
    )


def _segment(settings: config.Config, options: SegmentOptions, out: str) -> dict[str, Any]:
    from floodtide import nn
    from floodtide.cli.progress import bar
    from floodtide.data import Volume, parse_box
    from floodtide.segment import Segmenter

    if settings.run.threads > 0:
        _core.set_num_threads(settings.run.threads)
    model = nn.load_ffn(
        options.checkpoint,
        fov=options.fov,
        deltas=options.deltas,
        compute=settings.run.compute,
    )
    volume = Volume(options.image)
    start_s = time.monotonic()
    with bar("seeds", "segment") as progress:
        result = Segmenter(model, options).segment(volume, parse_box(options.box), progress)
    notes = {
        "image": options.image,
        "checkpoint": options.checkpoint,
        "options": json.dumps(config.to_dict(options)),
        "floodtide_version": _core.__version__,
    }
    result.save(out, notes)
    return {
        "segments": len(result.origins),
        "coverage": result.coverage,
        "network_calls": result.counters.get("inference-calls", 0),
        "seconds": time.monotonic() - start_s,
        "out": out,
    }


def _text(report: dict[str, Any]) -> str:
    return (
        f"{report['segments']} segments, {100 * report['coverage']:.1f} % of the voxels, in"
        f" {report['network_calls']} network calls and {report['seconds']:.0f} s: {report['out']}"
    )
