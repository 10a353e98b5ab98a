# SPDX-License-Identifier: Apache-2.0
"""The configuration that describes a trainer of objects: the record that its run directory and checkpoints keep."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide import nn
from floodtide.config import CommConfig, Config, TrainingConfig
from floodtide.config.sections import OptimizerConfig, RunConfig, ScheduleConfig
from floodtide.errors import InvalidArgumentError
from floodtide.train.kinds import kind_of_model
from floodtide.train.kinds.kind import Data, HeldOut, Kind, Parts
from floodtide.train.task import Record

# Its first argument is the Trainer, a class above this module.
Callback = Callable[[Any, Record], None]


@dataclass(frozen=True, kw_only=True)
class MoreOptions:
    """Options of a `Trainer` that most scripts leave at their defaults.

    Attributes:
        loss: The loss of a U-Net: a name, or a `SegmentationLoss`. Flood-filling networks always minimise the sigmoid
            cross-entropy.
        validate_every: The number of steps between two validations. 0 means a validation at the end only.
        training, run, comm: The sections of a configuration, with all other options. Keys that the objects decide must
            be left at their defaults.
        callbacks: The trainer calls them on rank 0 as callback(trainer, record) with every record of the log.
        progress: True shows the progress and the time left on rank 0's standard error.
    """

    loss: str | nn.SegmentationLoss = "dice+cross_entropy"
    validate_every: int = 0
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    comm: CommConfig = dataclasses.field(default_factory=CommConfig)
    callbacks: Sequence[Callback] = ()
    progress: bool = False


def configuration_of(
    parts: Parts, directory: str | os.PathLike[str], steps: int, options: MoreOptions
) -> Config:
    """Return the configuration from which `parts_of` builds the same objects.

    Args:
        parts: The objects. The base rate of their schedule is the rate of the training.
        directory: The run directory.
        steps: Optimizer updates.
        options: The remaining options.

    Raises:
        InvalidArgumentError: If an option is given twice, or if no configuration describes the objects together.
    """
    model, data, schedule = parts.model, parts.data, parts.schedule
    kind = kind_of_model(model)
    _require_kind(kind, parts)
    if parts.validation is None and options.validate_every:
        raise InvalidArgumentError(
            f"Trainer: validate_every is {options.validate_every} without validation, expected held-out data"
        )
    if not model.origin and model.seed != data.seed:
        raise InvalidArgumentError(
            f"Trainer: the model was made with seed {model.seed} and the data with seed {data.seed}, expected the same"
            " seed, which the run directory keeps"
        )
    if schedule.values.get("total_steps", steps) != steps:
        raise InvalidArgumentError(
            f"Trainer: the schedule has total_steps {schedule.values['total_steps']}, expected the {steps} steps of the"
            " training; leave total_steps out"
        )
    of_run = {"dir": str(Path(directory)), "seed": data.seed, "compute": model.core.options.compute}
    if isinstance(model, nn.FFN):
        of_run["parallel"] = model.parallel
    sections = kind.describe(parts, options.validate_every)
    rates = dict(schedule.values)
    base_lr = float(rates.pop("base_lr"))
    rates.pop("total_steps", None)
    return Config(
        run=_with(options.run, "run", of_run),
        model=sections.model,
        data=sections.data,
        augmentation=sections.augmentation,
        training=_with(options.training, "training", {"steps": steps, **sections.training}),
        optimizer=OptimizerConfig(
            name=parts.optimizer.name, lr=base_lr, values=parts.optimizer.values
        ),
        schedule=ScheduleConfig(
            name=schedule.name,
            scale=schedule.scale,
            values=rates,
            scale_values=schedule.scale_values,
        ),
        comm=options.comm,
        validation=sections.validation,
    )


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
