# SPDX-License-Identifier: Apache-2.0
"""HDF5 datasets with voxels in other files, which h5py has written: what is missing is refused or noted.

The core reads FLOODTIDE_ALLOW_EXTERNAL once, so another process looks at the datasets.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np

IMAGE = np.arange(1, 121, dtype=np.uint8).reshape(4, 5, 6)
LOOK = """
import sys
import floodtide as ft
for name in sys.argv[1:]:
    try:
        voxels = ft.data.Volume("v.h5:" + name).read()
        print(name, voxels.shape, (voxels == 0).sum())
    except ft.errors.InvalidFileError as error:
        print(error)
"""


def looked(folder: Path, *names: str) -> tuple[str, str]:
    """Return what a process that trusts other files says of datasets of v.h5."""
    environment = os.environ | {"FLOODTIDE_ALLOW_EXTERNAL": "1"}
    words = [sys.executable, "-c", LOOK, *names]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def source(file: str, dataset: str, shape: Any = IMAGE.shape) -> h5py.VirtualSource:
    return h5py.VirtualSource(file, dataset, shape=shape, dtype="u1")


def test_a_source_that_is_missing_or_too_small_is_refused(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    with h5py.File(tmp_path / "below/s.h5", "w") as file:
        file["raw"] = IMAGE
        file["first"] = IMAGE[0]
        layout = h5py.VirtualLayout(IMAGE.shape, "u1")
        layout[:] = source("gone.h5", "raw")
        file.create_virtual_dataset("chain", layout, fillvalue=0)
    sources = {
        "good": source("below/s.h5", "raw"),
        "own": source(".", "here"),
        "absolute": source(f"{tmp_path}/below/s.h5", "raw"),
        "moved": source("/nowhere/here.h5", "here"),  # the library looks beside the file, too
        "no-file": source("gone.h5", "raw"),
        "no-dataset": source("below/s.h5", "nosuch"),
        "small": source("below/s.h5", "raw", (6, 5, 6))[2:],
        "chained": source("below/s.h5", "chain"),
    }
    with h5py.File(tmp_path / "here.h5", "w") as file:
        file["here"] = IMAGE
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["here"] = IMAGE
        for name, one in sources.items():
            layout = h5py.VirtualLayout(IMAGE.shape, "u1")
            layout[:] = one
            file.create_virtual_dataset(name, layout, fillvalue=0)
        layout = h5py.VirtualLayout(IMAGE.shape, "u1")
        for z in range(4):
            layout[z] = source("below/s.h5", "first", (5, 6))
        file.create_virtual_dataset("sections", layout, fillvalue=0)
    out, err = looked(tmp_path, *sources, "sections")
    assert not err
    assert out.splitlines() == [
        "good (4, 5, 6) 0",
        "own (4, 5, 6) 0",
        "absolute (4, 5, 6) 0",
        "moved (4, 5, 6) 0",
        "v.h5:no-file: its source gone.h5:raw does not exist, expected all sources of v.h5",
        "v.h5:no-dataset: its source below/s.h5:nosuch does not exist, expected all sources of v.h5",
        "v.h5:small: its source below/s.h5:raw has shape (4, 5, 6), expected at least (6, 5, 6)",
        "v.h5:chained: its source gone.h5:raw does not exist, expected all sources of below/s.h5",
        "sections (4, 5, 6) 0",
    ]


def test_voxels_without_a_source_are_noted(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["here"] = IMAGE
        layout = h5py.VirtualLayout((8, 5, 6), "u1")
        layout[:4] = source(".", "here")
        file.create_virtual_dataset("half", layout, fillvalue=0)
    out, err = looked(tmp_path, "half")
    assert out == "half (8, 5, 6) 120\n"
    assert "120 of 240 voxels of the virtual dataset v.h5:/half have no source" in err
    assert err.count("\n") == 1


def test_sources_without_an_end_are_read(tmp_path: Path) -> None:
    growing = h5py.h5s.UNLIMITED
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_dataset("here", data=IMAGE, maxshape=(None, 5, 6))
        space = h5py.h5s.create_simple(IMAGE.shape, (growing, 5, 6))
        space.select_hyperslab((0, 0, 0), (growing, 1, 1), block=(1, 5, 6))
        form = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        form.set_virtual(space, b".", b"here", space)
        h5py.h5d.create(file.id, b"grows", h5py.h5t.STD_U8LE, space, form)
    assert looked(tmp_path, "grows") == ("grows (4, 5, 6) 0\n", "")


def test_a_series_of_files_that_lacks_one_is_refused(tmp_path: Path) -> None:
    growing = h5py.h5s.UNLIMITED
    for z in range(4):
        with h5py.File(tmp_path / f"s{z}.h5", "w") as file:
            file["section"] = IMAGE[z : z + 1]
    with h5py.File(tmp_path / "v.h5", "w") as file:
        space = h5py.h5s.create_simple(IMAGE.shape, (growing, 5, 6))
        space.select_hyperslab((0, 0, 0), (growing, 1, 1), block=(1, 5, 6))
        form = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        form.set_virtual(space, b"s%b.h5", b"section", h5py.h5s.create_simple((1, 5, 6)))
        h5py.h5d.create(file.id, b"series", h5py.h5t.STD_U8LE, space, form)
    assert looked(tmp_path, "series") == ("series (4, 5, 6) 0\n", "")
    (tmp_path / "s1.h5").unlink()
    expected = "v.h5:series: its source s1.h5 does not exist, expected all files up to s3.h5\n"
    assert looked(tmp_path, "series") == (expected, "")


def test_a_short_or_missing_external_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "whole.raw").write_bytes(b"head" + IMAGE.tobytes())
    (tmp_path / "short.raw").write_bytes(IMAGE.tobytes()[:100])
    parts = {
        "whole": [("whole.raw", 4, h5py.h5f.UNLIMITED)],
        "short": [("short.raw", 0, 120)],
        "second": [("whole.raw", 4, 10), ("short.raw", 0, 110)],
        "gone": [("gone.raw", 0, 120)],
    }
    with h5py.File(tmp_path / "v.h5", "w") as file:
        for name, external in parts.items():
            file.create_dataset(name, IMAGE.shape, "u1", external=external)
    out, err = looked(tmp_path, *parts)
    assert not err
    assert out.splitlines() == [
        "whole (4, 5, 6) 0",
        "v.h5:short: its external file short.raw has 100 bytes, expected 120",
        "v.h5:second: its external file short.raw has 100 bytes, expected 110",
        "v.h5:gone: its external file gone.raw has 0 bytes, expected 120",
    ]
