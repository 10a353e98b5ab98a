# SPDX-License-Identifier: Apache-2.0
"""Volumes as other programs write them, and what floodtide must make of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorstore
import zarr

from floodtide import cli, data

ARRAY = (np.arange(4 * 5 * 6).reshape(4, 5, 6) + 1).astype(np.uint8)
NM = (40.0, 4.0, 8.0)
"""Voxel size (z, y, x) of most volumes here."""
UM = (0.04, 0.004, 0.008)
LARGE = ARRAY.astype(np.uint64) + np.uint64(2**63)


@dataclass(frozen=True)
class Case:
    """A volume of another program: it is used (voxels, size and offset are as written), refused, or noted.

    Attributes:
        name: Of the case.
        make: Writes the volume into a folder and returns its name.
        size: Voxel size (z, y, x) in nm that must be found.
        offset: The first voxel (z, y, x).
        voxels: Values, z, y, x; None: ARRAY.
        note: Words of the only note; "": there must be none.
        refused: Words of the refusal; "": it must be read.
    """

    name: str
    make: Callable[[Path], str]
    size: Sequence[float] | None = None
    offset: Sequence[int] | None = None
    voxels: Any = None
    note: str = ""
    refused: str = ""

    def check(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Copy the volume with `floodtide convert`, and compare the copy or what is said."""
        name = self.make(folder)
        status = cli.run(["convert", name, f"{folder}/copy.h5:raw", "--json"])
        printed = capsys.readouterr()
        said = printed.err
        assert "Traceback" not in said
        if self.refused:
            assert status == 2, said or printed.out
            assert said.count("\n") == 1, said
            assert self.refused in said, said
            assert str(folder) in said, said
            return
        assert status == 0, said
        report = json.loads(printed.out)
        if self.size is None:
            assert report["voxel_size_nm"] is None
        else:
            assert report["voxel_size_nm"] == pytest.approx(self.size, rel=1e-4)
        assert (report["offset"] or [0, 0, 0]) == list(self.offset or (0, 0, 0))
        expected = ARRAY if self.voxels is None else self.voxels
        copy = data.Volume(f"{folder}/copy.h5:raw").read()
        assert copy.dtype == expected.dtype.newbyteorder("=")
        np.testing.assert_array_equal(copy, expected)
        assert said.count("\n") == (1 if self.note else 0), said
        assert self.note in said, said


def ordered(names: str, array: Any = ARRAY) -> Any:
    """Return an array (z, y, x) with its axes in another order. t and c get one voxel."""
    found = array.transpose(["zyx".index(n) for n in names if n in "zyx"])
    for at, name in enumerate(names):
        if name not in "zyx":
            found = np.expand_dims(found, at)
    return found


def zarr_array(
    array: Any = ARRAY, version: Any = 3, attributes: Any = None, **options: Any
) -> Callable[[Path], str]:
    """Return a function that writes a Zarr array with zarr-python."""

    def make(folder: Path) -> str:
        path = str(folder / "v.zarr")
        options.setdefault("chunks", (2,) * array.ndim)
        made = zarr.create_array(
            path,
            shape=array.shape,
            dtype=array.dtype,
            zarr_format=version,
            config={"write_empty_chunks": True},
            **options,
        )
        made[...] = array
        made.attrs.update(attributes or {})
        return path

    return make


def ome(
    axes: str = "zyx",
    *,
    version: str = "0.4",
    unit: str | None = "nanometer",
    array: Any = None,
    scale: Sequence[Any] | None = None,
    changes: Sequence[Any] | None = None,
    image: Sequence[Any] = (),
    opened: str = "",
    edit: Callable[[dict[str, Any]], None] | None = None,
) -> Callable[[Path], str]:
    """Return a function that writes an OME-Zarr image of one level, s0."""

    def make(folder: Path) -> str:
        stored = ordered(axes) if array is None else array
        form = 3 if version == "0.5" else 2
        group = zarr.open_group(str(folder / "v.zarr"), mode="w", zarr_format=form)
        group.create_array("s0", shape=stored.shape, chunks=(2,) * stored.ndim, dtype=stored.dtype)[
            ...
        ] = stored
        kinds = {"t": "time", "c": "channel"}
        rows: list[dict[str, Any]] = [{"name": n, "type": kinds.get(n, "space")} for n in axes]
        for row in rows:
            if row["type"] == "space" and unit is not None:
                row["unit"] = unit
        sizes = dict(zip("zyx", NM if scale is None else scale, strict=True))
        steps = [{"type": "scale", "scale": [sizes.get(n, 1.0) for n in axes]}, *(changes or ())]
        described: dict[str, Any] = {
            "version": version,
            "axes": rows,
            "datasets": [{"path": "s0", "coordinateTransformations": steps}],
        }
        if image:
            described["coordinateTransformations"] = list(image)
        attributes = {"multiscales": [described]}
        if edit is not None:
            edit(attributes)
        group.attrs.update({"ome": attributes} if version == "0.5" else attributes)
        return f"{folder}/v.zarr{opened}"

    return make


