# SPDX-License-Identifier: Apache-2.0
"""What `floodtide predict` does, as a function for scripts: a volume or slices, from a file to a file."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from floodtide import nn
from floodtide.base.outputs import files_of
from floodtide.base.progress import bar
from floodtide.data import Volume, parse_box
from floodtide.data.copies import settled_size
from floodtide.data.look.problems import Reading, settle
from floodtide.errors import InvalidArgumentError, LockedError, StorageError
from floodtide.segment import predict, trained
from floodtide.segment.image_check import image_problems, note_without_statistics


def predict_volume(
    model: str,
    image: str,
    out: str,
    *,
    box: str = "",
    mean: float | None = None,
    std: float | None = None,
    voxel_size_nm: tuple[float, float, float] | None = None,
    probabilities: bool = False,
    mirror: bool = False,
) -> dict[str, Any]:
    """Apply a U-Net to slices (n, y, x) or to a volume (z, y, x), block by block. Not collective.

    Args:
        model: A checkpoint, or a run directory, of which the newest checkpoint is used.
        image: Name of the volume.
        out: "file:dataset" of an HDF5 file.
        box: z0:z1,y0:y1,x0:x1 in voxels; "": the whole image.
        mean, std: Those of the image; None: what the checkpoint stores.
        voxel_size_nm: Voxel size (z, y, x); None: what the image states.
        probabilities: Also write the probabilities of the classes, "DATASET_probabilities".
        mirror: Average the predictions of the image and of its mirror images, along the axes that training reflected.

    Returns:
        The report: checkpoint, network, shape, context, mirrored axes, mean, std, seconds.

    Raises:
        floodtide.errors.Error: If an input cannot be read or does not fit, or the result cannot be written.
    """
    checkpoint = trained.newest_checkpoint(model)
    with _reserved(out, [checkpoint, *files_of([image])]):
        predictor = _predictor(checkpoint, image, mean, std, mirror)
        volume, part = Volume(image), parse_box(box)
        size = settled_size(volume, voxel_size_nm, "the prediction")
        slices = isinstance(predictor.model, nn.UNet2D)
        reading = Reading("predict", predictor.mean, predictor.std, "--mean and --std", size)
        settle(image_problems(volume, checkpoint, reading, box=part, slices=slices))
        start_s = time.monotonic()
        with bar("voxels", "predict") as progress:
            predictor.write(
                volume,
                out,
                box=part,
                probabilities=probabilities,
                voxel_size_nm=size,
                notes=_notes(checkpoint, predictor),
                progress=progress,
            )
    note_without_statistics(checkpoint, image)
    return {
        "checkpoint": str(checkpoint),
        "network": repr(predictor.model),
        "shape": list(part[1] if part else volume.shape),
        "context": list(predictor.context),
        "mirror": list(predictor.mirror),
        "mean": predictor.mean,
        "std": predictor.std,
        "seconds": time.monotonic() - start_s,
        "out": out,
    }


@contextlib.contextmanager
def _reserved(out: str, inputs: Sequence[str | Path]) -> Iterator[None]:
    """Reserve an output. An output that cannot be written is a wrong argument."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(predict.output(out, inputs))
        except LockedError:
            raise
        except StorageError as error:
            raise InvalidArgumentError(str(error)) from None
        yield


def _predictor(
    checkpoint: Path, image: str, mean: float | None, std: float | None, mirror: bool
) -> predict.Predictor:
    network = trained.load(checkpoint)
    if mean is None or std is None:
        known = trained.normalisation(checkpoint, image)
        if known is None:
            raise InvalidArgumentError(
                f"{checkpoint} does not store how {image} is normalised, expected --mean and --std"
            )
        mean = known[0] if mean is None else mean
        std = known[1] if std is None else std
    axes = trained.mirrored_axes(checkpoint) if mirror else ()
    if mirror and not axes:
        raise InvalidArgumentError(
            f"--mirror with {checkpoint}, whose training reflected no axes; expected no --mirror, or a network that was"
            " trained with data.reflectable_axes or augmentation.flip_x"
        )
    offsets = trained.offsets(checkpoint)
    return predict.Predictor(network, mean=mean, std=std, mirror=axes, offsets=offsets)


def _notes(checkpoint: Path, predictor: predict.Predictor) -> dict[str, str]:
    notes, offsets = {"checkpoint": str(checkpoint)}, trained.offsets(checkpoint)
    if offsets is not None:
        notes["offsets"] = json.dumps(offsets)
    elif predictor.excluding:
        notes["classes"] = str(predictor.outputs)
    return notes
