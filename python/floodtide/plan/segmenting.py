# SPDX-License-Identifier: Apache-2.0
"""Segmentation of an image with a network that is known, without a configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from floodtide import config
from floodtide.base.data_options import TrainingVolume
from floodtide.data import Volume
from floodtide.data.formats.geometry import size_text
from floodtide.data.look import problems
from floodtide.errors import InvalidArgumentError
from floodtide.plan.known import known_network
from floodtide.plan.previewing import Setting, setting_for
from floodtide.train.setup import set_threads


def settings_for(
    image: str,
    model: str,
    voxel_nm: Sequence[float] | None,
    overrides: Sequence[str] = (),
) -> tuple[config.Config, Setting]:
    """Return a configuration that segments an image with a network, and how the network sees the image.

    Args:
        image: Name of a volume.
        model: fib25, a checkpoint or a run directory.
        voxel_nm: Voxel size (z, y, x) of the image in nm; None: what the image states.
        overrides: Changed values, as `["segment.min_segment_size=125"]`.

    Raises:
        floodtide.errors.Error: If image or network cannot be read, or the voxel size is unknown.
    """
    network = known_network(model)
    base: dict[str, Any] = {"image": image, "checkpoint": network.path, "reflect": True}
    base |= {"pad_value": network.seed_pad}
    settings = config.from_dict({"segment": base}, "segment --model", overrides)
    set_threads(settings.run.threads)
    given = settings.segment
    if given.fov is not None or given.deltas is not None:
        raise InvalidArgumentError(
            "--set segment.fov or segment.deltas with --model, expected a configuration for another field of view"
        )
    setting = setting_for(Volume(image), network, voxel_nm, given)
    volume = TrainingVolume(
        name="image",
        image=image,
        mean=setting.options.mean or 0.0,
        std=setting.options.std or 1.0,
        voxel_size_nm=setting.voxel_size_nm,
    )
    named = dataclasses.replace(setting.options, image=volume.name)
    data = dataclasses.replace(settings.data, volumes=(volume,))
    return dataclasses.replace(settings, data=data, segment=named), setting


def require_same_voxels(image: str, setting: Setting) -> None:
    """Refuse to segment a whole image that must be resampled first.

    Raises:
        InvalidArgumentError: The message has the command that resamples.
    """
    if setting.resampled:
        own, wanted = setting.voxel_size_nm, setting.wanted_nm
        raise InvalidArgumentError(
            f"{image}: has voxels of {size_text(own)} nm, {setting.network.name} needs"
            f" {size_text(wanted)} nm: resample it first with {problems.resampling(image, own, wanted)};"
            " --preview resamples by itself"
        )
