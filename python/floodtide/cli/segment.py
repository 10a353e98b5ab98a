# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment`."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import click

from floodtide import _core, config
from floodtide.base.outputs import files_in, files_of
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data.formats import format_of
from floodtide.errors import ConfigurationError
from floodtide.segment import SegmentOptions, output
from floodtide.segment.trained import newest_checkpoint, normalisation


@click.command()
@click.argument("file", metavar="CONFIG.toml")
@click.option(
    "--out",
    required=True,
    metavar="FILE.h5:DATASET | FOLDER",
    help="Where to write the segmentation; other datasets of the file are kept. With segment.subvolume, the folder of"
    " the subvolumes, for `floodtide reconcile`.",
)
@click.option("--box", help="Box to segment, z0:z1,y0:y1,x0:x1 in voxels; replaces segment.box.")
@click.option(
    "--consensus",
    type=click.Choice(("none", "reverse")),
    help="`reverse`: also segment from the seeds in reverse order, and keep together only what both segmentations have"
    " in one segment; replaces segment.consensus.",
)
@click.option(
    "--subvolumes",
    metavar="A:B",
    help="With segment.subvolume: only subvolumes A to B - 1, for job arrays.",
)
@click.option(
    "--estimate",
    is_flag=True,
    help="Print subvolumes, memory, network calls and hours; segment nothing.",
)
@shared.overrides
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    file: str,
    out: str,
    box: str | None,
    consensus: str | None,
    subvolumes: str | None,
    estimate: bool,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Segment a box of a volume with the network that the [segment] section of CONFIG.toml names.

    segment.checkpoint may be a run directory; its newest checkpoint is used. If segment.mean and segment.std are left
    out, they are taken from the [[data.volumes]] table that segment.image names, else from the checkpoint.

    With segment.subvolume, the box is cut into overlapping subvolumes, which ranks share. The same command continues
    after a crash, on any number of ranks. `floodtide reconcile` then makes one segmentation.

    \b
    Example:
      floodtide segment fib25.toml --out out.h5:segmentation --box 65:185,65:185,65:185
      mpiexec -n 16 floodtide segment brain.toml --out pieces --set segment.subvolume=[256,256,256]
      floodtide reconcile pieces brain.zarr
    """
    shared.require_same_arguments()
    with world.agreed():
        settings = config.load(file, overrides)
        if consensus is not None:
            changed = dataclasses.replace(settings.segment, consensus=consensus)
            settings = dataclasses.replace(settings, segment=changed)
    if settings.segment.subvolume is not None or estimate:
        from floodtide.cli import segment_subvolumes

        with world.agreed():
            options = _resolved(file, settings, box)
        report = segment_subvolumes.run(settings, options, out, subvolumes, estimate)
        if world.rank() == 0:
            click.echo(json.dumps(report) if as_json else segment_subvolumes.text(report))
        return
    if subvolumes is not None:
        raise click.UsageError(
            "--subvolumes without segment.subvolume, expected the size of a subvolume"
        )
    with world.agreed():
        if world.rank() == 0:
            options = _resolved(file, settings, box)
            inputs: list[str | Path] = [
                file,
                *files_of([options.image, options.initial, options.mask]),
                *files_in(options.checkpoint),
            ]
            with output(out, inputs):
                report = _segment(settings, options, out)
            click.echo(json.dumps(report) if as_json else _text(report))


def _resolved(file: str, settings: config.Config, box: str | None) -> SegmentOptions:
    """Return the [segment] options, with missing keys filled in from the named volume and from the checkpoint.

    Raises:
        ConfigurationError: If neither source provides a missing key. The message names all such keys.
        InvalidFileError: If the checkpoint does not exist or cannot be read.
        InvalidArgumentError: If segment.image names no volume.
    """
    options, volume = settings.segment, _volume(settings)
    changes: dict[str, Any] = {}
    if box is not None:
        changes["box"] = box
    if volume is not None:
        changes["image"] = volume.image
    elif options.image:
        format_of(options.image)  # refuses the name of a volume that does not exist
    if options.checkpoint:
        changes["checkpoint"] = str(newest_checkpoint(options.checkpoint))
    options = _normalised(dataclasses.replace(options, **changes), volume)
    _require_all(file, options, settings.data.volumes)
    return options


def _volume(settings: config.Config) -> config.VolumeConfig | None:
    """Return the [[data.volumes]] table to segment, or None if segment.image does not name a table."""
    volumes, image = settings.data.volumes, settings.segment.image
    if not image:
        return volumes[0] if len(volumes) == 1 else None
    return {volume.name: volume for volume in volumes}.get(image)


def _normalised(options: SegmentOptions, volume: config.VolumeConfig | None) -> SegmentOptions:
    """Return the options with missing mean and std taken from the volume, else from the checkpoint's configuration."""
    known: tuple[float, float] | None = None
    if volume is not None:
        known = volume.mean, volume.std
    elif options.checkpoint and None in (options.mean, options.std):
        known = normalisation(options.checkpoint, options.image)
    if known is None:
        return options
    return dataclasses.replace(
        options,
        mean=known[0] if options.mean is None else options.mean,
        std=known[1] if options.std is None else options.std,
    )


def _require_all(
    file: str, options: SegmentOptions, volumes: tuple[config.VolumeConfig, ...]
) -> None:
    """Raise one error that names all missing keys.

    mean and std may come from the checkpoint or from the named volume. So the error names mean and std only if the
    checkpoint and the image are known.
    """
    expected = {
        "checkpoint": "a checkpoint or a run directory",
        "image": "file:dataset or the name of one of the [[data.volumes]]",
    }
    if options.checkpoint and (options.image or not volumes):
        expected |= dict.fromkeys(
            ("mean", "std"), "the mean and standard deviation of the training images"
        )
    missing = [name for name in expected if getattr(options, name) in ("", None)]
    if not missing:
        return
    keys = " and ".join(", ".join(f"segment.{name}" for name in missing).rsplit(", ", 1))
    text = f"{file}: {keys} {'is' if len(missing) == 1 else 'are'} missing, expected "
    text += ", and ".join(dict.fromkeys(expected[name] for name in missing))
    if "mean" in missing or "std" in missing:
        text += f"; {options.checkpoint} does not store how {options.image or 'the image'} is normalised"
    raise ConfigurationError(text)


def _segment(settings: config.Config, options: SegmentOptions, out: str) -> dict[str, Any]:
    from floodtide.base.progress import bar
    from floodtide.data import Volume, parse_box
    from floodtide.segment import Segmenter
    from floodtide.segment.flooding import call_rate

    if settings.run.threads > 0:
        _core.set_num_threads(settings.run.threads)
    segmenter = Segmenter.load(options, compute=settings.run.compute)
    volume = Volume(options.image)
    start_s = time.monotonic()
    with bar("voxels", "segment", line_every_s=10.0, note=call_rate(segmenter)) as progress:
        result = segmenter.segment(volume, parse_box(options.box), progress)
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
        "checkpoint": options.checkpoint,
        "mean": options.mean,
        "std": options.std,
        "out": out,
    }


def _text(report: dict[str, Any]) -> str:
    return (
        f"{report['segments']} segments, {100 * report['coverage']:.1f} % of the voxels, in"
        f" {report['network_calls']} network calls and {report['seconds']:.0f} s: {report['out']}"
    )
