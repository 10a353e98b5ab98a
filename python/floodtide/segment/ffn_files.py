# SPDX-License-Identifier: Apache-2.0
"""The files of google/ffn for a segmentation, seg-X_Y_Z.npz and seg-X_Y_Z.prob. Source: google/ffn, storage.py."""

from __future__ import annotations

import io
import json
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from floodtide.base.files import make_folder, path_and_dataset, replace_bytes
from floodtide.base.reading import reading
from floodtide.data import Volume
from floodtide.data.formats.conventions import WRITTEN_BY
from floodtide.segment.ffn_origins import OriginInfo, path_in

_MODULE = "ffn.inference.storage"
_COLUMNS = ("id", "start_zyx", "iterations", "walltime_s")


def write_npz(segmentation: str, folder: str | Path) -> Path:
    """Write a segmentation, and its probabilities if it has them, as google/ffn does.

    Args:
        segmentation: "file:dataset" that `floodtide segment` has written.
        folder: google/ffn's `segmentation_output_dir`.

    Returns:
        The file of the segmentation.

    Raises:
        InvalidFileError: If the file is damaged, or no segmentation by flood filling.
        StorageError: If it cannot be written.
    """
    import h5py

    name, dataset = path_and_dataset(segmentation)
    labels, probability = Volume(segmentation).read(), None
    with reading(name, "a segmentation of `floodtide segment`"), h5py.File(name, "r") as file:
        start = [int(a) for a in file[dataset].attrs["box_start"]]
        columns = {key: file[f"origins/{key}"][()] for key in _COLUMNS}
        counts = {k: v for k, v in file["counters"].attrs.items() if k != WRITTEN_BY}
        counters = {name: int(count) for name, count in counts.items()}
        pairs = [file[f"overlaps/{key}"][()] for key in ("id", "earlier_id", "voxels")]
        if "probability" in file:
            probability = file["probability"][()]
    overlaps: dict[int, list[tuple[int, int]]] = {}
    for label, earlier, voxels in zip(*pairs, strict=True):
        overlaps.setdefault(int(label), []).append((int(earlier), int(voxels)))
    data = io.BytesIO()
    with _their_class() as their_class:
        origins = {
            int(label): their_class(tuple((place - start).tolist()), int(calls), float(seconds))
            for label, place, calls, seconds in zip(*columns.values(), strict=True)
        }
        np.savez_compressed(
            data,
            segmentation=labels,
            origins=np.array(origins, dtype=object),
            overlaps=np.array({a: np.array(rows).T for a, rows in overlaps.items()}, dtype=object),
            request=np.array(b""),
            counters=np.array(json.dumps(counters)),
        )
    z, y, x = start
    path = path_in(folder, (z, y, x))
    make_folder(path.parent)
    if probability is not None:
        map_data = io.BytesIO()
        np.savez_compressed(map_data, qprob=probability)
        replace_bytes(path.with_suffix(".prob"), map_data.getvalue())
    replace_bytes(path, data.getvalue())
    return path


@contextmanager
def _their_class() -> Iterator[Any]:
    """Return google/ffn's class for origins, so that pickles name it. It need not be installed."""
    known = {name: sys.modules.get(name) for name in ("ffn", "ffn.inference", _MODULE)}
    their_class: Any = type("OriginInfo", (OriginInfo,), {"__module__": _MODULE, "__slots__": ()})
    try:
        for name in known:
            sys.modules[name] = types.ModuleType(name)
        sys.modules[_MODULE].OriginInfo = their_class  # type: ignore[attr-defined]
        yield their_class
    finally:
        for name, module in known.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
