# SPDX-License-Identifier: Apache-2.0
"""3-D U-Nets, trained on the affinities of patches of labelled volumes."""

from __future__ import annotations

from collections.abc import Sequence

from floodtide import nn
from floodtide.config import Config
from floodtide.config.networks import UNet3DConfig
from floodtide.config.sections import DataConfig, ValidationConfig
from floodtide.data import Affinities, TrainingVolume
from floodtide.data.boxes import Vec3
from floodtide.errors import InvalidArgumentError
from floodtide.train.kinds import unets
from floodtide.train.kinds.kind import DescribedSections, HeldOut, Parts
from floodtide.train.kinds.unets import UNetKind
from floodtide.train.kinds.volumes import (
    held_out_volume,
    training_volumes,
    validation_section,
    volume_tables,
)

_NEEDED = ("labels",)


class UNet3DKind(UNetKind):
    """The row "unet3d"."""

    section = UNet3DConfig
    model = nn.UNet3D
    data = Affinities
    held_out = Affinities

    def data_of(self, config: Config, walkers: int) -> Affinities:
        return _affinities(config, training_volumes(config, _NEEDED), walkers)

    def held_out_of(self, config: Config) -> Affinities | None:
        if not config.validation.box:
            return None
        return _affinities(config, [held_out_volume(config, _NEEDED)], 0)

    def describe(self, parts: Parts, validate_every: int) -> DescribedSections:
        model, data = parts.model, parts.data
        assert isinstance(model, nn.UNet3D)
        assert isinstance(data, Affinities)
        options = model.core.options
        return DescribedSections(
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

    def sample_size(self, config: Config) -> Vec3:
        return config.data.patch

    def arrays_of_sample(self, config: Config) -> int:
        return 1 + 2 * self.options_of(config).classes  # image; affinities and weights of offsets


def _vectors(vectors: Sequence[Sequence[int]]) -> tuple[tuple[int, int, int], ...]:
    return tuple((z, y, x) for z, y, x in vectors)


def _affinities(config: Config, volumes: list[TrainingVolume], walkers: int) -> Affinities:
    """Return patches for a number of walkers; without walkers, one at a time."""
    assert isinstance(config.model, UNet3DConfig)
    data = config.data
    return Affinities(
        volumes,
        patch_size=data.patch,
        offsets=config.model.offsets,
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
