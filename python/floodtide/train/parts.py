# SPDX-License-Identifier: Apache-2.0
"""The objects that a trainer is made of, and how a configuration describes them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from floodtide import nn
from floodtide.config import (
    FLOOD,
    Config,
    FfnConfig,
    SlicesConfig,
    UNet2DConfig,
    UNet3DConfig,
    VolumeConfig,
    require_tables,
)
from floodtide.data import Affinities, Shards, Slices, TrainingVolume
from floodtide.errors import ConfigurationError
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule
from floodtide.train.flood_task import FloodTask, FloodValidation
from floodtide.train.task import Task
from floodtide.train.unet_task import UNetTask

Model = nn.FFN | nn.UNet
Data = Shards | Slices | Affinities
HeldOut = FloodValidation | Slices | Affinities


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Network, training data, held-out data, loss, optimizer and schedule of a training.

    `loss` is of U-Nets; flood-filling networks always minimise the sigmoid cross-entropy.
    """

    model: Model
    data: Data
    validation: HeldOut | None
    loss: nn.SegmentationLoss
    optimizer: Optimizer
    schedule: Schedule


def task_of(parts: Parts, config: Config) -> Task:
    """Return the training task for a network and its data."""
    model, data, held_out = parts.model, parts.data, parts.validation
    if isinstance(model, nn.FFN):
        assert isinstance(data, Shards)
        assert not isinstance(held_out, Slices | Affinities)
        return FloodTask(model, data, held_out, config.training)
    assert not isinstance(data, Shards)
    assert not isinstance(held_out, FloodValidation)
    return UNetTask(model, data, held_out, parts.loss, config.training)


def parts_of(config: Config, ranks: int) -> Parts:
    """Build the objects that a configuration describes. Not collective.

    Args:
        config: The whole configuration.
        ranks: Number of ranks: the number of walkers if the configuration does not give it.

    Raises:
        ConfigurationError: If the configuration names what does not exist or does not fit.
        InvalidFileError: If a file cannot be read.
    """
    training, schedule = config.training, config.schedule
    walkers = training.walkers or ranks
    return Parts(
        model=model_of(config),
        data=data_of(config, walkers),
        validation=held_out_of(config),
        loss=dataclasses.replace(
            nn.SegmentationLoss.named(training.loss),
            over_batch=training.dice == "batch",
            background=training.background,
            smooth=training.smooth,
        ),
        optimizer=Optimizer(config.optimizer.name, config.optimizer.lr, **config.optimizer.values),
        schedule=Schedule(
            schedule.name, scale=schedule.scale, **schedule.values, **schedule.scale_values
        ),
    )


def model_of(config: Config) -> Model:
    """Return the network of a configuration, with its initial weights."""
    section, run = config.model, config.run
    model = _new_model(section, seed=run.seed, compute=run.compute, parallel=run.parallel)
    if not section.initial_weights:
        return model
    if isinstance(section, FfnConfig):
        start: Model = nn.load_ffn(section.initial_weights, fov=section.fov, deltas=section.deltas)
        stored = start.core.options
        if (stored.depth, stored.features) != (section.depth, section.features):
            raise ConfigurationError(
                f"model.initial_weights: {section.initial_weights} holds a network of depth {stored.depth} with "
                f"{stored.features} features, expected depth {section.depth} with {section.features}"
            )
    else:
        start = nn.load(section.initial_weights)
        if repr(start) != repr(model):
            raise ConfigurationError(
                f"model.initial_weights: {section.initial_weights} holds {start!r}, expected {model!r}"
            )
    model.load_state_dict(start.state_dict())
    model.origin = section.initial_weights
    return model


def _new_model(
    section: FfnConfig | UNet2DConfig | UNet3DConfig, *, seed: int, compute: str, parallel: str
) -> Model:
    if isinstance(section, FfnConfig):
        return nn.FFN(
            depth=section.depth,
            fov=section.fov,
            deltas=section.deltas,
            features=section.features,
            seed=seed,
            compute=compute,
            parallel=parallel,
        )
    shared: dict[str, Any] = {
        "depth": section.depth,
        "features": section.features,
        "batch_norm": section.batch_norm,
        "synchronised": section.synchronised,
        "dropout": section.dropout,
        "seed": seed,
        "compute": compute,
    }
    if isinstance(section, UNet2DConfig):
        return nn.UNet2D(classes=section.classes, **shared)
    return nn.UNet3D(kernels=section.kernels, pools=section.pools, **shared)


