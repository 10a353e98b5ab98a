# SPDX-License-Identifier: Apache-2.0
"""What sources of samples have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.data_options import DataOptions
from floodtide.base.options import Arguments
from floodtide.base.pickling import NotPickled

Image = NDArray[np.float32]
Classes = NDArray[np.uint8]

_ORDER = Arguments(walkers=limits.WALKERS, batch=limits.BATCH, seed=limits.SEED)


class Samples(NotPickled):
    """Base of `Patches`.

    Epochs follow one another without a gap. A step takes the next walkers * batch samples, `batch` for
    each walker. Each sample comes once in an epoch, and batches are always full. If an epoch ends inside
    a step, the next epoch starts in the same step. The order does not depend on the number of ranks.

    Attributes:
        core: The source of the compiled core, which also tells which walker gets which sample in which step.
        options: What the samples are made of.
        walkers, batch, seed: The arguments.
    """

    core: _core.data.PatchSource
    not_pickled = "the core reads its volumes ahead; expected a new one in each process"

    def __init__(self, options: DataOptions, walkers: int, batch: int, seed: int) -> None:
        _ORDER.check(type(self).__name__, walkers=walkers, batch=batch, seed=seed)
        self.options = options
        self.walkers = walkers
        self.batch = batch
        self.seed = seed

    def __len__(self) -> int:
        """Return the number of samples of an epoch, over all walkers."""
        return self.core.size

    @property
    def fixed_size(self) -> int:
        """Number of samples that `fixed` returns: the samples of a validation."""
        return self.core.fixed_size
