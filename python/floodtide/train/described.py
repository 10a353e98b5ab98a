# SPDX-License-Identifier: Apache-2.0
"""The configuration that describes a trainer of objects: the record that its run directory and checkpoints keep."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide.config import CommConfig, Config, TrainingConfig
from floodtide.config.sections import OptimizerConfig, RunConfig, ScheduleConfig
from floodtide.errors import InvalidArgumentError
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule
from floodtide.train.kinds import kind_of_model
from floodtide.train.kinds.task import Data, Model, Record

# Its first argument is the Trainer, a class above this module.
Callback = Callable[[Any, Record], None]


@dataclass(frozen=True, kw_only=True)
class MoreOptions:
    """Options of a `Trainer` that most scripts leave at their defaults.

    Attributes:
        training, run, comm: The sections of a configuration, with all other options. Keys that the objects decide must
            be left at their defaults.
        callbacks: The trainer calls them on rank 0 as callback(trainer, record) with every record of the log.
        progress: True shows the progress and the time left on rank 0's standard error.
    """

    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    comm: CommConfig = dataclasses.field(default_factory=CommConfig)
    callbacks: Sequence[Callback] = ()
    progress: bool = False


def configuration_of(
    model: Model,
    data: Data,
    optimizer: Optimizer,
    schedule: Schedule,
    options: MoreOptions,
    **decided: Any,
) -> Config:
    """Return the configuration that describes a training of objects.

    Args:
        model, data, optimizer, schedule, options: Those of the trainer.
        decided: Its run directory `dir`, its `steps` and the section `validation`.

    Raises:
        InvalidArgumentError: If an option is given twice, or if no configuration describes the objects together.
    """
    kind = kind_of_model(model)
    if not isinstance(data, kind.data_class):
        raise InvalidArgumentError(
            f"Trainer: data is {type(data).__name__}, expected {kind.data_class.__name__} for {model!r}"
        )
    if not model.origin and model.seed != data.seed:
        raise InvalidArgumentError(
            f"Trainer: the model was made with seed {model.seed} and the data with seed {data.seed}, expected the same"
            " seed, which the run directory keeps"
        )
    steps, rates = decided["steps"], dict(schedule.values)
    if rates.pop("total_steps", steps) != steps:
        raise InvalidArgumentError(
            f"Trainer: the schedule has total_steps {schedule.values['total_steps']}, expected the {steps} steps of the"
            " training; leave total_steps out"
        )
    sections = kind.sections_of(model, data)
    run = {
        "dir": str(Path(decided["dir"])),
        "seed": data.seed,
        "compute": model.core.options.compute,
        **sections.pop("run", {}),
    }
    training = {"steps": steps, **sections.pop("training")}
    return Config(
        run=_with(options.run, "run", run),
        training=_with(options.training, "training", training),
        optimizer=OptimizerConfig(
            name=optimizer.name,
            lr=float(rates.pop("base_lr", optimizer.lr)),
            values=optimizer.values,
        ),
        schedule=ScheduleConfig(
            name=schedule.name,
            scale=schedule.scale,
            values=rates,
            scale_values=schedule.scale_values,
        ),
        comm=options.comm,
        validation=decided["validation"],
        **sections,
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
