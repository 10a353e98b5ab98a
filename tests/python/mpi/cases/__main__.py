# SPDX-License-Identifier: Apache-2.0
"""Run all cases of a module on every rank: `mpiexec -n 3 python cases reductions`, in the folder of tests.

A case is a function whose name begins with `case_`. Rank 0 prints its name when all ranks have
passed it, so that what a job printed tells how far it came.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

import floodtide as ft

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    """Run the cases of the module that is named on the command line."""
    module = importlib.import_module(sys.argv[1])
    ft.init()
    for name, case in vars(module).items():
        if not name.startswith("case_"):
            continue
        try:
            case()
        except BaseException:
            print(f"rank {ft.rank()} failed in {name}", file=sys.stderr)
            traceback.print_exc()
            raise
        ft.barrier()
        if ft.rank() == 0:
            print(name, flush=True)


main()
