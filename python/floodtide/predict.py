# SPDX-License-Identifier: Apache-2.0
"""Predictions of U-Nets: the public names of `floodtide.segment.predict`, with a short import path for scripts."""

from floodtide.segment.predict import (
    MEMORY_MIB,
    Predictor,
    bytes_per_voxel,
    load,
    newest_checkpoint,
    normalisation,
)

__all__ = [
    "MEMORY_MIB",
    "Predictor",
    "bytes_per_voxel",
    "load",
    "newest_checkpoint",
    "normalisation",
]
