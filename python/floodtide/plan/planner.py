# SPDX-License-Identifier: Apache-2.0
"""TrainingPlan a training on a labelled volume: every value of the configuration, each with its reason.

The anchor is nnU-Net: look at the data, choose by rules, print every choice with its reason (Isensee et al., Nature
Methods 18 (2021), 203-211). `flooding` and `affinities` have the rules of the two kinds of networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from floodtide import _core, config
from floodtide.base import limits
from floodtide.base.counts import count_of
from floodtide.base.reading import parse_toml
from floodtide.data import Vec3, Volume, look
from floodtide.data.formats.geometry import SizeNm, size_text
from floodtide.data.look import problems
from floodtide.data.look.image import ImageStatistics
from floodtide.data.volumes import labels_of
from floodtide.errors import InvalidArgumentError
from floodtide.plan import document, geometry, judging
from floodtide.plan.affinities import affinities_recipe
from floodtide.plan.flooding import flooding_recipe
from floodtide.plan.geometry import Split
from floodtide.plan.wish import FEW_STEPS, Recipe, Wish
from floodtide.train.setup import needed_bytes

VALIDATIONS = 4
"""Validations of a training."""
TRAINED_SHARE = 0.8
"""Share of the time for training steps; the rest is for validation, checkpoints and reading."""
_EQUAL_SIZES = 1.05  # ratio of voxel sizes along two axes up to which the axes count as alike


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """A configuration with reasons.

    Attributes:
        sections: The sections of the configuration, as TOML.
        head: Facts about the data, the time and the memory.
        notes: What does not fit together; empty if all is well.
    """

    sections: str
    head: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def tables(self) -> dict[str, Any]:
        """The configuration as nested tables, as TOML has them."""
        return parse_toml(self.sections, "the plan")

    @property
    def config(self) -> config.Config:
        """The configuration."""
        return config.from_dict(self.tables, "the plan")

    @property
    def text(self) -> str:
        """The TOML file."""
        what = f"{document.MARK}. The reason of each value stands above it; change what you know better."
        head = [what, *self.head, *(f"NOTE: {note}" for note in self.notes)]
        return "".join(map(document.comment, head)) + "\n" + self.sections


def make_plan(wish: Wish) -> TrainingPlan:
    """Look at a volume and return the plan of a training. A few training passes are run to measure this machine.

    Raises:
        InvalidArgumentError: If the volume is too small or has no objects.
        InvalidFileError: If a volume cannot be read, or is of a wrong type.
        ShapeError: If image and labels have different shapes.
    """
    image, labels = Volume(wish.image), labels_of(wish.labels)
    recipe = (affinities_recipe if wish.network == "affinities" else flooding_recipe)(image, wish)
    split = _split(image, labels, recipe)
    seen = look.image_statistics(image, box=split.training, voxel_size_nm=wish.voxel_size_nm)
    mean, std, levels = judging.levels_for(seen, wish.start, "the training box")
    notes = _notes(image, labels, seen, wish, mean, std)
    minutes = count_of(wish.minutes, "minute")
    rate = recipe.rate()
    examples = 60 * wish.minutes * TRAINED_SHARE * rate
    walkers = recipe.walkers(examples)
    steps = min(max(10, round(examples / walkers)), int(limits.UPDATES.maximum))
    if steps < FEW_STEPS:
        notes.append(
            f"only {steps} steps fit into {minutes}, too few to learn from: give more --minutes"
        )
    sections = document.sections(
        wish.network,
        flooding=wish.network == "ffn",
        wish=wish,
        split=split,
        mean=mean,
        std=std,
        levels=levels,
        minutes=minutes,
        axes=_exchanged(wish.voxel_size_nm, recipe.extents),
        rate=rate,
        walkers=walkers,
        steps=steps,
        few_steps=FEW_STEPS,
        validations=VALIDATIONS,
        every=0 if steps < FEW_STEPS else -(-steps // VALIDATIONS),
        **recipe.shown,
        **recipe.look(labels, split.training, steps),
    )
    memory = needed_bytes(TrainingPlan(sections=sections).config, 1, _core.num_threads())
    head = (
        f"{wish.image}: {size_text(image.shape)} voxels (z, y, x) of {image.dtype},"
        f" {size_text(wish.voxel_size_nm)} nm.",
        f"Measured on this machine: {rate:.1f} {recipe.unit} per second with"
        f" {count_of(_core.num_threads(), 'thread')}, so {walkers / rate:.2f} s a step. {steps} steps take about"
        f" {steps * walkers / rate / 60:.1f} minutes; validation and checkpoints come on top, and the training ends"
        f" after {minutes}. Memory: about"
        f" {_core.describe_bytes(memory)}" + _available(),
    )
    return TrainingPlan(sections=sections, head=head, notes=tuple(notes))


def _exchanged(voxel_size_nm: SizeNm, extents: Sequence[Vec3]) -> list[int]:
    """Return the axes that augmentation exchanges: voxel size and extents are alike along them."""

    def alike(a: int, b: int) -> bool:
        sizes = sorted((voxel_size_nm[a], voxel_size_nm[b]))
        return sizes[1] <= _EQUAL_SIZES * sizes[0] and all(e[a] == e[b] for e in extents)

    groups = ([0, 1, 2], [1, 2], [0, 2], [0, 1])
    return next((g for g in groups if all(alike(a, b) for a in g for b in g)), [])


def _available() -> str:
    free = _core.available_bytes()
    return "." if free is None else f" of {_core.describe_bytes(free)} that are available."


def _split(image: Volume, labels: Volume, recipe: Recipe) -> Split:
    """Return the first split with objects in both parts."""
    for split in geometry.splits(image.shape, recipe.patch, recipe.guard):
        if all(
            look.label_statistics(labels, box=box, budget=look.QUICK).objects > 1
            for box in (split.training, split.validation)
        ):
            return split
    raise InvalidArgumentError(
        f"init: {labels.name}: no cut along an axis leaves two objects in both the training and the validation part;"
        " expected labels of objects, with 0 for none"
    )


def _notes(
    image: Volume, labels: Volume, seen: ImageStatistics, wish: Wish, mean: float, std: float
) -> list[str]:
    """Return warnings about the volumes.

    Raises:
        ConfigurationError: For a mistake that no training survives, such as labels in another order of axes.
    """
    found = judging.problems_of(
        seen,
        mean=mean,
        std=std,
        voxel_size_nm=wish.voxel_size_nm,
        wanted_nm=wish.voxel_size_nm,
        trained=() if wish.start is None else wish.start.images,
    )
    found += problems.of_sections(seen, "the image")
    notes = problems.raise_errors([*found, *judging.label_problems(image, labels)])
    if wish.start is not None and not wish.start.images:
        notes = (*notes, problems.unknown_training_images(wish.start.name, wish.image))
    return list(notes)
