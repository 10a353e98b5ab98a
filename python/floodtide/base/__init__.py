# SPDX-License-Identifier: Apache-2.0
"""Shared basics: ranges of numbers, options of configurations, and reading, writing and locking of files."""
