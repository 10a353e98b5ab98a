# SPDX-License-Identifier: Apache-2.0
"""Build the documentation site. Every warning is an error.

Usage: python docs/build.py [FOLDER]      after pip install --group docs; default: build/site
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(folder: str) -> int:
    options = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(ROOT / "docs")]
    cache = ["-d", f"{folder}.cache"]
    return subprocess.call([sys.executable, "-m", "sphinx", *options, *cache, str(ROOT), folder])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/site")))
