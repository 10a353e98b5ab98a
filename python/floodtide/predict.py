# SPDX-License-Identifier: Apache-2.0
"""`floodtide.segment.predict`, under the name that scripts use."""

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
