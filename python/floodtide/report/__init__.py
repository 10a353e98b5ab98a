# SPDX-License-Identifier: Apache-2.0
"""Reports of runs: one HTML file with all figures inside, readable without an internet connection.

`floodtide report` and `floodtide demo` call `write(run_folders)`. For the trainings of a sweep, `floodtide report`
calls `write_sweep(folders)`. `record_growth` saves snapshots of a growing object for the report. docs/formats.md
describes what a run directory may contain. The report names the parts that are missing.
"""

from floodtide.report.growth import record_growth
from floodtide.report.page import write
from floodtide.report.sweeps import is_sweep, write_sweep

__all__ = ["is_sweep", "record_growth", "write", "write_sweep"]
