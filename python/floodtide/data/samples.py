# SPDX-License-Identifier: Apache-2.0
"""What slices and patches have in common as training samples of U-Nets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits

Image = NDArray[np.float32]
Classes = NDArray[np.uint8]


ORDER = {
    "walkers": limits.WALKERS,
    "batch": limits.BATCH,
    "seed": limits.SEED,
    "prefetch": limits.PREFETCH,
    "readers": limits.READERS,
}


class Samples:
    """What slices and patches have in common: who gets which sample when.

    Epochs follow one another without a break, as one endless row: a step takes its next
    walkers * batch samples, `batch` for each walker. A sample comes once in an epoch; batches are
    always full; nothing depends on the number of ranks. Epoch e + 1 begins in the step in which
    epoch e ends.
    """

    core: _core.data.SampleSource

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
        """Samples of an epoch over all walkers."""
        return self.core.size

    @property
    def fixed_size(self) -> int:
        """Samples that `fixed` has: what validation takes."""
        return self.core.fixed_size

    def per_walker(self, walker: int, *, epoch: int = 0) -> int:
        """Samples of one walker in an epoch; they differ by at most `batch` between epochs."""
        return self.core.per_walker(walker, epoch)

    def number(self, walker: int, index: int, *, epoch: int = 0) -> int:
        """Which of the epoch's samples, 0 to len() - 1, is the walker's sample `index`.

        Raises:
            OutOfRangeError: If there is no such walker, epoch or index.
        """
        return self.core.number(walker, epoch, index)

    def at_step(self, walker: int, step: int) -> tuple[int, int]:
        """(epoch, index) of the first of the samples that a walker takes in a step."""
        return self.core.at_step(walker, step)
