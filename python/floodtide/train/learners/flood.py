# SPDX-License-Identifier: Apache-2.0
"""Flood-filling networks, trained on shards of labelled volumes and validated at fixed centres."""

from __future__ import annotations

import math
from typing import Any, cast

from floodtide import _core, nn
from floodtide.base.tasks import FloodTask
from floodtide.comm import world
from floodtide.config import Config, TrainingConfig
from floodtide.data import Shards, TrainingVolume, Vec3
from floodtide.data.boxes import as_vec3
from floodtide.data.volumes import sources_of
from floodtide.errors import InvalidArgumentError
from floodtide.train.learners.learner import Learner, Record, held_out_volume

_ARRAYS = 3  # of an example: image, labels, canvas


def patch_size(config: Config) -> Vec3:
    """Return the size (z, y, x) of a training example in voxels: the field of view and one step to each side."""
    network: Any = config.model
    return as_vec3(network.patch_size)


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
        self, volume: TrainingVolume, patch_size: Vec3, centres: int = 64, seed: int = 0
    ) -> None:
        self.volume, self.centres, self.seed = volume, centres, seed
        self.patch_size, sources = as_vec3(patch_size), sources_of(volume)[0]
        size = list(self.patch_size)
        self._set = _core.ValidationSet(sources, patch_size=size, centres=centres, seed=seed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how pickle and copy make this again, with the set of the core."""
        return type(self), (self.volume, self.patch_size, self.centres, self.seed)

    def run(self, model: nn.FFN, training: TrainingConfig | None = None) -> _core.ValidationResult:
        """Return the scores of a network on the set. Collective.

        Args:
            training: Its `seed_pad`, `threshold` and `softness` are used; None: the defaults of a configuration.

        Returns:
            An object with `summary()` (a dictionary of pooled scores, with the scores of trivial
            predictors beside) and `first_pass_centres`, `moves_centres`: float64 arrays (centres, 6) of
            cross-entropy sum (nats), voxels, TP, FP, FN, TN at probability 0.5. The same on every
            rank and for every number of ranks.
        """
        training = training or TrainingConfig()
        return _core.validate(
            model.core,
            self._set,
            seed_pad=training.seed_pad,
            threshold=training.threshold,
            softness=training.softness,
            seed=self.seed,
            communicator=world.current(),
            progress=None,
        )


class FloodLearner(Learner):
    """Walkers and validation of a flood-filling network on this rank. Not collective."""

    data_class = Shards

    def __init__(self, config: Config, model: nn.FFN, data: Shards) -> None:
        if data.patch_size != model.patch_size:
            raise InvalidArgumentError(
                f"Trainer: data has patch_size {data.patch_size}, expected {model.patch_size}, the network's field of"
                " view and one step to each side (FFN.patch_size)"
            )
        super().__init__(config, model, data)

    @classmethod
    def data_of(cls, config: Config, walkers: int) -> Shards:
        return Shards(
            config.data.volumes,
            config.data,
            config.augmentation,
            patch_size=patch_size(config),
            walkers=walkers,
            seed=config.run.seed,
            softness=config.training.softness,
        )

    @classmethod
    def held_out_of(cls, config: Config) -> FloodValidation | None:
        section, held_out = config.validation, held_out_volume(config)
        if held_out is None:
            return None
        return FloodValidation(held_out, patch_size(config), section.centres, section.seed)

    @classmethod
    def sections_of(cls, model: nn.FFN, data: Shards) -> dict[str, Any]:
        return super().sections_of(model, data) | {
            "task": FloodTask(),
            "run": {"parallel": model.core.options.parallel},
            "training": {"walkers": data.walkers, "softness": data.softness},
        }

    @staticmethod
    def options_of(config: Config, **others: Any) -> Any:
        return config.model.core(parallel=config.run.parallel, **others)

    @classmethod
    def bytes_of(cls, config: Config, walkers: int, threads: int) -> tuple[int, int, int]:
        options, canvas = cls.options_of(config), 4 * math.prod(patch_size(config))
        return options.training_bytes(options.fov, walkers, threads), _ARRAYS * canvas, canvas

    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        training = self._config.training
        return _core.flood_walkers(
            self.model.core,
            self.data.core,
            self._walkers_options(comm),
            seed_pad=training.seed_pad,
            threshold=training.threshold,
        )

    def validate(self, model: Any) -> Record:
        return cast(Record, self.held_out.run(model, self._config.training).summary())
