# SPDX-License-Identifier: Apache-2.0
"""The project's fuzzer: every file that is read and every number on a command line, damaged from fixed seeds.

`python tests/fuzz/run.py` runs it; CONTRIBUTING.md says how. A kind (`kinds.py`) damages one sort of input and names a
command that reads it; `trial.py` runs the command under limits and judges what came of it.
"""
