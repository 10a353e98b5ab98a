# SPDX-License-Identifier: Apache-2.0
"""Check who includes whom in C++ and who imports whom in Python (CONTRIBUTING.md, "Layers").

Prints a line for each violation; exit 1 if there is any.

Usage: python tests/scripts/check_layers.py [ROOT]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import python_rooms

# Folder of cpp/src and cpp/include/floodtide: the folders that it may include beside itself.
_LOWER = ("base", "tensor")
_NETWORK = (*_LOWER, "kernels", "nn", "optim", "comm", "data", "flood", "evaluate")
MAY_INCLUDE: dict[str, tuple[str, ...]] = {
    "base": (),
    "tensor": ("base",),
    "kernels": _LOWER,
    "nn": (*_LOWER, "kernels"),
    "optim": (*_LOWER, "kernels"),
    "comm": _LOWER,
    "data": _LOWER,
    "flood": (*_LOWER, "data"),
    "evaluate": _LOWER,
    "train": _NETWORK,
    "segment": _NETWORK,
    "bench": (*_NETWORK, "train", "segment"),
}

# Third-party header: where it may appear, relative to the root.
THIRD_PARTY: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"omp\.h", ("cpp/src/base/",)),
    (r"mpi\.h", ("cpp/src/comm/mpi/",)),
    (r"(hdf5|hdf5_hl|H5\w+|zlib)\.h", ("cpp/src/data/",)),
    # Its templates must be compiled with the same instructions everywhere: not in a file for AVX.
    (r"Eigen/.*", ("cpp/src/data/", "cpp/src/kernels/conv3d/eigen.cpp")),
    (r"(oneapi/dnnl/.*|dnnl.*)", ("cpp/src/kernels/",)),
    (
        r"(imm|x86|[a-z]mm)intrin\.h",
        ("cpp/src/kernels/", "cpp/src/comm/reduce/"),
    ),
    (r"pybind11/.*", ("python/bindings/",)),
)
# Stays in one file.
IN_ONE_FILE = (r"(oneapi/dnnl/.*|dnnl.*)",)
# C and POSIX headers; a standard C++ header is a name without dot and slash.
SYSTEM = re.compile(
    r"(dlfcn|fcntl|pthread|sched|signal|spawn|unistd|endian)\.h|sys/\w+\.h|linux/\w+\.h"
)
_INCLUDE = re.compile(r'^\s*#\s*include\s*(<([^>]+)>|"([^"]+)")')


def check(root: Path) -> list[str]:
    """All violations in a tree, each as `file:line: what, what was expected`."""
    problems: list[str] = []
    users: dict[str, set[str]] = {}
    for file in _sources(root):
        where = file.relative_to(root).as_posix()
        for number, name, quoted in _includes(file):
            problem = _ours(where, name) if quoted else _others(where, name)
            if problem:
                problems.append(f"{where}:{number}: {problem}")
            for pattern in IN_ONE_FILE:
                if not quoted and re.fullmatch(pattern, name):
                    users.setdefault(pattern, set()).add(where)
    for pattern, files in users.items():
        if len(files) > 1 or not all(file.endswith(".cpp") for file in files):
            problems.append(f"{', '.join(sorted(files))}: {pattern} belongs in one .cpp file")
    return problems + python_rooms.check(root)


def _sources(root: Path) -> Iterator[Path]:
    for folder in ("cpp/include", "cpp/src", "python/bindings"):
        for suffix in ("*.hpp", "*.cpp", "*.h", "*.inc"):
            yield from sorted((root / folder).rglob(suffix))


def _includes(file: Path) -> Iterator[tuple[int, str, bool]]:
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        match = _INCLUDE.match(line)
        if match:
            yield number, match[2] or match[3], match[3] is not None


def _ours(where: str, name: str) -> str | None:
    """A header in quotation marks: our own."""
    parts = name.split("/")
    public = parts[0] == "floodtide"
    if where.startswith("python/bindings/"):
        if public or len(parts) == 1:
            return None
        return f"bindings include {name}; expected floodtide/ headers only"
    if where.startswith("cpp/include/") and not public:
        return f"public header includes {name}; expected floodtide/ headers only"
    target = parts[1] if public else parts[0]
    if len(parts) < 2 or target not in MAY_INCLUDE:
        return f"includes {name}; expected folder/file.hpp or floodtide/folder/file.hpp"
    own = where.split("/")[3 if where.startswith("cpp/include/") else 2]
    if own not in MAY_INCLUDE:
        return f"folder {own} has no row in the table of layers"
    if target != own and target not in MAY_INCLUDE[own]:
        return f"{own} includes {name}; expected only {', '.join((own, *MAY_INCLUDE[own]))}"
    return None


def _others(where: str, name: str) -> str | None:
    """A header in angle brackets: standard, system or third-party."""
    for pattern, folders in THIRD_PARTY:
        if re.fullmatch(pattern, name):
            expected = " or ".join(folders)
            return (
                None if where.startswith(folders) else f"includes <{name}>; expected in {expected}"
            )
    if re.fullmatch(r"[a-z_]+", name) or SYSTEM.fullmatch(name):
        return None
    return f"includes <{name}>; expected a standard header or a row in THIRD_PARTY"


def main() -> int:
    """Check the tree that is named on the command line, else the one this file is in."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
