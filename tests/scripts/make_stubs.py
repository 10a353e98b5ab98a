# SPDX-License-Identifier: Apache-2.0
"""Write the type stubs of the compiled core, python/floodtide/_core/, or compare them with the core.

The script imports `floodtide._core`: run it after a build, in the same environment. It needs pybind11-stubgen and ruff
(dependency group `lint`). The stubs have types only. Docstrings stay in the bindings.

Usage: python tests/scripts/make_stubs.py [--check]
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STUBS = ROOT / "python" / "floodtide" / "_core"
MODULE = "floodtide._core"
HEADER = """\
# SPDX-License-Identifier: Apache-2.0
# Written by tests/scripts/make_stubs.py from the compiled module. Do not edit.
"""


class _TypesOnly(ast.NodeTransformer):
    """Removes docstrings and the values of module attributes such as the version.

    A list of texts becomes `list[str]`: pybind11-stubgen has only `list` for it.
    """

    def _without_docstring(
        self, node: ast.Module | ast.ClassDef | ast.FunctionDef
    ) -> ast.Module | ast.ClassDef | ast.FunctionDef:
        if ast.get_docstring(node) is not None:
            del node.body[0]
        if not node.body:
            node.body.append(ast.Expr(ast.Constant(...)))
        self.generic_visit(node)
        return node

    visit_Module = visit_ClassDef = visit_FunctionDef = _without_docstring

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        if isinstance(node.target, ast.Name) and node.target.id == "__all__":
            return node
        if ast.unparse(node.annotation) == "list" and isinstance(node.value, ast.List):
            values = [getattr(item, "value", None) for item in node.value.elts]
            if all(isinstance(value, str) for value in values):
                node.annotation = ast.parse("list[str]", mode="eval").body
        node.value = None
        return node


def _run(*command: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")


def make(folder: Path) -> dict[str, str]:
    """Return the stubs of the importable core by file name. `folder` is for intermediate files."""
    _run("pybind11_stubgen", MODULE, "--exit-code", "-o", folder)
    made = folder.joinpath(*MODULE.split("."))
    for path in made.glob("*.pyi"):
        types = ast.unparse(_TypesOnly().visit(ast.parse(path.read_text())))
        path.write_text(f"{HEADER}{types}\n")
    settings = ("--quiet", "--config", ROOT / "pyproject.toml")
    _run("ruff", "check", "--fix", "--ignore", "E501", *settings, made)  # the formatter wraps
    _run("ruff", "format", *settings, made)
    return {path.name: path.read_text() for path in made.glob("*.pyi")}


def differences(made: dict[str, str], stubs: Path = STUBS) -> list[str]:
    """Return a line for each stub that is missing, superfluous or different."""
    there = {path.name: path.read_text() for path in stubs.glob("*.pyi")}
    return [
        f"{stubs / name}: "
        + (
            "is missing"
            if name not in there
            else "is not of the core"
            if name not in made
            else "differs from the core"
        )
        for name in sorted(there.keys() | made.keys())
        if there.get(name) != made.get(name)
    ]


def main() -> None:
    """Write or compare the stubs; exit 1 if a comparison finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder))
    different = differences(made)
    if check:
        for line in different:
            print(line)
        if different:
            raise SystemExit("run: python tests/scripts/make_stubs.py")
        return
    STUBS.mkdir(exist_ok=True)
    for path in STUBS.glob("*.pyi"):
        path.unlink()
    for name, text in made.items():
        (STUBS / name).write_text(text)


if __name__ == "__main__":
    main()
