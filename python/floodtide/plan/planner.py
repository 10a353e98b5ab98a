# SPDX-License-Identifier: Apache-2.0
"""Plan a training on a labelled volume: every value of the configuration, each with its reason.

The anchor is nnU-Net: look at the data, choose by rules, print every choice with its reason (Isensee et al., Nature
Methods 18 (2021), 203-211). The rules for fields of view and rates are those of the trainings in examples/fib25.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from floodtide import _core, config, nn
from floodtide.base import limits
from floodtide.data import Box, Volume, box_text, look
from floodtide.data.look import ImageStatistics, problems
from floodtide.errors import InvalidArgumentError
from floodtide.plan import geometry, judging, measuring
from floodtide.plan.document import Choice
from floodtide.plan.geometry import Split, View
from floodtide.plan.known import KnownNetwork, SizeNm
from floodtide.plan.normalising import levels_for
from floodtide.train.memory import needed_bytes

DEPTH, FEATURES = 9, 32
"""Modules and feature maps of the paper's network."""
SMALL_DEPTH, SMALL_FEATURES = 5, 16
"""Those of a network that learns within minutes."""
SMALL_BELOW_MINUTES = 240.0

WALKERS, FINE_TUNING_WALKERS = 8, 32
EQUAL_SIZES = 1.05
"""Ratio of voxel sizes along two axes up to which the axes count as alike."""

