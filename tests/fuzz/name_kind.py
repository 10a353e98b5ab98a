# SPDX-License-Identifier: Apache-2.0
"""Files, datasets and run directories with hostile names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

from fuzz.case import Case
from fuzz.commands import Command, nothing

NAMES = (
    "$\\frac{$",
    "$x^$",
    "a$b$c",
    "<script>alert(1)</script>",
    "&amp;",
    "'\"",
    "%s%n",
    "{0.__class__}",
    "{{ 7 * 7 }}",
    "line\nbreak",
    "tab\tand\rreturn",
    "\x1b[31mred",
    "-rf",
    "--out",
    " ",
    "a b",
    "a:b",
    "a=b",
    "...",
    "~",
    "*",
    "\\",
    "\u202eevil",
    "\U0001f30a",
    "\u0000".replace("\0", "\u2400"),
    os.fsdecode(b"\xff\xfe"),
    "n" * 255,
    "n" * 400,
    "d/" * 300 + "e",
    "m" * 5000,
)

_RUN_COMMANDS = ("report {}", "report {} run2", "lab simulate {} --ranks 1,2 --steps 20")
_FILE_COMMANDS = (
    ("volume.h5", "partition {}:labels out.h5:af --lom-radius 3,3,3 --min-size 10"),
    ("network.h5", "convert {} out.h5"),
    ("segmentation.h5", "evaluate {}:segmentation volume.h5:labels"),
    ("slices.h5", "predict slices_run {}:image out.h5:labels"),
    ("train.toml", "train {} --set run.dir=out"),
    ("samples.txt", "lab simulate --samples {} --ranks 1,2 --steps 20"),
)
_OUTPUT_COMMANDS = (
    "lab synth {} --shape 16,16,16",
    "partition volume.h5:labels {}:af --lom-radius 3,3,3 --min-size 10",
    "partition volume.h5:labels out.h5:{} --lom-radius 3,3,3 --min-size 10",
    "segment segment.toml --out {}:ids",
    "segment segment.toml --out out.h5:{}",
    "predict slices_run slices.h5:image out.h5:{}",
    "convert network.h5 {}",
    "train train.toml --set run.dir={}",
    "report run2 --out {}",
    "report run2 --figures {} --out out.html",
    "job slurm train.toml --nodes 2 --time 01:00:00 --out {}",
    "lab simulate --compute-s 0.1 --ranks 1,2 --steps 20 --out {}",
)


def make(folder: Path, random: Random) -> Case:
    """Give an input, an output or a run directory a hostile name."""
    name = random.choice(NAMES)
    what = random.randrange(3)
    if what == 0:
        line = random.choice(_RUN_COMMANDS)
        _rename(folder / "run2", folder / name, copy=True)
        outputs: tuple[str, ...] = (f"{name}/report.html",)
    elif what == 1:
        old, line = random.choice(_FILE_COMMANDS)
        _rename(folder / old, folder / name, copy=False)
        outputs = ("out",)
    else:
        line = random.choice(_OUTPUT_COMMANDS)
        outputs = ("",)  # a name may say any place
    words = tuple(word.replace("{}", name) for word in line.split(" "))
    command = Command("", nothing, outputs=outputs)
    return Case(command, f"{line} with {name[:40]!r}", strict=False, outcome_of="", arguments=words)


def _rename(old: Path, new: Path, *, copy: bool) -> None:
    """Give it the name, if there can be one: otherwise the command meets a name without a file."""
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        if copy:
            shutil.copytree(old, new)
        else:
            old.rename(new)
    except OSError:
        return
