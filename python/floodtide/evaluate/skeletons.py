# SPDX-License-Identifier: Apache-2.0
"""Expected run length: how far one can follow a neurite before the segmentation makes a mistake.

Source: Januszewski et al., "High-precision automated reconstruction of neurons with flood-filling networks", 2018.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.data.skeletons import Skeleton
from floodtide.errors import InvalidArgumentError, OutOfRangeError
from floodtide.evaluate.voxels import Labels


@dataclass(frozen=True)
class RunLengths:
    """How long the correct runs of skeletons are. Lengths are in the unit of the voxel size.

    Attributes:
        expected: Expected run length: mean length of the correct run of a random point on the skeletons; 0 for points
            in segments that merge objects, and where there is no segment.
        best: The same of a perfect segmentation: it depends on the size of the volume.
        normalised: `expected` / `best`, the normalised expected run length (NERL).
        length: Length of all skeletons.
        correct: Share of the length whose two nodes are in one segment that merges no objects.
        split: Share of the length between two segments.
        merged: Share of the length in a segment that merges objects.
        omitted: Share of the length with a node in no segment.
        skeletons: Number of skeletons.
    """

    expected: float
    best: float
    normalised: float
    length: float
    correct: float
    split: float
    merged: float
    omitted: float
    skeletons: int


def run_lengths(
    skeletons: Iterable[Skeleton],
    segmentation: Labels,
    *,
    voxel_size: Sequence[float] = (1.0, 1.0, 1.0),
    merge_nodes: int = 1,
) -> RunLengths:
    """Return the run lengths of skeletons in a segmentation.

    An edge is correct if both nodes are in one segment, and this segment has nodes of no other skeleton. The correct
    edges of a skeleton in one segment are a run. The expected run length is the sum of squared runs over the length of
    all skeletons. Much depends on `merge_nodes`: with 1, as in funlib.evaluate, a large segment that takes a single
    node of a neighbour has no correct edge.

    Args:
        skeletons: Of the true objects.
        segmentation: Segments (z, y, x) of the same voxels; values <= 0 are no segment.
        voxel_size: Edges of a voxel (z, y, x), in nm or any other unit.
        merge_nodes: A segment merges objects if it has at least this many nodes of each of two skeletons.

    Raises:
        InvalidArgumentError: If there is no edge, if all edges have length 0, or if an argument is out of range.
        OutOfRangeError: If a node is outside of the segmentation.
    """
    limits.VOXEL_SIZE.check(list(voxel_size), "run lengths: voxel_size")
    limits.NODES.check(merge_nodes, "run lengths: merge_nodes")
    skeletons = list(skeletons)
    if not any(len(skeleton.edges) for skeleton in skeletons):
        raise InvalidArgumentError("run lengths: no skeleton with an edge, expected at least one")
    counts = [len(skeleton.nodes) for skeleton in skeletons]
    owner = np.repeat(np.arange(len(skeletons)), counts)  # skeleton of each node
    firsts = np.cumsum([0, *counts[:-1]])
    nodes = np.concatenate([skeleton.nodes for skeleton in skeletons])
    edges = [s.edges + first for s, first in zip(skeletons, firsts, strict=True)]
    start, end = np.concatenate(edges).T
    length = np.linalg.norm((nodes[start] - nodes[end]) * np.asarray(voxel_size), axis=1)
    total = float(length.sum())
    if total == 0:
        raise InvalidArgumentError("run lengths: all edges have length 0, expected a longer one")
    segments = _at(segmentation, nodes)

    pairs, nodes_of = np.unique(np.stack([segments, owner]), axis=1, return_counts=True)
    enough = pairs[0][(nodes_of >= merge_nodes) & (pairs[0] > 0)]
    ids, owners = np.unique(enough, return_counts=True)
    merging = np.isin(segments, ids[owners > 1])  # nodes in segments of several skeletons
    omitted = (segments[start] == 0) | (segments[end] == 0)
    merged = ~omitted & (merging[start] | merging[end])
    split = ~omitted & ~merged & (segments[start] != segments[end])
    correct = ~(omitted | merged | split)

    own = np.stack([owner[start], segments[start]])[:, correct]
    _, run = np.unique(own, axis=1, return_inverse=True)
    runs = np.bincount(run.ravel(), weights=length[correct])
    whole = np.bincount(owner[start], weights=length)
    expected, best = float((runs**2).sum() / total), float((whole**2).sum() / total)
    kinds = {"correct": correct, "split": split, "merged": merged, "omitted": omitted}
    shares = {name: float(length[chosen].sum() / total) for name, chosen in kinds.items()}
    return RunLengths(
        expected=expected,
        best=best,
        normalised=expected / best,
        length=total,
        skeletons=len(skeletons),
        **shares,
    )


def _at(segmentation: Labels, places: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return numbers of the segments at positions, 0 for none."""
    voxels = np.rint(places).astype(np.int64)
    if (voxels < 0).any() or (voxels >= segmentation.shape).any():
        raise OutOfRangeError(
            f"run lengths: a node is outside of the segmentation of {segmentation.shape} voxels"
        )
    # Numbers stand for the segments, because ids may not fit into 63 bits.
    ids, numbers = np.unique(segmentation[tuple(voxels.T)], return_inverse=True)
    return np.where(ids > 0, np.arange(1, len(ids) + 1), 0)[numbers.ravel()]
