# SPDX-License-Identifier: Apache-2.0
"""Turn original files into the arrays of the prepared data sets. Nothing is unpickled without restriction."""

from __future__ import annotations

import gzip
import io
import tempfile
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base.libraries import library
from floodtide.base.reading import reading
from floodtide.errors import InvalidFileError
from floodtide.segment import ffn_files

Arrays = dict[str, NDArray[Any]]

_LARGEST = 1 << 28  # bytes of a file in a compressed file
_MASK = 128  # grey level from which a pixel of a JPEG mask is liver


def stack(originals: Sequence[bytes], names: Sequence[str]) -> Arrays:
    """PNG sections in the order of their names, as "raw" (z, y, x) uint8."""
    planes = [_picture(data, name) for data, name in zip(originals, names, strict=True)]
    return {"raw": np.stack(planes).astype(np.uint8)}


def bodies(originals: Sequence[bytes], names: Sequence[str]) -> Arrays:
    """Body of each voxel: the superpixels of a gzipped HDF5 file sent through its table of (superpixel, body).

    The file calls the superpixels of single sections "stack". They are no bodies.
    """
    with reading(names[0], "a gzipped HDF5 file"):
        with gzip.open(io.BytesIO(originals[0])) as file:
            plain = file.read(_LARGEST + 1)
        if len(plain) > _LARGEST:
            raise ValueError(f"more than {_LARGEST} bytes")
        found = hdf5_arrays(plain, names[0], ("stack", "transforms"))
        superpixels, transforms = found["stack"], found["transforms"].astype(np.int64)
        most = max(int(superpixels.max()), int(transforms[:, 0].max()))
        if superpixels.min() < 0 or transforms.min() < 0 or most > 1 << 26:
            raise ValueError("superpixels out of range")
        body_of = np.zeros(most + 1, dtype=np.int32)
        body_of[transforms[:, 0]] = transforms[:, 1]
    return {
        "stack": body_of[superpixels],
        "superpixels": superpixels.astype(np.int32),
        "transforms": transforms,
    }


def published_segmentation(originals: Sequence[bytes], names: Sequence[str]) -> Arrays:
    """Voxels and origins of google/ffn's npz file of a segmentation.

    The origins are pickled. They are read with an unpickler that knows only their types (`segment.ffn_files`).
    """
    memory = io.BytesIO(originals[0])
    with reading(names[0], "a segmentation of google/ffn"), zipfile.ZipFile(memory) as archive:
        entry = archive.getinfo("segmentation.npy")
        if entry.file_size > _LARGEST:
            raise ValueError(f"more than {_LARGEST} bytes")
        labels = np.load(io.BytesIO(archive.read(entry)), allow_pickle=False)
    with tempfile.TemporaryDirectory() as folder:
        path = ffn_files.path_in(folder, (0, 0, 0))  # the name says where the subvolume starts
        path.parent.mkdir(parents=True)
        path.write_bytes(originals[0])
        origins = sorted(ffn_files.read_origins(path).items())
    return {
        "segmentation": labels.astype(np.uint8),
        "origins/id": np.array([label for label, _ in origins], np.int32),
        "origins/iters": np.array([origin.iters for _, origin in origins], np.int64),
        "origins/start_zyx": np.array([origin.start_zyx for _, origin in origins], np.int32),
    }


def gala_image(originals: Sequence[bytes], names: Sequence[str]) -> Arrays:
    """The only dataset of an HDF5 file, as "raw" uint8."""
    return {"raw": _only(originals[0], names[0]).astype(np.uint8)}


def gala_truth(originals: Sequence[bytes], names: Sequence[str]) -> Arrays:
    """The only dataset of an HDF5 file that is compressed with LZF, as "stack" int32."""
    return {"stack": _only(originals[0], names[0]).astype(np.int32)}


def liver(originals: Sequence[bytes], names: Sequence[str]) -> Arrays:
    """CT slices with their masks, from JPEG files "HOW_PATIENT_SLICE.jpg": an image, its mask, the next image, ...

    The pictures are mirror images: HOW is "flipped" up and down, or "mirrored" left and right. This is undone.
    """
    pictures, numbers = [], []
    for data, name in zip(originals, names, strict=True):
        how, *number = name.rpartition("/")[2].removesuffix(".jpg").split("_")
        picture = _picture(data, name)
        pictures.append(np.flipud(picture) if how == "flipped" else np.fliplr(picture))
        numbers.append([int(n) for n in number])
    patients, slices = np.array(numbers[::2], np.int32).T
    return {
        "image": np.stack(pictures[::2]),
        "mask": (np.stack(pictures[1::2]) >= _MASK).astype(np.uint8),
        "patient": patients.copy(),
        "slice": slices.copy(),
    }


def hdf5_arrays(data: bytes, name: str, datasets: Sequence[str] = ()) -> Arrays:
    """Return datasets of an HDF5 file, without names all. h5py brings the LZF filter, which the core has not."""
    import h5py

    with (
        reading(name, f"an HDF5 file with {', '.join(datasets) or 'one dataset'}"),
        h5py.File(io.BytesIO(data), "r") as file,
    ):
        found = {}
        for dataset in datasets or file:
            node = file[dataset]
            if not isinstance(node, h5py.Dataset) or node.nbytes > _LARGEST:
                raise ValueError(f"{dataset} is no dataset of at most {_LARGEST} bytes")
            found[dataset] = np.asarray(node[...])
        return found


def _only(data: bytes, name: str) -> NDArray[Any]:
    """Return the only dataset of an HDF5 file."""
    found = list(hdf5_arrays(data, name).values())
    if len(found) != 1:
        raise InvalidFileError(f"{name}: has {len(found)} datasets; expected one")
    return found[0]


def _picture(data: bytes, name: str) -> NDArray[Any]:
    imread = library("imageio.v3", name, "formats").imread
    with reading(name, "a picture"):
        found: NDArray[Any] = np.asarray(imread(data, extension=name[name.rindex(".") :]))
    return found[..., 0] if found.ndim == 3 else found  # JPEG: grey levels as three equal channels
