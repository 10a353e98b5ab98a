# SPDX-License-Identifier: Apache-2.0
"""A program of another project: `cmake --install`, find_package(floodtide), a training step on two ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from floodtide import data, nn

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("FLOODTIDE_BUILD", ROOT / "build/tests"))

pytestmark = [pytest.mark.extra, pytest.mark.mpi]


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the component `cpp` of a build folder installs ($FLOODTIDE_BUILD, else the one of tests/run.sh)."""
    assert (BUILD / "CMakeCache.txt").exists(), f"no CMake build in {BUILD} (set FLOODTIDE_BUILD)"
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--component", "cpp", "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def program(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """examples/cpp, built against the installed package."""
    folder = tmp_path_factory.mktemp("example")
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release"]
    run("cmake", "-S", ROOT / "examples/cpp", "-B", folder, *options)
    run("cmake", "--build", folder)
    return folder / "train_step"


def test_the_package_has_no_python_module(prefix: Path) -> None:
    names = {path.name for path in prefix.rglob("*") if path.is_file()}
    assert {"libfloodtide.a", "floodtideConfig.cmake", "trainer.hpp", "_mpi_mpich.so"} <= names
    assert not [name for name in names if name.startswith("_core") or name.endswith(".py")]


@pytest.mark.parametrize("published", [False, True])
def test_two_ranks_train_one_step(
    program: Path, published: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    z, y, x = np.indices((64, 64, 64))
    labels = (1 + (y + z // 3 > 40) + 2 * (x > 31)).astype(np.int32)
    noise = np.random.default_rng(0).integers(0, 30, labels.shape)
    raw = (60 + 40 * labels + noise).astype(np.uint8)
    data.write_volume(tmp_path / "volume.h5", {"raw": raw, "labels": labels})
    data.partition(f"{tmp_path}/volume.h5:labels", f"{tmp_path}/parts.h5:af", lom_radius=(8, 8, 8))
    words = [f"{tmp_path}/volume.h5:raw", f"{tmp_path}/volume.h5:labels", f"{tmp_path}/parts.h5:af"]
    if published:
        folder = request.getfixturevalue("data_folder") / "ffn_fib25_checkpoint"
        nn.load(folder / "model.ckpt-27465036").save(tmp_path / "network.h5")
        words.append(f"{tmp_path}/network.h5")
    # MPICH's wheel is in a folder that no dynamic linker searches.
    library = Path(sys.prefix) / "lib/libmpi.so.12"
    output = run(
        Path(sys.executable).with_name("mpiexec"), "-n", "2", program, *words,
        FLOODTIDE_LIBMPI=str(library), OMP_NUM_THREADS="1",
    )  # fmt: skip
    assert output.startswith(f"2 ranks, depth {12 if published else 2}: "), output
    assert 0 < float(output.split()[-1]) < 2
