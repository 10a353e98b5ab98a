# SPDX-License-Identifier: Apache-2.0
"""The committed stubs of the compiled core say what the core has, and the package says that it is typed."""

from __future__ import annotations

import ast
import runpy
import shutil
from pathlib import Path

import pytest

import floodtide
from floodtide import _core

ROOT = Path(__file__).resolve().parents[4]
PACKAGE = Path(floodtide.__file__).parent


def test_the_stubs_are_those_of_the_core(tmp_path: Path) -> None:
    pytest.importorskip("pybind11_stubgen")
    pytest.importorskip("ruff")
    script = runpy.run_path(str(ROOT / "tests/scripts/make_stubs.py"))
    differences = script["differences"](script["make"](tmp_path))
    assert not differences, "run: python tests/scripts/make_stubs.py"


def test_a_stub_that_differs_is_named(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "tests/scripts/make_stubs.py"))
    shutil.copytree(script["STUBS"], tmp_path / "stubs")
    made = {path.name: path.read_text() for path in script["STUBS"].glob("*.pyi")}
    made["comm.pyi"] += "def added() -> None: ...\n"
    del made["bench.pyi"]
    bench, comm = script["differences"](made, tmp_path / "stubs")
    assert bench.endswith("bench.pyi: is not of the core")
    assert comm.endswith("comm.pyi: differs from the core")


def test_no_stub_shows_a_name_of_cpp() -> None:
    for path in (ROOT / "python/floodtide/_core").glob("*.pyi"):
        ast.parse(path.read_text())
        assert "::" not in path.read_text(), path


def test_the_folder_of_stubs_does_not_hide_the_core() -> None:
    assert (PACKAGE / "_core" / "__init__.pyi").is_file()
    assert Path(_core.__file__).suffix == ".so"


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
