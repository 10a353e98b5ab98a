# SPDX-License-Identifier: Apache-2.0
"""Rules for flood-filling networks. Fields of view and rates are those of the trainings in examples/fib25."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from floodtide import _core, nn
from floodtide.base.networks import FfnOptions
from floodtide.data import Box, Volume
from floodtide.data.boxes import middle
from floodtide.data.formats.geometry import size_text
from floodtide.plan import geometry, networks
from floodtide.plan.wish import ZERO_BOUNDARY, Recipe, Wish

DEPTH, FEATURES, VIEW = 9, 32, (33, 8)
"""Modules, feature maps, and largest field of view and step in voxels of the paper's network."""
SMALL_DEPTH, SMALL_FEATURES, SMALL_VIEW = 5, 16, (17, 4)
"""The same of a network that learns within an hour."""
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
    depth, features = (SMALL_DEPTH, SMALL_FEATURES) if is_small(wish) else (DEPTH, FEATURES)
    if wish.start is not None:
        depth, features = wish.start.model.depth, wish.start.model.features
    view, reason = _view(wish)
    model = nn.FFN(depth, view.fov, view.deltas, features)
    return Recipe(
        template="flood.toml",
        task=wish.task,
        unit="fields of view",
        needs=geometry.Needs(patch=view.patch_size, guard=view.fov),
        extents=(view.fov, view.deltas),
        shown={"paper": DEPTH, "model": model, "view_reason": reason, "grown": GROWN},
        useful=USEFUL_EXAMPLES if is_small(wish) else 0,
        rate=lambda: networks.training_rate(model, _core.num_threads()),
        walkers=max(WALKERS, _core.num_threads()),
        most_walkers=0 if wish.start is None else FINE_TUNING_WALKERS,
        average=0.999 if wish.start is None else 0.97,
        look=lambda labels, box: _smallest_object(labels, box, math.prod(view.patch_size) // 4),
    )


def _view(wish: Wish) -> tuple[FfnOptions, str]:
    """Return the field of view, and its reason."""
    shape, start = wish.smallest, wish.start
    if start is None:
        largest = SMALL_VIEW if is_small(wish) else VIEW
        view = geometry.view_for(shape, geometry.view_of(*largest, wish.edges))
        extents = size_text([f * s for f, s in zip(view.fov, wish.edges, strict=True)])
        reason = f"About a cube of tissue: {extents} nm with voxels of {size_text(wish.edges)} nm."
        if largest != VIEW:
            reason += " Small, because a view of 33 voxels needs days of training."
        return view, reason
    fov = start.model.fov
    view = geometry.view_for(shape, FfnOptions(fov=fov, deltas=start.model.deltas))
    if view.fov == fov:
        return view, f"The field of view of {start.name}."
    return view, (
        f"{start.name} has {size_text(fov)}; smaller here, because a quarter of the voxels along each axis of"
        f" {size_text(shape)} voxels should be centres of training examples."
    )


def _smallest_object(labels: Volume, box: Box, most: int) -> dict[str, Any]:
    """Return the largest of _SIZES whose objects have nearly all labelled voxels of a box, and how much they have."""
    nz, ny, nx = box[1]
    found = labels.read(middle(box, (max(1, min(nz, _COUNTED // (ny * nx))), ny, nx)))
    values, counts = np.unique(found, return_counts=True)
    counts = counts[values > 0]
    total = int(counts.sum())
    for least in (n for n in _SIZES if n <= most):
        kept = counts[counts >= least]
        if kept.sum() >= _KEPT * total:
            share = 100 * int(kept.sum()) / max(1, total)
            counted = {"share": share, "objects": len(kept), "of": len(counts)}
            return {"least": least, "counted": counted}
    return {"least": 1, "counted": None}
