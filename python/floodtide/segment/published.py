# SPDX-License-Identifier: Apache-2.0
"""Where fetched data lie on this machine, and the published networks that a name such as "fib25" means."""

from __future__ import annotations

import os
from pathlib import Path

from floodtide.base import reading
from floodtide.data.look import FIB25
from floodtide.data.look.trained_on import TrainedOn
from floodtide.errors import InvalidFileError

ENVIRONMENT = "FLOODTIDE_DATA"
"""Environment variable with the folder of the data."""

PUBLISHED: dict[str, tuple[str, TrainedOn]] = {
    "fib25": ("ffn_fib25_checkpoint/model.ckpt-27465036", FIB25)
}
"""Published networks by the names that `floodtide fetch` knows: file below the data folder, and training images."""


def data_folder() -> Path:
    """Return $FLOODTIDE_DATA; if it is not set, the folder floodtide in $XDG_DATA_HOME, or in ~/.local/share."""
    if chosen := os.environ.get(ENVIRONMENT):
        return Path(chosen)
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "floodtide"


def published(name: str) -> tuple[TrainedOn, str]:
    """Return the training images of a published network, and its path on this machine."""
    file, images = PUBLISHED[name]
    path = str(data_folder() / file)
    if not reading.exists(f"{path}.index"):
        raise InvalidFileError(
            f"the network {name} is not in {data_folder()}: `floodtide fetch {name}` brings it there;"
            f" {ENVIRONMENT} names another folder"
        )
    return images, path
