# SPDX-License-Identifier: Apache-2.0
"""The configuration that describes a trainer built from objects: what its run directory and checkpoints keep."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floodtide import nn
from floodtide.config import (
    AugmentationConfig,
    CommConfig,
    Config,
    DataConfig,
    FfnConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    SlicesConfig,
    TrainingConfig,
    UNet2DConfig,
    UNet3DConfig,
    ValidationConfig,
    VolumeConfig,
)
from floodtide.data import Affinities, Shards, Slices, TrainingVolume, box_text
from floodtide.data.volumes import name_of
from floodtide.errors import InvalidArgumentError
from floodtide.nn.losses import loss_rows
from floodtide.train.flood_task import FloodValidation
from floodtide.train.parts import Data, HeldOut, Model, Parts

_AUGMENTATION = [field.name for field in dataclasses.fields(AugmentationConfig)]


def configuration_of(
    parts: Parts,
    *,
    directory: str | os.PathLike[str],
    steps: int,
    validate_every: int,
    run: RunConfig,
    training: TrainingConfig,
    comm: CommConfig,
) -> Config:
    """Return the configuration from which `parts_of` builds the same objects.

    Args:
        parts: The objects.
        directory: The run directory.
        steps: Optimizer updates.
        validate_every: Steps between two validations; 0: only at the end.
        run, training, comm: Further options. Keys that the objects decide must be left at their defaults.

    Raises:
        InvalidArgumentError: If an option is given twice, or if no configuration describes the objects together.
    """
    model, data = parts.model, parts.data
    _require_kinds(model, data, parts.validation)
    if not model.origin and model.seed != data.seed:
        raise InvalidArgumentError(
            f"Trainer: the model was made with seed {model.seed} and the data with seed {data.seed}, expected the same"
            " seed, which the run directory keeps"
        )
    of_run = {"dir": str(Path(directory)), "seed": data.seed, "compute": model.core.options.compute}
    if isinstance(model, nn.FFN):
        of_run["parallel"] = model.parallel
    schedule = parts.schedule.for_training(parts.optimizer.lr, steps)
    if schedule.values.get("total_steps", steps) != steps:
        raise InvalidArgumentError(
            f"Trainer: the schedule has total_steps {schedule.values['total_steps']}, expected the {steps} steps of the"
            " training; leave total_steps out"
        )
    rates = {key: value for key, value in schedule.values.items() if key not in _ELSEWHERE}
    return Config(
        run=_with(run, "run", of_run),
        model=_model(model),
        data=_data(data),
        augmentation=_augmentation(data),
        training=_with(training, "training", {"steps": steps, **_of_training(parts)}),
        optimizer=OptimizerConfig(
            name=parts.optimizer.name,
            lr=float(schedule.values.get("base_lr", parts.optimizer.lr)),
            values=parts.optimizer.values,
        ),
        schedule=ScheduleConfig(
            name=schedule.name,
            scale=schedule.scale,
            values=rates,
            scale_values=schedule.scale_values,
        ),
        comm=comm,
        validation=_validation(parts.validation, data, validate_every),
    )


_ELSEWHERE = ("base_lr", "total_steps")  # parameters of schedules that other sections have


def _with(section: Any, name: str, values: dict[str, Any]) -> Any:
    """Return a section with the values of the objects. Raise for a given value that contradicts them."""
    default = type(section)()
    for key, value in values.items():
        given = getattr(section, key)
        if given not in (getattr(default, key), value):
            raise InvalidArgumentError(
                f"Trainer: {name}.{key} is {given!r}, but the arguments of the trainer and its objects say {value!r};"
                f" leave it out of {type(section).__name__}"
            )
    return dataclasses.replace(section, **values)


def _require_kinds(model: Model, data: Data, validation: HeldOut | None) -> None:
    """Check that network, data and held-out data are of one kind."""
    expected: tuple[type[Data], type[HeldOut]]
    if isinstance(model, nn.FFN):
        expected = (Shards, FloodValidation)
    elif isinstance(model, nn.UNet2D):
        expected = (Slices, Slices)
    else:
        expected = (Affinities, Affinities)
    given = (data, validation if validation is not None else expected[1])
    for what, one, kind in zip(("data", "validation"), given, expected, strict=True):
        if one is not kind and not isinstance(one, kind):
            raise InvalidArgumentError(
                f"Trainer: {what} is {type(one).__name__}, expected {kind.__name__} for {model!r}"
            )


def _model(model: Model) -> FfnConfig | UNet2DConfig | UNet3DConfig:
    if isinstance(model, nn.FFN):
        return FfnConfig(
            depth=model.depth,
            features=model.features,
            fov=model.fov,
            deltas=model.deltas,
            initial_weights=model.origin,
        )
    options = model.core.options
    shared: dict[str, Any] = {
        "depth": options.depth,
        "features": options.features,
        "batch_norm": options.batch_norm,
        "synchronised": options.synchronised,
        "dropout": options.dropout,
        "initial_weights": model.origin,
    }
    if isinstance(model, nn.UNet2D):
        return UNet2DConfig(classes=options.classes, **shared)
    return UNet3DConfig(kernels=_vectors(options.kernels), pools=_vectors(options.pools), **shared)


def _vectors(vectors: Sequence[Sequence[int]]) -> tuple[tuple[int, int, int], ...]:
    return tuple((z, y, x) for z, y, x in vectors)


def _data(data: Data) -> DataConfig:
    loading: dict[str, Any] = {"prefetch": data.prefetch, "readers": data.readers}
    if isinstance(data, Slices):
        return DataConfig(
            slices=_stacks(data),
            size=data.size or (0, 0),
            mean=data.mean,
            std=data.std,
            outside=data.outside,
            **loading,
        )
    volumes: dict[str, Any] = {
        "volumes": tuple(_volume(volume) for volume in data.volumes),
        "permutable_axes": data.permutable_axes,
        "reflectable_axes": data.reflectable_axes,
    }
    if isinstance(data, Shards):
        return DataConfig(coordinates=data.coordinates, **volumes, **loading)
    return DataConfig(
        patch=data.patch_size,
        patches=data.patches or 0,
        zero_is_boundary=data.zero_is_boundary,
        balance=data.balance,
        **volumes,
        **loading,
    )


def _volume(volume: TrainingVolume) -> VolumeConfig:
    return VolumeConfig(
        name=volume.name,
        image=name_of(volume.image),
        labels=name_of(volume.labels),
        partitions=name_of(volume.partitions),
        box=box_text(volume.extent),
        mean=volume.mean,
        std=volume.std,
        voxel_size_nm=volume.voxel_size_nm,
    )


def _stacks(slices: Slices) -> tuple[SlicesConfig, ...]:
    return tuple(
        SlicesConfig(
            images=name_of(stack.images), masks=name_of(stack.masks), patients=stack.patients
        )
        for stack in slices.stacks
    )


def _augmentation(data: Data) -> AugmentationConfig:
    if not isinstance(data, Slices):
        return AugmentationConfig()
    return AugmentationConfig(**{name: getattr(data, name) for name in _AUGMENTATION})


def _of_training(parts: Parts) -> dict[str, Any]:
    """Return the keys of the section [training] that the objects decide."""
    data, loss = parts.data, parts.loss
    if isinstance(data, Shards):
        return {"walkers": data.walkers, "softness": data.softness}
    if loss.name is None:
        raise InvalidArgumentError(
            f"Trainer: the loss weighs Dice by {loss.dice} and cross-entropy by {loss.cross_entropy}, expected one of"
            f" {', '.join(row['name'] for row in loss_rows())}, with weights of 1"
        )
    return {
        "walkers": data.walkers,
        "batch": data.batch,
        "loss": loss.name,
        "dice": "batch" if loss.over_batch else "image",
        "background": loss.background,
        "smooth": loss.smooth,
    }


def _validation(held_out: HeldOut | None, data: Data, every: int) -> ValidationConfig:
    if held_out is None:
        if every:
            raise InvalidArgumentError(
                f"Trainer: validate_every is {every} without validation, expected held-out data"
            )
        return ValidationConfig()
    if isinstance(held_out, Slices):
        assert isinstance(data, Slices)
        return _held_out_slices(held_out, data, every)
    if isinstance(held_out, FloodValidation):
        volume = held_out.volume
        more: dict[str, Any] = {"centres": held_out.centres, "seed": held_out.seed}
    else:
        assert isinstance(data, Affinities)
        volume, more = _only_volume(held_out, data), {}
    assert not isinstance(data, Slices)
    training = {one.name: one for one in data.volumes}
    known = training.get(volume.name)
    if known is None or dataclasses.replace(known, box=volume.box) != volume:
        raise InvalidArgumentError(
            f"Trainer: validation is on volume '{volume.name}', expected a box of one of the training volumes: "
            + ", ".join(training)
        )
    box = box_text(volume.extent)
    if not box:
        raise InvalidArgumentError("Trainer: the validation volume has no box, expected one")
    return ValidationConfig(volume=volume.name, box=box, every=every, **more)


def _only_volume(held_out: Affinities, data: Affinities) -> TrainingVolume:
    if len(held_out.volumes) != 1 or held_out.patch_size != data.patch_size:
        raise InvalidArgumentError(
            f"Trainer: validation has {len(held_out.volumes)} volumes in patches of {held_out.patch_size}, expected one"
            f" volume in the patches of the training, {data.patch_size}"
        )
    return held_out.volumes[0]


def _held_out_slices(held_out: Slices, data: Slices, every: int) -> ValidationConfig:
    for key in ("size", "classes", "mean", "std", "outside"):
        if getattr(held_out, key) != getattr(data, key):
            raise InvalidArgumentError(
                f"Trainer: validation has {key} {getattr(held_out, key)}, expected {getattr(data, key)}, as the"
                " training data"
            )
    if held_out.part == "validation" and held_out.stacks == data.stacks:
        split = (held_out.validation_share, held_out.split_seed)
        if data.part != "training" or split != (data.validation_share, data.split_seed):
            raise InvalidArgumentError(
                "Trainer: validation holds patients out, expected training data of part 'training' with the same"
                " validation_share and split_seed"
            )
        share, seed = split
        return ValidationConfig(every=every, share=share, seed=seed)
    if (held_out.part, data.part) != ("all", "all"):
        raise InvalidArgumentError(
            f"Trainer: validation is of part '{held_out.part}' and training of part '{data.part}', expected 'all' of"
            " both for different stacks"
        )
    return ValidationConfig(every=every, slices=_stacks(held_out))
