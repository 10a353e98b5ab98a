# SPDX-License-Identifier: Apache-2.0
"""Children of fork() and other processes: they read volumes, compute, and leave the files of their parent."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import floodtide
from floodtide import nn
from floodtide.data import Volume

IMAGE = np.random.default_rng(0).integers(0, 255, (40, 50, 60)).astype(np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one image as HDF5, Zarr 2 and a compressed TIFF stack."""
    path = tmp_path_factory.mktemp("forks")
    with h5py.File(path / "v.h5", "w") as file:
        file.create_dataset("raw", data=IMAGE, chunks=(8, 8, 8), compression="gzip")
    zarr = pytest.importorskip("zarr")
    zarr.create_array(store=str(path / "v.zarr"), data=IMAGE, chunks=(20, 25, 30), zarr_format=2)
    pytest.importorskip("tifffile").imwrite(path / "v.tif", IMAGE, compression="zlib")
    np.save(path / "v.npy", IMAGE)
    return path


def run(folder: Path, text: str) -> str:
    """Run a program whose processes must all end within a minute, and return what they print."""
    head = f"""
    import multiprocessing, os, sys, threading, time
    import numpy as np
    from floodtide import nn
    from floodtide.data import Volume
    image = np.load("{folder}/v.npy")
    os.chdir("{folder}")

    def children(count, body):
        \"\"\"Fork children that print what body() returns, and return their exit statuses.\"\"\"
        started = []
        for _ in range(count):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    os.write(1, f"{{body()}}\\n".encode())
                    status = 0
                except Exception as error:
                    os.write(1, f"{{error}}\\n".encode())
                finally:
                    os._exit(status)
            started.append(child)
        return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in started]
    """
    path = os.pathsep.join((str(Path(floodtide.__file__).parents[1]), *filter(None, sys.path)))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "2"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_children_read_while_a_thread_of_the_parent_reads(folder: Path) -> None:
    """The HDF5 library, its lock and the threads that compute are between two calls at a fork."""
    printed = run(
        folder,
        """
        volume = Volume("v.h5:raw")
        over = threading.Event()
        def read():
            while not over.is_set():
                Volume("v.h5:raw").read()
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        def body():
            again = Volume("v.h5:raw").read()
            return all(np.array_equal(found, image) for found in (again, volume.read(), Volume("v.zarr").read()))
        statuses = children(10, body)
        over.set()
        for thread in threads:
            thread.join()
        assert statuses == [0] * 10, statuses
        assert np.array_equal(volume.read(), image)
        """,
    )
    assert printed.split() == ["True"] * 10


def test_children_compute_while_a_thread_of_the_parent_computes(folder: Path) -> None:
    printed = run(
        folder,
        """
        network = nn.FFN(depth=3, fov=(17, 17, 17), deltas=(2, 2, 2), features=16)
        inputs = [np.random.default_rng(n).normal(size=(17, 17, 17)).astype(np.float32) for n in (0, 1)]
        expected = network.forward(*inputs)
        over = threading.Event()
        def compute():
            while not over.is_set():
                network.forward(*inputs)
        thread = threading.Thread(target=compute)
        thread.start()
        statuses = children(10, lambda: np.array_equal(network.forward(*inputs), expected))
        over.set()
        thread.join()
        assert statuses == [0] * 10, statuses
        assert np.array_equal(network.forward(*inputs), expected)
        """,
    )
    assert printed.split() == ["True"] * 10


def test_children_and_parent_read_different_pictures_of_one_file(folder: Path) -> None:
    """An open file has one position, which a child of fork() shares."""
    printed = run(
        folder,
        """
        from floodtide.data.formats import pictures
        pictures.CACHE_BYTES = 1  # each read decodes
        volume = Volume("v.tif")
        def body():
            return all(np.array_equal(volume.read(), image) for _ in range(30))
        over = threading.Event()
        def read():
            while not over.is_set():
                assert np.array_equal(volume.read(), image)
        thread = threading.Thread(target=read)
        thread.start()
        statuses = children(4, body)
        over.set()
        thread.join()
        assert statuses == [0] * 4, statuses
        """,
    )
    assert printed.split() == ["True"] * 4


