# SPDX-License-Identifier: Apache-2.0
"""Check that a wheel can be published: it runs on other Linux machines and names no path of the build machine.

    python packaging/check_wheel.py dist/floodtide-*.whl --glibc 2.28 --forbid "$PWD"

Prints a summary as JSON, or one line per problem and exits with 1. Needs `readelf` (Debian: binutils).
"""

from __future__ import annotations

import argparse
import json
import posixpath
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 100_000_000  # the limit of PyPI for one file
# Libraries that every system of the platform tag has (PEP 600, and auditwheel's list), without those of graphics.
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s|z)\.so\.\d+|libstdc\+\+\.so\.6|ld-linux-.*)")
NOTICES = {"libhdf5": "hdf5-COPYING", "libgomp": "libgomp-copyright"}


@dataclass(frozen=True)
class Binary:
    """What the dynamic section and the symbols of one ELF file say."""

    name: str  # path inside the wheel
    needed: frozenset[str]
    search: tuple[str, ...]  # entries of RPATH and RUNPATH
    glibc: tuple[int, int]  # newest version of glibc whose symbols the file uses
    exported: frozenset[str]


def readelf(path: Path, *options: str) -> str:
    command = ["readelf", "--wide", *options, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def examine(path: Path, name: str) -> Binary:
    dynamic = readelf(path, "--dynamic")
    symbols = readelf(path, "--dyn-syms")
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", readelf(path, "--version-info"))
    paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
    defined = re.findall(r"(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+ (\S+)", symbols)
    return Binary(
        name=name,
        needed=frozenset(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)),
        search=tuple(part for path in paths for part in path.split(":")),
        glibc=max(((int(a), int(b)) for a, b in versions), default=(0, 0)),
        exported=frozenset(symbol.split("@")[0] for symbol in defined),
    )


def is_elf(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def binaries(folder: Path) -> list[Binary]:
    paths = [path for path in sorted(folder.rglob("*")) if is_elf(path)]
    return [examine(path, str(path.relative_to(folder))) for path in paths]


def problems_of(binary: Binary, inside: frozenset[str], tag: tuple[int, int] | None) -> list[str]:
    """Return the reasons why one binary would not run elsewhere.

    Args:
        binary: The examined file.
        inside: Names of the files in the wheel, without their folders.
        tag: Version of glibc in the wheel's platform tag, None without such a tag.
    """
    found = []
    for library in sorted(binary.needed):
        if re.match(r"lib(p?mpi|mpich)", library):
            found.append(f"needs {library}: the MPI library is chosen at run time")
        elif library not in inside and not SYSTEM.fullmatch(library):
            found.append(f"needs {library}, which is neither in the wheel nor on every system")
    for part in binary.search:
        target = posixpath.normpath(
            part.replace("$ORIGIN", posixpath.join("/wheel", posixpath.dirname(binary.name)))
        )
        if not part.startswith("$ORIGIN") or not f"{target}/".startswith("/wheel/"):
            found.append(f"searches {part}: expected a folder of the wheel ($ORIGIN/...)")
    if tag is not None and binary.glibc > tag:
        found.append(f"needs glibc {binary.glibc[0]}.{binary.glibc[1]}, newer than the tag says")
    if shared := sorted(symbol for symbol in binary.exported if re.match(r"H5[A-Z]", symbol)):
        found.append(f"exports {shared[0]} and {len(shared) - 1} more symbols of HDF5")
    return [f"{binary.name} {problem}" for problem in found]


def check(
    wheel: Path, forbidden: list[str], glibc: str | None = None
) -> tuple[list[str], dict[str, object]]:
    """Return (problems, summary) of a wheel; the wheel is good if there are no problems.

    Args:
        wheel: The file.
        forbidden: Texts that no file of the wheel may contain.
        glibc: Version of glibc with which the wheel must run, None for the tag's own.
    """
    problems = []
    platform = wheel.stem.split("-")[-1]
    tags = [(int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)_", platform)]
    tag = min(tags, default=None)
    if tag is None:
        problems.append(f"the platform is {platform}: expected manylinux_*, run auditwheel")
    elif glibc and tag > tuple(map(int, glibc.split("."))):
        problems.append(f"the platform is {platform}: expected glibc {glibc} or older")
    size = wheel.stat().st_size
    if size > MAX_BYTES:
        problems.append(f"{size / 1e6:.1f} MB: expected at most {MAX_BYTES / 1e6:.0f} MB")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        root = Path(folder)
        names = archive.namelist()
        found = binaries(root)
        inside = frozenset(posixpath.basename(name) for name in names)
        for binary in found:
            problems += problems_of(binary, inside, tag)
        for name in names:
            content = (root / name).read_bytes() if not name.endswith("/") else b""
            problems += [
                f"{name} contains {path}" for path in forbidden if path.encode() in content
            ]
        vendored = sorted(name for name in names if ".libs/" in name and not name.endswith("/"))
        core = next((root / name for name in names if "/_core." in name and ".so" in name), None)
        static = core is not None and b"HDF5 library version" in core.read_bytes()
        for library, notice in NOTICES.items():
            there = any(library in name for name in vendored) or (static and library == "libhdf5")
            if there and not any(name.endswith(f"/notices/{notice}") for name in names):
                problems.append(f"contains {library} without its licence notices/{notice}")
    summary = {
        "wheel": wheel.name,
        "megabytes": round(size / 1e6, 1),
        "glibc": ".".join(map(str, max((binary.glibc for binary in found), default=(0, 0)))),
        "hdf5": "compiled in" if static else "a shared library",
        "vendored": vendored,
        "modules": sorted(b.name for b in found if b.name not in vendored),
    }
    return problems, summary


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--glibc", metavar="VERSION", help="the oldest glibc that must do")
    parser.add_argument("--forbid", action="append", default=[], metavar="PATH")
    options = parser.parse_args()
    problems, summary = check(options.wheel, options.forbid, options.glibc)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(json.dumps(summary, indent=2))
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
