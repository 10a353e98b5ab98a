# SPDX-License-Identifier: Apache-2.0
"""Damaged configurations: bytes of the TOML text, and every key with values of other types and odd numbers."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from random import Random
from typing import Any

from fuzz.case import Case
from fuzz.commands import Command, losses, nothing
from fuzz.damage import damage_text

# A valid configuration of every kind, and the commands that read it. Long trainings end after a second.
_FILES = {
    "train.toml": (
        "train {} --set run.dir=out",
        "info --machine {} --set run.dir=out",
        "job slurm {} {job}",
    ),
    "slices.toml": (
        "train {} --set run.dir=out",
        "info --machine {} --set run.dir=out",
        "job pbs {} {job}",
    ),
    "affinities.toml": ("train {} --set run.dir=out", "info --machine {} --set run.dir=out"),
    "segment.toml": ("segment {} --out out.h5:ids",),
}
_JOB = "--nodes 2 --cores-per-node 2 --time 01:00:00 --out out.job"

_VALUES: tuple[Any, ...] = (
    -1,
    0,
    1,
    2,
    3,
    255,
    65537,
    1 << 31,
    (1 << 31) - 1,
    (1 << 32) + 4,
    1 << 62,
    (1 << 63) - 1,
    -(1 << 63),
    1 << 63,
    1 << 64,
    10**400,
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.0,
    1e-320,
    1e18,
    1e300,
    -1e300,
    math.nan,
    math.inf,
    -math.inf,
    True,
    False,
    "",
    "x",
    "nan",
    "a\nb",
    "$NOWHERE",
    "\u202e",
    "y" * 400,
    "0:1,0:1,0:1",
    "0:1,0:1,0:1; 3:4,0:9,0:9",
    "whole",
    "5:1,0:0,-1:3",
    "0:99999999999999999999,0:1,0:1",
    "volume.h5:labels",
    "volume.h5:raw",
    "volume.h5:",
    "train.toml",
    "/dev/zero",
    [],
    [0, 0, 0],
    [1, 1, 1],
    [-1, 2, 3],
    [7, 7, 7],
    [1 << 31, 1, 1],
    [1 << 40, 1 << 40, 1 << 40],
    [33, 33, 33],
    [0],
    [3],
    ["x"],
    [[1, 2], [3]],
    [[3, 3, 3]] * 3,
    {},
    {"a": 1},
    {"0": "a", "1": "b"},
    {"0-127": "a", "128-255": "b"},
    [{}],
    [{"name": "cube"}],
    datetime.date(2020, 1, 1),
    datetime.time(1, 2, 3),
)


def make_bytes(folder: Path, random: Random) -> Case:
    """Damage the text of a configuration."""
    name = random.choice(sorted(_FILES))
    content, text = damage_text((folder / name).read_bytes(), random)
    (folder / name).write_bytes(content)
    return _case(name, text, random)


def make_values(folder: Path, random: Random) -> Case:
    """Give one to three keys of a configuration odd values, or values of other types."""
    from floodtide import config

    name = random.choice(sorted(_FILES))
    document = config.to_dict(config.load(folder / name))
    texts = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        path = random.choice(list(_leaves(document, ())))
        value = _value(_at(document, path), random)
        texts.append(f"{'.'.join(map(str, path))} = {str(value)[:40]!r}")
        _put(document, path, value, random)
    (folder / name).write_text(_dumps(document), encoding="utf-8")
    return _case(name, "; ".join(texts), random)


def _case(name: str, text: str, random: Random) -> Case:
    line = random.choice(_FILES[name]).format(name, job=_JOB)
    if line.startswith("train"):
        line += " --set run.stop_after_s=1.0"
    outcome = losses("out") if line.startswith("train") else nothing
    problem = "problem" if line.startswith("info") else ""
    command = Command(line, outcome, outputs=("out",), problem=problem)
    return Case(command, f"{name}: {text}", strict=False, outcome_of="")


def _leaves(node: Any, path: tuple[Any, ...]) -> Any:
    """Paths of all keys, sections and tables included."""
    items: Any = ()
    if isinstance(node, dict):
        items = node.items()
    elif isinstance(node, list) and node and isinstance(node[0], dict):
        items = enumerate(node)
    for key, value in items:
        yield (*path, key)
        yield from _leaves(value, (*path, key))


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    node = document
    for key in path:
        node = node[key]
    return node


def _value(old: Any, random: Random) -> Any:
    """Mostly another value of the same type, so that ranges are tried as well as types."""
    same = [value for value in _VALUES if type(value) is type(old)]
    return random.choice(same if same and random.random() < 0.6 else _VALUES)


def _put(document: Any, path: tuple[Any, ...], value: Any, random: Random) -> None:
    node = document
    for key in path[:-1]:
        if not isinstance(node, (dict, list)) or (isinstance(node, dict) and key not in node):
            return
        node = node[key]
    if not isinstance(node, (dict, list)):
        return
    if isinstance(node, dict) and random.random() < 0.05:
        del node[path[-1]]
    elif isinstance(node, dict) and random.random() < 0.05:
        node[str(path[-1]) + "x"] = value
    elif isinstance(node, dict) or path[-1] < len(node):
        node[path[-1]] = value


def _dumps(document: Any) -> str:
    import tomli_w

    return tomli_w.dumps(document)
