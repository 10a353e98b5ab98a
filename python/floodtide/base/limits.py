# SPDX-License-Identifier: Apache-2.0
"""Ranges of all numbers that users give: configuration keys, command-line options and Python arguments.

The ranges of networks come from the core (`nn/limits.hpp`), which also uses them to check checkpoints. The upper limits
are high enough for a large cluster, and low enough that no computed number overflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from floodtide import _core
from floodtide.base.options import Range
from floodtide.errors import InvalidArgumentError

_COPIES = 2  # of decoded voxels: the ones that are unpacked and the ones that are returned
_ALWAYS_BYTES = 1 << 26  # are always there


def require_memory(what: str, needed_bytes: float, expected: str) -> None:
    """Raise InvalidArgumentError before work begins that does not fit into memory.

    Args:
        what: Start of the message: "segment: 9 x 9 x 9 voxels need".
        needed_bytes: Approximate memory that the work needs, in bytes.
        expected: End of the message: "a smaller box".
    """
    available = _core.available_bytes()
    if available is not None and needed_bytes > available:
        raise InvalidArgumentError(
            f"{what} about {_core.describe_bytes(int(needed_bytes))} of memory, "
            f"{_core.describe_bytes(available)} are available; expected {expected}"
        )


def require_decoded(name: str, shape: Sequence[int], item_bytes: int) -> None:
    """Raise InvalidArgumentError before voxels are decoded that do not fit into memory.

    A small file may claim, and unpack to, any number.

    Args:
        name: The file, for the message.
        shape: Numbers of voxels that are in memory at once: of a chunk, a picture, or a box.
        item_bytes: Bytes of a voxel.
    """
    needed_bytes = _COPIES * math.prod(map(int, shape)) * item_bytes
    if needed_bytes > _ALWAYS_BYTES:
        require_memory(
            f"{name}: {' x '.join(map(str, shape))} voxels at once need",
            needed_bytes,
            "smaller chunks or pictures, or a smaller box",
        )


def _of_network(name: str, unit: str, *, whole: bool = True) -> Range:
    return Range.of_core(_core.network_limits()[name], unit, whole=whole)


def _of_parameter(schedule: str, name: str, unit: str = "", *, whole: bool = False) -> Range:
    row = next(row for row in _core.schedule_rows() if row["name"] == schedule)
    spec = next(spec for spec in row["parameters"] if spec["name"] == name)
    return Range.of_core(spec["limits"], unit, whole=whole)


FFN_DEPTH = _of_network("ffn_depth", "modules")
FFN_FEATURES = _of_network("ffn_features", "feature maps")
FIELD_OF_VIEW = _of_network("field_of_view", "voxels")
DELTA = _of_network("delta", "voxels")
UNET_DEPTH = _of_network("unet_depth", "levels")
UNET_FEATURES = _of_network("unet_features", "feature maps")
UNET_CHANNELS = _of_network("unet_channels", "channels")
CLASSES = _of_network("classes", "classes")
# for softmax: with a single class there is nothing to learn
MASK_CLASSES = Range(2, int(CLASSES.maximum), "classes")
KERNEL = _of_network("kernel", "voxels")
POOL = _of_network("pool", "voxels")
DROPOUT = _of_network("dropout", "share", whole=False)

LEARNING_RATE = _of_parameter("constant", "base_lr")
RATE_FACTOR = Range.of_core(_core.training_limits()["rate_factor"])
STEPS_OR_NONE = _of_parameter("constant", "warmup_steps", "training steps", whole=True)
STEPS = _of_parameter("cosine", "total_steps", "training steps", whole=True)

SEED = Range(0, 2**64 - 1)
FILE_SEED = Range(0, 2**63 - 1)  # TOML and the attributes of HDF5 files cannot hold more
THREADS = Range(0, 4096, "threads")
SOME_THREADS = Range(1, 4096, "threads")
SECONDS = Range(0.0, 1e9, "s")
MINUTES = Range(0.0, 1e7, "minutes", above=True)
COUNT = Range(1, 10**9)
COUNT_OR_NONE = Range(0, 10**9)
NODES = Range(1, 10**9, "nodes")

WALKERS = Range(1, 2**20, "walkers")
WALKERS_OR_DEFAULT = Range(0, 2**20, "walkers")
BATCH = Range(1, 2**16)
EPOCHS = Range(1, 10**9, "epochs")
RANKS = Range(1, 2**20, "ranks")
SEVERAL_RANKS = Range(2, 2**20, "ranks")
RANKS_OR_ALL = Range(0, 2**20, "ranks")
PREFETCH = Range.of_core(_core.data.limits()["prefetch"], "examples", whole=True)
READERS = Range.of_core(_core.data.limits()["readers"], "threads", whole=True)
CENTRES = Range(1, 10**9, "centres")
CHECKPOINTS = Range(1, 10**6, "checkpoints")

INTENSITY = Range(-1e30, 1e30)
DEVIATION = Range(1e-30, 1e30)
AXIS = Range(0, 2)
VOXEL_SIZE = Range(0.1, 1e9, "nm")
NANOMETRES = Range(0.0, 1e12, "nm", above=True)
PORT = Range(0, 65535)
ATTEMPTS = Range(1, 1000, "seeds")
PIXELS_OR_STORED = Range(0, 2**16, "pixels")
EXTENT = Range(0, 2**40, "voxels")
PATCH = Range(1, 4096, "voxels")
OFFSET = Range(-4095, 4095, "voxels")
VOXELS = Range(0, 2**62, "voxels")
SUBVOLUME = Range(1, 2**20, "voxels")
RADIUS = Range(0, 1023, "voxels")
SYNTH_EXTENT = Range(8, 4096, "voxels")
GZIP = Range(0, 9)

PROBABILITY = Range(0.0, 1.0, above=True, below=True)
SHARE = Range(0.0, 1.0, "share", below=True)
FRACTION = Range(0.0, 1.0)
WEIGHT = Range(0.0, 1e9)
MOVE_THRESHOLD = Range(0.0, 0.95, above=True)  # at most the initial probability of a seed
SOFTNESS = Range(0.0, 0.5, below=True)
CLIP = Range(0.0, 1e30, above=True)
CLIP_OR_NONE = Range(0.0, 1e30)
DISTANCE = Range(0, 4096, "voxels")
SHIFT = Range(0.0, 1e9, above=True)
SHIFT_SCALE = Range(1, 4096, "voxels")
CHANNEL = Range(0, 2**20)
LABEL = Range(0, 2**64 - 1)
DISCO = Range(-1.0, 1.0)

ANGLE = Range(0.0, 180.0, "degrees")
SCALE = Range(0.0, 1e6)
GAIN = Range(0.0, 1.0, below=True)
NOISE = Range(0.0, 1e6)
SIGMA = Range(0.0, 64.0, "voxels")
WINDOW = Range(0.0, 64.0, "voxels", above=True)
DISTANCE_SCALE = Range(0.0, 1e3, "voxels", above=True)
STORED_VALUE = Range(-(2**63), 2**63 - 1)

BUCKET = Range(1e-5, 1e6, "MiB")
MEMORY = Range(0.0, 2.0**40, "MiB", above=True)
