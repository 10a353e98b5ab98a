# SPDX-License-Identifier: Apache-2.0
"""Every message that docs/troubleshooting.md quotes is in the source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


def texts() -> str:
    """Return the text constants of the Python and C++ sources; a null character ends each."""
    found = []
    for path in sorted((ROOT / "python/floodtide").rglob("*.py")):
        tree = ast.walk(ast.parse(path.read_text("utf-8")))
        found += [n.value for n in tree if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    for path in sorted((ROOT / "cpp/src").rglob("*.cpp")):
        found += re.findall(r'"([^"\n]*)"', path.read_text("utf-8"))
    return "\0".join(found)


def test_quoted_messages_exist() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    signs = re.findall(r"^- \*\*(.*?)\*\*: ", page, re.MULTILINE)
    quoted = [text for sign in signs for text in re.findall(r'"([^"]*)"', sign)]
    assert len(quoted) > 40
    source = texts()
    for text in quoted:
        for part in re.split(r"\s*\.\.\.[;,]?\s*", text):
            assert part in source, f"docs/troubleshooting.md quotes {part!r}"
