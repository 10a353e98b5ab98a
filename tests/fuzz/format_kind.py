# SPDX-License-Identifier: Apache-2.0
"""Damage volumes in other formats than HDF5: files of Zarr, N5 and precomputed folders, TIFF stacks and pictures."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from fuzz.case import Case
from fuzz.commands import COMMANDS, FORMATS
from fuzz.damage import damage_bytes, damage_node, damage_text

_HUGE = re.compile(rb"[1-9][0-9]{6}")


def _has_huge_number(content: bytes) -> bool:
    """Return True if metadata may claim a huge volume: most chunks may be missing, and reading it all takes long."""
    return _HUGE.search(content) is not None


def make(folder: Path, random: Random) -> Case:
    """Damage one file of the image or of the labels in a random format."""
    name = random.choice(sorted(FORMATS))
    command, volume = random.choice((("segment", "raw"), ("partition", "labels")))
    root = folder / f"{volume}_{name}"
    files = sorted(path for path in root.rglob("*") if path.is_file())
    path = random.choice(files)
    if random.random() < 0.1:
        text = damage_node(path, random)
    else:
        is_text = path.suffix == ".json" or path.name == "info"
        damage = damage_text if is_text and random.random() < 0.7 else damage_bytes
        content, text = damage(path.read_bytes(), random)
        while is_text and _has_huge_number(content):
            content, text = damage(path.read_bytes(), random)
        path.write_bytes(content)
    name = f"{command}-{name}"
    return Case(COMMANDS[name], f"{path.relative_to(folder)}: {text}", strict=False, outcome_of="")
