# SPDX-License-Identifier: Apache-2.0
"""Fetching: originals and prepared files, from folders, archives and addresses; checksums; hostile archives."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import imageio.v3 as imageio
import numpy as np
import pytest

from floodtide import cli
from floodtide.data import Volume
from floodtide.errors import InvalidArgumentError, InvalidFileError, StorageError
from floodtide.fetch import prepare
from floodtide.fetch.fetching import (
    DATA_SETS,
    DataSet,
    Item,
    Repository,
    download,
    fetch,
)
from floodtide.segment import trained

SHAPE = (3, 5, 4)
RNG = np.random.default_rng(0)
RAW = RNG.integers(0, 255, SHAPE).astype(np.uint8)
SUPERPIXELS = np.arange(60, dtype=np.int32).reshape(SHAPE)
TRANSFORMS = np.stack([np.arange(60), np.arange(60) // 7], axis=1).astype(np.int64)
REPOSITORY = Repository(name="owner/clone", commit="1" * 40)
LICENCE = b"do what is right\n"


def array(values: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()


SET = DataSet(
    summary="small",
    about="A small set.\n",
    items=(
        Item(
            path="small/LICENSE",
            repository=REPOSITORY,
            names=("LICENSE.txt", "license.txt"),
            sha256=hashlib.sha256(LICENCE).hexdigest(),
            limit=100,
        ),
        Item(
            path="small/image.h5",
            repository=REPOSITORY,
            names=("sections/iso.{number}.png",),
            numbers=(0, 3),
            make="stack",
            arrays={"raw": array(RAW)},
            voxel_size_nm=(8.0, 8.0, 8.0),
        ),
        Item(
            path="small/truth.h5",
            repository=REPOSITORY,
            names=("truth.h5.gz",),
            make="bodies",
            arrays={
                "stack": array((SUPERPIXELS // 7).astype(np.int32)),
                "superpixels": array(SUPERPIXELS),
                "transforms": array(TRANSFORMS),
            },
        ),
    ),
)


def hdf5(**arrays: Any) -> bytes:
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, compression="lzf" if values.ndim == 3 else None)
    return memory.getvalue()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with a clone of the repository."""
    root = tmp_path / "clones" / "clone"
    (root / "sections").mkdir(parents=True)
    (root / "license.txt").write_bytes(LICENCE)
    for n, plane in enumerate(RAW):
        imageio.imwrite(root / f"sections/iso.{n}.png", plane)
    packed = gzip.compress(hdf5(stack=SUPERPIXELS, transforms=TRANSFORMS))
    (root / "truth.h5.gz").write_bytes(packed)
    return root


def assert_right(folder: Path) -> None:
    volume = Volume(folder / "small/image.h5", "raw")
    np.testing.assert_array_equal(volume.read(), RAW)
    assert volume.geometry.voxel_size_nm == (8.0, 8.0, 8.0)
    np.testing.assert_array_equal(
        Volume(folder / "small/truth.h5", "stack").read(), SUPERPIXELS // 7
    )
    assert (folder / "small/LICENSE").read_bytes() == LICENCE
    text = (folder / "SOURCES-small.md").read_text()
    assert "A small set." in text
    assert "| `small/image.h5` | owner/clone at 111111111111, `sections/iso.0.png ...` |" in text
    assert not [path for path in folder.rglob("*") if "floodtide-" in path.name]


def unpacked(root: Path) -> Path:
    """The folder of an archive of the repository."""
    return root.rename(root.with_name(f"clone-{REPOSITORY.commit}")).parent


WAYS: dict[str, Callable[[Path], Path]] = {
    "folder": lambda root: root.parent,
    "clone": lambda root: root,
    "unpacked": unpacked,
}


@pytest.mark.parametrize("way", WAYS)
def test_originals_are_prepared(clone: Path, tmp_path: Path, way: str) -> None:
    calls: list[tuple[int, int]] = []
    source = WAYS[way](clone)
    fetch("small", SET, tmp_path / "out", source, lambda done, total: calls.append((done, total)))
    assert_right(tmp_path / "out")
    assert calls[-1] == (5, 5)
    fetch("small", SET, tmp_path / "again", tmp_path / "out")  # prepared files are a source, too
    assert_right(tmp_path / "again")
    fetch("small", SET, tmp_path / "again", tmp_path)  # what is there is not read again


