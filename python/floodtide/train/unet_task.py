# SPDX-License-Identifier: Apache-2.0
"""What U-Nets are trained on: slices with class masks, or patches of volumes with affinities; and their validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from floodtide import _core, nn
from floodtide.comm import world
from floodtide.config import Config, SlicesConfig, UNet2DConfig, UNet3DConfig, require_tables
from floodtide.data import parse_box
from floodtide.errors import ConfigurationError

_AXES = ("z", "y", "x")

AffinitySource = _core.data.AffinitySource
SampleSource = _core.data.SampleSource
SliceSource = _core.data.SliceSource


class UNetTask:
    """Network, walkers and validation of a run of kind `unet2d` or `unet3d` on this rank. Not collective.

    Args:
        config: The whole configuration.
        walkers: Their number, over all ranks.
    """

    def __init__(self, config: Config, walkers: int) -> None:
        training = config.training
        self._config = config
        self._walkers = walkers
        slices = isinstance(config.model, UNet2DConfig)
        self.unit = "slices" if slices else "patches"  # what a walker computes in a pass
        self.model = build_model(config)
        self.average = build_model(config) if training.average > 0 else None
        self._samples: SampleSource
        held_out: SampleSource | None
        if slices:
            self._samples = training_slices = slice_source(config, walkers)
            self._plan(self._samples.shape[1:])
            held_out = held_out_slices(config)
            _check_masks(training_slices)
            if held_out is not None:
                _check_masks(held_out)
                _core.data.require_different_patients(training_slices, held_out)
        else:
            self._samples = patch_source(config, walkers)
            self._plan(self._samples.shape)
            held_out = held_out_patches(config)
        self.validation = None if held_out is None else UNetValidation(held_out)

    def _plan(self, size: tuple[int, ...]) -> None:
        """Choose the kernels of the network for training samples of this size."""
        self.model.forward(np.zeros((1, *size), np.float32))

    def new_model(self) -> nn.UNet:
        """A network as this run begins with."""
        return build_model(self._config)

    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        """The walkers that this rank of the core's communicator has."""
        config, training = self._config, self._config.training
        loss = nn.SegmentationLoss(
            dice=float("dice" in training.loss),
            cross_entropy=float("cross_entropy" in training.loss),
            over_batch=training.dice == "batch",
            background=training.background,
            smooth=training.smooth,
        )
        return _core.sample_walkers(
            self.model.core,
            self._samples,
            comm,
            loss.core(),
            walkers=self._walkers,
            seed=config.run.seed,
            prefetch=config.data.prefetch,
            readers=config.data.readers,
            cycle=training.on_exhausted == "cycle",
            epochs=training.epochs,
        )

    @property
    def examples(self) -> int:
        """Slices or patches of an epoch, over all walkers."""
        return self._samples.size

    @property
    def facts(self) -> dict[str, Any]:
        """What else the log's first record says."""
        return {}

    @property
    def kernels(self) -> str:
        """The kernels of the network's convolutions."""
        return self.model.core.kernel_names()


class UNetValidation:
    """Samples that training does not see, always the same."""

    def __init__(self, samples: SampleSource) -> None:
        self._samples = samples

    def run(
        self, model: nn.UNet, progress: Callable[[int, int], None] | None = None
    ) -> SegmentationScores:
        """Scores of a network. Collective.

        Returns:
            An object with `summary()`, a dictionary: of slices the Dice of each class, pooled over all pixels and
            of each patient; of patches the average precision of each affinity; each beside trivial predictors.
            The same on every rank and for every number of ranks.
        """
        scores = _core.score_segmentation(model.core, self._samples, world.current(), progress)
        return SegmentationScores(scores, self._samples)


class SegmentationScores:
    """Scores of a U-Net over the samples of a source."""

    def __init__(self, scores: Mapping[str, Any], samples: SampleSource) -> None:
        self._scores = scores
        self._samples = samples

    def summary(self) -> dict[str, Any]:
        """Return the scores as a record of the log; see `UNetValidation.run`."""
        scores = self._scores
        result: dict[str, Any] = {
            "cross_entropy": scores["cross_entropy"],
            "samples": scores["samples"],
        }
        if self._samples.labelled:
            result["classes"] = [self._of_class(k) for k in range(1, self._samples.outputs)]
            result["patients"] = self._samples.groups
        else:
            result["affinities"] = {
                axis: dict(row) for axis, row in zip(_AXES, scores["affinities"], strict=True)
            }
        return result

    def _of_class(self, number: int) -> dict[str, Any]:
        dice = self._scores["dice"]
        groups = [dice.group(i, number) for i in range(len(self._samples.groups))]
        return {
            "class": number,
            "dice_pooled": dice.pooled(number),
            "dice_mean": dice.mean_over_groups(number),
            "dice_patients": groups,
            "dice_everything": self._scores["dice_everything"][number],
        }


