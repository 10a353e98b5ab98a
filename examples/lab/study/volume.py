# SPDX-License-Identifier: Apache-2.0
"""Write the synthetic volume of the learning-rate study: python examples/lab/study/volume.py runs/study.

512^3 voxels hold so many neurites that the longest training of the study sees no field of view twice. The arrays are
not compressed, because trainings of a small network would wait for the decompression.
"""

import sys
from pathlib import Path

import h5py

import floodtide as ft

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
raw, labels = ft.data.synth((512, 512, 512), seed=1)
with h5py.File(folder / "volume.part", "w") as file:
    file["raw"] = raw
    file["labels"] = labels.astype("uint32")
(folder / "volume.part").rename(folder / "volume.h5")
ft.data.partition(
    f"{folder}/volume.h5:labels",
    f"{folder}/partitions.h5:af",
    lom_radius=(12, 12, 12),
    min_size=1000,
)
