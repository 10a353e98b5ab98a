# SPDX-License-Identifier: Apache-2.0
"""Plan a training on labelled volumes: every value of the configuration, each with its reason.

The anchor is nnU-Net: look at the data, choose by rules, print every choice with its reason (Isensee et al., Nature
Methods 18 (2021), 203-211). `flooding` and `unets` have the rules of the networks.
"""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide import _core, config
from floodtide.base import limits
from floodtide.base.network_files import checkpoints
from floodtide.base.notes import count_of
from floodtide.base.reading import parse_toml
from floodtide.base.templates import render
from floodtide.data import Box, Vec3, Volume, look
from floodtide.data.boxes import box_text
from floodtide.data.formats.geometry import SizeNm, size_text
from floodtide.data.look import problems
from floodtide.data.look.problems import Problem, Reading
from floodtide.data.look.sampling import FULL
from floodtide.data.volumes import labels_of
from floodtide.errors import InvalidArgumentError
from floodtide.plan import geometry
from floodtide.plan.flooding import flooding_recipe
from floodtide.plan.geometry import Split
from floodtide.plan.networks import levels_for
from floodtide.plan.unets import unet_recipe
from floodtide.plan.wish import FEW_STEPS, Recipe, Wish
from floodtide.train.setup import needed_bytes

MARK = "# Planned by floodtide init"
"""Beginning of the files that `floodtide init` writes, by which it recognises its own."""

_COMMENTS = textwrap.TextWrapper(
    100, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
)

HELD_OUT_FOR_TWO = 0.3
"""Share of a box that is held out for two parts: one to choose settings on, and one to test."""
_FEW_OBJECTS = 5  # of a part below which its score says too little to choose by, or to judge
VALIDATIONS = 4
"""Validations of a training."""
TRAINED_SHARE = 0.8
"""Share of the time for training steps; the rest is for validation, checkpoints and reading."""
_EQUAL_SIZES = 1.05  # ratio of voxel sizes along two axes up to which the axes count as alike


@dataclass(frozen=True)
class TrainingPlan:
    """A configuration with reasons.

    Attributes:
        sections: The sections of the configuration, as TOML.
        tables: The same as nested tables.
        head: Facts about the data, the time and the memory.
        notes: What does not fit together; empty if all is well.
    """

    sections: str
    tables: dict[str, Any]
    head: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """The TOML file."""
        what = f"{MARK}. The reason of each value stands above it; change what you know better."
        head = [what, *self.head, *(f"NOTE: {note}" for note in self.notes)]
        return "".join(map(comment, head)) + "\n" + self.sections


