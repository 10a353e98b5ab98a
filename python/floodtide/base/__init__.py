# SPDX-License-Identifier: Apache-2.0
"""What every room needs: ranges of numbers, options of configurations, and how files are read, written and locked."""
