# SPDX-License-Identifier: Apache-2.0
"""Communication of gradients that does not overlap with computation."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from floodtide.base import limits
from floodtide.base.options import option
from floodtide.bench.ranks import require_several_ranks
from floodtide.bench.rows import Row
from floodtide.comm import delayed, world
from floodtide.lab.bench.trainings import Laboratory
from floodtide.lab.simulate.gradient import exposed_s

DEFAULTS: dict[str, Any] = {}
WARM_UP = 4  # steps; the first one also fixes the order of buckets
Event = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The simulated wire, and how gradients are sent."""

    wire_ms: float = option(
        20.0,
        "Total time in milliseconds that the messages of a rank take on the simulated wire in a step",
        range=limits.SOME_MILLISECONDS,
    )
    latency_us: float = option(
        20.0, "Additional time of each message, in microseconds", range=limits.LATENCY
    )
    bucket_mib: float = option(
        0.25, "Minimum size (MiB) of a bucket, as `comm.bucket_mib`", range=limits.BUCKET
    )
    algorithm: str = option("ring", "Allreduce algorithm, as `comm.algorithm`")
    steps: int = option(
        40,
        "Number of measured steps with and without the simulated wire, after the warm-up",
        range=limits.COUNT,
    )


def measure(lab: Laboratory, options: Options) -> Iterator[Row]:
    """Train with and without a simulated slow wire, and measure exposed communication.

    Exposed communication does not overlap with computation. The wire is simulated: messages travel at full speed, but
    the receiver accepts a message only after the time that the slow wire would need. This uses no time of a core.

    \b
    Columns, all from the timeline:
      exposed_s      from the end of the slowest backward pass to the end of the last sum
      predicted_s    exposed time predicted from when buckets were ready and their time on the wire
      last_bucket_s  time of the last bucket on the wire; overlap cannot hide it
      ratio          exposed_s / last_bucket_s
      exposed_share  exposed_s / time of the step

    Example: floodtide lab bench overlap --wire-ms 20 --json
    """
    require_several_ranks("bench overlap")
    ranks, wire_s = world.current(), options.wire_ms * 1e-3
    sending = {"algorithm": options.algorithm, "bucket_mib": options.bucket_mib, "timeout_s": 0.0}
    settings: dict[str, dict[str, Any]] = {"run": {"trace": True}, "comm": sending}
    usual = lab.trainer("usual", settings)
    for _ in range(WARM_UP):
        usual.step()
    before = ranks.traffic["bytes"]
    usual.step()
    sent_bytes = ranks.traffic["bytes"] - before
    slow_wire = delayed(ranks, options.latency_us * 1e-6, sent_bytes / wire_s)
    slow = lab.trainer("slow", settings, comm=slow_wire)
    for _ in range(WARM_UP):
        slow.step()
    for _ in range(options.steps):
        slow.step()
        usual.step()
    for name, seconds in (("slow", wire_s), ("usual", 0.0)):
        events = lab.trace(name)
        if events:
            wire = f"wire of {options.wire_ms:g} ms" if seconds else "no wire"
            yield {
                "name": f"overlap, {wire}",
                "kernel": options.algorithm,
                "transport": ranks.description,
                "sent_bytes": sent_bytes,
                **summary(events, seconds, options.steps),
            }


def summary(events: Sequence[Event], wire_s: float, steps: int) -> dict[str, Any]:
    """Return a row of medians over the last `steps` steps in the timelines of all ranks.

    Args:
        events: Chrome trace events of type X, times in microseconds. `compute` and `update` are on the track `step`.
            `allreduce` with its bucket and bytes is on the track `communication`.
        wire_s: Seconds of all buckets of a step on the wire.
        steps: Number of steps to use.
    """
    by_step: dict[int, list[Event]] = {}
    for event in events:
        by_step.setdefault(event["args"].get("step", -1), []).append(event)
    whole = [
        number
        for number, found in by_step.items()
        if {"compute", "allreduce", "update"} <= {event["name"] for event in found}
    ]
    seen = [step(by_step[number], wire_s) for number in sorted(whole)[-steps:]]
    result = {
        key: statistics.median(one[key] for one in seen)
        for key in ("step_s", "exposed_s", "predicted_s", "last_bucket_s")
    }
    step_s = result.pop("step_s")
    exposed = sorted(one["exposed_s"] for one in seen)
    return {
        "samples": len(seen),
        "median_s": step_s,
        "buckets": seen[0]["buckets"],
        "exposed_p10_s": exposed[len(exposed) // 10],
        "exposed_p90_s": exposed[-1 - len(exposed) // 10],
        **result,
        "ratio": result["exposed_s"] / result["last_bucket_s"] if wire_s else None,
        "exposed_share": result["exposed_s"] / step_s,
    }


def step(events: Sequence[Event], wire_s: float) -> dict[str, Any]:
    """Return `step_s`, `exposed_s`, `predicted_s` and `last_bucket_s` of one step in seconds, and the bucket count."""
    computed_us = max(_end(event) for event in events if event["name"] == "compute")
    sums = [event for event in events if event["name"] == "allreduce"]
    count = 1 + max(event["args"]["bucket"] for event in sums)
    # A bucket is ready when it is complete on all ranks.
    ready_us = [
        max(event["ts"] for event in sums if event["args"]["bucket"] == bucket)
        for bucket in range(count)
    ]
    sizes = {event["args"]["bucket"]: event["args"]["bytes"] for event in sums}
    cost_s = [wire_s * sizes[bucket] / sum(sizes.values()) for bucket in range(count)]
    return {
        "step_s": (max(map(_end, events)) - min(event["ts"] for event in events)) * 1e-6,
        "exposed_s": max(0.0, max(map(_end, sums)) - computed_us) * 1e-6,
        "predicted_s": exposed_s([us * 1e-6 for us in ready_us], cost_s),
        "last_bucket_s": cost_s[-1],
        "buckets": count,
    }


def _end(event: Event) -> float:
    return float(event["ts"] + event["dur"])
