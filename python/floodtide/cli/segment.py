# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment`."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodtide import _core, config
from floodtide.base import limits
from floodtide.base.counts import count_of
from floodtide.base.files import path_and_dataset
from floodtide.base.outputs import files_in, files_of
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.config.networks import UNet3DConfig
from floodtide.data.formats import HDF5, format_of
from floodtide.data.look.problems import settle
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.segment import SegmentOptions, output
from floodtide.segment.image_check import note_without_statistics
from floodtide.segment.masks import volumes_of
from floodtide.segment.settings import checked, resolved

if TYPE_CHECKING:
    from floodtide.segment.ffn_request import FfnRequest


@click.command()
@click.argument("file", metavar="CONFIG.toml | IMAGE", required=False)
@click.option(
    "--model",
    metavar="NETWORK",
    help="Instead of CONFIG.toml, with IMAGE: fib25 (`floodtide fetch fib25`), a checkpoint or a run directory.",
)
@click.option(
    "--voxel-nm",
    type=shared.Numbers(limits.VOXEL_SIZE, 3),
    metavar="Z,Y,X",
    help="With --model: voxel size z,y,x of IMAGE in nm (default: stored in IMAGE).",
)
@click.option(
    "--preview",
    is_flag=True,
    help="With --model: segment a box in the middle in a few minutes, draw it, and estimate the whole image.",
)
@click.option("--labels", metavar="LABELS", help="With --preview: labels of IMAGE to compare with.")
@click.option(
    "--request",
    metavar="FILE.pbtxt",
    help="Instead of CONFIG.toml: an InferenceRequest of google/ffn in text format.",
)
@click.option(
    "--npz",
    metavar="FOLDER",
    help="Also write google/ffn's file of the segmentation, FOLDER/X/Y/seg-X_Y_Z.npz.",
)
@click.option(
    "--out",
    metavar="FILE.h5:DATASET | FOLDER",
    help="Where to write the segmentation; other datasets of the file are kept. With segment.subvolume, the folder of"
    " the subvolumes, for `floodtide reconcile`. Only --preview has a default: IMAGE's name and -preview.h5.",
)
@click.option("--box", help="Box to segment, z0:z1,y0:y1,x0:x1 in voxels; replaces segment.box.")
@click.option(
    "--consensus",
    type=click.Choice(("none", "reverse")),
    help="`reverse`: also segment from the seeds in reverse order, and keep together only what both segmentations have"
    " in one segment; replaces segment.consensus.",
)
@click.option(
    "--coarse",
    type=shared.Numbers(limits.STRIDE, 3),
    metavar="Z,Y,X",
    help="Flood first in the image averaged over blocks of this size (2 means 2,2,2), and at full resolution only what"
    " the network does not confirm there; replaces segment.coarse.",
)
@click.option(
    "--agglomerate",
    is_flag=True,
    help="Afterwards flood pairs of segments again and merge a pair that is one object (`floodtide resegment`). FILE.h5"
    " gets the objects, FILE.base.h5 the segments, and the folder FILE.pairs the scores.",
)
@click.option(
    "--subvolumes",
    metavar="A:B",
    help="With segment.subvolume: only subvolumes A to B - 1, for job arrays.",
)
@click.option(
    "--estimate",
    is_flag=True,
    help="Print subvolumes, memory, network calls and hours; segment nothing. Subvolumes that are segmented already"
    " make the estimate better.",
)
@click.option(
    "--ranks",
    type=shared.Numbers(limits.RANKS),
    help="With --estimate, if some subvolumes are segmented: also hours and efficiency of these numbers of ranks.",
)
@shared.overrides
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    file: str | None,
    model: str | None,
    voxel_nm: tuple[float, float, float] | None,
    preview: bool,
    labels: str | None,
    request: str | None,
    npz: str | None,
    out: str | None,
    box: str | None,
    consensus: str | None,
    coarse: tuple[int, int, int] | None,
    agglomerate: bool,
    subvolumes: str | None,
    estimate: bool,
    ranks: tuple[int, ...] | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Segment a box of a volume with the network that the [segment] section of CONFIG.toml names.

    segment.checkpoint may be a run directory; its newest checkpoint is used. If segment.mean and segment.std are left
    out, they are taken from the [[data.volumes]] table that segment.image names, else from the checkpoint.

    With segment.subvolume, the box is cut into overlapping subvolumes, which ranks share. The same command continues
    after a crash, on any number of ranks. `floodtide reconcile` then makes one segmentation.

    With the configuration of a U-Net for affinities, the newest checkpoint of run.dir predicts the affinities of the
    held-out box, or of --box, and segments are merged while the mean affinity between them is above 0.5.

    Without a configuration, `--model` names the network for IMAGE. Mean and standard deviation are those of the
    network's training if the image is alike, else the image's own. `--preview` resamples the image if the network needs
    other voxels.

    `--request` reads a request of google/ffn, such as configs/inference_training_sample2.pbtxt.

    `--coarse 2` floods large objects at half resolution, which saves network calls.

    `--consensus reverse --agglomerate` is the whole published way from an image to objects.

    \b
    Example:
      floodtide segment stack.tif --model fib25 --voxel-nm 8,8,8 --preview
      floodtide segment fib25.toml --out out.h5:segmentation --box 65:185,65:185,65:185
      mpiexec -n 16 floodtide segment brain.toml --out pieces --set segment.subvolume=[256,256,256]
      floodtide reconcile pieces brain.zarr
    """
    shared.require_same_arguments()
    with world.agreed():
        _require_together(file, model, voxel_nm, preview, labels, request, out, estimate, ranks)
        if preview:
            _refuse_with_preview(npz, consensus, agglomerate, subvolumes, estimate)
    if model is not None:
        from floodtide.cli import segment_model

        with world.agreed():
            assert file is not None  # as _require_together has checked
            settings, setting = segment_model.settings_for(file, model, voxel_nm, labels, overrides)
            if preview:
                if world.rank() == 0:
                    segment_model.run_preview(file, setting, out, box, labels, as_json)
                return
            segment_model.require_same_voxels(file, setting)
            asked = None
            if world.rank() == 0:
                segment_model.say(file, setting)
    else:
        with world.agreed():
            file, asked, settings = _settings(file, request, box, overrides)
    assert out is not None
    if isinstance(settings.model, UNet3DConfig):
        from floodtide.cli import segment_affinities

        with world.agreed():
            segment_affinities.require_alone(
                {
                    "--consensus": consensus,
                    "--coarse": coarse,
                    "--agglomerate": agglomerate,
                    "--npz": npz,
                    "--subvolumes": subvolumes,
                    "--estimate": estimate,
                }
            )
            if world.rank() == 0:
                report = segment_affinities.run(file, settings, out, box)
                click.echo(json.dumps(report) if as_json else segment_affinities.text(report))
        return
    with world.agreed():
        if npz is not None and (settings.segment.subvolume is not None or estimate):
            raise click.UsageError(
                "--npz with segment.subvolume or --estimate, expected a box in one piece"
            )
        given: dict[str, Any] = {"consensus": consensus, "coarse": coarse}
        changes = {name: value for name, value in given.items() if value is not None}
        changed = dataclasses.replace(settings.segment, **changes)
        settings = dataclasses.replace(settings, segment=changed)
    if settings.segment.subvolume is not None or estimate:
        if agglomerate:
            raise click.UsageError(
                "--agglomerate with segment.subvolume or --estimate, expected a box in one piece; for subvolumes:"
                " `floodtide reconcile`, then `floodtide resegment`"
            )
        from floodtide.cli import segment_estimate, segment_subvolumes

        with world.agreed():
            options = resolved(file, settings, box)
            if world.rank() == 0:
                settle(checked(settings, options))
        if estimate:
            report = segment_estimate.run(settings, options, out, ranks)
            text = segment_estimate.text(report)
        else:
            report = segment_subvolumes.run(settings, options, out, subvolumes)
            text = segment_subvolumes.text(report)
        if world.rank() == 0:
            note_without_statistics(options.checkpoint, options.image)
            click.echo(json.dumps(report) if as_json else text)
        return
    if subvolumes is not None:
        raise click.UsageError(
            "--subvolumes without segment.subvolume, expected the size of a subvolume"
        )
    with world.agreed():
        options = resolved(file, settings, box)
        base = _base(out) if agglomerate else out
        if world.rank() == 0:
            inputs: list[str | Path] = [
                file,
                *files_of(volumes_of(options)),
                *files_in(options.checkpoint),
            ]
            with output(base, inputs):
                settle(checked(settings, options))
                report = _segment(settings, options, base, asked, npz)
            note_without_statistics(options.checkpoint, options.image)
            if not (agglomerate and as_json):
                click.echo(json.dumps(report) if as_json else _text(report))
    if agglomerate:
        from floodtide.cli import resegment

        folder = str(Path(path_and_dataset(out)[0]).with_suffix(".pairs"))
        merged = resegment.run(settings, options, base, folder, out)
        if world.rank() == 0:
            report["resegment"] = merged
            click.echo(json.dumps(report) if as_json else resegment.text(merged))


def _require_together(
    file: str | None,
    model: str | None,
    voxel_nm: tuple[float, float, float] | None,
    preview: bool,
    labels: str | None,
    request: str | None,
    out: str | None,
    estimate: bool,
    ranks: tuple[int, ...] | None,
) -> None:
    """Check which options are given together."""
    if model is None:
        given = {"--voxel-nm": voxel_nm, "--preview": preview, "--labels": labels}
        for name, value in given.items():
            if value:
                raise click.UsageError(f"{name} without --model, expected both")
    elif file is None or request is not None:
        raise click.UsageError("--model without IMAGE or with --request, expected an image")
    if labels is not None and not preview:
        raise click.UsageError(
            "--labels without --preview, expected `floodtide evaluate` afterwards"
        )
    if ranks is not None and not estimate:
        raise click.UsageError("--ranks without --estimate, expected both")
    if out is None and not preview:
        raise click.UsageError("--out is missing, expected FILE.h5:DATASET, or a folder")


def _refuse_with_preview(
    npz: str | None,
    consensus: str | None,
    agglomerate: bool,
    subvolumes: str | None,
    estimate: bool,
) -> None:
    given = {
        "--npz": npz,
        "--consensus": consensus,
        "--agglomerate": agglomerate,
        "--subvolumes": subvolumes,
        "--estimate": estimate,
    }
    for name, value in given.items():
        if value:
            raise click.UsageError(f"{name} with --preview, expected one of them")


def _settings(
    file: str | None, request: str | None, box: str | None, overrides: tuple[str, ...]
) -> tuple[str, FfnRequest | None, config.Config]:
    """Return the file that was given, the request of google/ffn if it is one, and the settings."""
    from floodtide.data import parse_box
    from floodtide.segment.ffn_request import read_request

    if request is None:
        if file is None:
            raise click.UsageError("neither CONFIG.toml nor --request, expected one of them")
        return file, None, config.load(file, overrides)
    if file is not None:
        raise click.UsageError(f"both {file} and --request {request}, expected one of them")
    asked = read_request(request, parse_box(box or ""))
    if world.rank() == 0:
        for note in asked.notes:
            click.echo(f"floodtide segment: {request}: {note}", err=True)
    document = {"segment": config.to_dict(asked.options)}
    return request, asked, config.from_dict(document, request, overrides)


def _base(out: str) -> str:
    """Return the name of the segmentation before segments are merged into the objects `out`."""
    if format_of(out) is not HDF5:
        raise InvalidArgumentError(f"--out {out}: expected FILE.h5:DATASET with --agglomerate")
    path, dataset = path_and_dataset(out)
    return f"{Path(path).with_suffix('.base.h5')}:{dataset}"


def _checkpoint(out: str) -> Path:
    """Return the file for checkpoints of a segmentation, beside its file."""
    path, dataset = path_and_dataset(out)
    return Path(f"{path}.{dataset.strip('/').replace('/', '.')}.checkpoint")


def _segment(
    settings: config.Config,
    options: SegmentOptions,
    out: str,
    asked: FfnRequest | None,
    npz: str | None,
) -> dict[str, Any]:
    from floodtide.base.progress import bar
    from floodtide.data import Volume, parse_box
    from floodtide.segment import Segmenter
    from floodtide.segment.checkpoints import remove_checkpoints
    from floodtide.segment.ffn_files import write_npz
    from floodtide.segment.flooding import call_rate

    if settings.run.threads > 0:
        _core.set_num_threads(settings.run.threads)
    segmenter = Segmenter.load(options, compute=settings.run.compute)
    checkpoint = _checkpoint(out)
    if asked is not None and asked.depth not in (None, segmenter.model.depth):
        raise ConfigurationError(
            f"model_args.depth is {asked.depth}, expected {segmenter.model.depth}, that of {options.checkpoint}"
        )
    volume = Volume(options.image)
    start_s = time.monotonic()
    with bar("voxels", "segment", line_every_s=10.0, note=call_rate(segmenter)) as progress:
        result = segmenter.segment(volume, parse_box(options.box), progress, checkpoint=checkpoint)
    notes = {
        "image": options.image,
        "checkpoint": options.checkpoint,
        "options": json.dumps(config.to_dict(options)),
        "floodtide_version": _core.__version__,
    }
    result.save(out, notes)
    if npz is not None:
        write_npz(result, npz, b"" if asked is None else asked.message)
    if options.checkpoint_interval > 0:
        remove_checkpoints(checkpoint)
    return {
        "segments": result.segments,
        "coverage": result.coverage,
        "network_calls": result.network_calls,
        "network_calls_before": result.network_calls
        - segmenter.network_calls,  # by a job that was killed
        "coarse": None if result.coarse is None else result.coarse._asdict(),
        "seconds": time.monotonic() - start_s,
        "forward": segmenter.forward,
        "fft_speedup": segmenter.fft_speedup,
        "checkpoint": options.checkpoint,
        "mean": options.mean,
        "std": options.std,
        "out": out,
    }


def _text(report: dict[str, Any]) -> str:
    levels, coarse = "", report["coarse"]
    if coarse is not None:
        levels = (
            f" ({coarse['network_calls']} at the coarse level, {coarse['check_calls']} to check its objects, of which"
            f" {coarse['kept']} of {coarse['objects']} are kept)"
        )
    before = report["network_calls_before"]
    continued = f" ({before} of them before a checkpoint)" if before else ""
    faster = ""
    if report["forward"] == "fft" and report["fft_speedup"] is not None:
        faster = (
            f" (by Fourier transforms, {report['fft_speedup']:.2f} times as fast as layer by layer)"
        )
    calls = count_of(report["network_calls"], "network call")
    return (
        f"{count_of(report['segments'], 'segment')}, {100 * report['coverage']:.1f} % of the voxels, in"
        f" {calls}{levels}{continued}{faster} and {report['seconds']:.0f} s:"
        f" {report['out']}"
    )
