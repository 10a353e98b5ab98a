# SPDX-License-Identifier: Apache-2.0
"""The configuration that describes a trainer built from objects: what its run directory and checkpoints keep."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from floodtide import nn
from floodtide.config import (
    CommConfig,
    Config,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    TrainingConfig,
)
from floodtide.errors import InvalidArgumentError
from floodtide.train.kinds import Data, HeldOut, Kind, Parts, kind_of_model


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
    kind = kind_of_model(model)
    _require_kind(kind, parts)
    if parts.validation is None and validate_every:
        raise InvalidArgumentError(
            f"Trainer: validate_every is {validate_every} without validation, expected held-out data"
        )
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
    sections = kind.describe(parts, validate_every)
    rates = {key: value for key, value in schedule.values.items() if key not in _ELSEWHERE}
    return Config(
        run=_with(run, "run", of_run),
        model=sections.model,
        data=sections.data,
        augmentation=sections.augmentation,
        training=_with(training, "training", {"steps": steps, **sections.training}),
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
        validation=sections.validation,
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


def _require_kind(kind: Kind, parts: Parts) -> None:
    """Check that the data and the held-out data are those of the network's kind."""
    given: list[tuple[str, Data | HeldOut, type[Data] | type[HeldOut]]] = [
        ("data", parts.data, kind.data)
    ]
    if parts.validation is not None:
        given.append(("validation", parts.validation, kind.held_out))
    for what, one, expected in given:
        if not isinstance(one, expected):
            raise InvalidArgumentError(
                f"Trainer: {what} is {type(one).__name__}, expected {expected.__name__} for {parts.model!r}"
            )
