# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of whole trainings compute from their measurements."""

from __future__ import annotations

from typing import Any

import pytest

from floodtide.lab.bench import overlap, stalls

pytestmark = pytest.mark.extra


def event(
    name: str, rank: int, start_ms: float, end_ms: float, bucket: int = -1, size: int = 0
) -> dict[str, Any]:
    arguments = {"step": 7} | ({"bucket": bucket, "bytes": size} if bucket >= 0 else {})
    return {
        "name": name,
        "pid": rank,
        "ts": 1e3 * start_ms,
        "dur": 1e3 * (end_ms - start_ms),
        "args": arguments,
    }


def two_ranks(last_sum_ms: float) -> list[dict[str, Any]]:
    """Backward ends after 100 ms on rank 0 and 110 ms on rank 1; buckets of 3, 2 and 1 kB."""
    return [
        event("data", 0, 0.0, 1.0),
        event("data", 1, 0.0, 1.0),
        event("compute", 0, 1.0, 100.0),
        event("compute", 1, 1.0, 110.0),
        *(event("allreduce", rank, 40.0 + 5 * rank, 60.0, 0, 3000) for rank in (0, 1)),
        *(event("allreduce", rank, 95.0 + 5 * rank, 115.0, 1, 2000) for rank in (0, 1)),
        event("allreduce", 0, 100.0, last_sum_ms, 2, 1000),
        event("allreduce", 1, 110.0, last_sum_ms - 1.0, 2, 1000),
        event("update", 0, last_sum_ms, 130.0),
        event("update", 1, last_sum_ms, 131.0),
    ]


def test_exposed_communication_begins_with_the_end_of_the_slowest_backward() -> None:
    step = overlap.step(two_ranks(125.0), wire_s=0.030)
    assert step["step_s"] == pytest.approx(0.131)
    assert step["exposed_s"] == pytest.approx(0.015)
    assert step["last_bucket_s"] == pytest.approx(0.005)
    # The wire brings the buckets in 15, 10 and 5 ms, from 45, 100 and 110 ms on: the last one by 115 ms.
    assert step["predicted_s"] == pytest.approx(0.005)


def test_buckets_queue_on_the_wire() -> None:
    # 60, 40 and 20 ms from 45, 100 and 110 ms on: by 105, 145 and 165 ms.
    step = overlap.step(two_ranks(125.0), wire_s=0.120)
    assert step["predicted_s"] == pytest.approx(0.055)


def test_summary_takes_medians_of_the_last_whole_steps() -> None:
    events = []
    for number, last_sum_ms in enumerate((200.0, 125.0, 126.0, 127.0)):
        events += [one | {"args": one["args"] | {"step": number}} for one in two_ranks(last_sum_ms)]
    events.append(event("log", 0, 131.0, 132.0) | {"args": {}})  # between steps
    row = overlap.summary(events, wire_s=0.030, steps=3)
    assert (row["samples"], row["buckets"]) == (3, 3)
    assert row["exposed_s"] == pytest.approx(0.016)
    assert row["ratio"] == pytest.approx(0.016 / 0.005)
    assert row["exposed_share"] == pytest.approx(0.016 / 0.131)
    assert overlap.summary(events, wire_s=0.0, steps=3)["ratio"] is None


def test_prediction_of_loads_inside_of_the_step() -> None:
    assert stalls.predict(0.01, 1.0, 4.0, 1) == pytest.approx(0.01 + 1.0 / 4)
    # Two ranks that need patches at different steps: 1 - (1 - 1/4)^2 of the steps load.
    assert stalls.predict(0.01, 1.0, 4.0, 2) == pytest.approx(0.01 + 7 / 16, rel=0.05)
