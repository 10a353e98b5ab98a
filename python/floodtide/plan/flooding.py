# SPDX-License-Identifier: Apache-2.0
"""Rules for flood-filling networks. Fields of view and rates are those of the trainings in examples/fib25."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from floodtide import _core, nn
from floodtide.base.networks import FfnOptions
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import middle
from floodtide.data.formats.geometry import size_text
from floodtide.plan import geometry, measuring
from floodtide.plan.wish import FEW_STEPS, ZERO_BOUNDARY, Recipe, Wish, average_over

DEPTH, FEATURES, FOV = 9, 32, 33
"""Modules, feature maps and largest field of view of the paper's network."""
SMALL_DEPTH, SMALL_FEATURES, SMALL_FOV = 5, 16, 17
"""Modules, feature maps and largest field of view of a network that learns within an hour."""
_SMALL_BELOW_MINUTES = 2880.0  # of training: the paper's network needs days from random weights

WALKERS, FINE_TUNING_WALKERS = 8, 32

USEFUL_EXAMPLES = 150_000
"""Fields of view after which a small network of random weights begins to be useful (docs/real_em_training.md)."""
GROWN = 3
"""Voxels by which segments grow back after a training on eroded labels, as in examples/fib25/ffn_evening.toml."""

_SIZES = (10_000, 5_000, 2_000, 1_000, 500, 200, 100, 50)  # smallest objects that are tried
_KEPT = 0.95  # share of the labelled voxels that objects of at least the smallest size must have
_COUNTED = 1 << 26  # labels that are counted


def is_small(wish: Wish) -> bool:
    """Return True if a small network of random weights is planned, which learns faster on coarse voxels."""
    return wish.start is None and wish.minutes < _SMALL_BELOW_MINUTES


def needs_membrane(wish: Wish) -> bool:
    """Return True if labels of a volume are eroded, so that a membrane lies between objects that touch.

    Labels whose objects do not touch stay as they are. A network that is trained further keeps its own idea of a
    boundary.
    """
    touching = min(one.zero_between for one in wish.labels_seen) <= ZERO_BOUNDARY
    return not wish.task.predicts and wish.start is None and touching


def flooding_recipe(wish: Wish) -> Recipe:
    """Return the rules for a flood-filling network: of random weights, or one that is trained further."""
    view, reason = _view(wish.smallest, wish)
    depth, features = DEPTH, FEATURES
    if wish.start is not None:
        depth, features = wish.start.model.depth, wish.start.model.features
    elif is_small(wish):
        depth, features = SMALL_DEPTH, SMALL_FEATURES
    model = nn.FFN(depth, view.fov, view.deltas, features)

    def walkers(examples: float) -> int:
        least = max(WALKERS, _core.num_threads())
        if wish.start is None:
            return least
        # Fewer for fine-tuning if the time is short, so that there are steps at all.
        return max(least, min(FINE_TUNING_WALKERS, int(examples / FEW_STEPS)))

    def look_at(labels: Volume, box: Box, steps: int) -> dict[str, Any]:
        least, counted = _smallest_object(labels, box, view)
        average = average_over(steps, 0.999 if wish.start is None else 0.97)
        return {"least": least, "counted": counted, "average": average}

    return Recipe(
        template="flood.toml",
        task=wish.task,
        unit="fields of view",
        patch=view.patch_size,
        guard=view.fov,
        extents=(view.fov, view.deltas),
        shown={
            "paper": DEPTH,
            "depth": depth,
            "features": features,
            "view": view,
            "view_reason": reason,
            "start": wish.start,
            "grown": GROWN if wish.eroded else 0,
        },
        useful=USEFUL_EXAMPLES if is_small(wish) else 0,
        rate=lambda: measuring.training_rate(model, _core.num_threads()),
        walkers=walkers,
        look=look_at,
    )


def _view(shape: Vec3, wish: Wish) -> tuple[FfnOptions, str]:
    nm = size_text(wish.voxel_size_nm)
    if wish.start is not None:
        model = wish.start.model
        view = geometry.view_for_network(shape, model.fov, model.deltas)
        if view.fov == model.fov:
            return view, f"The field of view of {wish.start.name}."
        return view, (
            f"{wish.start.name} has {size_text(model.fov)}; smaller here, because a quarter of the voxels along"
            f" each axis of {size_text(shape)} voxels should be centres of training examples."
        )
    largest = SMALL_FOV if is_small(wish) else FOV
    view = geometry.view_for(shape, wish.voxel_size_nm, largest)
    extents = size_text([f * s for f, s in zip(view.fov, wish.voxel_size_nm, strict=True)])
    reason = f"About a cube of tissue: {extents} nm with voxels of {nm} nm."
    if largest < FOV:
        reason += " Small, because a view of 33 voxels needs days of training."
    return view, reason


def _smallest_object(
    labels: Volume, box: Box, view: FfnOptions
) -> tuple[int, dict[str, Any] | None]:
    """Return the largest of _SIZES whose objects have nearly all labelled voxels of a box, and how much they have."""
    nz, ny, nx = box[1]
    found = labels.read(middle(box, (max(1, min(nz, _COUNTED // (ny * nx))), ny, nx)))
    values, counts = np.unique(found, return_counts=True)
    counts = counts[values > 0]
    total = int(counts.sum())
    most = math.prod(view.patch_size) // 4
    for least in (n for n in _SIZES if n <= most):
        kept = counts[counts >= least]
        if kept.sum() >= _KEPT * total:
            share = 100 * int(kept.sum()) / max(1, total)
            return least, {"share": share, "objects": len(kept), "of": len(counts)}
    return 1, None
