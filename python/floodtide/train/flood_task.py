# SPDX-License-Identifier: Apache-2.0
"""What a flood-filling network is trained on: examples of labelled volumes, and the fixed centres of validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from floodtide import _core, nn
from floodtide.comm import world
from floodtide.config import Config, FfnConfig, VolumeConfig, require_tables
from floodtide.data import Box, parse_box
from floodtide.errors import ConfigurationError

Source = tuple[str, str, str, str, Box | None, float, float]
"""Name, image, labels, partitions, box, mean and standard deviation of a training volume."""


class FloodTask:
    """Network, walkers and validation of a run of kind `ffn` on this rank. Not collective.

    Args:
        config: The whole configuration.
        walkers: Their number, over all ranks.
    """

    unit = "fovs"  # what a walker computes in a pass

    def __init__(self, config: Config, walkers: int) -> None:
        training = config.training
        self._config = config
        self._walkers = walkers
        self.model = build_model(config)
        self.average = build_model(config) if training.average > 0 else None
        self._examples = _core.data.ExampleSource(
            [source(volume, index) for index, volume in enumerate(_volumes(config))],
            patch_size=patch_size(config),
            seed=config.run.seed,
            walkers=walkers,
            permutable_axes=list(config.data.permutable_axes),
            reflectable_axes=list(config.data.reflectable_axes),
            softness=training.softness,
            coordinates=config.data.coordinates or None,
            progress=None,
        )
        self._most_moves = most_moves(config)
        self.validation = FloodValidation(config) if config.validation.box else None

    def new_model(self) -> nn.FFN:
        """A network as this run begins with."""
        return build_model(self._config)

    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        """The walkers that this rank of the core's communicator has."""
        config, training = self._config, self._config.training
        return _core.flood_walkers(
            self.model.core,
            self._examples,
            comm,
            walkers=self._walkers,
            seed=config.run.seed,
            prefetch=config.data.prefetch,
            readers=config.data.readers,
            cycle=training.on_exhausted == "cycle",
            epochs=training.epochs,
            seed_pad=training.seed_pad,
            threshold=training.threshold,
        )

    @property
    def examples(self) -> int:
        """Examples of an epoch, over all walkers."""
        return self._examples.examples

    @property
    def facts(self) -> dict[str, Any]:
        """What else the log's first record says."""
        return {"shard_imbalance": self._examples.imbalance(self._most_moves)}

    def delay_loads(self, seconds: float) -> None:
        """For benchmarks: every load of an example sleeps so long first, from now on."""
        self._examples.set_load_delay(seconds)

    @property
    def kernels(self) -> str:
        """The kernels of the network's convolutions."""
        return self.model.core.kernel_names()


class FloodValidation:
    """The fixed set of centres of a configuration's [validation] section."""

    def __init__(self, config: Config) -> None:
        section = config.validation
        names = [volume.name for volume in _volumes(config)]
        name = section.volume or names[0]
        if name not in names:
            raise ConfigurationError(
                f"validation.volume is '{name}', expected one of: {', '.join(names)}"
            )
        index = names.index(name)
        volume = dataclasses.replace(config.data.volumes[index], box=section.box)
        self._set = _core.ValidationSet(
            source(volume, index),
            patch_size=patch_size(config),
            centres=section.centres,
            seed=section.seed,
        )
        self._config = config

    def run(
        self, model: nn.FFN, progress: Callable[[int, int], None] | None = None
    ) -> _core.ValidationResult:
        """Scores of a network on the set. Collective.

        Returns:
            An object with `summary()` (a dictionary of pooled scores beside the trivial
            predictors') and `first_pass_centres`, `moves_centres`: float64 arrays (centres, 6) of
            cross-entropy sum (nats), voxels, TP, FP, FN, TN at probability 0.5. The same on every
            rank and for every number of ranks.
        """
        training = self._config.training
        return _core.validate(
            model.core,
            self._set,
            seed_pad=training.seed_pad,
            threshold=training.threshold,
            softness=training.softness,
            seed=self._config.validation.seed,
            communicator=world.current(),
            progress=progress,
        )


def build_model(config: Config) -> nn.FFN:
    """The network of a configuration, with its initial weights."""
    section = _ffn(config)
    model = nn.FFN(
        depth=section.depth,
        fov=section.fov,
        deltas=section.deltas,
        features=section.features,
        seed=config.run.seed,
        compute=config.run.compute,
        parallel=config.run.parallel,
    )
    if section.initial_weights:
        start = nn.load_ffn(section.initial_weights, fov=section.fov, deltas=section.deltas)
        if (start.depth, start.features) != (section.depth, section.features):
            raise ConfigurationError(
                f"model.initial_weights: {section.initial_weights} holds a network of depth {start.depth} with "
                f"{start.features} features, expected depth {section.depth} with {section.features}"
            )
        model.load_state_dict(start.state_dict())
    return model


def patch_size(config: Config) -> list[int]:
    """Voxels (z, y, x) of a training example: the field of view and one step on each side."""
    section = _ffn(config)
    return [f + 2 * d for f, d in zip(section.fov, section.deltas, strict=True)]


def most_moves(config: Config) -> int:
    """Fields of view on an example if all moves are made: the centre and a step along every axis that has one."""
    return int(3 ** sum(delta > 0 for delta in _ffn(config).deltas))


def _ffn(config: Config) -> FfnConfig:
    if not isinstance(config.model, FfnConfig):
        raise ConfigurationError(
            f"model.kind is '{config.model.kind}', expected 'ffn', a flood-filling network"
        )
    return config.model


def source(volume: VolumeConfig, index: int) -> Source:
    """What the core opens a training volume from; `index` is its place in the configuration."""
    for key in ("labels", "partitions"):
        if not getattr(volume, key):
            raise ConfigurationError(
                f"data.volumes.{index}.{key} is empty, expected file:dataset (volume '{volume.name}')"
            )
    box = parse_box(volume.box)
    return (
        volume.name,
        volume.image,
        volume.labels,
        volume.partitions,
        box,
        volume.mean,
        volume.std,
    )


def _volumes(config: Config) -> tuple[VolumeConfig, ...]:
    require_tables(config.data.volumes, "data.volumes")
    return config.data.volumes
