# SPDX-License-Identifier: Apache-2.0
"""A small volume on disk and a configuration that trains on it in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from floodtide import data

SHAPE = (40, 40, 40)


def write_volume(folder: Path) -> None:
    """volume.h5 with `raw` (uint8) and `labels` (int32), and partitions.h5 with `af`."""
    z, y, x = np.indices(SHAPE)
    labels = (1 + (y + z // 3 > 20) + 2 * (x > 19)).astype(np.int32)
    noise = np.random.default_rng(0).integers(0, 30, SHAPE)
    raw = (60 + 40 * labels + noise).astype(np.uint8)
    data.write_volume(folder / "volume.h5", {"raw": raw, "labels": labels})
    data.partition(
        f"{folder}/volume.h5:labels",
        f"{folder}/partitions.h5:af",
        lom_radius=(4, 4, 4),
        min_size=10,
    )


def document(folder: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    """A configuration for that volume; `sections` are laid over it."""
    result: dict[str, Any] = {
        "run": {"dir": str(folder / "run"), "seed": 4, "log_every_s": 0.0},
        "data": {
            "volumes": [
                {
                    "name": "cube",
                    "image": f"{folder}/volume.h5:raw",
                    "labels": f"{folder}/volume.h5:labels",
                    "partitions": f"{folder}/partitions.h5:af",
                    "box": "0:28,0:40,0:40",
                }
            ]
        },
        "model": {"depth": 2, "features": 4, "fov": [7, 7, 7], "deltas": [2, 2, 2]},
        "training": {"steps": 50, "walkers": 2},
        "validation": {"box": "22:40,0:40,0:40", "centres": 5},
    }
    for name, values in sections.items():
        result[name] = {**result.get(name, {}), **values}
    return result
