# SPDX-License-Identifier: Apache-2.0
"""Rules for flood-filling networks. Fields of view and rates are those of the trainings in examples/fib25."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from floodtide import config, nn
from floodtide.data import Box, Vec3, Volume, box_text
from floodtide.plan import geometry, judging, measuring
from floodtide.plan.document import Choice
from floodtide.plan.geometry import Split, View
from floodtide.plan.wish import FEW_STEPS, TRAINED_SHARE, VALIDATIONS, Wish, axes, rows

DEPTH, FEATURES = 9, 32
"""Modules and feature maps of the paper's network."""
SMALL_DEPTH, SMALL_FEATURES = 5, 16
"""Those of a network that learns within minutes."""
SMALL_BELOW_MINUTES = 240.0
"""Minutes of training below which the small network is planned, and below which `init` prefers affinities."""

WALKERS, FINE_TUNING_WALKERS = 8, 32

_SIZES = (10_000, 5_000, 2_000, 1_000, 500, 200, 100, 50)  # smallest objects that are tried
_KEPT = 0.95  # share of the labelled voxels that objects of at least the smallest size must have
_COUNTED = 1 << 26  # labels that are counted


@dataclass(kw_only=True)
class FloodingRecipe:
    """Rules for a flood-filling network: of random weights, or one that is trained further. See `Recipe`."""

    wish: Wish
    view: View
    view_reason: str
    least: int = 1  # voxels of the smallest object that is a training example

    unit = "fields of view"

    @property
    def patch(self) -> Vec3:
        return self.view.patch

    @property
    def guard(self) -> Vec3:
        return self.view.fov

    def data(self, labels: Volume, box: Box) -> list[Choice]:
        self.least, reason = _smallest_object(labels, box, self.view)
        return [
            *axes(self.wish.voxel_size_nm, self.view.fov, self.view.deltas),
            *rows("data", [("min_object_size", self.least, reason)]),
        ]

    def model(self) -> list[Choice]:
        return _model(self.wish, self.view, self.view_reason)

    def rate(self, settings: config.Config) -> float:
        section = settings.model
        assert isinstance(section, config.FfnConfig)
        model = nn.FFN(
            depth=section.depth, fov=section.fov, deltas=section.deltas, features=section.features
        )
        return measuring.training_rate(model, measuring.threads())

    def walkers(self, examples: float) -> int:
        """Return the number of walkers: fewer for fine-tuning if the time is short, so that there are steps at all."""
        if self.wish.start is None:
            return max(WALKERS, measuring.threads())
        most = min(FINE_TUNING_WALKERS, int(examples / FEW_STEPS))
        return max(WALKERS, measuring.threads(), most)

    def training(self, walkers: int, steps: int, rate: float) -> list[Choice]:
        return _training(self.wish, walkers, steps, rate)

    def validation(self, split: Split, steps: int) -> list[Choice]:
        return _validation(split, steps)

    def segment(self, split: Split) -> list[Choice]:
        return _segment(self.wish, split, self.least)


def flooding_recipe(image: Volume, wish: Wish) -> FloodingRecipe:
    """Return the rules for a flood-filling network on a volume.

    Raises:
        InvalidArgumentError: If the volume is too small.
    """
    view, reason = _view(image, wish)
    return FloodingRecipe(wish=wish, view=view, view_reason=reason)


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
    values: list[tuple[str, Any, str]] = [
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
        values.append(("initial_weights", wish.start.path, f"Start from {wish.start.name}."))
    return rows("model", values)


def _training(wish: Wish, walkers: int, steps: int, rate: float) -> list[Choice]:
    average = round(min(0.995 if wish.start is None else 0.97, 1 - 5 / steps), 4)
    fine = wish.start is not None
    values: list[tuple[str, str, Any, str]] = [
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
            f"What {100 * TRAINED_SHARE:.0f} % of the time allow at the measured {rate:.1f} fields of view per second;"
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
        values += [
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
        for section, key, value, why in values
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
            value=0 if steps < FEW_STEPS else -(-steps // VALIDATIONS),
            reason="Only at the end: there are few steps."
            if steps < FEW_STEPS
            else f"{VALIDATIONS} validations in the training.",
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
    values: list[tuple[str, Any, str]] = [
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
    return rows("segment", values)
