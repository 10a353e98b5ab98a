# SPDX-License-Identifier: Apache-2.0
"""The committed stubs of the compiled core list the functions and classes of the core."""

from __future__ import annotations

import runpy
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


def test_the_folder_of_stubs_does_not_hide_the_core() -> None:
    assert (PACKAGE / "_core" / "__init__.pyi").is_file()
    assert Path(_core.__file__).suffix == ".so"
