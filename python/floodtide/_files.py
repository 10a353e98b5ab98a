# SPDX-License-Identifier: Apache-2.0
"""Files that are never seen half written."""

from __future__ import annotations

import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Write a text beside `path`, wait until it is on disk, and rename it; an older file stays as it was until then.

    Raises:
        OSError: If it cannot be written.
    """
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
