# SPDX-License-Identifier: Apache-2.0
"""Objects that cannot be sent to another process, or copied."""

from __future__ import annotations

from typing import NoReturn


class NotPickled:
    """Base class of objects that cannot be pickled or copied. `not_pickled` says why, and what to do instead."""

    __slots__ = ()
    not_pickled = ""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Raise TypeError, as Python's own objects do that cannot be pickled."""
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied: {self.not_pickled}")
