# SPDX-License-Identifier: Apache-2.0
"""Networks that runs have left: which file, what is in it, and how its images are normalised."""

from __future__ import annotations

import os
from pathlib import Path

from floodtide import _core, _reading, nn
from floodtide.errors import InvalidFileError


def normalisation(checkpoint: str | Path, image: str) -> tuple[float, float] | None:
    """Mean and standard deviation that the configuration of a checkpoint gives for an image.

    Of slices the configured ones; of volumes those of the volume with that image, else what all volumes have in common.

    Args:
        checkpoint: A file of ours.
        image: "file:dataset".

    Returns:
        None if the file has no configuration, or volumes of different normalisation but not this one.

    Raises:
        InvalidFileError: If the file cannot be read.
        ConfigurationError: If this floodtide does not know what its configuration says.
    """
    from floodtide import config

    text = _configuration(checkpoint)
    if not text:
        return None
    where = f"{checkpoint}: configuration"
    settings = config.from_dict(_reading.parse_toml(text, where), where)
    if isinstance(settings.model, config.UNet2DConfig):
        return settings.data.mean, settings.data.std
    volumes = settings.data.volumes
    same = {(v.mean, v.std) for v in volumes if _same_dataset(v.image, image)}
    found = same or {(v.mean, v.std) for v in volumes}
    return found.pop() if len(found) == 1 else None


def newest_checkpoint(path: str | Path) -> Path:
    """The newest checkpoint of a run directory; a file is returned as it is.

    Raises:
        InvalidFileError: If there is none.
    """
    from floodtide.rundir import RunDirectory

    path = Path(path)
    if _reading.exists(path):
        return path
    found = RunDirectory(path, writer=False).checkpoints()
    if not found:
        raise InvalidFileError(
            f"predict: {path} is neither a checkpoint nor a run directory with one in checkpoints/"
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


def _configuration(checkpoint: str | Path) -> str:
    try:
        return str(_core.stored_configuration(str(checkpoint)))
    except InvalidFileError as error:
        raise InvalidFileError(f"predict: {error}") from error


def _same_dataset(a: str, b: str) -> bool:
    (file_a, _, dataset_a), (file_b, _, dataset_b) = a.rpartition(":"), b.rpartition(":")
    return dataset_a.strip("/") == dataset_b.strip("/") and os.path.realpath(
        file_a
    ) == os.path.realpath(file_b)
