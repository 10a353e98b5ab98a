# SPDX-License-Identifier: Apache-2.0
"""Flood-filling networks, trained on shards of labelled volumes."""

from __future__ import annotations

import math

from floodtide import _core, nn
from floodtide.config import Config, FfnConfig
from floodtide.config.sections import DataConfig, ValidationConfig
from floodtide.data import Shards
from floodtide.errors import ConfigurationError
from floodtide.nn.load import load_ffn
from floodtide.train.kinds.flood_task import FloodTask, FloodValidation
from floodtide.train.kinds.kind import DescribedSections, HeldOut, Kind, Parts
from floodtide.train.kinds.volumes import (
    held_out_volume,
    training_volumes,
    validation_section,
    volume_tables,
)

_NEEDED = ("labels", "partitions")
_ARRAYS = 3  # of an example: image, labels, canvas


class FfnKind(Kind):
    """The row "ffn"."""

    section = FfnConfig
    model = nn.FFN
    data = Shards
    held_out = FloodValidation

    def new_model(self, config: Config) -> nn.FFN:
        section, run = _section(config), config.run
        return nn.FFN(
            depth=section.depth,
            fov=section.fov,
            deltas=section.deltas,
            features=section.features,
            seed=run.seed,
            compute=run.compute,
            parallel=run.parallel,
        )

    def initial_model(self, config: Config) -> nn.FFN:
        section = _section(config)
        start = load_ffn(section.initial_weights, fov=section.fov, deltas=section.deltas)
        if (start.depth, start.features) != (section.depth, section.features):
            raise ConfigurationError(
                f"model.initial_weights: {section.initial_weights} holds a network of depth {start.depth} with "
                f"{start.features} features, expected depth {section.depth} with {section.features}"
            )
        return start

    def data_of(self, config: Config, walkers: int) -> Shards:
        data = config.data
        return Shards(
            training_volumes(config, _NEEDED),
            patch_size=_section(config).patch_size,
            walkers=walkers,
            seed=config.run.seed,
            permutable_axes=data.permutable_axes,
            reflectable_axes=data.reflectable_axes,
            softness=config.training.softness,
            coordinates=data.coordinates,
            prefetch=data.prefetch,
            readers=data.readers,
        )

    def held_out_of(self, config: Config) -> FloodValidation | None:
        section = config.validation
        if not section.box:
            return None
        return FloodValidation(
            held_out_volume(config, _NEEDED),
            patch_size=_section(config).patch_size,
            centres=section.centres,
            seed=section.seed,
        )

    def task_of(self, parts: Parts, config: Config) -> FloodTask:
        assert isinstance(parts.model, nn.FFN)
        assert isinstance(parts.data, Shards)
        assert parts.validation is None or isinstance(parts.validation, FloodValidation)
        return FloodTask(parts.model, parts.data, parts.validation, config.training)

    def describe(self, parts: Parts, validate_every: int) -> DescribedSections:
        model, data = parts.model, parts.data
        assert isinstance(model, nn.FFN)
        assert isinstance(data, Shards)
        return DescribedSections(
            model=FfnConfig(
                depth=model.depth,
                features=model.features,
                fov=model.fov,
                deltas=model.deltas,
                initial_weights=model.origin,
            ),
            data=DataConfig(
                volumes=volume_tables(data.volumes),
                permutable_axes=data.permutable_axes,
                reflectable_axes=data.reflectable_axes,
                coordinates=data.coordinates,
                prefetch=data.prefetch,
                readers=data.readers,
            ),
            training={"walkers": data.walkers, "softness": data.softness},
            validation=_validation(parts.validation, data, validate_every),
        )

    def options_of(self, config: Config) -> _core.FfnOptions:
        return _section(config).core(parallel=config.run.parallel)

    def pass_bytes(self, config: Config, walkers: int, threads: int) -> int:
        return self.options_of(config).training_bytes(_section(config).fov, walkers, threads)

    def example_bytes(self, config: Config) -> int:
        return _ARRAYS * 4 * math.prod(_section(config).patch_size)

    def canvas_voxels(self, config: Config) -> int:
        return math.prod(_section(config).patch_size)


def _section(config: Config) -> FfnConfig:
    assert isinstance(config.model, FfnConfig)
    return config.model


def _validation(held_out: HeldOut | None, data: Shards, every: int) -> ValidationConfig:
    if held_out is None:
        return ValidationConfig()
    assert isinstance(held_out, FloodValidation)
    return validation_section(
        held_out.volume, data.volumes, every, centres=held_out.centres, seed=held_out.seed
    )
