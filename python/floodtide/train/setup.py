# SPDX-License-Identifier: Apache-2.0
"""What a job trains, checked on all ranks before the first step.

That is the objects that a configuration describes, the configuration that describes objects (run directories and
checkpoints keep it), and cores, threads and memory.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide import _core, nn
from floodtide.base import limits
from floodtide.base.networks import section_of
from floodtide.comm import world
from floodtide.config import CommConfig, Config, RunConfig, TrainingConfig
from floodtide.config.sections import OptimizerConfig, ScheduleConfig
from floodtide.config.stored import require_same_task
from floodtide.data.patches import with_classes
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule
from floodtide.train.learners import learner_of
from floodtide.train.learners.learner import Data, Model, Record, Setup, held_out_volume
from floodtide.train.rates import rates_of
from floodtide.train.same_on_ranks import comparable_keys, require_same

# share of an estimate that is needed for certain: the estimate may be a fifth too high
_CERTAIN = 0.8
# Its first argument is the Trainer, a class above this module.
Callback = Callable[[Any, Record], None]

Objects = tuple[Model, Data]
"""A network and its training examples."""


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


def set_up(config: Config, given: Objects | None, comm: world.Communicator) -> Setup:
    """Check that all ranks can train as a configuration says, and build what it describes. Collective.

    Args:
        given: The network and the training data that it describes; None: build them.

    Raises:
        floodtide.errors.Error: On every rank alike, for wrong input.
    """
    require_same("train", dict(comparable_keys(config)), "configuration")
    if config.run.bind == "ranks":
        bind_ranks()
    with world.agreed():
        optimizer, schedule = rates_of(config, comm.size)
        set_threads(config.run.threads)
        require_enough_memory(config, comm.size)
    if given is None:
        config = prepared(config)
    statistics = ""
    warnings: tuple[str, ...] = ()
    with world.agreed():
        model, data = given or objects_of(config, comm.size)
        if comm.rank == 0:
            from floodtide.train.data_checks import check_data

            statistics, warnings = check_data(
                config.task, data, held_out_volume(config), model.origin
            )
        setup = Setup(
            config=config,
            model=model,
            data=data,
            optimizer=optimizer,
            schedule=schedule,
            learner=learner_of(config.model)(config, model, data),
            average=model.like() if config.training.average > 0 else None,
            statistics=statistics,
            warnings=warnings,
        )
    require_same("train", {"the number of examples": len(data)}, "data")
    return setup


def prepared(config: Config) -> Config:
    """Return the configuration with what it leaves to the data: classes of the labels, and partitions. Collective.

    Raises:
        floodtide.errors.Error: On every rank alike, for volumes that no training can use.
    """
    # Ranks import modules only when they need them: a thousand ranks read the files at once.
    task: Any = config.task
    unknown = task.needs_labels
    with world.agreed():
        if world.rank() == 0:
            from floodtide.train.data_checks import require_volumes_fit

            require_volumes_fit(config)
            if unknown:
                task = with_classes(task, config.data.of(config.data.volumes))
    if unknown:
        config = dataclasses.replace(config, task=world.broadcast_object(task))
    without = any(volume.labels and not volume.partitions for volume in config.data.volumes)
    if config.task.partitioned and without:
        from floodtide.train.data_checks import with_partitions

        config = with_partitions(config)
    return config


def objects_of(config: Config, ranks: int) -> Objects:
    """Return the network that a configuration describes, with its initial weights, and the training data.

    Args:
        ranks: Number of ranks: the number of walkers if the configuration does not give it.
    """
    learner = learner_of(config.model)
    model = learner.new_model(config)
    if path := config.model.initial_weights:
        start = nn.load(path, **config.model.moves)
        if config.task.predicts:
            require_same_task(path, config, "model.initial_weights")
        if repr(start) != repr(model):
            raise ConfigurationError(
                f"model.initial_weights: {path} holds {start!r}, expected {model!r}"
            )
        model.load_state_dict(start.state_dict())
        model.origin = path
    return model, learner.data_of(config, config.training.walkers_of(ranks))


def bind_ranks() -> None:
    """Give each rank of a host an equal part of the cores that all of them share. Collective.

    Threads that start later run on these cores. Nothing changes if the launcher has bound the ranks already, or if
    there are more ranks than cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    local_rank, count, *_ = world.places()
    own = f"{world.current().node_name} {cores}".encode()
    shared = world.allgather_bytes(own, "cores of the ranks").count(own) == count
    share = len(cores) // count
    if shared and share:
        os.sched_setaffinity(0, cores[local_rank * share : (local_rank + 1) * share])


