# SPDX-License-Identifier: Apache-2.0
"""Turn the public FIB-25 repositories into the files that the configurations here name.

Usage: python prepare.py NEUROPROOF_EXAMPLES FFN DATA
NEUROPROOF_EXAMPLES and FFN are clones of janelia-flyem/neuroproof_examples and google/ffn; DATA is
the folder that FLOODTIDE_DATA will point to.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

CHUNKS = (50, 50, 50)


def stack_sections(folder: Path) -> np.ndarray:
    """PNG sections in the order of their names as one volume (z, y, x)."""
    sections = sorted(folder.glob("*.png"))
    if not sections:
        raise SystemExit(f"prepare: no PNG sections in {folder}")
    return np.stack([np.asarray(Image.open(path)) for path in sections]).astype(np.uint8)


def bodies(source: Path) -> np.ndarray:
    """Body of every voxel: the file's superpixels sent through its table of (superpixel, body)."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "groundtruth.h5"
        with gzip.open(source, "rb") as packed, plain.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
        with h5py.File(plain, "r") as file:
            superpixels, table = file["stack"][:], file["transforms"][:]
    body_of = np.zeros(int(max(superpixels.max(), table[:, 0].max())) + 1, dtype=np.int32)
    body_of[table[:, 0]] = table[:, 1]
    return body_of[superpixels]


def write(path: Path, dataset: str, volume: np.ndarray) -> None:
    """Write one gzip-compressed dataset."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file.create_dataset(dataset, data=volume, chunks=CHUNKS, compression="gzip", shuffle=True)
    print(f"{path}:{dataset} {volume.shape} {volume.dtype}")


def main() -> None:
    """Prepare images, ground truth and the published network."""
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    examples, ffn, data = map(Path, sys.argv[1:])
    sample = data / "fib25/training_sample2"
    source = examples / "training_sample2"
    write(sample / "grayscale_maps.h5", "raw", stack_sections(source / "grayscale_maps"))
    write(sample / "groundtruth.h5", "stack", bodies(source / "groundtruth.h5.gz"))
    network = data / "ffn_fib25_checkpoint"
    network.mkdir(parents=True, exist_ok=True)
    for path in sorted((ffn / "models/fib25").glob("model.ckpt-27465036.[di]*")):
        shutil.copy(path, network)
        print(network / path.name)


if __name__ == "__main__":
    main()
