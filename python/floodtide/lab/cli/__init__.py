# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab`: the commands for research."""

from __future__ import annotations

import click

from floodtide.cli import LazyGroup

COMMANDS = {
    "synth": "Make a synthetic EM volume with labels.",
    "simulate": "Forecast the training throughput for given numbers of ranks.",
    "sweep": "Run one training for every combination of some values.",
    "study": "Write report.html about the trainings of sweeps: rates, walkers and training steps.",
    "progress": "Draw scores against time, and the time to an F1 against walkers.",
    "noise": "Measure the gradient noise scale of a network at fixed weights.",
    "tune": "Find the fastest number of ranks and threads of this machine.",
    "replay": "Flood objects of another segmentation again, and find where they differ.",
    "compare": "Compare a segmentation with another one, such as a published one.",
    "bench": "Measure complete training under disturbances.",
}


@click.group(
    cls=LazyGroup,
    table={name: (f"floodtide.lab.cli.{name}", text) for name, text in COMMANDS.items()},
)
def command() -> None:
    """Research: forecasts of throughput, sweeps of trainings and their reports, and studies of the engine's speed.

    Example: floodtide lab simulate runs/fib25 --network 10gbe
    """