def _check_masks(slices: SliceSource) -> None:
    """Look at this rank's share of the masks, rather than stop when a wrong one comes up."""
    rank, ranks, total = world.rank(), world.size(), slices.fixed_size
    slices.check_masks(total * rank // ranks, total * (rank + 1) // ranks, None)


def build_model(config: Config) -> nn.UNet:
    """The network of a configuration, with its initial weights."""
    section = config.model
    shared: dict[str, Any] = {
        "depth": section.depth,
        "features": section.features,
        "seed": config.run.seed,
        "compute": config.run.compute,
    }
    model: nn.UNet
    if isinstance(section, UNet2DConfig):
        model = nn.UNet2D(classes=section.classes, **shared, **_regularisation(section))
    elif isinstance(section, UNet3DConfig):
        model = nn.UNet3D(
            kernels=section.kernels, pools=section.pools, **shared, **_regularisation(section)
        )
    else:
        raise ConfigurationError(f"model.kind is '{section.kind}', expected a U-Net's")
    if section.initial_weights:
        start = nn.load(section.initial_weights)
        if repr(start) != repr(model):
            raise ConfigurationError(
                f"model.initial_weights: {section.initial_weights} holds {start!r}, expected {model!r}"
            )
        model.load_state_dict(start.state_dict())
    return model


def _regularisation(section: UNet2DConfig | UNet3DConfig) -> dict[str, Any]:
    return {
        "batch_norm": section.batch_norm,
        "synchronised": section.synchronised,
        "dropout": section.dropout,
    }


def slice_source(config: Config, walkers: int) -> SliceSource:
    """The training slices of a configuration."""
    part = "training" if config.validation.share > 0 else "all"
    return _slices(config, config.data.slices, "data.slices", part, walkers)


def patch_source(config: Config, walkers: int) -> AffinitySource:
    """The training patches of a configuration."""
    return _patches(config, range(len(config.data.volumes)), None, walkers)


def held_out_slices(config: Config) -> SliceSource | None:
    """Return the slices for validation; None if the configuration holds nothing out."""
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


def held_out_patches(config: Config) -> AffinitySource | None:
    """Return the patches for validation; None if the configuration holds nothing out."""
    section = config.validation
    if not section.box:
        return None
    names = [volume.name for volume in config.data.volumes]
    name = section.volume or names[0]
    if name not in names:
        raise ConfigurationError(
            f"validation.volume is '{name}', expected one of: {', '.join(names)}"
        )
    return _patches(config, [names.index(name)], section.box, 0)


def _slices(
    config: Config, stacks: Sequence[SlicesConfig], key: str, part: str, walkers: int
) -> SliceSource:
    """Slices for that many walkers; for none of them, without augmentation."""
    require_tables(stacks, key)
    assert isinstance(config.model, UNet2DConfig)
    augmentation = config.augmentation if walkers else type(config.augmentation)()
    return _core.data.SliceSource(
        [(stack.images, stack.masks, stack.patients) for stack in stacks],
        size=list(config.data.size),
        classes=config.model.classes,
        mean=config.data.mean,
        std=config.data.std,
        outside=config.data.outside,
        part=part,
        validation_share=config.validation.share,
        split_seed=config.validation.seed,
        flip_y=augmentation.flip_y,
        flip_x=augmentation.flip_x,
        rotation_deg=augmentation.rotation_deg,
        scale=augmentation.scale,
        gain=augmentation.gain,
        offset=augmentation.offset,
        noise=augmentation.noise,
        walkers=max(walkers, 1),
        batch=config.training.batch if walkers else 1,
        seed=config.run.seed,
    )


def _patches(
    config: Config, volumes: Sequence[int], box: str | None, walkers: int
) -> AffinitySource:
    """Patches of some of the volumes, of another box if one is given."""
    require_tables(config.data.volumes, "data.volumes")
    sources = []
    for index in volumes:
        volume = config.data.volumes[index]
        if not volume.labels:
            raise ConfigurationError(
                f"data.volumes.{index}.labels is empty, expected file:dataset (volume '{volume.name}')"
            )
        part = parse_box(volume.box if box is None else box)
        sources.append((volume.name, volume.image, volume.labels, part, volume.mean, volume.std))
    return _core.data.AffinitySource(
        sources,
        patch_size=list(config.data.patch),
        zero_is_boundary=config.data.zero_is_boundary,
        balance=config.data.balance,
        permutable_axes=list(config.data.permutable_axes),
        reflectable_axes=list(config.data.reflectable_axes),
        patches=config.data.patches or None,
        walkers=max(walkers, 1),
        batch=config.training.batch if walkers else 1,
        seed=config.run.seed,
    )
