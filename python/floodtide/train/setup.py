# SPDX-License-Identifier: Apache-2.0
"""What a job trains, checked on all ranks before the first step.

That is the objects that a configuration describes, the configuration that describes objects (run directories and
checkpoints keep it), and threads and memory.
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
from floodtide.base.notes import count_of
from floodtide.comm import world
from floodtide.config import CommConfig, Config, RunConfig, TrainingConfig, from_dict, load, to_dict
from floodtide.config.reader import require_same_task, stored
from floodtide.config.sections import OptimizerConfig, ScheduleConfig
from floodtide.data.patches import with_classes
from floodtide.errors import ConfigurationError, InvalidArgumentError, UnsupportedError
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule, ends
from floodtide.train.learners import learner_of
from floodtide.train.learners.learner import Data, Model, Record, Setup, held_out_volume
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

            held_out = held_out_volume(config)
            statistics, warnings = check_data(config.task, data, held_out, model.origin)
        setup = Setup(
            config=config,
            optimizer=optimizer,
            schedule=schedule,
            learner=learner_of(config.model)(config, model, data),
            statistics=statistics,
            warnings=warnings,
        )
    require_same("train", {"the number of examples": len(data)}, "data")
    return setup


def rates_of(config: Config, ranks: int) -> tuple[Optimizer, Schedule]:
    """Return the optimizer of a configuration, and the schedule with its rate and the number of steps.

    This checks all that can be checked of a training without its data.

    Args:
        config: The whole configuration.
        ranks: Number of ranks: the number of walkers if the configuration does not give it.

    Raises:
        ConfigurationError: If the training may be given up, but does not validate before its end, or cannot fit a time.
        InvalidArgumentError: If the warm-up is longer than the training, or optimizer and scaling rule do not fit.
    """
    held_out = config.validation
    if held_out.give_up_after and not (held_out.every and held_out.holds_out):
        raise ConfigurationError(
            f"validation.give_up_after is {held_out.give_up_after}, expected held-out data and validation.every above 0"
        )
    training = config.training
    if (training.fit_time or training.corrections) and config.comm.mode != "synchronous":
        raise ConfigurationError(
            "training.fit_time and training.corrections need comm.mode 'synchronous', expected no other"
        )
    optimizer = Optimizer(config.optimizer.name, config.optimizer.lr, **config.optimizer.values)
    section, walkers = config.schedule, training.walkers_of(ranks)
    _core.scaled_optimizer(section.scale, optimizer.name, optimizer.values, walkers)
    schedule = Schedule(section.name, scale=section.scale, **section.values, **section.scale_values)
    if training.fit_time and not ends(section.name):
        raise ConfigurationError(
            f"training.fit_time needs a rate that falls to an end, but schedule.name is '{section.name}', expected"
            " another schedule, such as cosine, or fit_time = false"
        )
    return optimizer, schedule.for_training(optimizer.lr, training.steps)


def prepared(config: Config) -> Config:
    """Return the configuration with what it leaves to the data: classes of the labels, and partitions. Collective.

    Raises:
        floodtide.errors.Error: On every rank alike, for volumes that no training can use.
    """

    # Ranks import modules only when they need them: a thousand ranks read the files at once.
    def checked() -> Any:
        from floodtide.train.data_checks import require_volumes_fit

        require_volumes_fit(config)
        task: Any = config.task
        return (
            with_classes(task, config.data.of(config.data.volumes)) if task.needs_labels else task
        )

    config = dataclasses.replace(config, task=world.from_rank_0(checked))
    without = any(volume.labels and not volume.partitions for volume in config.data.volumes)
    if without and not config.task.predicts:
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
    """Raise InvalidArgumentError for a training that cannot fit into memory, before it allocates anything.

    Args:
        ranks: Number of ranks on all hosts. The ranks of a host share its memory.
    """
    here = world.places()[1]
    limits.require_memory(
        f"train: {count_of(here, 'rank')} on this host need",
        _CERTAIN * here * training_bytes(config, ranks, _core.num_threads()),
        "a smaller network, less read ahead (data.prefetch), or fewer walkers or ranks a host",
    )


def needed_bytes(config: Config, ranks: int, threads: int) -> int:
    """Return the memory in bytes of one rank of a training: this process as it is now, and `training_bytes`."""
    return _core.resident_bytes() + training_bytes(config, ranks, threads)


def training_bytes(config: Config, ranks: int, threads: int) -> int:
    """Return the bytes that a training adds to one rank: network, gradients, optimizer, examples read ahead."""
    walkers = -(-config.training.walkers_of(ranks) // ranks)  # of the rank that has most
    parameters = parameter_count(config)
    activations, examples, _ = learner_of(config.model).bytes_of(config, walkers, threads)
    read_ahead = walkers * (config.data.prefetch + 1) * examples
    apart = 0  # each walker's gradients, where they are summed in any order
    if config.comm.exactness == "workers":
        apart = 4 * walkers * config.training.accumulate * parameters
    return activations + read_ahead + 6 * 4 * parameters + apart


def checkpoint_bytes(config: Config, ranks: int) -> int:
    """Return the size of a checkpoint in bytes: parameters, two arrays of the optimizer, the average, the canvases."""
    walkers = config.training.walkers_of(ranks)
    *_, canvas = learner_of(config.model).bytes_of(config, 1, 1)
    return 4 * 4 * parameter_count(config) + walkers * canvas


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
    lr = float(rates.pop("base_lr", optimizer.lr))
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
        optimizer=OptimizerConfig(name=optimizer.name, lr=lr, values=optimizer.values),
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


def gradient_products(file: str, overrides: tuple[str, ...], groups: int) -> _core.GradientProducts:
    """Return the core's measurement of the gradients of the walkers of a training at fixed weights.

    Walkers see different patches, so the product of the sums of two walkers has no noise in common. The mean over all
    pairs is an unbiased estimate of the squared norm of the expected gradient.

    Args:
        file: A file CONFIG.toml, or a floodtide checkpoint of a training, which starts from its network then.
        overrides: Texts SECTION.KEY=VALUE.
        groups: Number of walkers.

    Returns:
        `add_pass()` adds the gradients of one pass: a field of view of each walker, or `batch` patches, whose mean is
        one term. `passes` counts passes. `products()` are the inner products (groups, groups) of the sums of the
        walkers' terms, `squares()` (groups,) the sums of the terms' squared norms.

    Raises:
        UnsupportedError: Under mpiexec.
        ConfigurationError: If a checkpoint stores no configuration, or an override is wrong.
        floodtide.errors.Error: If the training could not start.
    """
    if world.size() > 1:
        raise UnsupportedError(
            f"gradients: {world.size()} ranks, expected one, whose threads share the walkers"
        )
    overrides = (*overrides, f"training.walkers={groups}")
    if Path(file).suffix == ".toml":
        settings = load(file, overrides)
    else:
        known = stored(file)
        if known is None:
            raise ConfigurationError(
                f"{file} stores no training, expected a checkpoint of floodtide train, or a CONFIG.toml whose"
                " model.initial_weights names it"
            )
        table = to_dict(known)
        table["model"]["initial_weights"] = file
        settings = from_dict(table, file, overrides)
    setup = set_up(settings, None, world.current())
    return _core.GradientProducts(setup.learner.new_walkers(world.current()))
