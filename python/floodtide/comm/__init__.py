# SPDX-License-Identifier: Apache-2.0
"""Ranks: starting them, collectives, process sets, ranks from a notebook, and the verification of gradients.

Nothing starts when this room is imported; `floodtide` exports its public names.
"""
