# SPDX-License-Identifier: Apache-2.0
"""Shapes of the networks that benchmarks measure, and how long they measure. `floodtide bench` has options for them."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import option

CLASSES = 2  # of the U-Net
_COMPUTE = "Convolution algorithms, as `run.compute`"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Numbers of threads, and the seconds to measure each row at least."""

    threads: tuple[int, ...] = option(
        (),
        "Numbers of threads to measure.  [default: 1 and the number of cores]",
        range=limits.SOME_THREADS,
    )
    seconds: float = option(1.0, "Minimum time to measure each row", range=limits.SECONDS)

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the numbers of threads; 1 and the number of cores if none are given."""
        return self.threads or tuple(sorted({1, _core.available_cores()}))


@dataclass(frozen=True, kw_only=True)
class ConvShape:
    """The convolution that a benchmark measures, and its kernel's arithmetic."""

    size: tuple[int, int, int] = option(
        (33, 33, 33), "Size z,y,x of the array in voxels", range=limits.PATCH
    )
    channels: tuple[int, int] = option(
        (32, 32), "Numbers of input and output channels", range=limits.FFN_FEATURES
    )
    kernel: tuple[int, int, int] = option(
        (3, 3, 3), "Size z,y,x of the convolution kernel, each 1 or 3", range=limits.KERNEL
    )
    compute: str = option("fp32", _COMPUTE, choices=_core.choices("compute"))


@dataclass(frozen=True, kw_only=True)
class FfnShape:
    """The flood-filling network and the batch that a benchmark measures; see `floodtide.nn.FFN`."""

    depth: int = option(9, "Number of modules", range=limits.FFN_DEPTH)
    fov: tuple[int, int, int] = option(
        (33, 33, 33), "Size z,y,x of the field of view in voxels", range=limits.FIELD_OF_VIEW
    )
    features: int = option(32, "Number of feature maps", range=limits.FFN_FEATURES)
    batch: int = option(1, "Number of examples in the batch", range=limits.BATCH)
    compute: str = option("fp32", _COMPUTE, choices=_core.choices("compute"))
    parallel: str = option(
        "fovs",
        "Whether each thread computes whole fields of view, or all threads share the voxels of each",
        choices=_core.choices("parallel"),
    )

    def __str__(self) -> str:
        z, y, x = self.fov
        return f"depth {self.depth}, fov {z}x{y}x{x}, {self.features} features, batch {self.batch}"


@dataclass(frozen=True, kw_only=True)
class UNetShape:
    """The 2-D U-Net (batch normalisation, softmax, Dice and cross-entropy) and the batch that a benchmark measures."""

    depth: int = option(5, "Number of levels", range=limits.UNET_DEPTH)
    features: int = option(
        16, "Number of feature maps of the first level", range=limits.UNET_FEATURES
    )
    size: tuple[int, int] = option((240, 240), "Size y,x of a slice in pixels", range=limits.PATCH)
    batch: int = option(8, "Number of slices in the batch", range=limits.BATCH)
    compute: str = option("fp32", _COMPUTE, choices=_core.choices("compute"))

    def __str__(self) -> str:
        y, x = self.size
        return f"depth {self.depth}, {self.features} features, {y}x{x}, batch {self.batch}"


@dataclass(frozen=True, kw_only=True)
class ScalingOptions:
    """The training that is measured on one rank and on all ranks."""

    ranks: int = option(
        2,
        "Number of ranks to start, unless mpiexec started this command",
        range=limits.SEVERAL_RANKS,
    )
    threads: int = option(1, "Number of threads of each rank", range=limits.SOME_THREADS)
    network: str = option(
        "ffn", "Network to train, as for bench step or bench unet", choices=("ffn", "unet2d")
    )
    seconds: float = option(1.0, "Minimum time to measure each row", range=limits.SECONDS)
