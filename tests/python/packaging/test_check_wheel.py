# SPDX-License-Identifier: Apache-2.0
"""packaging/check_wheel.py finds each fault of a wheel, and h5py's HDF5 and floodtide's share a process."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.extra

ROOT = Path(__file__).resolve().parents[3]
CHECKS = runpy.run_path(str(ROOT / "packaging/check_wheel.py"))


def binary(**changes: Any) -> Any:
    facts: dict[str, Any] = {
        "name": "floodtide/_core.so",
        "needed": frozenset({"libc.so.6", "libgomp-1.so", "libstdc++.so.6"}),
        "search": ("$ORIGIN/../floodtide.libs",),
        "glibc": (2, 34),
        "exported": frozenset({"PyInit__core"}),
    }
    return CHECKS["Binary"](**{**facts, **changes})


def problems(**changes: Any) -> list[str]:
    found: list[str] = CHECKS["problems_of"](binary(**changes), {"libgomp-1.so"}, (2, 35))
    return found


def test_a_good_module_has_no_problem() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"needed": frozenset({"libmpi.so.12"})}, "needs libmpi.so.12: the MPI library is chosen"),
        ({"needed": frozenset({"libhdf5_serial.so.103"})}, "neither in the wheel nor on every"),
        ({"search": ("/home/me/build/lib",)}, "searches /home/me/build/lib"),
        ({"search": ("$ORIGIN/../../../lib",)}, r"searches $ORIGIN/../../../lib"),
        ({"glibc": (2, 36)}, "needs glibc 2.36, newer than the tag says"),
        ({"exported": frozenset({"H5Fopen", "H5Dread"})}, "exports H5Dread and 1 more symbols"),
    ],
)
def test_each_fault_is_named(changes: dict[str, Any], text: str) -> None:
    found = problems(**changes)
    assert len(found) == 1
    assert found[0].startswith(f"floodtide/_core.so {text}") or text in found[0]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf")
def test_an_unrepaired_wheel_with_a_path_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "floodtide-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(sys.executable, "floodtide/_core.so")
        archive.writestr("floodtide/made.py", "/home/me/floodtide/made.py")
        archive.writestr("floodtide.libs/libgomp-1.so", "")
    found, summary = CHECKS["check"](wheel, ["/home/me"])
    assert "the platform is linux_x86_64: expected manylinux_*, run auditwheel" in found
    assert "floodtide/made.py contains /home/me" in found
    assert "contains libgomp without its licence notices/libgomp-copyright" in found
    assert summary["vendored"] == ["floodtide.libs/libgomp-1.so"]


def test_a_tag_newer_than_wanted_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "floodtide-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("floodtide/made.py", "")
    assert CHECKS["check"](wheel, [], "2.35")[0] == []
    found = CHECKS["check"](wheel, [], "2.28")[0]
    assert found == ["the platform is manylinux_2_35_x86_64: expected glibc 2.28 or older"]


def test_h5py_and_floodtide_share_a_process() -> None:
    command = [sys.executable, str(ROOT / "packaging/try_h5py.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "floodtide before h5py" in done.stdout
    assert "h5py before floodtide" in done.stdout
