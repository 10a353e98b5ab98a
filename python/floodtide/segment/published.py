# SPDX-License-Identifier: Apache-2.0
"""Where fetched data lie on this machine, and the published networks that a name such as "fib25" means."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from floodtide.base import reading
from floodtide.data.look import FIB25
from floodtide.data.look.trained_on import TrainedOn
from floodtide.errors import InvalidFileError

ENVIRONMENT = "FLOODTIDE_DATA"
"""Environment variable with the folder of the data."""


@dataclass(frozen=True, kw_only=True)
class PublishedNetwork:
    """A published network, and what its authors say about its use.

    Attributes:
        path: Its file below the data folder.
        trained_on: The images that it was trained on, with their normalisation and voxel size.
        data_set: The name for `floodtide fetch`.
        origin: What it is, in a few words.
    """

    path: str
    trained_on: TrainedOn
    data_set: str
    origin: str


PUBLISHED = {
    "fib25": PublishedNetwork(
        path="ffn_fib25_checkpoint/model.ckpt-27465036",
        trained_on=FIB25,
        data_set="fib25",
        origin="google/ffn's network for FIB-25 (FIB-SEM of fly brain)",
    )
}


def data_folder() -> Path:
    """Return $FLOODTIDE_DATA; if it is not set, the folder floodtide in $XDG_DATA_HOME, or in ~/.local/share."""
    chosen = os.environ.get(ENVIRONMENT)
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_DATA_HOME")
    base = Path(home) if home else Path.home() / ".local" / "share"
    return base / "floodtide"


def published(name: str) -> tuple[PublishedNetwork, str]:
    """Return a published network of the table PUBLISHED, and its path on this machine.

    Raises:
        InvalidFileError: If the network is not there. The message tells the command that brings it.
    """
    network = PUBLISHED[name]
    path = str(data_folder() / network.path)
    if not reading.exists(f"{path}.index"):
        raise InvalidFileError(
            f"the network {name} is not in {data_folder()}: `floodtide fetch {network.data_set}` brings it there;"
            f" {ENVIRONMENT} names another folder"
        )
    return network, path