def n5(
    attributes: dict[str, Any] | None = None,
    groups: dict[str, dict[str, Any]] | None = None,
    path: str = "",
    opened: str | None = None,
    array: Any = ARRAY,
) -> Callable[[Path], str]:
    """Return a function that writes an N5 dataset (array z, y, x) and the attributes of groups by their paths."""

    def make(folder: Path) -> str:
        root = folder / "v.n5"
        metadata = {
            "dimensions": list(array.shape[::-1]),
            "blockSize": [3, 3, 3],
            "dataType": array.dtype.name,
            "compression": {"type": "gzip"},
        }
        store = {"driver": "file", "path": f"{root / path}/"}
        tensorstore.open(
            {"driver": "n5", "kvstore": store, "metadata": metadata}, create=True
        ).result().write(array.T).result()
        for name, stated in {path: {**metadata, **(attributes or {})}, **(groups or {})}.items():
            where = root / name / "attributes.json"
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_text(json.dumps(stated))
        return str(root / (path if opened is None else opened))

    return make


def precomputed(
    array: Any = ARRAY,
    *,
    edit: Callable[[dict[str, Any]], None] | None = None,
    channels: int = 1,
    coarse: bool = False,
    **scale: Any,
) -> Callable[[Path], str]:
    """Return a function that writes a precomputed volume; `coarse`: a coarser scale comes first in the list."""

    def make(folder: Path) -> str:
        labels = array.dtype.itemsize >= 4
        rows = [({"resolution": [16.0, 8.0, 80.0]}, array[::2, ::2, ::2])] if coarse else []
        for i, (more, voxels) in enumerate([*rows, ({}, array)]):
            spec = {
                "driver": "neuroglancer_precomputed",
                "kvstore": {"driver": "file", "path": f"{folder}/v/"},
                "scale_metadata": {
                    "size": list(voxels.shape[::-1]),
                    "encoding": "raw",
                    "chunk_size": [3, 3, 3],
                    "resolution": [8.0, 4.0, 40.0],
                    "voxel_offset": [0, 0, 0],
                    **(scale if i == len(rows) else {}),
                    **more,
                },
                "multiscale_metadata": {
                    "type": "segmentation" if labels else "image",
                    "data_type": array.dtype.name,
                    "num_channels": channels,
                },
            }
            store = tensorstore.open(spec, create=True).result()
            for channel in range(channels):
                store[..., channel].write(voxels.T).result()
        info = folder / "v/info"
        document = json.loads(info.read_text())
        if edit is not None:
            edit(document)
        info.write_text(json.dumps(document))
        return f"precomputed://{folder}/v"

    return make


def hdf5(
    attributes: dict[str, Any] | None = None,
    array: Any = ARRAY,
    write: Callable[[h5py.File], Any] | None = None,
    dataset: str = "raw",
    **options: Any,
) -> Callable[[Path], str]:
    """Return a function that writes an HDF5 dataset with h5py."""

    def make(folder: Path) -> str:
        with h5py.File(folder / "v.h5", "w") as file:
            if write is not None:
                write(file)
            else:
                made = file.create_dataset(dataset, data=array, **options)
                made.attrs.update(attributes or {})
        return f"{folder}/v.h5:{dataset}"

    return make


def parametrized(cases: Sequence[Case]) -> Any:
    """Return the decorator that runs a test with each case."""
    assert len({case.name for case in cases}) == len(cases)
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def tags(names: str, **more: Any) -> dict[str, Any]:
    """Return axistags of vigra, as ilastik writes them."""
    return {"axistags": json.dumps({"axes": [{"key": n, **more} for n in names]})}
