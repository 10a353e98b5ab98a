# SPDX-License-Identifier: Apache-2.0
"""floodtide: distributed training and inference of flood-filling networks, with a C++ core."""

from floodtide import errors
from floodtide._core import __version__

__all__ = ["__version__", "errors"]
