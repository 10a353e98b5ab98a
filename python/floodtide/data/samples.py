# SPDX-License-Identifier: Apache-2.0
"""The order of training samples of U-Nets, the same for slices and patches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.pickling import NotPickled

Image = NDArray[np.float32]
Classes = NDArray[np.uint8]


ORDER = {
    "walkers": limits.WALKERS,
    "batch": limits.BATCH,
    "seed": limits.SEED,
    "prefetch": limits.PREFETCH,
    "readers": limits.READERS,
}


class Samples(NotPickled):
    """Base of `Slices` and `Affinities`: which walker gets which sample in which step.

    Epochs follow one another without a gap. A step takes the next walkers * batch samples, `batch` for
    each walker. Each sample comes once in an epoch, and batches are always full. If an epoch ends inside
    a step, the next epoch starts in the same step. The order does not depend on the number of ranks.
    """

    core: _core.data.SampleSource
    not_pickled = "the core reads its volumes ahead; expected a new one in each process"

    def __init__(
        self,
        core: _core.data.SampleSource,
        walkers: int,
        batch: int,
        seed: int,
        prefetch: int,
        readers: int,
    ) -> None:
        self.core = core
        self.walkers = walkers
        self.batch = batch
        self.seed = seed
        self.prefetch = prefetch
        self.readers = readers

    def __len__(self) -> int:
        """Return the number of samples of an epoch, over all walkers."""
        return self.core.size

    @property
    def fixed_size(self) -> int:
        """Number of samples that `fixed` returns: the samples of a validation."""
        return self.core.fixed_size

    def per_walker(self, walker: int, *, epoch: int = 0) -> int:
        """Return the number of samples of a walker in an epoch. It differs by at most `batch` between epochs."""
        return self.core.per_walker(walker, epoch)

    def number(self, walker: int, index: int, *, epoch: int = 0) -> int:
        """Return which sample of the epoch (0 to len() - 1) is sample `index` of a walker.

        Raises:
            OutOfRangeError: If there is no such walker, epoch or index.
        """
        return self.core.number(walker, epoch, index)

    def at_step(self, walker: int, step: int) -> tuple[int, int]:
        """Return (epoch, index) of the first sample that a walker takes in a step."""
        return self.core.at_step(walker, step)
