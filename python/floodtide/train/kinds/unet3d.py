# SPDX-License-Identifier: Apache-2.0
"""3-D U-Nets, trained on the affinities of patches of labelled volumes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from floodtide import _core, nn
from floodtide.config import Config, DataConfig, UNet3DConfig, ValidationConfig
from floodtide.data import Affinities, TrainingVolume
from floodtide.errors import InvalidArgumentError
from floodtide.train.kinds import unets
from floodtide.train.kinds.kind import HeldOut, Kind, Parts, Sections
from floodtide.train.kinds.unet_task import UNetTask
from floodtide.train.kinds.volumes import (
    held_out_volume,
    training_volumes,
    validation_section,
    volume_tables,
)

_NEEDED = ("labels",)


class UNet3DKind(Kind):
    """The row "unet3d"."""

    section = UNet3DConfig
    model = nn.UNet3D
    data = Affinities
    held_out = Affinities

    def new_model(self, config: Config) -> nn.UNet3D:
        section = _section(config)
        return nn.UNet3D(
            classes=len(section.offsets),
            kernels=section.kernels,
            pools=section.pools,
            **unets.arguments_of(config),
        )

    def initial_model(self, config: Config) -> nn.UNet:
        return unets.initial_model(config, self.new_model(config))

    def data_of(self, config: Config, walkers: int) -> Affinities:
        return _affinities(config, training_volumes(config, _NEEDED), walkers)

    def held_out_of(self, config: Config) -> Affinities | None:
        if not config.validation.box:
            return None
        return _affinities(config, [held_out_volume(config, _NEEDED)], 0)

    def task_of(self, parts: Parts, config: Config) -> UNetTask:
        assert isinstance(parts.model, nn.UNet3D)
        assert isinstance(parts.data, Affinities)
        assert parts.validation is None or isinstance(parts.validation, Affinities)
        return UNetTask(parts.model, parts.data, parts.validation, parts.loss, config.training)

    def describe(self, parts: Parts, validate_every: int) -> Sections:
        model, data = parts.model, parts.data
        assert isinstance(model, nn.UNet3D)
        assert isinstance(data, Affinities)
        options = model.core.options
        return Sections(
            model=UNet3DConfig(
                offsets=data.offsets,
                kernels=_vectors(options.kernels),
                pools=_vectors(options.pools),
                **unets.section_keys(model),
            ),
            data=DataConfig(
                volumes=volume_tables(data.volumes),
                permutable_axes=data.permutable_axes,
                reflectable_axes=data.reflectable_axes,
                patch=data.patch_size,
                patches=data.patches or 0,
                zero_is_boundary=data.zero_is_boundary,
                balance=data.balance,
                prefetch=data.prefetch,
                readers=data.readers,
            ),
            training=unets.training_keys(parts),
            validation=_validation(parts.validation, data, validate_every),
        )

    def options_of(self, config: Config) -> _core.UNetOptions:
        section = _section(config)
        return _core.UNetOptions(
            classes=len(section.offsets),
            depth=section.depth,
            features=section.features,
            kernels=section.kernels,
            pools=section.pools,
            output="sigmoid",
            batch_norm=section.batch_norm,
        )

    def pass_bytes(self, config: Config, walkers: int, threads: int) -> int:
        images = unets.images_of_a_pass(config, walkers)
        return self.options_of(config).training_bytes(images, config.data.patch)

    def example_bytes(self, config: Config) -> int:
        arrays = 1 + 2 * len(
            _section(config).offsets
        )  # image, and affinities and weights of each offset
        return config.training.batch * arrays * 4 * math.prod(config.data.patch)


def _section(config: Config) -> UNet3DConfig:
    assert isinstance(config.model, UNet3DConfig)
    return config.model


def _vectors(vectors: Sequence[Sequence[int]]) -> tuple[tuple[int, int, int], ...]:
    return tuple((z, y, x) for z, y, x in vectors)


def _affinities(config: Config, volumes: list[TrainingVolume], walkers: int) -> Affinities:
    """Return patches for a number of walkers; without walkers, one at a time."""
    data = config.data
    return Affinities(
        volumes,
        patch_size=data.patch,
        offsets=_section(config).offsets,
        zero_is_boundary=data.zero_is_boundary,
        balance=data.balance,
        permutable_axes=data.permutable_axes,
        reflectable_axes=data.reflectable_axes,
        patches=data.patches or None,
        walkers=max(walkers, 1),
        batch=config.training.batch if walkers else 1,
        seed=config.run.seed,
        prefetch=data.prefetch,
        readers=data.readers,
    )


def _validation(held_out: HeldOut | None, data: Affinities, every: int) -> ValidationConfig:
    if held_out is None:
        return ValidationConfig()
    assert isinstance(held_out, Affinities)
    if held_out.offsets != data.offsets:
        raise InvalidArgumentError(
            f"Trainer: validation has affinities of offsets {held_out.offsets}, expected those of the training,"
            f" {data.offsets}"
        )
    if len(held_out.volumes) != 1 or held_out.patch_size != data.patch_size:
        raise InvalidArgumentError(
            f"Trainer: validation has {len(held_out.volumes)} volumes in patches of {held_out.patch_size}, expected one"
            f" volume in the patches of the training, {data.patch_size}"
        )
    return validation_section(held_out.volumes[0], data.volumes, every)