@pytest.fixture
def server(clone: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(clone))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def test_the_public_origin_is_downloaded(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Repository, "address", lambda _, path: f"{server}/{path}")
    fetch("small", SET, tmp_path / "out")
    assert_right(tmp_path / "out")


def test_a_failed_download_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Repository, "address", lambda _, path: f"http://127.0.0.1:9/{path}")
    with pytest.raises(StorageError, match="cannot be read"):
        fetch("small", SET, tmp_path / "new" / "data")
    assert list(tmp_path.iterdir()) == []


def test_failed_downloads_are_one_line(server: str) -> None:
    assert download(f"{server}/nothing", 10) is None
    with pytest.raises(StorageError, match=r"more than .*the most expected"):
        download(f"{server}/license.txt", 5)
    with pytest.raises(StorageError, match=r"cannot be read: .*--from FOLDER"):
        download("http://127.0.0.1:9/file", 5)


def test_the_origin_is_pinned() -> None:
    for data_set in DATA_SETS.values():
        for item in data_set.items:
            address = item.repository.address(item.originals[0][0])
            assert address.startswith("https://raw.githubusercontent.com/")
            assert item.repository.commit in address
            assert len(item.repository.commit) == 40
            assert item.sha256 or item.arrays


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("license.txt", b"something else"),
        ("sections/iso.1.png", None),
        ("truth.h5.gz", gzip.compress(hdf5(stack=SUPERPIXELS, transforms=TRANSFORMS[::-1] + 1))),
    ],
)
def test_another_file_is_refused(
    clone: Path, tmp_path: Path, path: str, content: bytes | None
) -> None:
    if content is None:
        imageio.imwrite(clone / path, RAW[0])
    else:
        (clone / path).write_bytes(content)
    with pytest.raises(StorageError, match=r"SHA-256 .*expected"):
        fetch("small", SET, tmp_path / "out", clone)
    missing = {"license.txt": "LICENSE", "truth.h5.gz": "truth.h5"}.get(path, "image.h5")
    assert not (tmp_path / "out/small" / missing).exists()


def test_missing_and_damaged_originals(clone: Path, tmp_path: Path) -> None:
    (clone / "truth.h5.gz").write_bytes(b"\x1f\x8b damaged")
    with pytest.raises(InvalidFileError, match=r"truth\.h5\.gz"):
        fetch("small", SET, tmp_path / "out", clone)
    (clone / "sections/iso.2.png").unlink()
    with pytest.raises(InvalidFileError, match=r"neither small/image\.h5 nor sections/iso\.2\.png"):
        fetch("small", SET, tmp_path / "other", clone)


def test_a_foreign_file_is_kept(clone: Path, tmp_path: Path) -> None:
    mine = tmp_path / "out/small/LICENSE"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(InvalidArgumentError, match="move it away"):
        fetch("small", SET, tmp_path / "out", clone)
    assert mine.read_text() == "mine"


def test_large_files_are_not_read(clone: Path, tmp_path: Path) -> None:
    (clone / "license.txt").write_bytes(b"x" * 101)
    with pytest.raises(InvalidFileError, match="of at most 100 bytes"):
        fetch("small", SET, tmp_path / "out", clone)


