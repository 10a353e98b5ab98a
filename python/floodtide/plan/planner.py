# SPDX-License-Identifier: Apache-2.0
"""Plan a training on a labelled volume: every value of the configuration, each with its reason.

The anchor is nnU-Net: look at the data, choose by rules, print every choice with its reason (Isensee et al., Nature
Methods 18 (2021), 203-211). `flooding` and `affinities` have the rules of the two kinds of networks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from floodtide import _core, config
from floodtide.base import limits
from floodtide.base.counts import count_of
from floodtide.data import Volume, box_text, look
from floodtide.data.look import ImageStatistics, problems
from floodtide.data.volumes import labels_of
from floodtide.errors import InvalidArgumentError
from floodtide.plan import geometry, judging, measuring
from floodtide.plan.affinities import affinities_recipe
from floodtide.plan.document import Choice
from floodtide.plan.flooding import flooding_recipe
from floodtide.plan.geometry import Split
from floodtide.plan.normalising import levels_for
from floodtide.plan.wish import FEW_STEPS, TRAINED_SHARE, Recipe, Wish, rows
from floodtide.train.memory import needed_bytes


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A configuration with reasons.

    Attributes:
        choices: All values.
        head: Facts about the data, the time and the memory.
        notes: What does not fit together; empty if all is well.
    """

    choices: tuple[Choice, ...]
    head: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def config(self) -> config.Config:
        """The configuration."""
        return config.from_dict(as_tables(self.choices), "the plan")


def as_tables(choices: Sequence[Choice]) -> dict[str, Any]:
    """Return choices as nested tables, as TOML has them."""
    tables: dict[str, Any] = {}
    for choice in choices:
        if choice.section == "[data.volumes]":
            rows = tables.setdefault("data", {}).setdefault("volumes", [{}])
            rows[0][choice.key] = choice.value
        else:
            tables.setdefault(choice.section, {})[choice.key] = choice.value
    return tables


def make_plan(wish: Wish) -> Plan:
    """Look at a volume and return the plan of a training. A few training passes are run to measure this machine.

    Raises:
        InvalidArgumentError: If the volume is too small or has no objects.
        InvalidFileError: If a volume cannot be read, or is of a wrong type.
        ShapeError: If image and labels have different shapes.
    """
    image, labels = Volume(wish.image), labels_of(wish.labels)
    recipe = recipe_for(image, wish)
    split = _split(image, labels, recipe)
    seen = look.image_statistics(image, box=split.training, voxel_size_nm=wish.voxel_size_nm)
    mean, std, level_reason = levels_for(seen, wish.start, "the training box")
    notes = tuple(_notes(image, labels, seen, wish, mean, std))
    minutes = count_of(wish.minutes, "minute")
    choices = [
        *rows(
            "run",
            [
                (
                    "dir",
                    wish.run,
                    "Checkpoints, log and report. The same command resumes from the newest checkpoint.",
                ),
                (
                    "stop_after_s",
                    60.0 * wish.minutes,
                    f"The time that was asked for: {minutes}. The training stops then in any case; the last validation"
                    " follows.",
                ),
            ],
        ),
        *_volume(wish, split, mean, std, level_reason),
        *recipe.data(labels, split.training),
        *recipe.model(),
    ]
    rate = recipe.rate(config.from_dict(as_tables(choices), "the plan"))
    examples = 60 * wish.minutes * TRAINED_SHARE * rate
    walkers = recipe.walkers(examples)
    steps = max(10, round(examples / walkers))
    steps = min(steps, int(limits.UPDATES.maximum))
    choices += recipe.training(walkers, steps, rate)
    choices += recipe.validation(split, steps)
    choices += recipe.segment(split)
    if steps < FEW_STEPS:
        notes += (
            f"only {steps} steps fit into {minutes}, too few to learn from: give more --minutes",
        )
    plan = Plan(choices=tuple(choices), head=(), notes=notes)
    settings = plan.config
    memory = needed_bytes(settings, 1, measuring.threads())
    head = [
        f"{wish.image}: {judging.size_text(image.shape)} voxels (z, y, x) of {image.dtype},"
        f" {judging.size_text(wish.voxel_size_nm)} nm.",
        f"Measured on this machine: {rate:.1f} {recipe.unit} per second with"
        f" {count_of(measuring.threads(), 'thread')}, so {walkers / rate:.2f} s a step. {steps} steps take about"
        f" {steps * walkers / rate / 60:.1f} minutes; validation and checkpoints come on top, and the training ends"
        f" after {minutes}. Memory: about"
        f" {_core.describe_bytes(memory)}" + _available(memory),
    ]
    return dataclasses.replace(plan, head=tuple(head))


def recipe_for(image: Volume, wish: Wish) -> Recipe:
    """Return the rules for the kind of network that was asked for.

    Raises:
        InvalidArgumentError: If the volume is too small.
    """
    if wish.network == "affinities":
        return affinities_recipe(image, wish)
    return flooding_recipe(image, wish)


def _available(memory: int) -> str:
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


def _volume(wish: Wish, split: Split, mean: float, std: float, levels: str) -> list[Choice]:
    axis = "zyx"[split.axis]
    size = "As given."
    if wish.resampled_from is not None:
        why = "coarser voxels, on which a network learns faster"
        if wish.start is not None:
            why = f"the voxels of {wish.start.name}"
        size = f"Resampled from {judging.size_text(wish.resampled_from)} nm to {why}; labels by majority."
    values: list[tuple[str, Any, str]] = [
        ("name", "volume", "A name for messages."),
        ("image", wish.image, "The image (z, y, x)."),
        (
            "labels",
            wish.labels,
            "Object ids; 0 is no object."
            + (" `floodtide train` makes the partitions itself." if wish.network == "ffn" else ""),
        ),
        (
            "box",
            box_text(split.training),
            f"Training part: cut along {axis}, the axis that leaves most for training. A guard band of {split.guard}"
            f" voxels{', one field of view,' if wish.network == 'ffn' else ''} separates it from the validation part.",
        ),
        ("mean", mean, levels),
        ("std", std, "As the mean."),
        ("voxel_size_nm", list(wish.voxel_size_nm), size),
    ]
    return rows("[data.volumes]", values)


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
    stated = None if wish.resampled_from is not None else image.geometry.voxel_size_nm
    unknown = None
    if wish.start is not None and not wish.start.images:
        unknown = problems.unknown_training_images(wish.start.name, wish.image)
    return [n for n in (*notes, unknown, judging.stated_size_note(wish.voxel_size_nm, stated)) if n]
