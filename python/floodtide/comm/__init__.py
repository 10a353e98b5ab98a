# SPDX-License-Identifier: Apache-2.0
"""Ranks: initialisation, collectives, process sets, and ranks started from a notebook.

Importing this package starts nothing. `floodtide` exports the names for scripts.
"""

__all__ = ["notebook", "world"]
