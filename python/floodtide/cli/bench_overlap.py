# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench overlap`: measure the communication of gradients that does not overlap with computation."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.cli.bench_ranks import require_several_ranks, training_benchmark

if TYPE_CHECKING:
    from floodtide.bench.trainings import Laboratory

WARM_UP = 4  # steps; the first one also fixes the order of buckets
Event = dict[str, Any]


@training_benchmark("overlap", ranks=2, depth=9, fov="33", features=32)
@click.option(
    "--wire-ms",
    type=shared.Number(limits.SOME_MILLISECONDS),
    default=20.0,
    show_default=True,
    help="Total time in milliseconds that the messages of a rank take on the simulated wire in a step.",
)
@click.option(
    "--latency-us",
    type=shared.Number(limits.LATENCY),
    default=20.0,
    show_default=True,
    help="Additional time of each message, in microseconds.",
)
@click.option(
    "--bucket-mib",
    type=shared.Number(limits.BUCKET),
    default=0.25,
    show_default=True,
    help="Minimum size (MiB) of a bucket, as `comm.bucket_mib`.",
)
@click.option(
    "--algorithm",
    default="ring",
    show_default=True,
    help="Allreduce algorithm, as `comm.algorithm`.",
)
@click.option(
    "--steps",
    type=shared.Number(limits.COUNT),
    default=40,
    show_default=True,
    help="Number of measured steps with and without the simulated wire, after the warm-up.",
)
def command(
    lab: Laboratory,
    wire_ms: float,
    latency_us: float,
    bucket_mib: float,
    algorithm: str,
    steps: int,
) -> Iterator[dict[str, Any]]:
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

    Example: floodtide bench overlap --wire-ms 20 --json
    """
    from floodtide import _core
    from floodtide.comm import world

    require_several_ranks("overlap")
    comm = world.current()
    settings: dict[str, dict[str, Any]] = {
        "run": {"trace": True},
        "comm": {"algorithm": algorithm, "bucket_mib": bucket_mib, "timeout_s": 0.0},
    }
    usual = lab.trainer("usual", settings)
    for _ in range(WARM_UP):
        usual.step()
    before = comm.traffic["bytes"]
    usual.step()
    sent_bytes = comm.traffic["bytes"] - before
    slow_wire = _core.comm.delayed(comm, latency_us * 1e-6, sent_bytes / (wire_ms * 1e-3))
    slow = lab.trainer("slow", settings, comm=slow_wire)
    for _ in range(WARM_UP):
        slow.step()
    for _ in range(steps):
        slow.step()
        usual.step()
    for name, wire_s in (("slow", wire_ms * 1e-3), ("usual", 0.0)):
        events = lab.trace(name)
        if events:
            yield {
                "name": f"overlap, wire of {wire_ms:g} ms" if wire_s else "overlap, no wire",
                "kernel": algorithm,
                "transport": comm.description,
                "sent_bytes": sent_bytes,
                **summary(events, wire_s, steps),
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
    from floodtide.simulate.gradient import exposed_s

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
