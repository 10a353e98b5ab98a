# SPDX-License-Identifier: Apache-2.0
"""Estimate the memory that a training needs from its configuration, and compare it with the memory of the host."""

from __future__ import annotations

import math
from collections.abc import Sequence

from floodtide import _core
from floodtide.comm import world
from floodtide.config import Config, FfnConfig, UNet2DConfig, UNet3DConfig, require_tables
from floodtide.data import Volume
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
    model, parameters = config.model, parameter_count(config)
    if isinstance(model, FfnConfig):
        passes = _ffn_bytes(config, model, mine, threads)
        example = 3 * 4 * math.prod(model.patch_size)  # image, labels, canvas
        read_ahead = mine * (config.data.prefetch + 1)
    else:
        passes = _unet_bytes(config, model, mine * config.training.batch)
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
    """Return the number of parameters, with the statistics of batch norm (docs/algorithms.md, "Network")."""
    model = config.model
    if isinstance(model, FfnConfig):
        depth, features = model.depth, model.features
        return 55 * features + (27 * features**2 + features) * (2 * depth - 1) + features + 1
    return _unet_parameters(model)


def sample_size(config: Config) -> tuple[int, ...]:
    """Return the size (z, y, x) in voxels of a slice or patch."""
    if isinstance(config.model, UNet3DConfig):
        return config.data.patch
    if config.data.size != (0, 0):
        return (1, *config.data.size)
    require_tables(config.data.slices, "data.slices")
    return (1, *Volume(config.data.slices[0].images).shape[1:])


def _ffn_bytes(config: Config, model: FfnConfig, mine: int, threads: int) -> int:
    """Return the bytes of the activations of an FFN.

    Each field of view that is computed at the same time needs about two activations per module, and four more. Channels
    are padded to a multiple of 16, and each activation has a rim of one voxel.
    """
    channels = -(-model.features // 16) * 16
    voxels = math.prod(f + 2 for f in model.fov)
    at_once = threads if config.run.parallel == "fovs" and mine >= threads else 1
    return at_once * (2 * model.depth + 4) * channels * voxels * 4


def _unet_parameters(model: UNet2DConfig | UNet3DConfig) -> int:
    """Count two convolutions per level, down and up, transposed convolutions between levels, and the head."""
    if isinstance(model, UNet3DConfig):
        outputs, kernels, pools = _AFFINITY_AXES, model.kernels, model.pools
    else:
        outputs, kernels, pools = model.classes, ((1, 3, 3),), ((1, 2, 2),)
    each = 4 if model.batch_norm else 1  # scale, shift, mean and variance of a channel; or its bias

    def pair(level: int, channels: int) -> int:
        taps, width = math.prod(_of_level(kernels, level)), model.features << level
        return (taps * (channels + width) + 2 * each) * width

    count = (model.features + 1) * outputs
    for level in range(model.depth):
        width = model.features << level
        count += pair(level, width // 2 if level else 1)
        if level + 1 < model.depth:
            count += (math.prod(_of_level(pools, level)) * 2 * width + 1) * width
            count += pair(level, 2 * width)
    return count


def _of_level(vectors: Sequence[Sequence[int]], level: int) -> Sequence[int]:
    """Return the vector of a level: one vector serves all levels, or each level has one. The core checks this."""
    return vectors[min(level, len(vectors) - 1)] if vectors else ()


def _unet_bytes(config: Config, model: UNet2DConfig | UNet3DConfig, images: int) -> int:
    """Return the bytes of the activations of a U-Net: about ARRAYS per level, each with a rim of one voxel."""
    pools: Sequence[Sequence[int]] = (
        model.pools if isinstance(model, UNet3DConfig) else ((1, 2, 2),)
    )
    size, channels, total = list(sample_size(config)), model.features, 0
    for level in range(model.depth):
        total += ARRAYS * channels * math.prod(extent + 2 for extent in size[1:]) * size[0]
        pool = _of_level(pools, level) or (1, 1, 1)
        size = [-(-extent // step) for extent, step in zip(size, pool, strict=True)]
        channels *= 2
    return 4 * images * total


ARRAYS = 19  # measured: memory plan of a training step, divided by one activation per level
