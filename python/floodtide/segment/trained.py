# SPDX-License-Identifier: Apache-2.0
"""Networks that runs have left: which file, what is in it, and how its images are normalised."""

from __future__ import annotations

import os
from pathlib import Path

from floodtide import _core, config, nn
from floodtide.base import reading
from floodtide.errors import InvalidFileError
from floodtide.nn.checkpoint_files import checkpoints
from floodtide.nn.load import is_tensorflow


def normalisation(checkpoint: str | Path, image: str) -> tuple[float, float] | None:
    """Return the mean and standard deviation that the configuration of a checkpoint gives for an image.

    Of slices the configured ones; of volumes those of the volume with that image, else what all volumes have in common.

    Args:
        checkpoint: A file of ours, or the prefix of a TensorFlow checkpoint.
        image: "file:dataset".

    Returns:
        None if the file has no configuration, as TensorFlow checkpoints, or if it has volumes of different
        normalisation but not this one.

    Raises:
        InvalidFileError: If the file cannot be read.
        ConfigurationError: If this floodtide does not know what its configuration says.
    """
    text = "" if is_tensorflow(checkpoint) else _core.stored_configuration(str(checkpoint))
    if not text:
        return None
    where = f"{checkpoint}: configuration"
    settings = config.from_dict(reading.parse_toml(text, where), where)
    if isinstance(settings.model, config.UNet2DConfig):
        return settings.data.mean, settings.data.std
    volumes = settings.data.volumes
    same = {(v.mean, v.std) for v in volumes if _same_dataset(v.image, image)}
    found = same or {(v.mean, v.std) for v in volumes}
    return found.pop() if len(found) == 1 else None


def newest_checkpoint(path: str | Path) -> Path:
    """Return the newest checkpoint of a run directory; a path that names a checkpoint is returned as it is.

    Raises:
        InvalidFileError: If the path names no checkpoint and no run directory with one.
    """
    path = Path(path)
    if reading.exists(path) or is_tensorflow(path):
        return path
    found = checkpoints(path)
    if not found:
        raise InvalidFileError(
            f"{path} is neither a checkpoint nor a run directory with one in checkpoints/"
        )
    return found[-1]


def load(checkpoint: str | Path) -> nn.UNet:
    """The U-Net of a checkpoint, with averaged parameters if it has some.

    Raises:
        InvalidFileError: If the file is missing, damaged, or holds another kind of network.
    """
    model = nn.load(checkpoint)
    if not isinstance(model, nn.UNet):
        raise InvalidFileError(
            f"predict: {checkpoint} holds {model!r}, expected a U-Net (floodtide segment is for flood-filling networks)"
        )
    return model


def _same_dataset(a: str, b: str) -> bool:
    (file_a, _, dataset_a), (file_b, _, dataset_b) = a.rpartition(":"), b.rpartition(":")
    return dataset_a.strip("/") == dataset_b.strip("/") and os.path.realpath(
        file_a
    ) == os.path.realpath(file_b)
