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

extensions = ["myst_nb"]
root_doc = "docs/index"
include_patterns = ["docs/**", "examples/**", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
exclude_patterns = ["**/__pycache__", "build", "dist", "runs", ".*", "cpp", "python", "tests"]

html_theme = "furo"
html_title = f"floodtide {release}"
html_static_path: list[str] = []
html_show_sourcelink = False
html_extra_path = ["site/index.html"]  # the root of the site leads to docs/index.html

myst_heading_anchors = 3
nb_execution_mode = "off"  # tests/python/unit/comm/test_notebook.py runs the notebooks
nb_merge_streams = True


def setup(app: Any) -> None:
    def show_navigation(_app: Any, _page: str, text: list[str]) -> None:
        """Uncomment what only the site reads: elsewhere, readers would see the directives of Sphinx."""
        text[0] = text[0].replace("<!-- site\n", "").replace("\nsite -->", "")

    app.connect("source-read", show_navigation)
