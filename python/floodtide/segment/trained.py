# SPDX-License-Identifier: Apache-2.0
"""Networks of earlier runs, and published ones: find the checkpoint, load it, and read how its images are normalised.

A file that cannot be read is an InvalidFileError. A configuration in it that this version of floodtide cannot read is a
ConfigurationError.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from floodtide import config, nn
from floodtide.base import reading
from floodtide.base.network_files import checkpoints
from floodtide.base.tasks import PatchTask
from floodtide.config.reader import stored
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.look import FIB25
from floodtide.data.look.trained_on import TrainedOn, training_images
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.nn.load import is_tensorflow

ENVIRONMENT = "FLOODTIDE_DATA"
"""Environment variable with the folder of the data."""

PUBLISHED: dict[str, tuple[str, TrainedOn]] = {
    "fib25": ("ffn_fib25_checkpoint/model.ckpt-27465036", FIB25)
}
"""Published networks by the names that `floodtide fetch` knows: file below the data folder, and training images."""


def normalisations(checkpoint: str | Path, image: str) -> list[tuple[float, float]] | None:
    """Return the mean and standard deviation that the configuration of a checkpoint gives for an image.

    They are those of the training volume with this image, else those of all training volumes if all are equal.

    Args:
        checkpoint: A floodtide checkpoint, or the prefix of a TensorFlow checkpoint.

    Returns:
        (mean, std) of the image, and of each further channel. None if the checkpoint stores no configuration (a
        TensorFlow checkpoint never does), or if the image is not one of its training volumes and these differ.
    """
    settings = stored_configuration(checkpoint)
    if settings is None:
        return None
    volumes = settings.data.volumes
    rows = [(v.image, tuple((one.mean, one.std) for one in v.inputs)) for v in volumes]
    path = os.path.abspath(image)
    found = {row for name, row in rows if os.path.abspath(name) == path} or {row for _, row in rows}
    return list(found.pop()) if len(found) == 1 else None


def levels_of(
    known: list[tuple[float, float]] | None, mean: float | None, std: float | None, unknown: str
) -> list[tuple[float, float]]:
    """Return (mean, std) of each channel. `mean` and `std` replace the known numbers of the first channel, the image.

    Raise InvalidArgumentError with the message `unknown` if a number is neither known nor given.
    """
    if known is None and (mean is None or std is None):
        raise InvalidArgumentError(unknown)
    (old_mean, old_std), *more = known or [(0.0, 1.0)]
    return [(old_mean if mean is None else mean, old_std if std is None else std), *more]


def voxel_size_of(checkpoint: str | Path) -> SizeNm | None:
    """Return the voxel size (z, y, x) of the images that a network was trained on; None if unknown, or they differ.

    The configuration states it, else the files of the training did.
    """
    settings = stored_configuration(checkpoint)
    volumes = () if settings is None else settings.data.volumes
    sizes = {volume.voxel_size_nm for volume in volumes} - {None}
    if len(sizes) != 1:
        sizes = {one.voxel_size_nm for one in training_images(checkpoint)}
    return sizes.pop() if len(sizes) == 1 else None


def task_of(checkpoint: str | Path) -> PatchTask | None:
    """Return the task that the network of a checkpoint has learnt; None if the checkpoint stores no configuration."""
    settings = stored_configuration(checkpoint)
    task: Any = None if settings is None else settings.task
    return task if task is not None and task.predicts else None


def stored_configuration(checkpoint: str | Path) -> config.Config | None:
    """Return the configuration that a checkpoint stores; None if it stores none, as a TensorFlow checkpoint."""
    return None if is_tensorflow(checkpoint) else stored(checkpoint)


def newest_checkpoint(path: str | Path, file: str = "", run: str = "") -> Path:
    """Return the newest checkpoint of a run directory. A path to a checkpoint is returned unchanged.

    Args:
        file, run: A configuration and its run directory, for the message if `path` is that directory.
    """
    path = Path(path)
    if reading.exists(path) or is_tensorflow(path):
        return path
    found = checkpoints(path)
    if not found:
        is_own = bool(run) and path == Path(run)
        todo = f": not trained yet: floodtide train {shlex.quote(file)}" if is_own else ""
        raise InvalidFileError(
            f"{path} is neither a checkpoint nor a run directory with one in checkpoints/{todo}"
        )
    return found[-1]


def load(checkpoint: str | Path) -> nn.PatchNetwork:
    """Return the U-Net of a checkpoint, with averaged parameters if the checkpoint stores them."""
    model = nn.load(checkpoint)
    if not isinstance(model, nn.PatchNetwork):
        raise InvalidFileError(
            f"predict: {checkpoint} holds {model!r}, expected a U-Net (floodtide segment is for flood-filling networks)"
        )
    return model


def data_folder() -> Path:
    """Return $FLOODTIDE_DATA; if it is not set, the folder floodtide in $XDG_DATA_HOME, or in ~/.local/share."""
    if chosen := os.environ.get(ENVIRONMENT):
        return Path(chosen)
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "floodtide"


def published(name: str) -> tuple[TrainedOn, str]:
    """Return the training images of a published network, and its path on this machine."""
    file, images = PUBLISHED[name]
    path = str(data_folder() / file)
    if not reading.exists(f"{path}.index"):
        raise InvalidFileError(
            f"the network {name} is not in {data_folder()}: `floodtide fetch {name}` brings it there;"
            f" {ENVIRONMENT} names another folder"
        )
    return images, path
