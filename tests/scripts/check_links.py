# SPDX-License-Identifier: Apache-2.0
"""Fail if a page links to a file or a heading that does not exist. Usage: python tests/scripts/check_links.py"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Print each link that leads nowhere."""
    wrong = []
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")):
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", _prose(page)):
            file = page.parent / target if target else page
            if "://" in target:
                continue
            if not file.exists():
                wrong.append(f"{page.relative_to(ROOT)} links to {target}: no such file")
            elif anchor and file.suffix == ".md" and anchor not in _anchors(file):
                wrong.append(
                    f"{page.relative_to(ROOT)} links to {target}#{anchor}: no such heading"
                )
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return bool(wrong)


def _prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """Return the anchors that hosts of repositories and the documentation site give to the headings of a page."""
    headings = re.findall(r"^#+ +(.*?) *$", _prose(page), flags=re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)|`", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in plain}


if __name__ == "__main__":
    sys.exit(main())
