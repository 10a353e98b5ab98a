# SPDX-License-Identifier: Apache-2.0
"""Plan a training on labelled volumes: every value of the configuration, each with its reason.

The anchor is nnU-Net: look at the data, choose by rules, print every choice with its reason (Isensee et al., Nature
Methods 18 (2021), 203-211). `flooding` and `unets` have the rules of the networks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from floodtide import _core, config
from floodtide.base import limits
from floodtide.base.notes import count_of
from floodtide.base.reading import parse_toml
from floodtide.data import Box, Vec3, Volume, look
from floodtide.data.formats.geometry import SizeNm, size_text
from floodtide.data.look import problems
from floodtide.data.look.problems import Problem
from floodtide.data.look.sampling import FULL
from floodtide.data.volumes import labels_of
from floodtide.errors import InvalidArgumentError
from floodtide.plan import document, geometry, judging
from floodtide.plan.flooding import flooding_recipe
from floodtide.plan.geometry import Split
from floodtide.plan.unets import unet_recipe
from floodtide.plan.wish import FEW_STEPS, Recipe, Wish
from floodtide.train.setup import needed_bytes

HELD_OUT_FOR_TWO = 0.3
"""Share of a box that is held out for two parts: one to choose settings on, and one to test."""
_FEW_OBJECTS = 5  # of a part below which its score says too little to choose by, or to judge
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
    """Look at the images and return the plan of a training. A few training passes are run to measure this machine."""
    images = [Volume(name) for name in wish.images]
    labels = [labels_of(name, wish.unlabelled) for name in wish.labels]
    recipe = (unet_recipe if wish.task.predicts else flooding_recipe)(wish)
    three = _three_parts(labels, wish, recipe) if recipe.task.affinity_offsets else None
    split, notes = (three, list[str]()) if three else _split(labels, wish, recipe)
    volumes: list[dict[str, Any]] = []
    for number, pair in enumerate(zip(images, labels, strict=True)):
        if split.training[number] or number == split.held_out:
            table, said = _volume(pair, number, split.training[number], wish)
            volumes.append(table)
            notes += said
    minutes = count_of(wish.minutes, "minute")
    rate = recipe.rate()
    examples = 60 * wish.minutes * TRAINED_SHARE * rate
    walkers = recipe.walkers(examples)
    each = walkers * recipe.batch
    steps = min(max(10, round(examples / each)), int(limits.STEPS.maximum))
    notes += _doubts_of_time(recipe, steps, each, minutes, rate)
    trained = next(number for number, boxes in enumerate(split.training) if boxes)
    shown = recipe.shown | recipe.look(labels[trained], split.training[trained][0], steps)
    task, thin = _that_fits(recipe.task, split)
    sections = document.sections(
        recipe.template,
        task=task,
        keys=config.to_dict(task),
        flat=recipe.sections,
        wish=wish,
        split=split,
        volumes=volumes,
        held_out="volume" if len(images) == 1 else f"volume{split.held_out}",
        minutes=minutes,
        axes=_exchanged(wish.voxel_size_nm, recipe.extents),
        rate=rate,
        walkers=walkers,
        batch=recipe.batch,
        steps=steps,
        few_steps=FEW_STEPS,
        validations=VALIDATIONS,
        every=0 if steps < FEW_STEPS else -(-steps // VALIDATIONS),
        thin=thin,
        **shown,
    )
    memory = needed_bytes(TrainingPlan(sections=sections).config, 1, _core.num_threads())
    free = _core.available_bytes()
    available = "" if free is None else f" of {_core.describe_bytes(free)} that are available"
    nm = "voxel size unknown" if wish.size_is_unknown else f"{size_text(wish.voxel_size_nm)} nm"
    head = (
        *(
            f"{image.name}: {size_text(image.shape)} voxels (z, y, x) of {image.dtype}, {nm}."
            for image in images
        ),
        f"Measured on this machine: {rate:.1f} {recipe.unit} per second with"
        f" {count_of(_core.num_threads(), 'thread')}, so {each / rate:.2f} s a step. {steps} steps take about"
        f" {steps * each / rate / 60:.1f} minutes; validation and checkpoints come on top, and the training ends"
        f" after {minutes}. Memory: about {_core.describe_bytes(memory)}{available}.",
    )
    return TrainingPlan(sections=sections, head=head, notes=tuple(dict.fromkeys(notes)))


def _doubts_of_time(recipe: Recipe, steps: int, each: int, minutes: str, rate: float) -> list[str]:
    """Return warnings about a training of `steps` steps of `each` examples, of which `rate` are computed per second."""
    if steps < FEW_STEPS:
        return [
            f"only {steps} steps fit into {minutes}, too few to learn from: give more --minutes"
        ]
    if steps * each >= recipe.useful:
        return []
    needed = recipe.useful / rate / TRAINED_SHARE / 60
    return [
        f"{steps * each:,} {recipe.unit} fit into {minutes}; a flood-filling network of random weights needs about"
        f" {recipe.useful:,} before its segments are useful: give --minutes {needed:.0f}, or --task affinities, which"
        " needs less"
    ]


def _that_fits(task: Any, split: Split) -> tuple[Any, list[Vec3]]:
    """Return a task without the far offsets that do not fit into the boxes of a split, and these offsets."""
    offsets = task.affinity_offsets
    thin = [one for one in offsets if min(one) < -1 and not split.holds(one)]
    kept = tuple(one for one in offsets if one not in thin)
    return (dataclasses.replace(task, offsets=kept) if thin else task), thin


def _volume(
    pair: tuple[Volume, Volume], number: int, boxes: Sequence[Box], wish: Wish
) -> tuple[dict[str, Any], list[str]]:
    """Return what a template shows of a volume, and warnings about it.

    Args:
        number: Its number in the wish.
        boxes: The boxes that are trained on.
    """
    image, labels = pair
    box = boxes[0] if len(boxes) == 1 else None
    size = None if wish.size_is_unknown else wish.voxel_size_nm
    seen = look.image_statistics(image, box=box, voxel_size_nm=size)
    mean, std, levels = judging.levels_for(
        seen, wish.start, "the training box" if box else "the image"
    )
    found: list[Problem] = []
    if size is not None:
        trained = wish.start.images if wish.start else ()
        found += problems.of_image(
            seen, mean=mean, std=std, voxel_size_nm=size, wanted_nm=size, trained=trained
        )
    found += problems.of_sections(seen, "the image")
    if wish.task.of_objects:
        largest = max(wish.boxes[number], key=lambda one: math.prod(one[1]))
        found += judging.label_problems(image, labels, largest)
    if wish.start is not None and not wish.start.images:
        found += problems.finding(
            f"{wish.start.name} does not keep what its training images looked like, so that mean, contrast and voxel"
            f" size of {image.name} were not compared with them"
        )
    table = {
        "name": "volume" if len(wish.images) == 1 else f"volume{number}",
        "image": wish.images[number],
        "labels": wish.labels[number],
        "boxes": boxes,
        "mean": mean,
        "std": std,
        "levels": levels,
        "stated": wish.stated[number],
    }
    return table, list(problems.raise_errors(found))


def _exchanged(voxel_size_nm: SizeNm, extents: Sequence[Vec3]) -> list[int]:
    """Return the axes that augmentation exchanges: voxel size and extents are alike along them."""

    def alike(a: int, b: int) -> bool:
        sizes = sorted((voxel_size_nm[a], voxel_size_nm[b]))
        return sizes[1] <= _EQUAL_SIZES * sizes[0] and all(e[a] == e[b] for e in extents)

    groups = ([0, 1, 2], [1, 2], [0, 2], [0, 1])
    return next((g for g in groups if all(alike(a, b) for a in g for b in g)), [])


def _three_parts(labels: Sequence[Volume], wish: Wish, recipe: Recipe) -> Split | None:
    """Return the first split into training, choice and test with enough objects in each; None without."""
    more: dict[str, Any] = {"sections": recipe.sections, "reach": recipe.reach}
    for two in geometry.splits(
        wish.boxes, recipe.patch, recipe.guard, inside=recipe.inside, share=HELD_OUT_FOR_TWO, **more
    ):
        for split in geometry.with_test(two, recipe.patch, recipe.guard, **more):
            counts = [
                len({one for n, box in part for one in _kinds(n, labels[n], box, None, wish)})
                for part in split.parts
            ]
            if min(counts) >= _FEW_OBJECTS:
                return split
    return None


def _split(labels: Sequence[Volume], wish: Wish, recipe: Recipe) -> tuple[Split, list[str]]:
    """Return the first split with two objects, or with all classes, in both parts, and notes about it.

    Without one, some classes may be missing in the validation part.
    """
    task: Any = None if wish.task.of_objects else wish.task
    wanted, what = (set(task.channels), "all classes") if task else (set(), "two objects")
    more: dict[str, Any] = {
        "inside": recipe.inside,
        "sections": recipe.sections,
        "reach": recipe.reach,
    }
    second: tuple[Split, list[str]] | None = None
    for split in geometry.splits(wish.boxes, recipe.patch, recipe.guard, **more):
        learnt, held_out = (
            {one for n, box in part for one in _kinds(n, labels[n], box, task, wish)}
            for part in split.parts
        )
        if min(len(learnt), len(held_out)) < 2 or not wanted <= learnt:
            continue
        if wanted <= held_out:
            return split, []
        missing = ", ".join(f"'{name}'" for name in sorted(wanted - held_out))
        note = f"no held-out voxel has the class {missing}, which gets no score: label it at more places"
        second = second or (split, [note])
    if second is not None:
        return second
    raise InvalidArgumentError(
        f"init: {', '.join(wish.labels)}: no cut along an axis leaves {what} in both the training and the validation"
        f" part; expected more labels{_shares(wish, task) if task else ''}"
    )


def _shares(wish: Wish, task: Any) -> str:
    """Return the share of the voxels that each class has, as the end of a message."""
    counts = dict.fromkeys(task.channels, 0)
    for seen in wish.labels_seen:
        for value, voxels in seen.values:
            if (written := task.written_for(value)) is not None:
                counts[task.channels[task.written.index(written)]] += voxels
    total = max(1, sum(counts.values()))
    rows = (f"'{name}' {100 * count / total:.4g} %" for name, count in counts.items())
    return f" (the voxels are {', '.join(rows)})"


def _kinds(number: int, labels: Volume, box: Box, task: Any, wish: Wish) -> set[Any]:
    """Return the names of the classes of a task in a box of a volume; without a task some of its objects."""
    # A rare class needs a look at every voxel; two objects are found everywhere.
    found = look.label_statistics(labels, box=box, budget=look.QUICK if task is None else FULL)
    if task is None:
        return {(number, value) for value, _ in found.values if value}
    written = dict(zip(task.written, task.channels, strict=True))
    values = {value for value, _ in found.values if value or wish.unlabelled != 0}
    return {written[n] for value in values if (n := task.written_for(value)) is not None}
