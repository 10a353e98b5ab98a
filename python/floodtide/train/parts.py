# SPDX-License-Identifier: Apache-2.0
"""Build the objects that a trainer is made of from a configuration, and check them on all ranks."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from floodtide import _core, nn
from floodtide.comm import world
from floodtide.config import Config
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule
from floodtide.train.kinds import Model, Parts, kind_of
from floodtide.train.memory import require_memory
from floodtide.train.same_on_ranks import (
    check_on_lost_rank,
    require_same,
    require_same_configuration,
)
from floodtide.train.task import Task
from floodtide.train.threads import bind_ranks, set_threads


def parts_of(config: Config, ranks: int) -> Parts:
    """Build the objects that a configuration describes. Not collective.

    Args:
        config: The whole configuration.
        ranks: Number of ranks: the number of walkers if the configuration does not give it.

    Raises:
        ConfigurationError: If the configuration names what does not exist or does not fit.
        InvalidFileError: If a file cannot be read.
    """
    kind, training = kind_of(config), config.training
    check_validation(config)
    return Parts(
        model=model_of(config),
        data=kind.data_of(config, training.walkers or ranks),
        validation=kind.held_out_of(config),
        loss=dataclasses.replace(
            nn.SegmentationLoss.named(training.loss),
            over_batch=training.dice == "batch",
            background=training.background,
            smooth=training.smooth,
        ),
        optimizer=optimizer_of(config),
        schedule=schedule_of(config),
    )


def require_trainable(config: Config, ranks: int) -> None:
    """Check what can be checked without the data: rate, schedule, optimizer, and held-out data if they are needed.

    Args:
        config: The whole configuration.
        ranks: Number of ranks: the number of walkers if the configuration does not give it.

    Raises:
        ConfigurationError: If the training could not start.
    """
    try:
        check_validation(config)
        schedule, optimizer = schedule_of(config), optimizer_of(config)
        complete_schedule(schedule, optimizer, config, config.training.walkers or ranks)
    except InvalidArgumentError as error:
        raise ConfigurationError(str(error)) from None


def check_validation(config: Config) -> None:
    """Check that the training validates before its end if it may be given up.

    Raises:
        ConfigurationError: If it does not.
    """
    section = config.validation
    held_out = section.box or section.share or section.slices
    if section.give_up_after and not (section.every and held_out):
        raise ConfigurationError(
            f"validation.give_up_after is {section.give_up_after}, expected held-out data and validation.every above 0"
        )


def optimizer_of(config: Config) -> Optimizer:
    """Return the optimizer of a configuration."""
    section = config.optimizer
    return Optimizer(section.name, section.lr, **section.values)


def schedule_of(config: Config) -> Schedule:
    """Return the schedule of a configuration, without the base rate and the number of steps."""
    section = config.schedule
    return Schedule(section.name, scale=section.scale, **section.values, **section.scale_values)


def complete_schedule(
    schedule: Schedule, optimizer: Optimizer, config: Config, workers: int
) -> Schedule:
    """Return a schedule with the base rate and the number of steps of a configuration.

    Raises:
        InvalidArgumentError: If the warm-up is longer than the training, or the scaling rule is for other optimizers.
    """
    complete = schedule.for_training(config.optimizer.lr, config.training.steps)
    _core.scaled_optimizer(complete.scale, optimizer.name, optimizer.values, workers)
    return complete


def model_of(config: Config) -> Model:
    """Return the network of a configuration, with its initial weights."""
    kind = kind_of(config)
    model = kind.new_model(config)
    if config.model.initial_weights:
        model.load_state_dict(kind.initial_model(config).state_dict())
        model.origin = config.model.initial_weights
    return model


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a job trains.

    Attributes:
        config: The configuration, with the partitions that the job has made itself.
        parts: The objects that it describes.
        schedule: Their schedule, with base rate and number of steps.
        task: The network with its training and validation data.
        walkers: Walkers over all ranks.
        average: Receives the averaged parameters; None without `training.average`.
        statistics: Grey values of the training data for the checkpoints; empty on ranks above 0.
        warnings: What the checks of the data have found; empty on ranks above 0.
    """

    config: Config
    parts: Parts
    schedule: Schedule
    task: Task
    walkers: int
    average: Model | None
    statistics: str
    warnings: tuple[str, ...]


def set_up(config: Config, parts: Parts | None, comm: world.Communicator) -> Setup:
    """Check that all ranks can train as a configuration says, and build what it describes. Collective.

    Args:
        config: The whole configuration.
        parts: The objects that it describes; None: build them.
        comm: The ranks that train.

    Raises:
        floodtide.errors.Error: On every rank alike, for wrong input.
    """
    walkers = config.training.walkers or comm.size
    require_same_configuration("train", config)
    if config.run.bind == "ranks":
        bind_ranks()
    with world.agreed():
        check_on_lost_rank(config.comm, comm)
        set_threads(config.run.threads)
        require_memory(config, comm.size)
    # Ranks import modules only when they need them: a thousand ranks read the files at once.
    if parts is None and any(v.labels and not v.partitions for v in config.data.volumes):
        from floodtide.train.own_partitions import with_partitions

        config = with_partitions(config)
    statistics = ""
    warnings: tuple[str, ...] = ()
    with world.agreed():
        if comm.rank == 0:
            from floodtide.train.data_checks import checked

            parts, statistics, warnings = checked(config, parts, comm.size)
        else:
            parts = parts or parts_of(config, comm.size)
        setup = Setup(
            config=config,
            parts=parts,
            schedule=complete_schedule(parts.schedule, parts.optimizer, config, walkers),
            task=kind_of(config).task_of(parts, config),
            walkers=walkers,
            average=parts.model.like() if config.training.average > 0 else None,
            statistics=statistics,
            warnings=warnings,
        )
    facts = {"the number of examples": setup.task.examples, **setup.task.facts}
    require_same("train", facts, "data")
    return setup
