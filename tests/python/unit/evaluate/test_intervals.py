# SPDX-License-Identifier: Apache-2.0
"""Intervals by bootstrap over bodies: against a slow twin, and on simulated volumes of known expected score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import evaluate
from floodtide.evaluate.voxels import LEAST_BODIES, _drawn, intervals

NAMES = ("all_adapted_rand_error", "all_voi_split", "all_voi_merge")


def table_of(rows: Any) -> Any:
    table = evaluate.ContingencyTable()
    table.add_rows(np.ascontiguousarray(rows, np.uint64))
    return table


def slow(rows: Any, drawn: Any) -> tuple[float, float, float]:
    """Score drawn bodies one by one. Each meets all drawn bodies but copies of itself."""
    bodies = np.unique(rows[:, 1])
    own = [{s: float(n) for s, b, n in rows.tolist() if b == body} for body in bodies]
    pairs = in_bodies = in_segments = split = merge = voxels = 0.0
    for one in drawn:
        size = sum(own[one].values())
        voxels += size
        in_bodies += size * (size - 1)
        for segment, n in own[one].items():
            there = n + sum(own[other].get(segment, 0.0) for other in drawn if other != one)
            pairs += n * (n - 1)
            in_segments += n * (there - 1)
            split += n * np.log2(size / n)
            merge += n * np.log2(there / n)
    whole = in_bodies + in_segments
    return 1 - 2 * pairs / whole if whole else 0.0, split / voxels, merge / voxels


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 8))
def test_samples_are_those_of_a_slow_twin(seed: int, segments: int, bodies: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 30, (segments, bodies)) * rng.integers(0, 2, (segments, bodies))
    counts[0, 0] = 1
    rows = np.array([(s, b + 1, n) for (s, b), n in np.ndenumerate(counts) if n], np.uint64)
    present = len(np.unique(rows[:, 1]))
    once = table_of(rows).scores()
    assert slow(rows, range(present)) == pytest.approx([once[name] for name in NAMES])
    found, random = _drawn(rows, 5, seed), np.random.default_rng(seed)
    for sample in found:
        drawn = random.integers(0, present, present)
        np.testing.assert_allclose(sample, slow(rows, drawn), rtol=1e-5, atol=1e-6)


def simulated(rng: Any, bodies: int, mergers: float, unsegmented: float, spread: float) -> Any:
    """Return the table of bodies of which 30 % are split, some merged with a neighbour, and parts have no segment."""
    rows = []
    segment = 1
    for body in range(1, bodies + 1):
        if rng.random() >= mergers:
            segment = 1000 * body
        size = np.exp(rng.normal(8, spread))
        missing = size * rng.random() * unsegmented
        parts = rng.dirichlet(np.ones(rng.integers(2, 5))) if rng.random() < 0.3 else np.ones(1)
        rows.append((0, body, missing))
        rows += [
            (segment if not i else 1000 * body + i, body, (size - missing) * part)
            for i, part in enumerate(parts)
        ]
    counted = np.rint(rows).astype(np.uint64)
    return table_of(counted[counted[:, 2] > 0])


def held(bodies: int, *kind: float) -> Any:
    """Return the share of 95 % intervals that hold the expected score of a simulated volume, of each score."""
    rng = np.random.default_rng(1)
    scores = [simulated(rng, bodies, *kind).scores() for _ in range(500)]
    expected = np.array([np.mean([one[name] for one in scores]) for name in NAMES])
    found = [intervals(simulated(rng, bodies, *kind), samples=300, seed=i) for i in range(100)]
    ends = np.array([[one[name] for name in NAMES] for one in found if one is not None])
    assert len(ends) == 100
    return ((ends[..., 0] <= expected) & (expected <= ends[..., 1])).mean(axis=0)


@pytest.mark.parametrize(
    "kind", [(0.1, 0.0, 1.0), (0.3, 0.0, 1.0), (0.1, 0.2, 1.0), (0.1, 0.1, 1.5)]
)
def test_intervals_of_a_hundred_bodies_hold_the_expected_score(kind: Any) -> None:
    assert held(100, *kind).min() >= 0.85


def test_intervals_of_thirty_bodies_are_too_short() -> None:
    assert 0.75 <= held(30, 0.1, 0.0, 1.0).min() < 0.95


def test_a_perfect_segmentation_has_no_error_in_any_sample() -> None:
    rows = [(n, n, 10 * n) for n in range(1, LEAST_BODIES + 1)]
    assert intervals(table_of(rows)) == dict.fromkeys(NAMES, (0.0, 0.0))
    assert intervals(table_of(rows[1:])) is None
    assert intervals(evaluate.ContingencyTable()) is None
