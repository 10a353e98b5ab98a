# SPDX-License-Identifier: Apache-2.0
"""Write the golden vectors: `python tests/golden/make.py`. Needs floodtide and PyTorch (dependency group `oracle`)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden import vectors

if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(f"{__doc__}\nexpected no arguments")
    vectors.write(vectors.FILE)
    print(f"{vectors.FILE}: {len(vectors.CASES)} cases, {vectors.FILE.stat().st_size} bytes")
