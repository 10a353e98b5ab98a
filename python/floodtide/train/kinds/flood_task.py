# SPDX-License-Identifier: Apache-2.0
"""Training task for flood-filling networks: examples of labelled volumes, and validation at fixed centres."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from floodtide import _core, nn
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.comm import world
from floodtide.config import TrainingConfig
from floodtide.data import Shards, TrainingVolume, Vec3
from floodtide.data.boxes import as_vec3
from floodtide.data.training_volume import source_of
from floodtide.errors import InvalidArgumentError
from floodtide.train.task import Record, Task

_VALIDATION = Arguments(patch_size=limits.PATCH, centres=limits.CENTRES, seed=limits.SEED)

_LEAST_GAIN = 0.01  # a network that has died still knows the voxel at the seed


class FloodValidation:
    """A fixed set of centres of a held-out volume, balanced over the partition classes 1 to 13.

    Args:
        volume: The held-out volume; `box` is the held-out part.
        patch_size: Size (z, y, x) of a patch in voxels: `FFN.patch_size` of the network to validate.
        centres: Number of centres.
        seed: Chooses the centres.

    Raises:
        InvalidFileError: If a volume cannot be read or is of a wrong type.
        InvalidArgumentError: For a number out of range, or if no patch fits.
    """

    def __init__(
        self, volume: TrainingVolume, *, patch_size: Vec3, centres: int = 64, seed: int = 0
    ) -> None:
        _VALIDATION.check("FloodValidation", patch_size=patch_size, centres=centres, seed=seed)
        self.volume = volume
        self.patch_size = as_vec3(patch_size)
        self.centres = centres
        self.seed = seed
        self._set = _core.ValidationSet(
            source_of(volume, partitions=True),
            patch_size=list(patch_size),
            centres=centres,
            seed=seed,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make this set again, for pickle and copy."""
        again = functools.partial(
            FloodValidation,
            self.volume,
            patch_size=self.patch_size,
            centres=self.centres,
            seed=self.seed,
        )
        return again, ()

    def run(
        self,
        model: nn.FFN,
        *,
        seed_pad: float = 0.05,
        threshold: float = 0.9,
        softness: float = 0.05,
        progress: Callable[[int, int], None] | None = None,
    ) -> _core.ValidationResult:
        """Return the scores of a network on the set. Collective.

        Args:
            model: The network.
            seed_pad: Probability that an unvisited voxel starts with.
            threshold: Probability at the centre of a field of view from which a move is made.
            softness: Soft labels are 1 - softness inside the object and softness outside.
            progress: Called as progress(done, total) after each centre.

        Returns:
            An object with `summary()` (a dictionary of pooled scores next to those of trivial
            predictors) and `first_pass_centres`, `moves_centres`: float64 arrays (centres, 6) of
            cross-entropy sum (nats), voxels, TP, FP, FN, TN at probability 0.5. The same on every
            rank and for every number of ranks.
        """
        return _core.validate(
            model.core,
            self._set,
            seed_pad=seed_pad,
            threshold=threshold,
            softness=softness,
            seed=self.seed,
            communicator=world.current(),
            progress=progress,
        )


class FloodTask(Task):
    """Walkers and validation of a flood-filling network on this rank. Not collective.

    Raises:
        InvalidArgumentError: If the examples do not fit the network's field of view and step.
    """

    unit = "fovs"

    def __init__(
        self,
        model: nn.FFN,
        data: Shards,
        validation: FloodValidation | None,
        training: TrainingConfig,
    ) -> None:
        for what, patches in (("data", data), ("validation", validation)):
            if patches is not None and patches.patch_size != model.patch_size:
                raise InvalidArgumentError(
                    f"Trainer: {what} has patch_size {patches.patch_size}, expected {model.patch_size}, the network's"
                    " field of view and one step to each side (FFN.patch_size)"
                )
        super().__init__(model, data, validation, training)
        steps = sum(delta > 0 for delta in model.deltas)
        self._most_moves = 3**steps  # the centre, and a step along every axis that has one

    @property
    def facts(self) -> Record:
        """The imbalance of the walkers' shards, for the log's first record."""
        return {"shard_imbalance": self._data.imbalance(self._most_moves)}

    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        """Return the walkers of this rank of a communicator, at the start of the first epoch."""
        training = self._training
        return _core.flood_walkers(
            self._model.core,
            self._data.core,
            self._walkers_options(comm),
            seed_pad=training.seed_pad,
            threshold=training.threshold,
        )

    def validate(self, model: Any) -> Record:
        """Return the validation scores of a network. Collective."""
        assert self._validation is not None  # the trainer asks only if the task validates
        scores: Record = self._validation.run(
            model,
            seed_pad=self._training.seed_pad,
            threshold=self._training.threshold,
            softness=self._data.softness,
        ).summary()
        return scores

    def beats_trivial(self, scores: Record) -> bool:
        """Return True if the order of the voxels of the first pass tells something about the object.

        The average precision of a random order is the share of object voxels. The cross-entropy is no measure of hope:
        early in training it often is worse than that of the best constant, although the order is good.
        """
        share: float = scores["trivial"]["all_object"]["accuracy_50"]
        found: float = scores["first_pass"]["average_precision"]
        return found > share + _LEAST_GAIN