def make_plan(wish: Wish) -> TrainingPlan:
    """Look at the images and return the plan of a training. A few training passes are run to measure this machine."""
    labels = [labels_of(one, wish.unlabelled) for _, one in wish.pairs]
    recipe = (unet_recipe if wish.task.predicts else flooding_recipe)(wish)
    split, notes = _split(labels, wish, recipe)
    volumes: list[dict[str, Any]] = []
    for number, known in enumerate(labels):
        boxes = [box for own, box in split.training if own == number]
        if boxes or number == split.held_out:
            table, said = _volume(known, number, boxes, wish)
            volumes.append(table)
            notes += said
    task, thin = _that_fits(recipe.task, split)
    rate, minutes = recipe.rate(), count_of(wish.minutes, "minute")
    examples = 60 * wish.minutes * TRAINED_SHARE * rate
    # Fewer walkers if the time is short, so that there are steps at all.
    walkers = max(recipe.walkers, min(recipe.most_walkers, int(examples / FEW_STEPS)))
    each = walkers * recipe.batch
    steps = min(max(10, round(examples / each)), int(limits.STEPS.maximum))
    first, box = split.training[0]
    shown = recipe.shown | recipe.look(labels[first], box)
    shown |= {"task": task, "keys": config.to_dict(task), "thin": thin, "recipe": recipe}
    shown |= {"wish": wish, "split": split, "volumes": volumes}
    shown |= {"held_out": _name(wish, split.held_out), "validations": VALIDATIONS}
    shown |= {"rate": rate, "minutes": minutes, "walkers": walkers, "steps": steps}
    shown |= {"every": 0 if steps < FEW_STEPS else -(-steps // VALIDATIONS)}
    shown |= {"average": max(0.0, round(min(recipe.average, 1 - 5 / steps), 4))}
    shown |= {"axes": _exchanged(wish.edges, recipe.extents)}
    values = sections(recipe.template, shown)
    tables = parse_toml(values, "the plan")
    memory = needed_bytes(config.from_dict(tables, "the plan"), 1, _core.num_threads())
    notes += _doubts(wish, recipe, steps * each, steps, rate)
    free, size = _core.available_bytes(), wish.voxel_size_nm
    available = "" if free is None else f" of {_core.describe_bytes(free)} that are available"
    nm = "voxel size unknown" if size is None else f"{size_text(size)} nm"
    head = (
        *(
            f"{image.name}: {size_text(image.shape)} voxels (z, y, x) of {image.dtype}, {nm}."
            for image, _ in wish.pairs
        ),
        f"Measured on this machine: {rate:.1f} {recipe.unit} per second with"
        f" {count_of(_core.num_threads(), 'thread')}, so {each / rate:.2f} s a step. {steps} steps take about"
        f" {steps * each / rate / 60:.1f} minutes; validation and checkpoints come on top, and the training ends"
        f" after {minutes}. Memory: about {_core.describe_bytes(memory)}{available}.",
    )
    return TrainingPlan(values, tables, head, tuple(dict.fromkeys(notes)))


def _doubts(wish: Wish, recipe: Recipe, examples: int, steps: int, rate: float) -> list[str]:
    """Return warnings: a training of this length is too short (`rate`: examples a second), or its folder is in use."""
    found, minutes = [], count_of(wish.minutes, "minute")
    if steps < FEW_STEPS:
        text = f"only {steps} steps fit into {minutes}, too few to learn from: give more --minutes"
        found.append(text)
    elif examples < recipe.useful:
        needed = recipe.useful / rate / TRAINED_SHARE / 60
        found.append(
            f"{examples:,} {recipe.unit} fit into {minutes}; a flood-filling network of random weights needs about"
            f" {recipe.useful:,} before its segments are useful: give --minutes {needed:.0f}, or --task affinities,"
            " which needs less"
        )
    if checkpoints(Path(wish.run)):
        found.append(
            f"{wish.run} holds a training already, and `floodtide train` continues it; for a new training, give another"
            " --out"
        )
    return found


def _that_fits(task: Any, split: Split) -> tuple[Any, list[Vec3]]:
    """Return a task without the far offsets that do not fit into the boxes of a split, and these offsets."""
    offsets = task.affinity_offsets
    thin = [one for one in offsets if min(one) < -1 and not split.holds(one)]
    kept = tuple(one for one in offsets if one not in thin)
    return (dataclasses.replace(task, offsets=kept) if thin else task), thin


def _name(wish: Wish, number: int) -> str:
    return "volume" if len(wish.pairs) == 1 else f"volume{number}"


def _volume(
    known: Volume, number: int, boxes: Sequence[Box], wish: Wish
) -> tuple[dict[str, Any], list[str]]:
    """Return what a template shows of a volume, and warnings about it.

    Args:
        known: Its labels, 0 where there are none.
        number: Its number in the wish.
        boxes: The boxes that are trained on.
    """
    image, _ = wish.pairs[number]
    box, size, start = boxes[0] if len(boxes) == 1 else None, wish.voxel_size_nm, wish.start
    seen = look.image_statistics(image, box=box, voxel_size_nm=size)
    mean, std, levels = levels_for(seen, start, "the training box" if box else "the image")
    found: list[Problem] = []
    if size is not None:
        trained = start.images if start else ()
        reading = Reading("the image", mean, std, "segment.mean and segment.std", size)
        found += problems.of_axes(seen, "the image", size)
        found += problems.of_grey_levels(seen, reading, trained)
    found += problems.of_sections(seen, "the image")
    if wish.task.of_objects:
        where = max(wish.boxes[number], key=lambda one: math.prod(one[1]))
        name, budget = "the labels", look.QUICK
        counted = look.label_statistics(known, box=where, budget=budget)
        aligned = look.alignment(image, known, budget=budget)
        found += problems.of_labels(counted, name)
        found += problems.of_alignment(aligned, name, known.name)
    if start is not None and not start.images:
        found += problems.finding(
            f"{start.name} does not keep what its training images looked like, so that mean, contrast and voxel size of"
            f" {image.name} were not compared with them"
        )
    table: dict[str, Any] = {"name": _name(wish, number), "image": image.name, "labels": known.name}
    table |= {"boxes": boxes, "mean": mean, "std": std, "levels": levels}
    table |= {"stated": wish.stated[number]}
    return table, list(problems.raise_errors(found))


def _exchanged(voxel_size_nm: SizeNm, extents: Sequence[Vec3]) -> list[int]:
    """Return the axes that augmentation exchanges: voxel size and extents are alike along them."""

    def alike(a: int, b: int) -> bool:
        sizes = sorted((voxel_size_nm[a], voxel_size_nm[b]))
        return sizes[1] <= _EQUAL_SIZES * sizes[0] and all(e[a] == e[b] for e in extents)

    groups = ([0, 1, 2], [1, 2], [0, 2], [0, 1])
    return next((g for g in groups if all(alike(a, b) for a in g for b in g)), [])


def _split(labels: Sequence[Volume], wish: Wish, recipe: Recipe) -> tuple[Split, list[str]]:
    """Return the first split with enough in each part, and notes about it.

    For affinities, it has a part for tests, too, if all three parts have enough objects. Else its two parts have two
    objects or all classes each; if there is none, some classes may be missing in the validation part.
    """
    task: Any = None if wish.task.of_objects else wish.task

    def kinds(split: Split) -> list[set[Any]]:
        """Return what each part of a split holds: some of its objects, or the names of its classes."""
        return [
            {one for n, box in part for one in _kinds(n, labels[n], box, task, wish)}
            for part in split.parts
        ]

    if recipe.task.affinity_offsets:
        for two in geometry.splits(wish.boxes, recipe.needs, HELD_OUT_FOR_TWO):
            for split in geometry.with_test(two, recipe.needs):
                if min(map(len, kinds(split))) >= _FEW_OBJECTS:
                    return split, []
    wanted, what = (set(task.channels), "all classes") if task else (set(), "two objects")
    second: tuple[Split, list[str]] | None = None
    for split in geometry.splits(wish.boxes, recipe.needs):
        learnt, held_out = kinds(split)
        if min(len(learnt), len(held_out)) < 2 or not wanted <= learnt:
            continue
        if wanted <= held_out:
            return split, []
        missing = ", ".join(f"'{name}'" for name in sorted(wanted - held_out))
        note = f"no held-out voxel has the class {missing}, which gets no score: label it at more places"
        second = second or (split, [note])
    if second is not None:
        return second
    names = ", ".join(one.name for one in labels)
    raise InvalidArgumentError(
        f"init: {names}: no cut along an axis leaves {what} in both the training and the validation part; expected more"
        " labels"
    )


def _kinds(number: int, labels: Volume, box: Box, task: Any, wish: Wish) -> set[Any]:
    """Return the names of the classes of a task in a box of a volume; without a task some of its objects."""
    # A rare class needs a look at every voxel; two objects are found everywhere.
    found = look.label_statistics(labels, box=box, budget=look.QUICK if task is None else FULL)
    if task is None:
        return {(number, value) for value, _ in found.values if value}
    written = dict(zip(task.written, task.channels, strict=True))
    values = {value for value, _ in found.values if value or wish.unlabelled != 0}
    return {written[n] for value in values if (n := task.written_for(value)) is not None}


def sections(template: str, facts: Mapping[str, Any]) -> str:
    """Return the sections of a plan as TOML. Each value has its reason above it.

    Args:
        template: Name of a file in `plan/templates`.
    """
    filters: dict[str, Any] = {"toml": _value, "size": size_text, "line": _line}
    filters["boxes"] = lambda boxes: "; ".join(map(box_text, boxes))
    text = render(template, "plan/templates", filters=filters, **facts)
    lines = text.strip("\n").split("\n")
    return "".join(comment(one) if one.startswith("#") else f"{one}\n" for one in lines)


def comment(text: str) -> str:
    """Return a text, with or without a # before it, as lines of a comment."""
    return _COMMENTS.fill(_line(text.removeprefix("#"))) + "\n"


def _line(text: str) -> str:
    """Return a text without line breaks, which would end a comment."""
    return " ".join(text.split())


def _value(value: Any) -> str:
    """Return a value as TOML, which writes numbers, texts and lists as JSON does, and tables in another way."""
    if isinstance(value, Mapping):
        rows = (f"{json.dumps(key)} = {_value(one)}" for key, one in value.items())
        return "{ " + ", ".join(rows) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
