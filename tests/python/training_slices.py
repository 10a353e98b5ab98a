# SPDX-License-Identifier: Apache-2.0
"""A tiny U-Net run: whole sections of patients with one bright disk each, on disk, and its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

SLICES, SIZE = 12, 16


def write_slices(folder: Path, name: str = "slices.h5", *, first_patient: int = 1) -> Path:
    """Write a file with image, mask and patient, two slices a patient."""
    random = np.random.default_rng(first_patient)
    y, x = np.mgrid[:SIZE, :SIZE]
    centres = random.integers(4, SIZE - 4, (SLICES, 2, 1, 1))
    masks = np.hypot(y - centres[:, 0], x - centres[:, 1]) < 4
    images = 100 + 60 * masks + 20 * random.normal(size=masks.shape)
    path = folder / name
    with h5py.File(path, "w") as file:
        file["image"] = images.clip(0, 255).astype(np.uint8)
        file["mask"] = masks.astype(np.uint8)
        file["patient"] = (first_patient + np.arange(SLICES) // 2).astype(np.int32)
    return path


def volume(path: Path, **more: Any) -> dict[str, Any]:
    """The table of a file's volume in a configuration."""
    names = {"image": f"{path}:image", "labels": f"{path}:mask", "groups": f"{path}:patient"}
    return {**names, "mean": 100.0, "std": 50.0, **more}


def document(folder: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    """A configuration as TOML gives it, with some sections' keys replaced."""
    base: dict[str, dict[str, Any]] = {
        "run": {"dir": str(folder / "run"), "seed": 4, "threads": 1, "log_every_s": 0},
        "data": {"volumes": [volume(folder / "slices.h5")], "patch": "whole"},
        "augmentation": {"reflectable_axes": [2], "noise": 0.1},
        "task": {"kind": "classes"},
        "model": {"kind": "unet", "depth": 2, "kernels": [[1, 3, 3]], "pools": [[1, 2, 2]]},
        "training": {"steps": 6, "walkers": 2, "batch": 2},
        "optimizer": {"lr": 5e-3},
        "validation": {"share": 0.3, "every": 3},
    }
    for name, keys in sections.items():
        base[name] = {**base.get(name, {}), **keys}
    return base
