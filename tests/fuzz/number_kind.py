# SPDX-License-Identifier: Apache-2.0
"""Odd numbers on command lines: for every number that the commands declare."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import click

from fuzz.case import Case
from fuzz.commands import Command, nothing
from fuzz.damage import ODD_NUMBERS

# Valid command lines that take a moment; every numeric option of these commands is tried on them.
_LINES = {
    "lab synth": "lab synth out.h5 --shape 16,16,16",
    "partition": "partition volume.h5:labels out.h5:af --lom-radius 3,3,3 --min-size 10",
    "segment": "segment segment.toml --out out.h5:ids",
    "predict": "predict slices_run slices.h5:image out.h5:labels",
    "evaluate": "evaluate segmentation.h5:segmentation volume.h5:labels",
    "lab compare": "lab compare segmentation.h5:segmentation segmentation.h5:segmentation",
    "convert": "convert network.h5 out.h5",
    "init": "init volume.h5:raw --labels volume.h5:labels --task affinities --voxel-nm 8,8,8 --out out.toml",
    "train": "train train.toml --set run.dir=out --set run.stop_after_s=1.0",
    "lab simulate": "lab simulate --compute-s 0.1 --ranks 1,2 --steps 20 --network 10gbe",
    "report": "report run2 run2 --out out.html",
    "job": "job pbs train.toml --nodes 2 --cores-per-node 4 --time 01:00:00 --out out.job",
    "bench conv": "bench conv --size 5 --channels 4 --threads 1 --seconds 0",
    "bench step": "bench step --threads 1 --seconds 0 --set model.depth=2 --set model.features=4",
    "bench forward": "bench forward --threads 1 --seconds 0 --set model.depth=2 --set model.features=4",
    "bench unet": "bench unet --threads 1 --seconds 0 --set data.size=[16,16] --set model.depth=2",
    "bench allreduce": "bench allreduce --elements 10 --seconds 0",
    "bench scaling": "bench scaling --ranks 2 --seconds 0",
    "lab progress": "lab progress sweep --out out",
    "lab bench train": "lab bench train --ranks 1 --steps 2",
    "lab bench stragglers": "lab bench stragglers --ranks 2 --steps 2",
    "lab bench stalls": "lab bench stalls --ranks 1 --rounds 1",
    "lab tune": "lab tune train.toml --seconds 0.01 --rounds 1",
    "demo": "demo --out out --steps 1",
}
# Commands that take minutes or start ranks: only with what none of their numbers can be.
_LONG = {"bench scaling", "demo", "lab tune"} | {
    f"lab bench {name}" for name in ("train", "stragglers", "stalls")
}
_NO_NUMBERS = ("-1", "nan", "-inf", "1e400", "", " ", "x", "0x10", "--", "9" * 400, "9" * 5000)
# Commands that take numbers as settings.
_SETTINGS = {
    "train train.toml --set run.dir=out --set run.stop_after_s=1.0": "train.toml",
    "train slices.toml --set run.dir=out --set run.stop_after_s=1.0": "slices.toml",
    "train affinities.toml --set run.dir=out --set run.stop_after_s=1.0": "affinities.toml",
    "segment segment.toml --out out.h5:ids": "segment.toml",
    "info --machine train.toml --set run.dir=out": "train.toml",
    "job slurm train.toml --nodes 2 --time 01:00:00 --out out.job": "train.toml",
}
_LINES_OF_RUN = "lab simulate run --ranks 1,2 --steps 20"
# Texts that hold numbers: z,y,x; a list; a box; a time.
_VECTORS = {"shape", "lom_radius", "fov", "deltas", "context", "thresholds", "losses"}
_BOXES = {"box"}
_TIMES = {"time"}
# A larger number than this asks for more work or memory than a trial has, and rightly gets it.
_WORK = {
    ("bench", "seconds"): 0.2,
    ("bench", "features"): 100.0,
    ("bench", "batch"): 100.0,
    ("lab", "steps"): 100.0,
}


@dataclass(frozen=True)
class Number:
    """A number on a command line: the command, the option's spelling, its form, and the largest one that is tried."""

    command: str
    option: str
    form: str
    most: float


@cache
def numbers() -> tuple[Number, ...]:
    """Every number that a command of _LINES declares."""
    return tuple(_numbers())


def _numbers() -> Iterator[Number]:
    from floodtide import cli

    context = click.Context(cli.group)
    for name in _LINES:
        command: click.Command | None = cli.group
        for word in name.split():
            assert isinstance(command, click.Group)
            command = command.get_command(context, word)
        assert command is not None
        for parameter in command.params:
            form = _form(parameter)
            if form and isinstance(parameter, click.Option):
                most = _WORK.get((name.split()[0], str(parameter.name)), math.inf)
                yield Number(name, parameter.opts[0], form, most)


def _form(parameter: click.Parameter) -> str:
    if parameter.name in _VECTORS:
        return "vector"
    if parameter.name in _BOXES:
        return "box"
    if parameter.name in _TIMES:
        return "time"
    kind = parameter.type.name
    if kind.startswith("N"):
        return "vector"
    return "number" if kind.startswith(("integer", "float")) else ""


def make(folder: Path, random: Random) -> Case:
    """Append an option with an odd number to a valid command line, or a setting with one."""
    if random.random() < 0.25:
        return _setting(folder, random)
    number = random.choice(numbers())
    if number.command in _LONG:
        value = random.choice(_NO_NUMBERS)
    elif number.form == "number":
        value = random.choice(ODD_NUMBERS)
    elif number.form == "vector":
        value = ",".join(_one(random) for _ in range(random.choice((3, 3, 3, 1, 2, 4, 100))))
    elif number.form == "box":
        value = ",".join(f"{_one(random)}:{_one(random)}" for _ in range(random.choice((3, 3, 2))))
    else:
        value = ":".join(_one(random) for _ in range(random.choice((1, 2, 3, 4))))
    if _is_larger(value, number.most):
        value = "-1"
    line = _LINES[number.command]
    if number.command == "lab simulate" and random.random() < 0.3:
        line = _LINES_OF_RUN
    command = Command(line, nothing, outputs=("out",))
    text = f"{number.option} {value[:60]!r}"
    return Case(command, text, strict=False, outcome_of="", arguments=(f"{number.option}={value}",))


def _setting(folder: Path, random: Random) -> Case:
    """A key of a configuration that is a number, set to an odd one on the command line."""
    from floodtide import config

    line, file = random.choice(sorted(_SETTINGS.items()))
    keys = list(_number_keys(config.to_dict(config.load(folder / file)), ""))
    words = ("--set", f"{random.choice(keys)}={random.choice(ODD_NUMBERS)}")
    problem = "problem" if line.startswith("info") else ""
    command = Command(line, nothing, outputs=("out",), problem=problem)
    return Case(command, f"--set {words[1][:80]!r}", strict=False, outcome_of="", arguments=words)


def _number_keys(node: Any, path: str) -> Iterator[str]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        name = f"{path}.{key}" if path else str(key)
        if isinstance(value, (dict, list)):
            yield from _number_keys(value, name)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name


def _one(random: Random) -> str:
    return random.choice(("1", "3", "8", *ODD_NUMBERS))


def _is_larger(value: str, most: float) -> bool:
    try:
        return most < float(value) < 1e300
    except ValueError:
        return False
