# SPDX-License-Identifier: Apache-2.0
"""Public data sets and the published network: where they come from, and how they are prepared."""

from floodtide.fetch.fetching import fetch
from floodtide.fetch.sources import opened
from floodtide.fetch.table import DATA_SETS, DataSet

__all__ = [
    "DATA_SETS",
    "DataSet",
    "fetch",
    "opened",
]
