# SPDX-License-Identifier: Apache-2.0
"""The work of a rank between two sums of gradients: it computes, and waits for the next patch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from floodtide.errors import InvalidArgumentError

Times = NDArray[np.float64]

# of one step: with longer times, sums over steps and ranks lose short times to rounding; with shorter ones, rates
# (fields of view a second) are not finite
_SHORTEST_S, _LONGEST_S = 1e-9, 1e6

_COMPUTE, _LENGTH, _START, _FIRST_LENGTH = range(4)


class Draws:
    """Random numbers as a function of (seed, purpose, step).

    The numbers of the first ranks do not depend on the number of ranks. So runs with more ranks differ from runs with
    fewer ranks only by the additional ranks.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def at(self, purpose: int, step: int, walker: int = 0) -> np.random.Generator:
        """Return the random generator for one purpose in one step."""
        counter = [0, step, walker, purpose]
        return np.random.Generator(np.random.Philox(key=self._seed, counter=counter))


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Distribution of the time of a forward and backward pass on one field of view, independent over ranks and steps.

    Attributes:
        mean_s: Mean in seconds, 1e-9 to 1e6.
        sigma: Sigma of the lognormal factor (mean 1) that each rank draws in each step, 0 (no variation) to 5.
        samples: Measured seconds (n,) to draw from instead, scaled to mean_s. Empty: no samples.
    """

    mean_s: float
    sigma: float = 0.0
    samples: tuple[float, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for seconds in (self.mean_s, *self.samples):
            if not _SHORTEST_S <= seconds <= _LONGEST_S:
                raise InvalidArgumentError(
                    f"compute: {seconds} s, expected {_SHORTEST_S:g} to {_LONGEST_S:g} s"
                )
        if not 0 <= self.sigma <= 5:
            raise InvalidArgumentError(f"compute: sigma is {self.sigma}, expected 0 to 5")
        if self.samples and self.sigma:
            raise InvalidArgumentError("compute: both samples and sigma, expected one of them")

    def draw(self, draws: Draws, step: int, shape: tuple[int, int]) -> Times:
        """Return random seconds of a step, shape (ranks, replicas), with an even number of replicas.

        The second half of the replicas mirrors the first half (slow becomes fast). So means converge faster.
        """
        generator = draws.at(_COMPUTE, step)
        half = (shape[0], shape[1] // 2)
        if self.samples:
            values = np.sort(self.samples)
            place = generator.random(half)
            index = np.floor(np.hstack([place, 1.0 - place]) * len(values)).astype(np.int64)
            scaled: Times = values[np.minimum(index, len(values) - 1)] * (
                self.mean_s / values.mean()
            )
            return scaled
        if self.sigma:
            normal = generator.standard_normal(half)
            factor = np.exp(self.sigma * np.hstack([normal, -normal]) - 0.5 * self.sigma**2)
            return self.mean_s * factor
        return np.full(shape, self.mean_s)


@dataclass(frozen=True, kw_only=True)
class Loading:
    """Loading of patches. A walker needs a new patch when all moves on its last patch are done.

    Attributes:
        load_s: Seconds to load a patch.
        moves: Mean number of fields of view on a patch, 1 to 10,000. If it is not an integer, each patch has the next
            lower or the next higher integer. Every walker starts at a random place within a patch.
        prefetch: Number of patches that the readers of a rank keep ready for each walker. 0: a patch is loaded when it
            is needed, inside the step.
        readers: Number of patches that a rank loads at the same time.
    """

    load_s: float
    moves: float
    prefetch: int = 0
    readers: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.load_s) and self.load_s >= 0):
            raise InvalidArgumentError(f"loading: {self.load_s} s, expected at least 0")
        if not 1 <= self.moves <= 10_000:
            raise InvalidArgumentError(f"loading: {self.moves} moves a patch, expected 1 to 10,000")
        if self.prefetch < 0:
            raise InvalidArgumentError(f"loading: prefetch is {self.prefetch}, expected at least 0")
        if self.readers < 1:
            raise InvalidArgumentError(f"loading: {self.readers} readers, expected at least 1")


@dataclass(frozen=True)
class Kept:
    """Saved state of `Patches`: remaining moves and ready patches of each walker, and when the readers are free."""

    left: list[Times]
    ready: list[list[Times]]
    reader_free: Times


class Patches:
    """Patches of all walkers on all ranks in all replicas, with the times at which they are loaded.

    Args:
        loading: How patches are loaded.
        shape: (ranks, replicas).
        walkers: Number of walkers of a rank.
        draws: Random numbers for the start of each walker within its first patch, and for the moves on each patch.
    """

    def __init__(
        self, loading: Loading, shape: tuple[int, int], walkers: int, draws: Draws
    ) -> None:
        self._loading = loading
        self._draws = draws
        self._left = [
            np.floor(
                draws.at(_START, 0, walker).random(shape)
                * self._lengths(_FIRST_LENGTH, 0, walker, shape)
            )
            for walker in range(walkers)
        ]
        # For each walker, the times at which its prefetched patches are loaded, the next patch first; at the start, 0.
        self._ready = [[np.zeros(shape) for _ in range(loading.prefetch)] for _ in range(walkers)]
        self._reader_free = np.zeros((loading.readers, *shape))

    def take(self, walker: int, step: int, now: Times) -> Times:
        """Make one move of a walker on every rank at time `now`, and return the times at which its patch is ready."""
        left = self._left[walker]
        need = left == 0
        lengths = self._lengths(_LENGTH, step, walker, left.shape)
        self._left[walker] = np.where(need, lengths, left) - 1
        if not self._loading.prefetch:
            return np.where(need, now + self._loading.load_s, now)
        queue = self._ready[walker]
        taken = np.where(need, np.maximum(now, queue[0]), now)
        # The free place in the queue is filled when a reader has finished its earlier work and loaded the patch.
        first = self._reader_free.argmin(axis=0)[np.newaxis]
        free = np.take_along_axis(self._reader_free, first, axis=0)[0]
        read = np.maximum(free, taken) + self._loading.load_s
        np.put_along_axis(self._reader_free, first, np.where(need, read, free)[np.newaxis], axis=0)
        moved = [*queue[1:], read]
        self._ready[walker] = [
            np.where(need, new, old) for new, old in zip(moved, queue, strict=True)
        ]
        return taken

    def keep(self) -> Kept:
        """Return the current state, for `restore`."""
        return Kept(list(self._left), list(self._ready), self._reader_free)

    def restore(self, kept: Kept, where: NDArray[np.bool_]) -> None:
        """Return to the state `kept` for the ranks and replicas in the mask `where`."""
        self._left = [
            np.where(where, old, new) for old, new in zip(kept.left, self._left, strict=True)
        ]
        self._ready = [
            [np.where(where, old, new) for old, new in zip(olds, news, strict=True)]
            for olds, news in zip(kept.ready, self._ready, strict=True)
        ]
        self._reader_free = np.where(where, kept.reader_free, self._reader_free)

    def _lengths(
        self, purpose: int, step: int, walker: int, shape: tuple[int, ...]
    ) -> Times | float:
        """Return the number of moves on a new patch: one number for all ranks and replicas, or an array `shape`."""
        whole = math.floor(self._loading.moves)
        longer = self._loading.moves - whole
        if not longer:
            return float(whole)
        lengths: Times = whole + (
            self._draws.at(purpose, step, walker).random(shape) < longer
        ).astype(np.float64)
        return lengths