def set_threads(threads: int) -> None:
    """Set the number of compute threads of this rank to `thread_count(threads)`."""
    _core.set_num_threads(thread_count(threads))


def thread_count(threads: int) -> int:
    """Return the number of compute threads for a value of `run.threads`.

    0 means OMP_NUM_THREADS if it is set, else the cores that the process may use, divided by the ranks of the host.
    """
    if threads:
        return threads
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    given = int(wanted) if wanted.isdecimal() and len(wanted) < 10 else 0
    if given:
        limits.THREADS.check(given, "OMP_NUM_THREADS")
    return given or max(1, _core.available_cores() // world.places()[1])


def require_enough_memory(config: Config, ranks: int) -> None:
    """Raise ConfigurationError for a training that cannot fit into memory, before it allocates anything.

    Args:
        ranks: Number of ranks on all hosts. The ranks of a host share its memory equally.
    """
    needed = _CERTAIN * training_bytes(config, ranks, _core.num_threads())
    neighbours = world.places()[1]
    available = _core.available_bytes()
    if available is not None and needed > available / neighbours:
        here = f"{_core.describe_bytes(available / neighbours)} are available"
        raise ConfigurationError(
            f"train: a rank needs at least {_core.describe_bytes(needed)} of memory, {here}"
            + (f" to each of {neighbours} ranks of this host" if neighbours > 1 else "")
            + "; expected a smaller network, less read ahead (data.prefetch), or fewer walkers or ranks a host"
        )


def needed_bytes(config: Config, ranks: int, threads: int) -> int:
    """Return the memory in bytes of one rank of a training: this process as it is now, and `training_bytes`."""
    return _core.resident_bytes() + training_bytes(config, ranks, threads)


def training_bytes(config: Config, ranks: int, threads: int) -> int:
    """Return the bytes that a training adds to one rank: network, gradients, optimizer, examples read ahead."""
    learner = learner_of(config.model)
    walkers = -(-config.training.walkers_of(ranks) // ranks)  # of the rank that has most
    parameters = parameter_count(config)
    read_ahead = walkers * (config.data.prefetch + 1) * learner.example_bytes(config)
    apart = 0  # each walker's gradients, where they are summed in any order
    if config.comm.exactness == "workers":
        apart = 4 * walkers * config.training.accumulate * parameters
    return learner.pass_bytes(config, walkers, threads) + read_ahead + 6 * 4 * parameters + apart


def checkpoint_bytes(config: Config, ranks: int) -> int:
    """Return the size of a checkpoint in bytes: parameters, two arrays of the optimizer, the average, the canvases."""
    walkers = config.training.walkers_of(ranks)
    canvases = walkers * learner_of(config.model).canvas_voxels(config)
    return 4 * (4 * parameter_count(config) + canvases)


def parameter_count(config: Config) -> int:
    """Return the number of parameters, with the statistics of batch normalisation."""
    return int(learner_of(config.model).options_of(config).parameter_count())


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
    """
    learner = learner_of(section_of(model.core))
    if not isinstance(data, learner.data_class):
        raise InvalidArgumentError(
            f"Trainer: data is {type(data).__name__}, expected {learner.data_class.__name__} for {model!r}"
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
    sections = learner.sections_of(model, data)
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
