# SPDX-License-Identifier: Apache-2.0
"""Run the `floodtide` program with `python -m floodtide`."""

from floodtide.cli import main

main()
