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

from floodtide.base.files import make_folder, replace_bytes
from floodtide.segment.ffn_origins import OriginInfo, path_in
from floodtide.segment.flooding import Segmentation

_MODULE = "ffn.inference.storage"


def write_npz(result: Segmentation, folder: str | Path, request: bytes = b"") -> Path:
    """Write a segmentation, and its probabilities if it has them, as google/ffn does.

    Args:
        result: The segmentation.
        folder: `segmentation_output_dir` of the request.
        request: The request, in protobuf's binary format.

    Returns:
        The file of the segmentation.

    Raises:
        StorageError: If it cannot be written.
    """
    path = path_in(folder, result.start_zyx)
    overlaps: dict[int, list[tuple[int, int]]] = {}
    for overlap in result.overlaps:
        overlaps.setdefault(overlap.id, []).append((overlap.earlier_id, overlap.voxels))
    with _their_class() as their_class:
        origins = {
            origin.id: their_class(
                tuple(a - b for a, b in zip(origin.start_zyx, result.start_zyx, strict=True)),
                origin.iterations,
                origin.walltime_s,
            )
            for origin in result.origins
        }
        data = io.BytesIO()
        np.savez_compressed(
            data,
            segmentation=result.segmentation,
            origins=np.array(origins, dtype=object),
            overlaps=np.array({a: np.array(rows).T for a, rows in overlaps.items()}, dtype=object),
            request=np.array(request),
            counters=np.array(json.dumps(result.counters)),
        )
    make_folder(path.parent)
    if result.probability is not None:
        map_data = io.BytesIO()
        np.savez_compressed(map_data, qprob=result.probability)
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