def test_a_child_whose_parent_has_read_a_folder_says_that_it_cannot(folder: Path) -> None:
    """Tensorstore ends a child that uses it."""
    printed = run(
        folder,
        """
        volume = Volume("v.zarr")
        assert np.array_equal(volume.read(), image)
        assert children(1, volume.read) == [1]
        assert children(1, lambda: Volume("v.zarr")) == [1]
        assert children(1, lambda: np.array_equal(Volume("v.h5:raw").read(), image)) == [0]
        assert np.array_equal(volume.read(), image)
        """,
    )
    lines = printed.splitlines()
    assert len(lines) == 3
    assert lines[2] == "True"
    for line in lines[:2]:
        assert line.startswith("v.zarr: tensorstore cannot be used in a child of fork()")
        assert "'spawn' or 'forkserver'" in line


@pytest.mark.parametrize("ending", ["sys.exit(3)", "os._exit(3)", "raise ValueError", "pass"])
def test_a_child_leaves_the_unfinished_files_of_its_parent(folder: Path, ending: str) -> None:
    run(
        folder,
        f"""
        import contextlib
        from pathlib import Path
        from floodtide import _core, errors
        from floodtide.base.outputs import reserved, unchecked
        writer = _core.data.Hdf5Writer("out.h5", "floodtide test", ["a"])
        writer.create("a", "uint8", list(image.shape), [16, 16, 16], 1)
        with reserved("test", "other.txt", unchecked):
            lock = Path(".other.txt.floodtide-lock")
            before = sorted(p.name for p in Path().iterdir())
            assert lock.name in before and any(name.endswith(".floodtide-tmp") for name in before)
            child = os.fork()
            if child == 0:
                sys.stderr = open(os.devnull, "w")
                try:
                    writer.write("a", [0, 0, 0], image)
                    os._exit(9)  # a child must not write into the file
                except errors.StorageError as error:
                    assert "child (fork)" in str(error), error
                {ending}
                sys.exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == ({ending!r} == "raise ValueError" or 3)
            assert sorted(p.name for p in Path().iterdir()) == before
        writer.write("a", [0, 0, 0], image)
        writer.finish()
        assert np.array_equal(Volume("out.h5:a").read(), image)
        assert not lock.exists()
        os.remove("out.h5")
        """,
    )


def read_and_compute(work: tuple[Volume, nn.FFN, int]) -> Any:
    volume, network, start = work
    block = np.ascontiguousarray(volume.read(((start, 0, 0), (7, 7, 7))).astype(np.float32))
    return network.forward(block, np.zeros_like(block))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_pools_read_and_compute(folder: Path, method: str) -> None:
    network = nn.FFN(depth=2, fov=(7, 7, 7), deltas=(2, 2, 2), features=4)
    work = [(Volume(f"{folder}/v.h5:raw"), network, start) for start in range(4)]
    expected = [read_and_compute(one) for one in work]

    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(read_and_compute, work)

    np.testing.assert_array_equal(found, expected)


class Blocks:
    """A data set of PyTorch: blocks of a volume, and what a network makes of them."""

    def __init__(self, name: str) -> None:
        self.volume = Volume(name)
        self.network = nn.FFN(depth=2, fov=(7, 7, 7), deltas=(2, 2, 2), features=4)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> np.ndarray:
        result: np.ndarray = read_and_compute((self.volume, self.network, index))
        return result


@pytest.fixture
def torch_loader() -> Any:
    return pytest.importorskip("torch.utils.data").DataLoader


@pytest.mark.extra
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_loader_of_pytorch_reads_and_computes(
    folder: Path, method: str, torch_loader: Any
) -> None:
    blocks = Blocks(f"{folder}/v.h5:raw")
    expected = [blocks[i] for i in range(len(blocks))]

    loader = torch_loader(blocks, batch_size=2, num_workers=2, multiprocessing_context=method)
    found = np.concatenate([batch.numpy() for batch in loader])

    np.testing.assert_array_equal(found, expected)
