# SPDX-License-Identifier: Apache-2.0
"""Reports of runs: one HTML file with every figure inside, readable without a network.

`write(run_folders)` is what `floodtide report` and `floodtide demo` call; `record_growth` keeps
snapshots of a growing object for it. What a run directory may contain is described in
docs/formats.md; parts that are absent are named in the report.
"""

from floodtide.report.growth import record_growth
from floodtide.report.page import write

__all__ = ["record_growth", "write"]