def data_of(config: Config, walkers: int) -> Data:
    """Return the training data of a configuration, for a number of walkers."""
    data, seed = config.data, config.run.seed
    if isinstance(config.model, UNet2DConfig):
        part = "training" if config.validation.share > 0 else "all"
        return _slices(config, data.slices, "data.slices", part, walkers)
    require_tables(data.volumes, "data.volumes")
    if isinstance(config.model, UNet3DConfig):
        volumes = [training_volume(config, index) for index in range(len(data.volumes))]
        return _affinities(config, volumes, walkers)
    return Shards(
        [training_volume(config, index) for index in range(len(data.volumes))],
        patch_size=config.model.patch_size,
        walkers=walkers,
        seed=seed,
        permutable_axes=data.permutable_axes,
        reflectable_axes=data.reflectable_axes,
        softness=config.training.softness,
        coordinates=data.coordinates,
        prefetch=data.prefetch,
        readers=data.readers,
    )


def held_out_of(config: Config) -> HeldOut | None:
    """Return the held-out data of a configuration; None if it holds nothing out."""
    section = config.validation
    if isinstance(config.model, UNet2DConfig):
        return held_out_slices(config)
    if not section.box:
        return None
    if isinstance(config.model, UNet3DConfig):
        return held_out_patches(config)
    return FloodValidation(
        _held_out_volume(config),
        patch_size=config.model.patch_size,
        centres=section.centres,
        seed=section.seed,
    )


def held_out_slices(config: Config) -> Slices | None:
    """Return the slices for validation; None if the configuration holds none out."""
    section = config.validation
    if section.slices and section.share > 0:
        raise ConfigurationError(
            "validation.slices and validation.share are both given, expected one of them"
        )
    if section.slices:
        return _slices(config, section.slices, "validation.slices", "all", 0)
    if section.share > 0:
        return _slices(config, config.data.slices, "data.slices", "validation", 0)
    return None


def held_out_patches(config: Config) -> Affinities:
    """Return the patches of the held-out box for validation."""
    return _affinities(config, [_held_out_volume(config)], 0)


def training_volume(config: Config, index: int, box: str | None = None) -> TrainingVolume:
    """Return a volume of a configuration, with another box if one is given.

    Raises:
        ConfigurationError: If the volume lacks labels, or the partitions that its kind of network needs.
    """
    volume: VolumeConfig = config.data.volumes[index]
    needed = ("labels", "partitions") if config.model.kind == FLOOD else ("labels",)
    for key in needed:
        if not getattr(volume, key):
            raise ConfigurationError(
                f"data.volumes.{index}.{key} is empty, expected file:dataset (volume '{volume.name}')"
            )
    return TrainingVolume(
        volume.image,
        volume.labels,
        volume.partitions,
        box=volume.box if box is None else box,
        mean=volume.mean,
        std=volume.std,
        name=volume.name,
        voxel_size_nm=volume.voxel_size_nm,
    )


def _held_out_volume(config: Config) -> TrainingVolume:
    section = config.validation
    require_tables(config.data.volumes, "data.volumes")
    names = [volume.name for volume in config.data.volumes]
    name = section.volume or names[0]
    if name not in names:
        raise ConfigurationError(
            f"validation.volume is '{name}', expected one of: {', '.join(names)}"
        )
    return training_volume(config, names.index(name), section.box)


def _slices(
    config: Config, stacks: tuple[SlicesConfig, ...], key: str, part: str, walkers: int
) -> Slices:
    """Return slices for a number of walkers; without walkers, not augmented."""
    require_tables(stacks, key)
    assert isinstance(config.model, UNet2DConfig)
    data = config.data
    augmentation = config.augmentation if walkers else type(config.augmentation)()
    return Slices(
        [stack.images for stack in stacks],
        [stack.masks for stack in stacks],
        [stack.patients for stack in stacks],
        size=data.size,
        classes=config.model.classes,
        mean=data.mean,
        std=data.std,
        outside=data.outside,
        part=part,
        validation_share=config.validation.share,
        split_seed=config.validation.seed,
        walkers=max(walkers, 1),
        batch=config.training.batch if walkers else 1,
        seed=config.run.seed,
        flip_y=augmentation.flip_y,
        flip_x=augmentation.flip_x,
        rotation_deg=augmentation.rotation_deg,
        scale=augmentation.scale,
        gain=augmentation.gain,
        offset=augmentation.offset,
        noise=augmentation.noise,
        prefetch=data.prefetch,
        readers=data.readers,
    )


def _affinities(config: Config, volumes: list[TrainingVolume], walkers: int) -> Affinities:
    data = config.data
    return Affinities(
        volumes,
        patch_size=data.patch,
        zero_is_boundary=data.zero_is_boundary,
        balance=data.balance,
        permutable_axes=data.permutable_axes,
        reflectable_axes=data.reflectable_axes,
        patches=data.patches or None,
        walkers=max(walkers, 1),
        batch=config.training.batch if walkers else 1,
        seed=config.run.seed,
        prefetch=data.prefetch,
        readers=data.readers,
    )
