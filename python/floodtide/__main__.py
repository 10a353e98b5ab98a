# SPDX-License-Identifier: Apache-2.0
"""`python -m floodtide` is the `floodtide` program."""

from floodtide.cli import main

main()
