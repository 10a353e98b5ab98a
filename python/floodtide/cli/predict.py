# SPDX-License-Identifier: Apache-2.0
"""`floodtide predict`."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import click

from floodtide.base import limits
from floodtide.base.outputs import files_of
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.errors import LockedError, StorageError


@click.command()
@click.argument("model", metavar="RUN-OR-CHECKPOINT")
@click.argument("image", metavar="IMAGE")
@click.argument("out", metavar="OUT.h5:DATASET")
@click.option(
    "--box",
    default="",
    help="Box to predict, z0:z1,y0:y1,x0:x1 in voxels; default: the whole image.",
)
@click.option(
    "--mean",
    type=shared.Number(limits.INTENSITY),
    help="Mean of the image; default: the mean in the checkpoint's configuration.",
)
@click.option(
    "--std",
    type=shared.Number(limits.DEVIATION),
    help="Standard deviation of the image; default: that in the checkpoint's configuration.",
)
@click.option(
    "--voxel-nm",
    type=shared.Numbers(limits.VOXEL_SIZE, 3),
    metavar="Z,Y,X",
    help="Voxel size z,y,x of IMAGE in nm; default: what IMAGE states. It must be that of the training.",
)
@click.option(
    "--probabilities",
    is_flag=True,
    help="Also write the probabilities of the classes: DATASET_probabilities (classes, n, y, x).",
)
@click.option(
    "--mirror",
    is_flag=True,
    help="Average the predictions of the image and of its mirror images, along the axes that training reflected. Takes"
    " up to eight times as long, and makes fewer mistakes.",
)
@click.option(
    "--context",
    metavar="Z,Y,X",
    help="Voxels around a block that its prediction uses; default: the network's full context, which "
    "leaves no seams between blocks.",
)
@click.option(
    "--memory",
    "memory_mib",
    type=shared.Number(limits.MEMORY),
    help="Approximate memory (MiB) for the activations of a block; default: 2048.",
)
@click.option(
    "--threads",
    type=shared.Number(limits.THREADS),
    default=0,
    help="Number of threads; default: OMP_NUM_THREADS, else all cores of the job.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool, **arguments: Any) -> None:
    """Apply a U-Net to slices (n, y, x) or to a volume (z, y, x) of any size.

    Writes the most likely class of each pixel (uint8), or affinities (float32, (offsets, z, y, x)), block by block. If
    a run directory is given, its newest checkpoint is used.

    \b
    Example:
      floodtide predict runs/liver liver_validation.h5:image liver_predicted.h5:labels
      floodtide predict runs/affinities raw.h5:raw affinities.h5:affinities --box 190:250,0:250,0:250
    """
    shared.require_same_arguments()
    with world.agreed():
        if world.rank() == 0:
            with contextlib.ExitStack() as held:
                report = _predict(held, **arguments)
            click.echo(json.dumps(report) if as_json else _text(report))


def _predict(
    held: contextlib.ExitStack,
    model: str,
    image: str,
    out: str,
    box: str,
    mean: float | None,
    std: float | None,
    voxel_nm: tuple[float, float, float] | None,
    probabilities: bool,
    mirror: bool,
    context: str | None,
    memory_mib: float | None,
    threads: int,
) -> dict[str, Any]:
    from floodtide import nn
    from floodtide.base.progress import bar
    from floodtide.data import Volume, parse_box, parse_vec3
    from floodtide.data.copies import settled_size
    from floodtide.data.look import Reading
    from floodtide.data.look.problems import settle
    from floodtide.segment import predict
    from floodtide.segment.image_check import image_problems, note_without_statistics
    from floodtide.train.threads import set_threads

    checkpoint = predict.newest_checkpoint(model)
    try:
        held.enter_context(predict.output(out, [checkpoint, *files_of([image])]))
    except LockedError:
        raise
    except StorageError as error:
        raise click.UsageError(str(error)) from None
    set_threads(threads)
    network = predict.load(checkpoint)
    volume = Volume(image)
    if mean is None or std is None:
        known = predict.normalisation(checkpoint, image)
        if known is None:
            raise click.UsageError(
                f"{checkpoint} does not store how {image} is normalised, expected --mean and --std"
            )
        mean = known[0] if mean is None else mean
        std = known[1] if std is None else std
    axes = predict.mirrored_axes(checkpoint) if mirror else ()
    if mirror and not axes:
        raise click.UsageError(
            f"--mirror with {checkpoint}, whose training reflected no axes; expected no --mirror, or a network that was"
            " trained with data.reflectable_axes or augmentation.flip_x"
        )
    offsets = predict.offsets(checkpoint)
    predictor = predict.Predictor(
        network,
        mean=mean,
        std=std,
        context=parse_vec3(context, "--context") if context else None,
        memory_mib=predict.MEMORY_MIB if memory_mib is None else memory_mib,
        mirror=axes,
        offsets=offsets,
    )
    part = parse_box(box)
    size = settled_size(volume, voxel_nm, "the prediction")
    reading = Reading("predict", mean, std, "--mean and --std", size)
    slices = isinstance(network, nn.UNet2D)
    settle(image_problems(volume, checkpoint, reading, box=part, slices=slices))
    notes = {"checkpoint": str(checkpoint)}
    if offsets is not None:
        notes["offsets"] = json.dumps(offsets)
    elif predictor.excluding:
        notes["classes"] = str(predictor.outputs)
    start_s = time.monotonic()
    with bar("voxels", "predict") as progress:
        predictor.write(
            volume,
            out,
            box=part,
            probabilities=probabilities,
            voxel_size_nm=size,
            notes=notes,
            progress=progress,
        )
    note_without_statistics(checkpoint, image)
    return {
        "checkpoint": str(checkpoint),
        "network": repr(network),
        "shape": list(part[1] if part else volume.shape),
        "context": list(predictor.context),
        "mirror": list(predictor.mirror),
        "mean": mean,
        "std": std,
        "seconds": time.monotonic() - start_s,
        "out": out,
    }


def _text(report: dict[str, Any]) -> str:
    shape = " x ".join(str(n) for n in report["shape"])
    return f"{shape} voxels by {report['checkpoint']} in {report['seconds']:.1f} s: {report['out']}"
