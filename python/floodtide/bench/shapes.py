# SPDX-License-Identifier: Apache-2.0
"""What benchmarks measure: a convolution, the network of a configuration, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide import _core
from floodtide.base import limits
from floodtide.base.networks import UNetConfig
from floodtide.base.options import option
from floodtide.config import Config, FfnConfig
from floodtide.errors import InvalidArgumentError

CLASSES = 2  # of the U-Net
KERNELS, POOLS = ((1, 3, 3),), ((1, 2, 2),)


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
    kernel: tuple[int, int, int] = (3, 3, 3)
    compute: str = "fp32"


@dataclass(frozen=True, kw_only=True)
class FfnShape:
    """The flood-filling network and the batch that a benchmark measures; see `floodtide.nn.FFN`."""

    depth: int = 9
    fov: tuple[int, int, int] = (33, 33, 33)
    features: int = 32
    batch: int = 1
    compute: str = "fp32"
    parallel: str = "fovs"

    prefix, rate = "", "fovs_per_s"

    @classmethod
    def of(cls, settings: Config) -> FfnShape:
        """Return the network of a configuration, with a field of view of each walker (0: one) as the batch.

        Raises:
            InvalidArgumentError: If the network is another one.
        """
        model, run = settings.model, settings.run
        if not isinstance(model, FfnConfig):
            raise InvalidArgumentError(f"model.kind is '{model.kind}', expected 'ffn'")
        return cls(
            depth=model.depth,
            fov=model.fov,
            features=model.features,
            batch=settings.training.walkers or 1,
            compute=run.compute,
            parallel=run.parallel,
        )

    def __str__(self) -> str:
        z, y, x = self.fov
        return f"depth {self.depth}, fov {z}x{y}x{x}, {self.features} features, batch {self.batch}"


@dataclass(frozen=True, kw_only=True)
class UNetShape:
    """The 2-D U-Net (batch normalisation, softmax, Dice and cross-entropy) and the batch that a benchmark measures.

    Attributes:
        size: Size (y, x) of a section in pixels.
    """

    depth: int = 5
    features: int = 16
    size: tuple[int, int] = (240, 240)
    batch: int = 8
    compute: str = "fp32"

    prefix, rate = "unet ", "images_per_s"

    @classmethod
    def of(cls, settings: Config) -> UNetShape:
        """Return the network of a configuration, with training.batch patches of one section.

        Raises:
            InvalidArgumentError: If the network is another one, or patches have several sections.
        """
        model, data = settings.model, settings.data
        if not isinstance(model, UNetConfig):
            raise InvalidArgumentError(f"model.kind is '{model.kind}', expected 'unet'")
        size = (1, *data.size) if isinstance(data.patch, str) else data.patch
        if size[0] != 1 or 0 in size or (model.kernels, model.pools) != (KERNELS, POOLS):
            raise InvalidArgumentError(
                f"data.patch is {data.patch} for kernels {model.kernels} and pools {model.pools}, expected patches of"
                f" one section, and {KERNELS} and {POOLS}"
            )
        return cls(
            depth=model.depth,
            features=model.features,
            size=(size[1], size[2]),
            batch=settings.training.batch,
            compute=settings.run.compute,
        )

    def __str__(self) -> str:
        y, x = self.size
        return f"depth {self.depth}, {self.features} features, {y}x{x}, batch {self.batch}"


NetworkShape = FfnShape | UNetShape


@dataclass(frozen=True, kw_only=True)
class ScalingOptions:
    """The training that is measured on one rank and on all ranks."""

    ranks: int = option(
        2,
        "Number of ranks to start, unless mpiexec started this command",
        range=limits.SEVERAL_RANKS,
    )
    threads: int = 1
    network: str = option(
        "ffn", "Network to train, as for bench step or bench unet", choices=("ffn", "unet")
    )
    seconds: float = option(1.0, "Minimum time to measure each row", range=limits.SECONDS)
