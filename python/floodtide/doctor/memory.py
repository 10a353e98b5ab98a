# SPDX-License-Identifier: Apache-2.0
"""What a training will need of memory and disk, from its configuration alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from floodtide import _core
from floodtide._flooding import patch_size
from floodtide._segmentation import build_model
from floodtide.config import Config, FfnConfig, UNet2DConfig, UNet3DConfig
from floodtide.data import Volume


def needed_bytes(config: Config, ranks: int, threads: int) -> int:
    """Memory of one rank of a training: this process now, network, examples read ahead."""
    mine = -(-(config.training.walkers or ranks) // ranks)  # walkers of the rank that has most
    model, parameters = config.model, parameter_count(config)
    if isinstance(model, FfnConfig):
        passes = _ffn_bytes(config, model, mine, threads)
        example = 3 * 4 * math.prod(patch_size(config))  # image, labels, canvas
        read_ahead = mine * (config.data.prefetch + 1)
    else:
        passes = _unet_bytes(config, model, mine * config.training.batch)
        example = 4 * math.prod(sample_size(config)) * (2 if isinstance(model, UNet2DConfig) else 7)
        read_ahead = mine * config.training.batch * (config.data.prefetch + 1)
    return int(_core.resident_bytes() + passes + read_ahead * example + 6 * 4 * parameters)


def checkpoint_bytes(config: Config, ranks: int) -> int:
    """Size of a checkpoint: parameters with the optimizer's two arrays and the average, and the walkers' canvases."""
    walkers = config.training.walkers or ranks
    canvas = math.prod(patch_size(config)) if isinstance(config.model, FfnConfig) else 0
    return 4 * (4 * parameter_count(config) + walkers * canvas)


def parameter_count(config: Config) -> int:
    """Parameters of the network (docs/algorithms.md, "Network")."""
    if not isinstance(config.model, FfnConfig):
        return int(build_model(config).core.parameters().size)
    depth, features = config.model.depth, config.model.features
    return 55 * features + (27 * features**2 + features) * (2 * depth - 1) + features + 1


def sample_size(config: Config) -> tuple[int, ...]:
    """Voxels (z, y, x) of a slice or patch."""
    if isinstance(config.model, UNet3DConfig):
        return config.data.patch
    if config.data.size != (0, 0):
        return (1, *config.data.size)
    return (1, *Volume(config.data.slices[0].images).shape[1:])


def _ffn_bytes(config: Config, model: FfnConfig, mine: int, threads: int) -> int:
    """About two activations a module and four more, with channels padded to 16 and a rim of one voxel; as many times as
    fields of view are computed at once."""
    channels = -(-model.features // 16) * 16
    voxels = math.prod(f + 2 for f in model.fov)
    at_once = threads if config.run.parallel == "fovs" and mine >= threads else 1
    return at_once * (2 * model.depth + 4) * channels * voxels * 4


def _unet_bytes(config: Config, model: UNet2DConfig | UNet3DConfig, images: int) -> int:
    """About ARRAYS activations of each level's width, with a rim of one voxel."""
    pools: Sequence[Sequence[int]] = (
        model.pools if isinstance(model, UNet3DConfig) else ((1, 2, 2),)
    )
    size, channels, total = list(sample_size(config)), model.features, 0
    for level in range(model.depth):
        total += ARRAYS * channels * math.prod(extent + 2 for extent in size[1:]) * size[0]
        pool = pools[min(level, len(pools) - 1)]
        size = [-(-extent // step) for extent, step in zip(size, pool, strict=True)]
        channels *= 2
    return 4 * images * total


ARRAYS = 19  # what the plan of one training step came to, divided by one such array a level
