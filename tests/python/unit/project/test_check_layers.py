# SPDX-License-Identifier: Apache-2.0
"""The layer check accepts this tree and notices each kind of violation."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "tests/scripts/check_layers.py"))


def problems(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    found: list[str] = SCRIPT["check"](root)
    return found


def test_this_tree_keeps_the_layers() -> None:
    assert SCRIPT["check"](ROOT) == []


def test_every_folder_has_a_row() -> None:
    folders = {path.name for path in (ROOT / "cpp/src").iterdir() if path.is_dir()}
    assert folders == SCRIPT["MAY_INCLUDE"].keys()


def test_no_folder_reaches_itself_through_others() -> None:
    table = SCRIPT["MAY_INCLUDE"]
    for folder, lower in table.items():
        for name in lower:
            assert folder not in table[name]
            assert set(table[name]) <= set(lower), f"{folder} includes {name} but not all below it"


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("cpp/src/nn/a.cpp", '#include "floodtide/comm/communicator.hpp"', "nn includes"),
        ("cpp/src/nn/a.cpp", '#include "comm/ring.hpp"', "nn includes"),
        ("cpp/include/floodtide/data/a.hpp", '#include "floodtide/nn/ffn.hpp"', "data includes"),
        ("cpp/include/floodtide/nn/a.hpp", '#include "nn/private.hpp"', "public header"),
        ("cpp/src/nn/a.cpp", '#include "a.hpp"', "expected folder/file.hpp"),
        ("cpp/src/other/a.cpp", '#include "other/a.hpp"', "expected folder/file.hpp"),
        ("python/bindings/nn.cpp", '#include "nn/private.hpp"', "bindings include"),
        ("python/bindings/comm.cpp", "#include <mpi.h>", "expected in cpp/src/comm/mpi/"),
        ("cpp/src/comm/a.cpp", "  #  include <mpi.h>", "expected in cpp/src/comm/mpi/"),
        ("cpp/src/train/a.cpp", "#include <hdf5.h>", "expected in cpp/src/data/"),
        ("cpp/src/kernels/a.cpp", "#include <omp.h>", "expected in cpp/src/base/"),
        ("cpp/include/floodtide/kernels/a.hpp", "#include <omp.h>", "expected in cpp/src/base/"),
        ("cpp/src/nn/a.cpp", "#include <immintrin.h>", "expected in cpp/src/kernels/"),
        ("cpp/src/nn/a.cpp", "#include <boost/any.hpp>", "a row in THIRD_PARTY"),
        ("cpp/src/kernels/a.hpp", "#include <Eigen/Core>", "belongs in one .cpp file"),
    ],
)
def test_a_violation_is_named(tmp_path: Path, file: str, line: str, message: str) -> None:
    found = problems(tmp_path, {file: f"// first line\n{line}\n"})
    assert len(found) == 1
    assert message in found[0]
    assert found[0].startswith(file)


def test_a_library_in_two_files_is_named(tmp_path: Path) -> None:
    text = "#include <Eigen/Core>\n"
    found = problems(tmp_path, {"cpp/src/kernels/a.cpp": text, "cpp/src/kernels/b.cpp": text})
    assert found == [
        "cpp/src/kernels/a.cpp, cpp/src/kernels/b.cpp: (Eigen|unsupported/Eigen)/.* "
        "belongs in one .cpp file"
    ]


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        {
            "cpp/src/nn/a.cpp": '#include "kernels/conv3d/conv3d.hpp"\n#include <vector>\n',
            "cpp/src/comm/mpi/a.cpp": '#include <mpi.h>\n#include "floodtide/base/error.hpp"\n',
            "cpp/include/floodtide/nn/ffn.hpp": '#include "floodtide/tensor/view.hpp"\n',
            "python/bindings/nn.cpp": '#include <pybind11/numpy.h>\n#include "arrays.hpp"\n',
            "cpp/src/base/a.cpp": "#include <sys/resource.h>\n#include <unistd.h>\n",
        },
    )
    assert found == []
