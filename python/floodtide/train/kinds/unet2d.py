# SPDX-License-Identifier: Apache-2.0
"""2-D U-Nets, trained on slices with class masks."""

from __future__ import annotations

import dataclasses
import math

from floodtide import _core, nn
from floodtide.config import (
    AugmentationConfig,
    Config,
    DataConfig,
    SlicesConfig,
    UNet2DConfig,
    ValidationConfig,
    require_tables,
)
from floodtide.data import Slices, Volume
from floodtide.data.volumes import name_of
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.train.kinds import unets
from floodtide.train.kinds.kind import HeldOut, Kind, Parts, Sections
from floodtide.train.kinds.unet_task import UNetTask

_ARRAYS = 2  # of a slice: image, mask
_AUGMENTATION = [field.name for field in dataclasses.fields(AugmentationConfig)]


class UNet2DKind(Kind):
    """The row "unet2d"."""

    section = UNet2DConfig
    model = nn.UNet2D
    data = Slices
    held_out = Slices

    def new_model(self, config: Config) -> nn.UNet2D:
        return nn.UNet2D(classes=_section(config).classes, **unets.arguments_of(config))

    def initial_model(self, config: Config) -> nn.UNet:
        return unets.initial_model(config, self.new_model(config))

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

    def task_of(self, parts: Parts, config: Config) -> UNetTask:
        assert isinstance(parts.model, nn.UNet2D)
        assert isinstance(parts.data, Slices)
        assert parts.validation is None or isinstance(parts.validation, Slices)
        return UNetTask(parts.model, parts.data, parts.validation, parts.loss, config.training)

    def describe(self, parts: Parts, validate_every: int) -> Sections:
        model, data = parts.model, parts.data
        assert isinstance(model, nn.UNet2D)
        assert isinstance(data, Slices)
        return Sections(
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

    def options_of(self, config: Config) -> _core.UNetOptions:
        section = _section(config)
        return _core.UNetOptions(
            classes=section.classes,
            depth=section.depth,
            features=section.features,
            kernels=nn.SLICE_KERNELS,
            pools=nn.SLICE_POOLS,
            output="softmax",
            batch_norm=section.batch_norm,
        )

    def pass_bytes(self, config: Config, walkers: int, threads: int) -> int:
        images = unets.images_of_a_pass(config, walkers)
        return self.options_of(config).training_bytes(images, (1, *_size(config)))

    def example_bytes(self, config: Config) -> int:
        return config.training.batch * _ARRAYS * 4 * math.prod(_size(config))


def _section(config: Config) -> UNet2DConfig:
    assert isinstance(config.model, UNet2DConfig)
    return config.model


def _size(config: Config) -> tuple[int, int]:
    """Return the size (y, x) in pixels of a slice."""
    if config.data.size != (0, 0):
        return config.data.size
    require_tables(config.data.slices, "data.slices")
    _, y, x = Volume(config.data.slices[0].images).shape
    return y, x


def _slices(
    config: Config, stacks: tuple[SlicesConfig, ...], key: str, part: str, walkers: int
) -> Slices:
    """Return slices for a number of walkers; without walkers, not augmented."""
    require_tables(stacks, key)
    data = config.data
    augmentation = config.augmentation if walkers else AugmentationConfig()
    return Slices(
        [stack.images for stack in stacks],
        [stack.masks for stack in stacks],
        [stack.patients for stack in stacks],
        size=data.size,
        classes=_section(config).classes,
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
