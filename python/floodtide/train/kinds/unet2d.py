# SPDX-License-Identifier: Apache-2.0
"""2-D U-Nets, trained on slices with class masks."""

from __future__ import annotations

import dataclasses

from floodtide import nn
from floodtide.config import Config
from floodtide.config.networks import UNet2DConfig
from floodtide.config.sections import (
    AugmentationConfig,
    DataConfig,
    SlicesConfig,
    ValidationConfig,
    require_tables,
)
from floodtide.data import Slices, Volume
from floodtide.data.boxes import Vec3
from floodtide.data.volumes import name_of
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.train.kinds import unets
from floodtide.train.kinds.kind import DescribedSections, HeldOut, Parts
from floodtide.train.kinds.unets import UNetKind

_AUGMENTATION = [field.name for field in dataclasses.fields(AugmentationConfig)]


class UNet2DKind(UNetKind):
    """The row "unet2d"."""

    section = UNet2DConfig
    model = nn.UNet2D
    data = Slices
    held_out = Slices

    def data_of(self, config: Config, walkers: int) -> Slices:
        part = "training" if config.validation.share > 0 else "all"
        return _slices(config, config.data.slices, "data.slices", part, walkers)

    def held_out_of(self, config: Config) -> Slices | None:
        section = config.validation
        if section.slices and section.share > 0:
            raise ConfigurationError(
                "validation.slices and validation.share are both given, expected one of them"
            )
        if section.slices:
            return _slices(config, section.slices, "validation.slices", "all", 0)
        if section.share > 0:
            return _slices(config, config.data.slices, "data.slices", "validation", 0)
        return None

    def describe(self, parts: Parts, validate_every: int) -> DescribedSections:
        model, data = parts.model, parts.data
        assert isinstance(model, nn.UNet2D)
        assert isinstance(data, Slices)
        return DescribedSections(
            model=UNet2DConfig(classes=model.core.options.classes, **unets.section_keys(model)),
            data=DataConfig(
                slices=_tables(data),
                size=data.size or (0, 0),
                mean=data.mean,
                std=data.std,
                outside=data.outside,
                prefetch=data.prefetch,
                readers=data.readers,
            ),
            augmentation=AugmentationConfig(
                **{name: getattr(data, name) for name in _AUGMENTATION}
            ),
            training=unets.training_keys(parts),
            validation=_validation(parts.validation, data, validate_every),
        )

    def sample_size(self, config: Config) -> Vec3:
        if config.data.size != (0, 0):
            return 1, *config.data.size
        require_tables(config.data.slices, "data.slices")
        _, y, x = Volume(config.data.slices[0].images).shape
        return 1, y, x

    def arrays_of_sample(self, config: Config) -> int:
        return 2  # image and mask


def _slices(
    config: Config, stacks: tuple[SlicesConfig, ...], key: str, part: str, walkers: int
) -> Slices:
    """Return slices for a number of walkers; without walkers, not augmented."""
    require_tables(stacks, key)
    assert isinstance(config.model, UNet2DConfig)
    data = config.data
    augmentation = config.augmentation if walkers else AugmentationConfig()
    return Slices(
        [stack.images for stack in stacks],
        [stack.masks for stack in stacks],
        [stack.patients for stack in stacks],
        size=data.size,
        classes=config.model.classes,
        mean=data.mean,
        std=data.std,
        outside=data.outside,
        part=part,
        validation_share=config.validation.share,
        split_seed=config.validation.seed,
        walkers=max(walkers, 1),
        batch=config.training.batch if walkers else 1,
        seed=config.run.seed,
        prefetch=data.prefetch,
        readers=data.readers,
        **{name: getattr(augmentation, name) for name in _AUGMENTATION},
    )


def _tables(slices: Slices) -> tuple[SlicesConfig, ...]:
    return tuple(
        SlicesConfig(
            images=name_of(stack.images), masks=name_of(stack.masks), patients=stack.patients
        )
        for stack in slices.stacks
    )


def _validation(held_out: HeldOut | None, data: Slices, every: int) -> ValidationConfig:
    if held_out is None:
        return ValidationConfig()
    assert isinstance(held_out, Slices)
    for key in ("size", "classes", "mean", "std", "outside"):
        if getattr(held_out, key) != getattr(data, key):
            raise InvalidArgumentError(
                f"Trainer: validation has {key} {getattr(held_out, key)}, expected {getattr(data, key)}, as the"
                " training data"
            )
    if held_out.part == "validation" and held_out.stacks == data.stacks:
        split = (held_out.validation_share, held_out.split_seed)
        if data.part != "training" or split != (data.validation_share, data.split_seed):
            raise InvalidArgumentError(
                "Trainer: validation holds patients out, expected training data of part 'training' with the same"
                " validation_share and split_seed"
            )
        share, seed = split
        return ValidationConfig(every=every, share=share, seed=seed)
    if (held_out.part, data.part) != ("all", "all"):
        raise InvalidArgumentError(
            f"Trainer: validation is of part '{held_out.part}' and training of part '{data.part}', expected 'all' of"
            " both for different stacks"
        )
    return ValidationConfig(every=every, slices=_tables(held_out))
