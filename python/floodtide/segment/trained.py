# SPDX-License-Identifier: Apache-2.0
"""Networks of earlier runs: find the newest checkpoint, load it, and read how its images are normalised."""

from __future__ import annotations

from pathlib import Path

from floodtide import _core, config, nn
from floodtide.base import reading
from floodtide.config.networks import UNet2DConfig, UNet3DConfig
from floodtide.data import Vec3
from floodtide.data.formats.table import place
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.nn.checkpoint_files import checkpoints
from floodtide.nn.load import is_tensorflow


def normalisation(checkpoint: str | Path, image: str) -> tuple[float, float] | None:
    """Return the mean and standard deviation that the configuration of a checkpoint gives for an image.

    For a 2-D U-Net, these are data.mean and data.std. For other networks, they are those of the training volume with
    this image, else those of all training volumes if all are equal.

    Args:
        checkpoint: A floodtide checkpoint, or the prefix of a TensorFlow checkpoint.
        image: Name of a volume, such as "file:dataset".

    Returns:
        (mean, std). None if the checkpoint stores no configuration (a TensorFlow checkpoint never does), or if the
        image is not one of its training volumes and these differ in mean or std.

    Raises:
        InvalidFileError: If the file cannot be read.
        ConfigurationError: If this version of floodtide cannot read the stored configuration.
    """
    settings = stored_configuration(checkpoint)
    if settings is None:
        return None
    if isinstance(settings.model, UNet2DConfig):
        return settings.data.mean, settings.data.std
    volumes = settings.data.volumes
    same = {(v.mean, v.std) for v in volumes if _same_dataset(v.image, image)}
    found = same or {(v.mean, v.std) for v in volumes}
    return found.pop() if len(found) == 1 else None


def offsets(checkpoint: str | Path) -> tuple[Vec3, ...] | None:
    """Return the offsets (z, y, x) of the affinities that the network of a checkpoint predicts.

    Returns:
        The offsets. None if the checkpoint stores no configuration, or if its network predicts no affinities.

    Raises:
        InvalidFileError, ConfigurationError: As for `normalisation`.
    """
    settings = stored_configuration(checkpoint)
    if settings is None or not isinstance(settings.model, UNet3DConfig):
        return None
    return settings.model.offsets


def mirrored_axes(checkpoint: str | Path) -> tuple[int, ...]:
    """Return the axes (0 is z) that the training of a U-Net reflected; none if the checkpoint does not state them.

    Raises:
        InvalidFileError, ConfigurationError: As for `normalisation`.
    """
    settings = stored_configuration(checkpoint)
    if settings is None:
        return ()
    if isinstance(settings.model, UNet2DConfig):
        flips = (settings.augmentation.flip_y, settings.augmentation.flip_x)
        return tuple(axis for axis, flipped in enumerate(flips, start=1) if flipped)
    return settings.data.reflectable_axes


def stored_configuration(checkpoint: str | Path) -> config.Config | None:
    """Return the configuration that a checkpoint stores; None if it stores none, as a TensorFlow checkpoint.

    Raises:
        InvalidFileError, ConfigurationError: As for `normalisation`.
    """
    text = "" if is_tensorflow(checkpoint) else _core.stored_text(str(checkpoint), "configuration")
    if not text:
        return None
    where = f"{checkpoint}: configuration"
    return config.from_dict(reading.parse_toml(text, where), where)


def newest_checkpoint(path: str | Path) -> Path:
    """Return the newest checkpoint of a run directory. A path to a checkpoint is returned unchanged.

    Raises:
        InvalidFileError: If the path is neither a checkpoint nor a run directory with at least one checkpoint.
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
    """Return the U-Net of a checkpoint, with averaged parameters if the checkpoint stores them.

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
    try:
        return place(a) == place(b)
    except InvalidArgumentError:
        return a == b
