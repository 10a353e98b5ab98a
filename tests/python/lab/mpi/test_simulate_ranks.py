# SPDX-License-Identifier: Apache-2.0
"""The simulator against ranks that wait for each other in earnest."""

from __future__ import annotations

import json
import sys

import pytest
from launch import check, run, skip_without_mpi

from floodtide.errors import InvalidArgumentError
from floodtide.lab import simulate
from floodtide.lab.bench import forecast

pytestmark = [pytest.mark.mpi, pytest.mark.any_library, pytest.mark.extra]

COMPUTE_S, SIGMA, LOAD_S, MOVES, STEPS = 0.08, 0.25, 0.06, 5, 40

# Ranks that sleep instead of computing and reading, so that four need no four cores; they wait for
# each other in earnest. What they sum is short, or its time would be that of what else runs here.
RANKS = f"""
    import json, time
    import numpy as np
    import floodtide as ft

    ft.init()
    random = np.random.default_rng(ft.rank())
    gradient = np.ones(16, dtype=np.float32)
    left = int(random.integers({MOVES}))
    sums = []
    for _ in range(10):
        ft.barrier()
        start = time.perf_counter()
        ft.allreduce(gradient)
        sums.append(time.perf_counter() - start)
    sum_s = ft.allreduce(np.array([np.median(sums)]), op=ft.Max)[0]
    ft.barrier()
    start = time.perf_counter()
    for _ in range({STEPS}):
        if left == 0:
            time.sleep({LOAD_S})
            left = {MOVES}
        left -= 1
        time.sleep({COMPUTE_S} * np.exp({SIGMA} * random.standard_normal() - {SIGMA}**2 / 2))
        ft.allreduce(gradient)
    step_s = (time.perf_counter() - start) / {STEPS}
    if ft.rank() == 0:
        print(json.dumps([float(sum_s), step_s]))
"""


def test_the_model_predicts_real_waits_within_15_percent() -> None:
    sum_s, step_s = json.loads(check(4, RANKS))
    job = simulate.Job(
        compute=simulate.Compute(mean_s=COMPUTE_S, sigma=SIGMA),
        loading=simulate.Loading(load_s=LOAD_S, moves=MOVES),
        buckets=simulate.ffn_buckets(9, 32),
        allreduce_s=lambda size, ranks: sum_s,
    )
    assert simulate.simulate(job, 4).step_s == pytest.approx(step_s, rel=0.15)


def test_bench_forecast_trains_what_it_predicts() -> None:
    """Whether the two agree depends on what else runs here, and is looked at by hand (docs/lab/scaling.md)."""
    skip_without_mpi()
    small = "--ranks 2 --steps 20 --rounds 1 --depth 1 --features 2 --fov 5 --sleep-s 0.02 --json"
    command = [sys.executable, "-m", "floodtide", "lab", "bench", "forecast", *small.split()]
    result = run(command, timeout_s=240)
    assert result.status == 0, result.stderr
    rows = {row["name"]: row for row in map(json.loads, result.stdout.splitlines())}
    assert list(rows) == [f"forecast {name}" for name in ("training", *forecast.MODES)]
    for row in rows.values():
        assert (row["ranks"], row["samples"], row["threads"]) == (2, 1, 1)
        assert row["ratio"] == pytest.approx(row["predicted_s"] / row["median_s"])
    # The model's own arithmetic: two sleepers wait for the slower, or follow the faster, or add up.
    waiting, dropping, carrying = (rows[f"forecast {mode}"] for mode in forecast.MODES)
    assert carrying["predicted_s"] < dropping["predicted_s"] < waiting["predicted_s"]
    assert all(row["median_s"] > 0.25 * 0.02 for row in (waiting, dropping, carrying))


@pytest.mark.parametrize("changes", [{"ranks": (1, 2)}, {"steps": 9}, {"rounds": 0}])
def test_bench_forecast_refuses_what_cannot_be_timed(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"bench forecast: .* expected at least 2, 10"):
        forecast.Options(**changes)  # type: ignore[arg-type]
