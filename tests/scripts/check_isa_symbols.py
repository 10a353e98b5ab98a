# SPDX-License-Identifier: Apache-2.0
"""Check the object files that are compiled for one instruction set.

A weak symbol there (an inline function of a header, say) could be picked by the linker for the
whole program and stop it on processors without that instruction set. Each such file exports tables
of functions, constants alone, and has no static constructor.

Usage: check_isa_symbols.py NM LIBRARY. LIBRARY is the static library of the core.
"""

from __future__ import annotations

import re
import subprocess
import sys

ISA_MEMBER = re.compile(r"^(generic|avx2|avx512|amx)\.cpp\.o(bj)?$")
WEAK = set("VvWwu")
CONSTANT = set("RD")  # D: constants that hold addresses, before the linker has seen them


def isa_members(nm: str, library: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return (member, [(symbol type, name)]) of each instruction-set file; names may repeat."""
    output = subprocess.run([nm, library], check=True, capture_output=True, text=True).stdout
    members: list[tuple[str, list[tuple[str, str]]]] = []
    for line in output.splitlines():
        if line.endswith(":"):
            members.append((line[:-1], []))
        elif line.strip():
            kind, name = line.split()[-2:]
            members[-1][1].append((kind, name))
    return [(member, symbols) for member, symbols in members if ISA_MEMBER.match(member)]


def problems_of(member: str, symbols: list[tuple[str, str]]) -> list[str]:
    """Return what is wrong with one file, empty if nothing is."""
    weak = [name for kind, name in symbols if kind in WEAK]
    exported = [(kind, name) for kind, name in symbols if kind.isupper() and kind != "U"]
    constructors = [name for _, name in symbols if name.startswith("_GLOBAL__sub_I")]
    problems = [f"{member}: weak symbol {name}" for name in weak]
    problems += [f"{member}: static constructor {name}" for name in constructors]
    if not exported or any(kind not in CONSTANT for kind, _ in exported):
        problems.append(f"{member}: expected exported constants and nothing else, found {exported}")
    return problems


def main() -> int:
    nm, library = sys.argv[1:]
    members = isa_members(nm, library)
    problems = [p for member, symbols in members for p in problems_of(member, symbols)]
    if not members:
        problems.append(f"{library}: no instruction-set file found")
    print("\n".join(problems) or f"checked {', '.join(member for member, _ in members)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
