# SPDX-License-Identifier: Apache-2.0
"""Fail if a page links to a file that is not in the tree. Usage: python tests/scripts/check_links.py"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Print each link that leads nowhere."""
    status = 0
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")):
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in target and not (page.parent / target).exists():
                print(f"{page.relative_to(ROOT)} links to {target}: no such file", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
