# SPDX-License-Identifier: Apache-2.0
"""Use floodtide and h5py in one process, as each brings its own HDF5 library.

    python packaging/try_h5py.py

Both write and read compressed files, in turn and in parallel threads, with files of one open while the other works, in
both orders of import. Prints the versions of the two libraries and exits with 1 after a difference.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def exchange(folder: Path, seed: int) -> None:
    """Write with each library, and read with the other one while files of both are open.

    Raises:
        AssertionError: If a library reads other values than the other one has written.
    """
    import h5py
    import numpy as np

    import floodtide as ft

    values = np.random.default_rng(seed).integers(0, 256, (24, 40, 56), dtype=np.uint8)
    ours, theirs = folder / f"ours-{seed}.h5", folder / f"theirs-{seed}.h5"
    with h5py.File(theirs, "w") as file:
        file.create_dataset("raw", data=values, chunks=(8, 8, 8), compression="gzip", shuffle=True)
    with h5py.File(theirs) as file:
        volume = ft.data.Volume(f"{theirs}:raw")
        ft.data.write_volume(ours, {"raw": volume.read()})
        assert np.array_equal(file["raw"][...], values)
        with h5py.File(ours) as copy:
            assert np.array_equal(copy["raw"][...], volume.read())
        try:
            ft.data.Volume(f"{ours}:missing")
        except ft.errors.Error:
            pass
        else:
            raise AssertionError("a missing dataset was opened")
        assert "missing" not in file
    assert np.array_equal(ft.data.Volume(f"{ours}:raw").read(), values)


def main() -> int:
    if len(sys.argv) == 1:
        for order in (("floodtide", "h5py"), ("h5py", "floodtide")):
            subprocess.run([sys.executable, __file__, *order], check=True)
        return 0
    for name in sys.argv[1:]:
        __import__(name)
    import h5py

    from floodtide import _core

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as pool:
        exchange(Path(folder), 0)
        for done in [pool.submit(exchange, Path(folder), seed) for seed in range(1, 41)]:
            done.result()
    ours, theirs = _core.build_info()["hdf5"], h5py.version.hdf5_version
    print(f"{' before '.join(sys.argv[1:])}: HDF5 {ours} of floodtide and {theirs} of h5py agree")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
