# SPDX-License-Identifier: Apache-2.0
"""Positions and voxel sizes that other libraries state are used, and copies state them as their originals do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorstore

from floodtide import data

pytest.importorskip("zarr", "3", reason="zarr 3 needs Python 3.11")

import zarr
from other_programs import ARRAY, NM

COPIES = ("c.zarr", "c.n5", "c.h5:x", "c.tif", "precomputed://c")
ZERO = [0.0, 0.0, 0.0]


def stated_in(name: str) -> Any:
    """Return the position that a copy states, as another library reads it."""
    if ":" in name and not name.startswith("precomputed"):
        path, dataset = name.split(":")
        with h5py.File(path) as file:
            found = file[dataset].attrs.get("box_start")
            return None if found is None else [*map(float, found)]
    if name.endswith(".zarr"):
        return zarr.open_array(name).attrs.get("offset")
    if name.endswith(".n5"):
        return json.loads(Path(name, "attributes.json").read_text()).get("offset")
    return ...


@pytest.mark.parametrize("kind", ["u1", "u4", "u8"])
@pytest.mark.parametrize("place", [None, ZERO])
@pytest.mark.parametrize("size", [None, NM])
def test_copies_state_a_position_only_if_their_original_does(
    tmp_path: Path, place: Any, size: Any, kind: str
) -> None:
    stated = {"resolution": size, "offset": place, "units": ["voxel"] * 3 if size is None else None}
    original = f"{tmp_path}/v.h5:raw"
    with h5py.File(tmp_path / "v.h5", "w") as file:
        attributes = file.create_dataset("raw", data=ARRAY.astype(kind)).attrs
        attributes.update({key: value for key, value in stated.items() if value is not None})
    expected = None if place is None else (0, 0, 0)
    for copy in COPIES:
        prefix = "precomputed://" if copy.startswith("precomputed") else ""
        name = f"{prefix}{tmp_path}/{copy.removeprefix(prefix)}"
        found = data.convert(original, name).geometry
        assert (found.voxel_size_nm, found.offset) == (size, expected), copy
        assert stated_in(name) in (place, ...), copy
        original = name  # the next is a copy of the copy
    assert data.convert(original, f"{tmp_path}/last.zarr").geometry.offset == expected
