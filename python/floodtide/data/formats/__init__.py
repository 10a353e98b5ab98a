# SPDX-License-Identifier: Apache-2.0
"""Formats of volumes: their table, and the readers and writers of its rows."""
