# SPDX-License-Identifier: Apache-2.0
"""Flood-filling networks, trained on shards of labelled volumes and validated at fixed centres."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from floodtide import _core, nn
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.base.tasks import FloodTask
from floodtide.comm import world
from floodtide.config import Config, TrainingConfig
from floodtide.data import Shards, TrainingVolume, Vec3
from floodtide.data.boxes import as_vec3
from floodtide.data.volumes import sources_of
from floodtide.errors import InvalidArgumentError
from floodtide.train.learners.learner import Learner, Record, held_out_volume

_VALIDATION = Arguments(patch_size=limits.PATCH, centres=limits.CENTRES, seed=limits.SEED)

_ARRAYS = 3  # of an example: image, labels, canvas


@dataclass(frozen=True, eq=False)
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

    volume: TrainingVolume
    patch_size: Vec3
    centres: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "patch_size", as_vec3(self.patch_size))
        numbers = {name: getattr(self, name) for name in ("patch_size", "centres", "seed")}
        _VALIDATION.check("FloodValidation", **numbers)
        _ = self._set  # raises for a volume that does not fit

    @functools.cached_property
    def _set(self) -> _core.ValidationSet:
        return _core.ValidationSet(
            sources_of(self.volume)[0],
            patch_size=list(self.patch_size),
            centres=self.centres,
            seed=self.seed,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and copy keep: all but the set of the core, which is made again."""
        return {name: value for name, value in vars(self).items() if name != "_set"}

    def run(
        self,
        model: nn.FFN,
        training: TrainingConfig | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> _core.ValidationResult:
        """Return the scores of a network on the set. Collective.

        Args:
            training: Its `seed_pad`, `threshold` and `softness` are used; None: the defaults of a configuration.
            progress: Called as progress(done, total) after each centre.

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
            progress=progress,
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
            patch_size=cls.patch_size(config),
            walkers=walkers,
            seed=config.run.seed,
            softness=config.training.softness,
        )

    @classmethod
    def held_out_of(cls, config: Config) -> FloodValidation | None:
        section, held_out = config.validation, held_out_volume(config)
        if held_out is None:
            return None
        return FloodValidation(
            held_out, patch_size=cls.patch_size(config), centres=section.centres, seed=section.seed
        )

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
    def pass_bytes(cls, config: Config, walkers: int, threads: int) -> int:
        options = cls.options_of(config)
        return int(options.training_bytes(options.fov, walkers, threads))

    @classmethod
    def example_bytes(cls, config: Config) -> int:
        return _ARRAYS * 4 * cls.canvas_voxels(config)

    @classmethod
    def canvas_voxels(cls, config: Config) -> int:
        return math.prod(cls.patch_size(config))

    @staticmethod
    def patch_size(config: Config) -> Vec3:
        network: Any = config.model
        return as_vec3(network.patch_size)

    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        training = self._config.training
        return _core.flood_walkers(
            self._model.core,
            self._data.core,
            self._walkers_options(comm),
            seed_pad=training.seed_pad,
            threshold=training.threshold,
        )

    def validate(self, model: Any) -> Record:
        scores: Record = self.held_out.run(model, self._config.training).summary()
        return scores
