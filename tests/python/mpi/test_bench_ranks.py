# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench scaling` under mpiexec; what it measures is not tested."""

from __future__ import annotations

import json

import pytest
from launch import check

pytestmark = [pytest.mark.mpi, pytest.mark.any_library, pytest.mark.extra]


@pytest.mark.parametrize("network", ["ffn", "unet"])
def test_scaling_has_rows_of_one_rank_and_of_all(network: str) -> None:
    small = {
        "ffn": {"model": {"depth": 2, "features": 16, "fov": [5, 5, 5], "deltas": [0, 0, 0]}},
        "unet": {"model": {"depth": 2}, "data": {"patch": [1, 16, 16]}, "training": {"batch": 3}},
    }
    program = f"""
        import json
        from floodtide.bench.scaling import scaling
        from floodtide.bench.shapes import NETWORKS, ScalingOptions

        for section, values in {small[network]}.items():
            NETWORKS["{network}"].setdefault(section, {{}}).update(values)
        for row in scaling(ScalingOptions(network="{network}", seconds=0.0)):
            print(json.dumps(row))
    """
    lines = check(2, program).splitlines()
    alone, all_ranks = (json.loads(line) for line in lines)
    assert (alone["ranks"], all_ranks["ranks"]) == (1, 2)
    rate, examples = ("fovs_per_s", 2) if network == "ffn" else ("images_per_s", 6)
    assert all_ranks[rate] == pytest.approx(examples / all_ranks["median_s"])
    speedup = all_ranks[rate] / alone[rate]
    assert all_ranks["speedup"] == pytest.approx(speedup)
    share = all_ranks["speedup"] / all_ranks["peak_speedup"]
    assert all_ranks["share_of_peak_speedup"] == pytest.approx(share)