_TRAINED_SHARE = 0.8  # of the time; the rest is validation, checkpoints and reading
_VALIDATIONS = 4
_FEW_STEPS = 100
_SIZES = (10_000, 5_000, 2_000, 1_000, 500, 200, 100, 50)  # smallest objects that are tried
_KEPT = 0.95  # share of the labelled voxels that objects of at least the smallest size must have
_COUNTED = 1 << 26  # labels that are counted


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user asks for.

    Attributes:
        image, labels: Names of the volumes, at the voxel size of the training.
        voxel_size_nm: Voxel size (z, y, x) of these volumes.
        start: The network to start from; None: random weights.
        minutes: Time for the training.
        run: The run directory.
        resampled_from: Voxel size of the volumes from which these were made; None if they are the user's.
    """

    image: str
    labels: str
    voxel_size_nm: SizeNm
    start: KnownNetwork | None
    minutes: float
    run: str
    resampled_from: SizeNm | None = None


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
    image, labels = Volume(wish.image), Volume(wish.labels)
    view, view_reason = _view(image, wish)
    split = _split(image, labels, view)
    seen = look.image_statistics(image, box=split.training, voxel_size_nm=wish.voxel_size_nm)
    mean, std, level_reason = levels_for(seen, wish.start, "the training box")
    notes = tuple(_notes(image, labels, seen, wish, mean, std))
    least, least_reason = _smallest_object(labels, split.training, view)
    choices = [
        Choice(
            section="run",
            key="dir",
            value=wish.run,
            reason="Checkpoints, log and report. The same command resumes from the newest checkpoint.",
        ),
        Choice(
            section="run",
            key="stop_after_s",
            value=60.0 * wish.minutes,
            reason=f"The {wish.minutes:g} minutes that were asked for; the training ends here in any case.",
        ),
        *_volume(wish, image, split, mean, std, level_reason),
        *_data(wish.voxel_size_nm, view, least, least_reason),
        *_model(wish, view, view_reason),
    ]
    model = _model_of(choices, wish)
    rate = measuring.training_rate(model, measuring.threads())
    views = 60 * wish.minutes * _TRAINED_SHARE * rate
    walkers = _walkers(wish, views)
    steps = max(10, round(views / walkers))
    steps = min(steps, int(limits.UPDATES.maximum))
    choices += _training(wish, walkers, steps, rate)
    choices += _validation(split, steps)
    choices += _segment(wish, split, least)
    if steps < _FEW_STEPS:
        notes += (
            f"only {steps} steps fit into {wish.minutes:g} minutes, too few to learn from: give more --minutes",
        )
    plan = Plan(choices=tuple(choices), head=(), notes=notes)
    settings = plan.config
    memory = needed_bytes(settings, 1, measuring.threads())
    head = [
        f"{wish.image}: {judging.size_text(image.shape)} voxels (z, y, x) of {image.dtype},"
        f" {judging.size_text(wish.voxel_size_nm)} nm.",
        f"Measured on this machine: {rate:.1f} fields of view per second with {measuring.threads()} threads, so"
        f" {walkers / rate:.2f} s a step. {steps} steps take about {steps * walkers / rate / 60:.1f} minutes;"
        f" validation and checkpoints come on top, and the training ends after {wish.minutes:g} minutes. Memory: about"
        f" {_core.describe_bytes(memory)}" + _available(memory),
    ]
    return dataclasses.replace(plan, head=tuple(head))


def _walkers(wish: Wish, views: float) -> int:
    """Return the number of walkers: fewer for fine-tuning if the time is short, so that there are steps at all."""
    if wish.start is None:
        return max(WALKERS, measuring.threads())
    most = min(FINE_TUNING_WALKERS, int(views / _FEW_STEPS))
    return max(WALKERS, measuring.threads(), most)


def _available(memory: int) -> str:
    free = _core.available_bytes()
    return "." if free is None else f" of {_core.describe_bytes(free)} that are available."


def _view(image: Volume, wish: Wish) -> tuple[View, str]:
    nm = judging.size_text(wish.voxel_size_nm)
    if wish.start is not None:
        model = wish.start.model
        view = geometry.view_for_network(image.shape, model.fov, model.deltas)
        if view.fov == model.fov:
            return view, f"The field of view of {wish.start.name}."
        return view, (
            f"{wish.start.name} has {judging.size_text(model.fov)}; smaller here, because a quarter of the voxels along"
            f" each axis of {judging.size_text(image.shape)} voxels should be centres of training examples."
        )
    largest = next(f for least, f in geometry.LARGEST_FOR_MINUTES if wish.minutes >= least)
    view = geometry.view_for(image.shape, wish.voxel_size_nm, largest)
    extents = judging.size_text([f * s for f, s in zip(view.fov, wish.voxel_size_nm, strict=True)])
    reason = f"About a cube of tissue: {extents} nm with voxels of {nm} nm."
    if largest < geometry.VIEWS[0][0]:
        reason += " Small, because a view of 33 voxels needs hours of training."
    return view, reason


def _split(image: Volume, labels: Volume, view: View) -> Split:
    """Return the first split with objects in both parts."""
    for split in geometry.splits(image.shape, view):
        if all(
            look.label_statistics(labels, box=box, budget=look.QUICK).objects > 1
            for box in (split.training, split.validation)
        ):
            return split
    raise InvalidArgumentError(
        f"init: {labels.name}: no cut along an axis leaves two objects in both the training and the validation part;"
        " expected labels of objects, with 0 for none"
    )


def _smallest_object(labels: Volume, box: Box, view: View) -> tuple[int, str]:
    """Return the largest of _SIZES whose objects have nearly all labelled voxels of a box."""
    start, size = box
    depth = max(1, min(size[0], _COUNTED // (size[1] * size[2])))
    first = start[0] + (size[0] - depth) // 2
    found = labels.read(((first, start[1], start[2]), (depth, size[1], size[2])))
    values, counts = np.unique(found, return_counts=True)
    counts = counts[values > 0]
    total = int(counts.sum())
    most = math.prod(view.patch) // 4
    for least in (n for n in _SIZES if n <= most):
        kept = int(counts[counts >= least].sum())
        if kept >= _KEPT * total:
            share = 100 * kept / max(1, total)
            return least, (
                f"Smaller objects are no training examples. Objects of at least {least} voxels have {share:.1f} % of"
                f" the labelled voxels of the training box: {int((counts >= least).sum())} of {len(counts)} objects."
            )
    return 1, "Every object counts: most labelled voxels are in small objects."


def _volume(
    wish: Wish, image: Volume, split: Split, mean: float, std: float, levels: str
) -> list[Choice]:
    axis = "zyx"[split.axis]
    size = "As given."
    if wish.resampled_from is not None and wish.start is not None:
        size = (
            f"Resampled from {judging.size_text(wish.resampled_from)} nm to the voxels of {wish.start.name}; labels by"
            " majority."
        )
    rows: list[tuple[str, Any, str]] = [
        ("name", "volume", "A name for messages."),
        ("image", wish.image, "The image (z, y, x)."),
        (
            "labels",
            wish.labels,
            "Object ids; 0 is no object. `floodtide train` makes the partitions itself.",
        ),
        (
            "box",
            box_text(split.training),
            f"Training part: cut along {axis}, the axis that leaves most for training. A guard band of {split.guard}"
            " voxels, one field of view, separates it from the validation part.",
        ),
        ("mean", mean, levels),
        ("std", std, "As the mean."),
        ("voxel_size_nm", list(wish.voxel_size_nm), size),
    ]
    return [
        Choice(section="[data.volumes]", key=key, value=value, reason=reason)
        for key, value, reason in rows
    ]


def _data(voxel_size_nm: SizeNm, view: View, least: int, least_reason: str) -> list[Choice]:
    def alike(a: int, b: int) -> bool:
        sizes = sorted((voxel_size_nm[a], voxel_size_nm[b]))
        return (
            sizes[1] <= EQUAL_SIZES * sizes[0]
            and view.fov[a] == view.fov[b]
            and view.deltas[a] == view.deltas[b]
        )

    groups = [[0, 1, 2], [1, 2], [0, 2], [0, 1], []]
    axes = next(g for g in groups if all(alike(a, b) for a in g for b in g))
    reasons = {
        3: "Voxels and fields of view are alike along all axes, so any axis may stand for any other.",
        2: "Only these axes have the same voxel size and field of view, so only they are exchanged.",
        0: "No two axes have the same voxel size and field of view, so none are exchanged.",
    }
    return [
        Choice(section="data", key="permutable_axes", value=axes, reason=reasons[len(axes)]),
        Choice(
            section="data",
            key="reflectable_axes",
            value=[0, 1, 2],
            reason="Tissue has no preferred direction along any axis.",
        ),
        Choice(section="data", key="min_object_size", value=least, reason=least_reason),
    ]


def _model(wish: Wish, view: View, view_reason: str) -> list[Choice]:
    if wish.start is not None:
        depth, features = wish.start.model.depth, wish.start.model.features
        why = f"That of {wish.start.name}."
    elif wish.minutes < SMALL_BELOW_MINUTES:
        depth, features = SMALL_DEPTH, SMALL_FEATURES
        why = f"A small network: the paper's, of depth {DEPTH}, needs days from random weights."
    else:
        depth, features = DEPTH, FEATURES
        why = "The paper's network."
    rows: list[tuple[str, Any, str]] = [
        ("depth", depth, why),
        ("features", features, why),
        ("fov", list(view.fov), view_reason),
        (
            "deltas",
            list(view.deltas),
            "About a quarter to a third of the field of view, as published networks have.",
        ),
    ]
    if wish.start is not None:
        rows.append(("initial_weights", wish.start.path, f"Start from {wish.start.name}."))
    return [Choice(section="model", key=key, value=value, reason=why) for key, value, why in rows]


def _model_of(choices: Sequence[Choice], wish: Wish) -> nn.FFN:
    section = config.from_dict(as_tables(choices), "the plan").model
    assert isinstance(section, config.FfnConfig)
    return nn.FFN(
        depth=section.depth, fov=section.fov, deltas=section.deltas, features=section.features
    )


def _training(wish: Wish, walkers: int, steps: int, rate: float) -> list[Choice]:
    average = round(min(0.995 if wish.start is None else 0.97, 1 - 5 / steps), 4)
    fine = wish.start is not None
    rows: list[tuple[str, str, Any, str]] = [
        (
            "training",
            "walkers",
            walkers,
            "One walker sees one place for many steps: few of them pull a trained network to few places."
            if fine
            else "The global batch: enough places at a time for a steady gradient.",
        ),
        (
            "training",
            "steps",
            steps,
            f"What {100 * _TRAINED_SHARE:.0f} % of the time allow at the measured {rate:.1f} fields of view per second;"
            " the rest is for validation and checkpoints.",
        ),
        (
            "training",
            "average",
            max(average, 0.0),
            "Validation and segmentation use a moving average of the parameters; the last ones alone swing.",
        ),
        (
            "optimizer",
            "name",
            "sgd" if fine else "adam",
            "As the network was trained; Adam, which moves every parameter by the rate at first, raised the loss."
            if fine
            else "The published training's optimizer is slower from random weights.",
        ),
        (
            "optimizer",
            "lr",
            4e-3 if fine else 1e-3,
            "The rate of examples/fib25/fine_tune.toml." if fine else "The rate of examples/fib25.",
        ),
    ]
    if fine:
        rows += [
            (
                "schedule",
                "warmup_steps",
                min(5, steps),
                "The first steps do not spoil the trained weights.",
            ),
            ("schedule", "warmup_start", "zero", "As above."),
        ]
    return [
        Choice(section=section, key=key, value=value, reason=why)
        for section, key, value, why in rows
    ]


def _validation(split: Split, steps: int) -> list[Choice]:
    return [
        Choice(
            section="validation",
            key="box",
            value=box_text(split.validation),
            reason="Held out: no training example reads a voxel of it.",
        ),
        Choice(
            section="validation",
            key="every",
            value=0 if steps < _FEW_STEPS else steps // _VALIDATIONS,
            reason="Only at the end: there are few steps."
            if steps < _FEW_STEPS
            else f"{_VALIDATIONS} validations in the training.",
        ),
        Choice(
            section="validation",
            key="centres",
            value=65,
            reason="Five for each of up to 13 partition classes.",
        ),
    ]


def _segment(wish: Wish, split: Split, least: int) -> list[Choice]:
    pad = 0.05 if wish.start is None else wish.start.seed_pad
    rows: list[tuple[str, Any, str]] = [
        ("checkpoint", wish.run, "The newest checkpoint of this training."),
        ("image", "volume", "The volume above; --set segment.image=OTHER segments another one."),
        ("box", box_text(split.validation), 'The held-out part; "" is the whole volume.'),
        (
            "reflect",
            True,
            "Fields of view reach the faces; without reflection, half a view stays empty there.",
        ),
        ("pad_value", pad, "That of the training."),
        (
            "min_segment_size",
            max(1, min(1000, least)),
            "As small as the smallest training objects, at most 1000.",
        ),
    ]
    return [Choice(section="segment", key=key, value=value, reason=why) for key, value, why in rows]


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
    return [n for n in (*notes, judging.stated_size_note(wish.voxel_size_nm, stated)) if n]
