# SPDX-License-Identifier: Apache-2.0
"""Public data sets and the published network: where they come from, how they are prepared, and where they lie here."""

from floodtide.fetch.fetching import fetch
from floodtide.fetch.places import PUBLISHED, PublishedNetwork, data_folder, published
from floodtide.fetch.sources import opened
from floodtide.fetch.table import DATA_SETS, DataSet

__all__ = [
    "DATA_SETS",
    "PUBLISHED",
    "DataSet",
    "PublishedNetwork",
    "data_folder",
    "fetch",
    "opened",
    "published",
]
