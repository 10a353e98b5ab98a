# SPDX-License-Identifier: Apache-2.0
"""The [segment] options of a configuration, with missing ones from the volumes and the checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floodtide import _core, config
from floodtide.base.data_options import TrainingVolume
from floodtide.comm import world
from floodtide.config import SegmentOptions
from floodtide.data import Volume, parse_box
from floodtide.data.copies import settled_size
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.formats.table import format_of
from floodtide.data.look.problems import Problem, Reading, settle
from floodtide.data.volumes import require_same_size
from floodtide.errors import ConfigurationError
from floodtide.segment.image_check import image_problems
from floodtide.segment.trained import newest_checkpoint, normalisation


def load_options(file: str | Path, overrides: Sequence[str] = ()) -> SegmentOptions:
    """Read the [segment] options of a configuration file as `floodtide segment` does.

    Keys that are missing come from the [[data.volumes]] table that segment.image names, else from the checkpoint.

    Args:
        file: Name of a TOML file.
        overrides: Changed values, as `["segment.min_segment_size=125"]`.

    Raises:
        InvalidFileError: If the file or the checkpoint does not exist or cannot be read.
        ConfigurationError: If a key is unknown, has a wrong value, or is missing everywhere.
        InvalidArgumentError: If segment.image names no volume.
    """
    return resolved(str(file), config.load(file, overrides))


def resolved(file: str, settings: config.Config, box: str | None = None) -> SegmentOptions:
    """Return the [segment] options, with missing keys filled in from the named volume and from the checkpoint.

    Args:
        file: Name of the configuration, for messages.
        settings: The whole configuration.
        box: What replaces `segment.box`.

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


def use_threads(settings: config.Config) -> None:
    """Use the threads of run.threads; 0: as many as before."""
    if settings.run.threads > 0:
        _core.set_num_threads(settings.run.threads)


def prepared(file: str, settings: config.Config, box: str | None = None) -> SegmentOptions:
    """Return the resolved [segment] options, after the checks of the image on rank 0, and use run.threads."""
    options = resolved(file, settings, box)
    if world.rank() == 0:
        settle(checked(settings, options))
    use_threads(settings)
    return options


def checked(settings: config.Config, options: SegmentOptions) -> list[Problem]:
    """Return how the image differs from what the network was trained on.

    Args:
        settings: The whole configuration.
        options: Its resolved [segment] options.
    """
    image = Volume(options.image)
    for name in [
        options.initial,
        *(m.volume for m in (*options.masks, *options.seed_masks)),
    ]:
        if name:
            require_same_size("segment", Volume(name, channel=0), image)
    assert options.mean is not None
    assert options.std is not None
    reading = Reading(
        "segment",
        options.mean,
        options.std,
        "segment.mean and segment.std",
        voxel_size_nm=voxel_size(settings, image),
        size_key="voxel_size_nm of the [[data.volumes]] table that segment.image names",
    )
    return image_problems(image, options.checkpoint, reading, box=parse_box(options.box))


def voxel_size(settings: config.Config, image: Volume) -> SizeNm | None:
    """Return the voxel size (z, y, x) in nm of the image to segment: that of the configuration, else its own."""
    volume = _volume(settings)
    return settled_size(
        image, None if volume is None else volume.voxel_size_nm, "the configuration"
    )


def _volume(settings: config.Config) -> TrainingVolume | None:
    """Return the [[data.volumes]] table to segment, or None if segment.image does not name a table."""
    volumes, image = settings.data.volumes, settings.segment.image
    if not image:
        return volumes[0] if len(volumes) == 1 else None
    return {volume.name: volume for volume in volumes}.get(image)


def _normalised(options: SegmentOptions, volume: TrainingVolume | None) -> SegmentOptions:
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


def _require_all(file: str, options: SegmentOptions, volumes: tuple[TrainingVolume, ...]) -> None:
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
