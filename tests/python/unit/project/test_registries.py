# SPDX-License-Identifier: Apache-2.0
"""A registry is the only list of its names: no other source file of the core or the package names all of its rows."""

from __future__ import annotations

import ast
import re
import typing
from pathlib import Path

import pytest

from floodtide import _core, config
from floodtide.train.kinds import KINDS

ROOT = Path(__file__).resolve().parents[4]
OTHER_USES = {
    "python/floodtide/optim/optimizers.py",  # a class for each optimizer
    "python/floodtide/nn/losses.py",  # terms of losses have the names of the losses that consist of one
    "python/floodtide/report/curves.py",  # titles of these terms
}
REGISTRIES = {
    "cpp/src/comm/allreduce/registry.cpp": _core.comm.allreduce_rows(),
    "cpp/src/optim/optimizers.cpp": _core.optimizer_rows(),
    "cpp/src/optim/schedules.cpp": _core.schedule_rows(),
    "cpp/src/optim/scaling.cpp": _core.scale_rows(),
    "cpp/src/nn/segmentation_loss.cpp": _core.loss_rows(),
    "cpp/src/segment/seed_registry.cpp": _core.segment.seed_policies(),
    "python/floodtide/config/networks.py": [{"name": kind.section().kind} for kind in KINDS],
}


def texts_of(file: Path) -> set[str]:
    """Return the string literals of a source file, without docstrings."""
    source = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return set(re.findall(r'"([^"\n]*)"', re.sub(r"//.*", "", source)))
    return {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.parametrize("registry", REGISTRIES)
def test_no_other_file_lists_the_names(registry: str) -> None:
    names = {row["name"] for row in REGISTRIES[registry]}
    sources = [
        *(ROOT / "cpp").rglob("*.[ch]pp"),
        *(ROOT / "python" / "bindings").rglob("*.[ch]pp"),
        *(ROOT / "python" / "floodtide").rglob("*.py"),
    ]
    listed = {str(file.relative_to(ROOT)) for file in sources if names <= texts_of(file)}
    assert len(sources) > 300
    assert listed <= {registry, *OTHER_USES}


def test_every_section_of_a_network_has_a_row() -> None:
    assert {kind.section for kind in KINDS} == set(typing.get_args(config.ModelConfig))
