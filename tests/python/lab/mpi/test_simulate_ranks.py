# SPDX-License-Identifier: Apache-2.0
"""The simulator against ranks that wait for each other in earnest."""

from __future__ import annotations

import json

import pytest
from launch import check

from floodtide.lab import simulate

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
