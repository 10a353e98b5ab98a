# SPDX-License-Identifier: Apache-2.0
"""What a job trains: the objects of a configuration, checked on all ranks before the first step."""

from __future__ import annotations

from floodtide.comm import world
from floodtide.config import Config
from floodtide.train.kinds import kind_of
from floodtide.train.kinds.kind import Parts, Setup
from floodtide.train.memory import require_enough_memory
from floodtide.train.parts import parts_of, require_scalable
from floodtide.train.same_on_ranks import require_same, require_same_configuration
from floodtide.train.threads import bind_ranks, set_threads


def set_up(config: Config, parts: Parts | None, comm: world.Communicator) -> Setup:
    """Check that all ranks can train as a configuration says, and build what it describes. Collective.

    Args:
        config: The whole configuration.
        parts: The objects that it describes; None: build them.
        comm: The ranks that train.

    Raises:
        floodtide.errors.Error: On every rank alike, for wrong input.
    """
    require_same_configuration("train", config)
    if config.run.bind == "ranks":
        bind_ranks()
    with world.agreed():
        set_threads(config.run.threads)
        require_enough_memory(config, comm.size)
    # Ranks import modules only when they need them: a thousand ranks read the files at once.
    if parts is None and any(v.labels and not v.partitions for v in config.data.volumes):
        from floodtide.train.own_partitions import with_partitions

        config = with_partitions(config)
    statistics = ""
    warnings: tuple[str, ...] = ()
    with world.agreed():
        if comm.rank == 0:
            from floodtide.train.data_checks import check_data, require_volumes_fit

            if parts is None:
                require_volumes_fit(config)
            parts = parts or parts_of(config, comm.size)
            statistics, warnings = check_data(config, parts)
        else:
            parts = parts or parts_of(config, comm.size)
        require_scalable(parts.schedule, parts.optimizer, parts.data.walkers)
        setup = Setup(
            config=config,
            parts=parts,
            task=kind_of(config).task_of(parts, config),
            average=parts.model.like() if config.training.average > 0 else None,
            statistics=statistics,
            warnings=warnings,
        )
    facts = {"the number of examples": setup.task.examples, **setup.task.facts}
    require_same("train", facts, "data")
    return setup
