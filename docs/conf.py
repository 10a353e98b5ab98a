# SPDX-License-Identifier: Apache-2.0
"""Settings of the documentation site.

`python docs/build.py` builds it. The root of the repository is the source folder, because pages link to examples.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

project = "floodtide"
author = "The floodtide developers"
copyright = "2026, The floodtide developers"
_found = re.search(r"project\(floodtide VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
assert _found is not None
release = version = _found[1]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
]
root_doc = "docs/index"
include_patterns = ["docs/**", "examples/**", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
exclude_patterns = ["**/__pycache__", "build", "dist", "runs", ".*", "cpp", "python", "tests"]
nitpicky = False  # types of NumPy and of the standard library have no pages here

html_theme = "furo"
html_title = f"floodtide {release}"
html_static_path: list[str] = []
html_show_sourcelink = False
html_extra_path = ["site/index.html"]  # the root of the site leads to docs/index.html

myst_heading_anchors = 3
myst_enable_extensions = ["attrs_block"]
nb_execution_mode = "off"  # tests/python/unit/comm/test_notebook.py runs the notebooks
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "imported-members": True}
default_role = "literal"  # docstrings put names in single backticks, as Markdown does
napoleon_use_ivar = True  # else attributes that are functions have two entries


def escape(line: str) -> str:
    """Escape marks of reStructuredText: words that end in an underscore, vertical bars, patterns of files."""
    parts = line.split("`")
    parts[::2] = [
        re.sub(r"(?<=\w)_(?!\w)", r"\\_", part).replace("|", r"\|").replace("*.", r"\*.")
        for part in parts[::2]
    ]
    return "`".join(parts)


def to_restructured_text(lines: list[str]) -> None:
    """Change a plain docstring in place: escape its words, and mark an indented example as code."""
    example = None  # indentation of the line above the example
    for i, line in enumerate(lines):
        indentation = len(line) - len(line.lstrip())
        if example is not None and line and indentation <= example:
            example = None
        if example is not None:
            continue
        lines[i] = escape(line)
        below = next((text for text in lines[i + 2 : i + 3] if lines[i + 1] == ""), "")
        if line.endswith(":") and len(below) - len(below.lstrip()) > indentation:
            lines[i] += ":"
            example = indentation


def setup(app: Any) -> None:
    def docstring(
        _app: Any, _what: str, _name: str, _item: Any, _options: Any, lines: list[str]
    ) -> None:
        to_restructured_text(lines)

    def help_text(_app: Any, _context: Any, lines: list[str]) -> None:
        to_restructured_text(lines)

    app.connect("autodoc-process-docstring", docstring, priority=400)  # before napoleon
    app.connect("sphinx-click-process-description", help_text)
