# SPDX-License-Identifier: Apache-2.0
"""Reports of runs: one HTML file with all figures inside, readable without an internet connection.

`floodtide report` and `floodtide demo` call `write(run_folders)`. docs/formats.md describes what a run
directory may contain. The report names the parts that are missing.
"""

from floodtide.report import comparison, curves, page, tables
from floodtide.report.page import write

__all__ = ["comparison", "curves", "page", "tables", "write"]
