# SPDX-License-Identifier: Apache-2.0
"""What a training will need of memory, from its configuration alone, and whether this host has as much."""

from __future__ import annotations

import math
from collections.abc import Sequence

from floodtide import _core
from floodtide.comm import world
from floodtide.config import Config, FfnConfig, UNet2DConfig, UNet3DConfig, require_tables
from floodtide.data import Volume
from floodtide.errors import ConfigurationError

_CERTAIN = (
    0.8  # of an estimate: what is refused is refused although the estimate may be a fifth too high
)
_AFFINITY_AXES = 3


def require_memory(config: Config, ranks: int) -> None:
    """Refuse a training that cannot fit, before anything is allocated for it.

    Args:
        config: The whole configuration.
        ranks: Over all hosts. Those of one host share its memory equally.

    Raises:
        ConfigurationError: Names the need and what is available.
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
    """Memory of one rank of a training: this process now, network, examples read ahead."""
    return _core.resident_bytes() + training_bytes(config, ranks, threads)


def training_bytes(config: Config, ranks: int, threads: int) -> int:
    """What a training adds to the memory of one rank: network, gradients, optimizer, examples read ahead."""
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
    """Size of a checkpoint: parameters with the optimizer's two arrays and the average, and the walkers' canvases."""
    walkers = config.training.walkers or ranks
    canvas = math.prod(config.model.patch_size) if isinstance(config.model, FfnConfig) else 0
    return 4 * (4 * parameter_count(config) + walkers * canvas)


def parameter_count(config: Config) -> int:
    """Parameters of the network, batch norm's statistics included (docs/algorithms.md, "Network")."""
    model = config.model
    if isinstance(model, FfnConfig):
        depth, features = model.depth, model.features
        return 55 * features + (27 * features**2 + features) * (2 * depth - 1) + features + 1
    return _unet_parameters(model)


def sample_size(config: Config) -> tuple[int, ...]:
    """Voxels (z, y, x) of a slice or patch."""
    if isinstance(config.model, UNet3DConfig):
        return config.data.patch
    if config.data.size != (0, 0):
        return (1, *config.data.size)
    require_tables(config.data.slices, "data.slices")
    return (1, *Volume(config.data.slices[0].images).shape[1:])


def _ffn_bytes(config: Config, model: FfnConfig, mine: int, threads: int) -> int:
    """About two activations a module and four more, with channels padded to 16 and a rim of one voxel; as many times as
    fields of view are computed at once."""
    channels = -(-model.features // 16) * 16
    voxels = math.prod(f + 2 for f in model.fov)
    at_once = threads if config.run.parallel == "fovs" and mine >= threads else 1
    return at_once * (2 * model.depth + 4) * channels * voxels * 4


def _unet_parameters(model: UNet2DConfig | UNet3DConfig) -> int:
    """Two convolutions a level, down and up, transposed convolutions between levels, and a head."""
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
    """One vector for all levels, or one for each; the core says what is wrong with any other number of them."""
    return vectors[min(level, len(vectors) - 1)] if vectors else ()


def _unet_bytes(config: Config, model: UNet2DConfig | UNet3DConfig, images: int) -> int:
    """About ARRAYS activations of each level's width, with a rim of one voxel."""
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


ARRAYS = 19  # what the plan of one training step came to, divided by one such array a level
