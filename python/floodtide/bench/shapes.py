# SPDX-License-Identifier: Apache-2.0
"""What benchmarks measure: a convolution, a network, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import option

CLASSES = 2  # of the U-Net

available_cores = _core.available_cores


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Numbers of threads, and the seconds to measure each row at least."""

    threads: tuple[int, ...] = option(
        (), "Numbers of threads.  [default: 1 and the number of cores]", range=limits.SOME_THREADS
    )
    seconds: float = option(
        1.0,
        "Time to measure each row, or with other programs ten times that for all together",
        range=limits.SECONDS,
    )

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the numbers of threads; 1 and the number of cores if none are given."""
        return self.threads or tuple(sorted({1, available_cores()}))


@dataclass(frozen=True, kw_only=True)
class ConvShape:
    """The convolution that a benchmark measures: 3 x 3 x 3, in float32."""

    size: tuple[int, int, int] = option((33, 33, 33), "Size z,y,x in voxels", range=limits.PATCH)
    channels: tuple[int, int] = option(
        (32, 32), "Numbers of input and output channels", range=limits.FFN_FEATURES
    )


NETWORKS: dict[str, dict[str, Any]] = {
    "ffn": {},
    "unet": {
        "task": {"kind": "classes"},
        "model": {"kind": "unet", "depth": 5, "kernels": [[1, 3, 3]], "pools": [[1, 2, 2]]},
        "data": {"patch": [1, 240, 240]},
        "training": {"batch": 8},
    },
}
"""The networks that benchmarks measure unless a configuration names another one, as configurations."""


@dataclass(frozen=True, kw_only=True)
class ScalingOptions:
    """The training that is measured on one rank and on all ranks."""

    ranks: int = option(
        2, "Ranks to start, unless mpiexec started this command", range=limits.SEVERAL_RANKS
    )
    threads: int = 1
    network: str = option("ffn", "Network, as for bench step or unet", choices=tuple(NETWORKS))
    seconds: float = option(1.0, "Minimum time to measure each row", range=limits.SECONDS)
