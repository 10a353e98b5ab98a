# SPDX-License-Identifier: Apache-2.0
"""The recipes for Apptainer and Spack, which no test can run, name what the tree has."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[4]
PACKAGING = ROOT / "packaging"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_apptainer_definition() -> None:
    text = (PACKAGING / "floodtide.def").read_text()
    head, *sections = re.split(r"^%(\w+)\n", text, flags=re.MULTILINE)
    assert re.findall(r"^(\w+): \S+$", head, re.MULTILINE) == ["Bootstrap", "From"]
    scripts = dict(zip(sections[::2], sections[1::2], strict=True))
    assert scripts.pop("files").split() == ["dist", "/opt/dist"]
    assert set(scripts) == {"post", "environment", "runscript", "test"}
    for script in scripts.values():
        assert subprocess.run(["bash", "-n"], input=script.encode()).returncode == 0
    (extras,) = re.findall(r"\$wheel\[([\w,]+)\]", scripts["post"])
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_the_spack_recipe_has_the_projects_dependencies() -> None:
    folder = PACKAGING / "spack" / "packages" / "floodtide"
    tree = ast.parse((folder / "package.py").read_text())
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    first = [(call.func.id, ast.literal_eval(call.args[0])) for call in calls if call.args]  # type: ignore[attr-defined]
    cmake = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"project\(floodtide VERSION ([0-9.]+)", cmake)
    assert version is not None
    assert ("version", version[1]) in first
    found = {re.match(r"[\w-]+", text)[0]: text for name, text in first if name == "depends_on"}  # type: ignore[index]
    for requirement in PROJECT["dependencies"]:
        name, least = re.match(r"([\w-]+)>=([\d.]+)", requirement).groups()  # type: ignore[union-attr]
        assert found[f"py-{name.lower()}"] == f"py-{name.lower()}@{least}:"
