# SPDX-License-Identifier: Apache-2.0
"""Ranks: initialisation, collectives, process sets, ranks started from a notebook, and the verification of gradients.

Importing this package starts nothing. `floodtide` exports the names for scripts.
"""

__all__ = ["notebook", "world"]
