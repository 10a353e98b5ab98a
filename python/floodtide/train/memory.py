# SPDX-License-Identifier: Apache-2.0
"""Estimate the memory that a training needs from its configuration, and compare it with the memory of the host."""

from __future__ import annotations

import math

from floodtide import _core, nn
from floodtide.comm import world
from floodtide.config import Config, FfnConfig, UNet2DConfig, UNet3DConfig, require_tables
from floodtide.data import Vec3, Volume
from floodtide.errors import ConfigurationError

_CERTAIN = (
    0.8  # share of an estimate that is needed for certain: the estimate may be a fifth too high
)
_AFFINITY_AXES = 3


def require_memory(config: Config, ranks: int) -> None:
    """Refuse a training that cannot fit into memory, before it allocates anything.

    Args:
        config: The whole configuration.
        ranks: Number of ranks on all hosts. The ranks of a host share its memory equally.

    Raises:
        ConfigurationError: If the memory does not suffice. The message states needed and available bytes.
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
    mine = -(-(config.training.walkers or ranks) // ranks)  # walkers of the rank that has most
    model, options = config.model, _options(config)
    parameters = options.parameter_count()
    if isinstance(model, FfnConfig):
        assert isinstance(options, _core.FfnOptions)
        passes = options.training_bytes(model.fov, mine, threads)
        example = 3 * 4 * math.prod(model.patch_size)  # image, labels, canvas
        read_ahead = mine * (config.data.prefetch + 1)
    else:
        assert isinstance(options, _core.UNetOptions)
        # One pass computes the batches of all walkers, or the batch of one walker if gradients are summed apart.
        walkers = 1 if config.comm.exactness == "workers" else mine
        passes = options.training_bytes(walkers * config.training.batch, sample_size(config))
        example = 4 * math.prod(sample_size(config)) * (2 if isinstance(model, UNet2DConfig) else 7)
        read_ahead = mine * config.training.batch * (config.data.prefetch + 1)
    apart = 0  # each walker's gradients, where they are summed in any order
    if config.comm.exactness == "workers":
        apart = 4 * mine * config.training.accumulate * parameters
    return int(passes + read_ahead * example + 6 * 4 * parameters + apart)


def checkpoint_bytes(config: Config, ranks: int) -> int:
    """Return the size of a checkpoint in bytes: parameters, two arrays of the optimizer, the average, the canvases."""
    walkers = config.training.walkers or ranks
    canvas = math.prod(config.model.patch_size) if isinstance(config.model, FfnConfig) else 0
    return 4 * (4 * parameter_count(config) + walkers * canvas)


def parameter_count(config: Config) -> int:
    """Return the number of parameters, with the statistics of batch normalisation."""
    return _options(config).parameter_count()


def sample_size(config: Config) -> Vec3:
    """Return the size (z, y, x) in voxels of a slice or patch."""
    if isinstance(config.model, UNet3DConfig):
        return config.data.patch
    y, x = config.data.size
    if (y, x) == (0, 0):
        require_tables(config.data.slices, "data.slices")
        _, y, x = Volume(config.data.slices[0].images).shape
    return 1, y, x


def _options(config: Config) -> _core.FfnOptions | _core.UNetOptions:
    """Return the properties of the network from which the core computes sizes."""
    model = config.model
    if isinstance(model, FfnConfig):
        return _core.FfnOptions(
            depth=model.depth, features=model.features, parallel=config.run.parallel
        )
    volumes = isinstance(model, UNet3DConfig)
    return _core.UNetOptions(
        classes=_AFFINITY_AXES if isinstance(model, UNet3DConfig) else model.classes,
        depth=model.depth,
        features=model.features,
        kernels=model.kernels if isinstance(model, UNet3DConfig) else nn.SLICE_KERNELS,
        pools=model.pools if isinstance(model, UNet3DConfig) else nn.SLICE_POOLS,
        output="sigmoid" if volumes else "softmax",
        batch_norm=model.batch_norm,
    )