def test_a_segmentation_of_google_ffn_is_read_without_running_its_pickle(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    memory = io.BytesIO()
    np.savez(memory, segmentation=RAW, origins=np.array({1: Evil()}, dtype=object))
    with pytest.raises(InvalidFileError, match="does not belong there"):
        prepare.published_segmentation([memory.getvalue()], ["a.npz"])
    assert not (tmp_path / "ran").exists()


def test_a_segmentation_of_google_ffn_is_prepared() -> None:
    origins = {2: ((4, 5, 6), 9, 0.5), 1: ((1, 2, 3), 7, 0.1)}
    memory = io.BytesIO()
    np.savez(memory, segmentation=RAW, origins=np.array(origins, dtype=object))
    found = prepare.published_segmentation([memory.getvalue()], ["a.npz"])
    np.testing.assert_array_equal(found["segmentation"], RAW)
    assert found["origins/id"].tolist() == [1, 2]
    assert found["origins/iters"].tolist() == [7, 9]
    assert found["origins/start_zyx"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_gala_files_are_decoded() -> None:
    labels = SUPERPIXELS.astype(np.int64)
    found = prepare.gala_truth([hdf5(stack=labels)], ["train-gt.lzf.h5"])
    np.testing.assert_array_equal(found["stack"], SUPERPIXELS)
    with pytest.raises(InvalidFileError, match="has 2 datasets"):
        prepare.gala_image([hdf5(a=RAW, b=RAW)], ["two.h5"])


def test_liver_slices_are_turned_back() -> None:
    image = np.tile(np.linspace(0, 255, 64).astype(np.uint8), (48, 1))
    mask = np.zeros((48, 64), np.uint8)
    mask[:20, :30] = 255

    def jpeg(picture: np.ndarray[Any, Any]) -> bytes:
        rgb = np.repeat(picture[..., None], 3, axis=-1)
        return bytes(imageio.imwrite("<bytes>", rgb, extension=".jpg", quality=95))

    files = [
        jpeg(np.flipud(image)),
        jpeg(np.flipud(mask)),
        jpeg(np.fliplr(image)),
        jpeg(np.fliplr(mask)),
    ]
    names = ["x/flipped_7_1.jpg", "m/flipped_7_1.jpg", "x/mirrored_7_2.jpg", "m/mirrored_7_2.jpg"]
    found = prepare.liver(files, names)
    assert np.abs(found["image"].astype(int) - image).max() <= 4
    np.testing.assert_array_equal(found["mask"], np.stack([mask // 255] * 2))
    assert found["patient"].tolist() == [7, 7]
    assert found["slice"].tolist() == [1, 2]


def test_where_data_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLOODTIDE_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert trained.data_folder() == tmp_path / "floodtide"
    with pytest.raises(InvalidFileError, match="`floodtide fetch fib25` brings it there"):
        trained.published("fib25")
    monkeypatch.setenv("FLOODTIDE_DATA", str(tmp_path / "x"))
    assert trained.data_folder() == tmp_path / "x"


def test_the_command(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(DATA_SETS, "gala", SET)
    monkeypatch.setenv("FLOODTIDE_DATA", str(tmp_path / "out"))
    line = ["fetch", "gala", "--from", str(clone)]
    assert cli.run(line) == 0
    assert str(tmp_path / "out/small/truth.h5") in capsys.readouterr().out
    (clone / "license.txt").write_text("no")
    monkeypatch.setenv("FLOODTIDE_DATA", str(tmp_path / "out2"))
    assert cli.run(line) == 1
    error = capsys.readouterr().err
    assert error.startswith("floodtide fetch: license.txt: SHA-256 is")
    assert error.count("\n") == 1
    assert cli.run(["fetch", "gala", "--from", "nowhere"]) == 2
    assert cli.run(["fetch"]) == 0
    assert "fib25" in capsys.readouterr().out


@pytest.mark.data
@pytest.mark.extra
def test_originals_of_fib25_give_the_prepared_files(data_folder: Path, tmp_path: Path) -> None:
    """The originals are made again of the prepared files: PNG sections, superpixels and their table."""
    sample = data_folder / "fib25/training_sample2"
    clone = tmp_path / "neuroproof_examples/training_sample2"
    (clone / "grayscale_maps").mkdir(parents=True)
    for n, plane in enumerate(Volume(sample / "grayscale_maps.h5", "raw").read(), start=2600):
        imageio.imwrite(clone / f"grayscale_maps/iso.{n}.png", plane, compress_level=1)
    with h5py.File(sample / "groundtruth.h5") as file:
        plain = hdf5(stack=file["superpixels"][:], transforms=file["transforms"][:])
    (clone / "groundtruth.h5.gz").write_bytes(gzip.compress(plain, 1))
    whole = DATA_SETS["fib25"]
    items = tuple(item for item in whole.items if "training_sample2/" in item.path)
    fetch("fib25", whole._replace(items=items), tmp_path / "out", tmp_path)
    truth = Volume(tmp_path / "out/fib25/training_sample2/groundtruth.h5", "stack")
    assert truth.geometry.voxel_size_nm == (10.0, 10.0, 10.0)
