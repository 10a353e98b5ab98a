# SPDX-License-Identifier: Apache-2.0
"""Damaged and hostile files: refused with one line, or read as they are."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomli_w
from flat_unet import flat_unet
from training_volume import document, write_volume

import floodtide as ft
from floodtide import _core, config, nn
from floodtide.cli import run as command_line
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.train import Trainer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("integrity")
    write_volume(path)
    return path


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Path:
    """A run of three steps with a moving average."""
    settings = document(
        folder, run={"dir": str(tmp_path / "run")}, training={"steps": 3, "average": 0.9}
    )
    Trainer.from_config(config.from_dict(settings)).run()
    return tmp_path / "run"


def checkpoint(run: Path) -> Path:
    return run / "checkpoints" / "step-3.h5"


def resumed(folder: Path, run: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit status of the command that resumes the run, and what it wrote to standard error."""
    settings = document(folder, run={"dir": str(run)}, training={"steps": 4, "average": 0.9})
    path = run.parent / "run.toml"
    path.write_text(tomli_w.dumps(settings))
    capfd.readouterr()
    status = command_line(["train", str(path)])
    return status, capfd.readouterr().err


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(InvalidFileError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    return message


def places_of_values(path: Path) -> list[range]:
    """Where the values of weights, average, moments and canvases lie in a checkpoint."""
    content = path.read_bytes()
    places: list[range] = []

    def add(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset) or name.endswith("crc32c"):
            return
        if item.chunks is None:  # within the metadata
            at = content.find(item[...].tobytes())
            assert at > 0, name
            places.append(range(at, at + item.nbytes))
            return
        for number in range(item.id.get_num_chunks()):
            chunk = item.id.get_chunk_info(number)
            places.append(range(chunk.byte_offset, chunk.byte_offset + chunk.size))

    with h5py.File(path) as file:
        file.visititems(add)
    return places


def test_flipped_bits_in_the_values_of_a_checkpoint_are_all_refused(
    folder: Path, run: Path
) -> None:
    settings = document(folder, run={"dir": str(run)}, training={"steps": 3, "average": 0.9})
    trainer = Trainer.from_config(config.from_dict(settings))
    path = checkpoint(run)
    whole = path.read_bytes()
    bytes_of_values = [at for place in places_of_values(path) for at in place]
    generator = random.Random(13)
    unnoticed = []
    with path.open("r+b") as file:
        for _ in range(100):
            at, bit = generator.choice(bytes_of_values), 1 << generator.randrange(8)
            os.pwrite(file.fileno(), bytes([whole[at] ^ bit]), at)
            message = ""
            try:
                trainer._core.load(str(path))
            except InvalidFileError as error:
                message = str(error)
            if str(path) not in message:
                unnoticed.append((at, bit, message))
            os.pwrite(file.fileno(), whole[at : at + 1], at)
    assert unnoticed == []
    trainer._core.load(str(path))
    trainer.close()


@pytest.mark.parametrize(
    "network",
    [
        nn.FFN(2, (7, 7, 7), (2, 2, 2), features=4, seed=5),
        flat_unet(seed=5),
    ],
    ids=["ffn", "unet"],
)
def test_flipped_bits_of_a_network_are_refused_or_change_nothing(
    tmp_path: Path, network: nn.FFN | nn.UNet
) -> None:
    path = tmp_path / "network.h5"
    network.save(path)
    whole = path.read_bytes()
    generator = random.Random(14)
    for _ in range(60):
        at, bit = generator.randrange(len(whole)), 1 << generator.randrange(8)
        damaged = bytearray(whole)
        damaged[at] ^= bit
        path.write_bytes(damaged)
        try:
            loaded = nn.load(path)
        except InvalidFileError:
            continue
        assert repr(loaded) == repr(network)
        for name, array in network.state_dict().items():
            np.testing.assert_array_equal(loaded.state_dict()[name], array)


def crc32c(content: bytes) -> int:
    rotated = (_core.masked_crc32c(content) - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def seal(path: Path, layers: list[str]) -> None:
    """Give a changed checkpoint the checksums of its values. `layers`: the arrays of the network in their order."""
    with h5py.File(path, "r+") as file:
        optimizer = sorted(file["optimizer"])
        for group, names in {
            "parameters": layers,
            "average": layers,
            "optimizer": optimizer,
        }.items():
            content = b"".join(file[group][name][...].tobytes() for name in names)
            file[group].attrs.modify("crc32c", crc32c(content))
        walkers = file["walkers"]
        for number, row in enumerate(zip(walkers["position"], walkers["canvas"], strict=True)):
            walkers["crc32c"][number] = [crc32c(one.tobytes()) for one in row]


def test_a_checkpoint_without_a_checksum_is_refused(run: Path) -> None:
    with h5py.File(checkpoint(run), "r+") as file:
        del file["average"].attrs["crc32c"]  # the group that inference uses
    assert "crc32c" in refusal(lambda: nn.load(checkpoint(run)))


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("depth", 1048577, "1048577"),
        ("depth", 2**32 + 2, str(2**32 + 2)),
        ("depth", 2**63 - 1, "depth"),
        ("depth", -2, "-2"),
        ("features", 2**31, "features"),
        ("features", 0, "features"),
        ("fov", [7, 7, 2**40 + 1], "fov"),
        ("deltas", [4, 4, 4], "deltas"),
        ("kind", "transformer", "transformer"),
        ("format_version", -1, "version"),
        ("depth", np.array([], np.int64), "depth"),
        ("depth", h5py.Empty("i8"), "depth"),
        ("depth", 2.0, "depth"),
        ("depth", "2", "depth"),
        ("kind", np.array(["ffn", "ffn"], "S3"), "kind"),
        ("format", 7, "format"),
    ],
)
def test_attributes_of_a_network_are_checked_before_it_is_built(
    tmp_path: Path, attribute: str, value: Any, expected: str
) -> None:
    path = tmp_path / "network.h5"
    nn.FFN(2, (7, 7, 7), (2, 2, 2), features=4).save(path)
    with h5py.File(path, "r+") as file:
        del file.attrs[attribute]
        file.attrs.pop(f"{attribute}.crc32c", None)
        file.attrs[attribute] = value
    start = time.process_time()
    message = refusal(lambda: nn.load(path))
    assert time.process_time() - start < 0.5
    assert str(path) in message
    assert expected in message


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("depth", 11),
        ("features", 24),
        ("classes", 2**32 + 2),
        ("batch_norm", 2),
        ("in_channels", 0),
    ],
)
def test_attributes_of_a_unet_are_checked(tmp_path: Path, attribute: str, value: int) -> None:
    path = tmp_path / "unet.h5"
    flat_unet().save(path)
    with h5py.File(path, "r+") as file:
        file.attrs[attribute] = np.int64(value)
    message = refusal(lambda: nn.load(path))
    assert str(path) in message
    assert attribute in message


@pytest.mark.parametrize(("attribute", "value"), [("step", -1), ("walkers", 2**32 + 2)])
def test_attributes_of_a_training_state_are_checked(
    folder: Path, run: Path, attribute: str, value: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(checkpoint(run), "r+") as file:
        file.attrs[attribute] = np.int64(value)
    status, error = resumed(folder, run, capfd)
    assert status == 2
    assert error.count("\n") == 1
    assert attribute in error
    assert str(value) in error


@pytest.mark.parametrize(
    ("dataset", "value"),
    [
        ("parameters/seed_update/conv0_a/weights", np.nan),
        ("average/seed_update/conv_lom/biases", np.inf),
        ("optimizer/moment", -np.inf),
        ("walkers/canvas", np.nan),
    ],
)
def test_values_that_are_not_finite_are_refused_by_name(
    folder: Path, run: Path, dataset: str, value: float, capfd: pytest.CaptureFixture[str]
) -> None:
    layers = [name for name, _, _ in nn.load(checkpoint(run)).core.layout()]
    with h5py.File(checkpoint(run), "r+") as file:
        if dataset == "optimizer/moment":
            dataset = next(
                f"optimizer/{n}" for n, d in file["optimizer"].items() if d.dtype == "f4"
            )
        file["walkers/position"][:, 3] = 1
        file[dataset][...] = value
    seal(checkpoint(run), layers)  # so that checksums do not tell
    status, error = resumed(folder, run, capfd)
    assert status == 2
    assert error.count("\n") == 1
    assert dataset.rpartition("/")[2] in error
    assert str(checkpoint(run)) in error


def test_a_changed_configuration_is_noticed(run: Path) -> None:
    path = checkpoint(run)
    with h5py.File(path, "r+") as file:
        text = file.attrs["configuration"]
        file.attrs["configuration"] = text.replace("mean", "meen", 1)
    message = refusal(lambda: _core.stored_text(str(path), "configuration"))
    assert "configuration" in message
    assert "checksum" in message


def other_file(folder: Path) -> Path:
    path = folder / "other.h5"
    with h5py.File(path, "w") as file:
        file["raw"] = np.ones((4, 4, 4), np.uint8)
    (folder / "raw.bin").write_bytes(bytes(64))
    return path


def with_external_link(file: h5py.File, folder: Path) -> None:
    file["raw"] = h5py.ExternalLink(str(folder / "other.h5"), "raw")


def with_soft_link_to_an_external_one(file: h5py.File, folder: Path) -> None:
    file["elsewhere"] = h5py.ExternalLink(str(folder / "other.h5"), "/")
    file["raw"] = h5py.SoftLink("/elsewhere/raw")


def with_external_storage(file: h5py.File, folder: Path) -> None:
    file.create_dataset("raw", (4, 4, 4), "u1", external=[(str(folder / "raw.bin"), 0, 64)])


def with_virtual_values(file: h5py.File, folder: Path) -> None:
    layout = h5py.VirtualLayout((4, 4, 4), "u1")
    layout[...] = h5py.VirtualSource(str(folder / "other.h5"), "raw", (4, 4, 4))
    file.create_virtual_dataset("raw", layout)


def with_virtual_values_of_the_file(file: h5py.File, folder: Path) -> None:
    file["stored"] = np.ones((4, 4, 4), np.uint8)
    layout = h5py.VirtualLayout((4, 4, 4), "u1")
    layout[...] = h5py.VirtualSource(".", "stored", (4, 4, 4))
    file.create_virtual_dataset("raw", layout)


@pytest.mark.parametrize(
    "write",
    [
        with_external_link,
        with_soft_link_to_an_external_one,
        with_external_storage,
        with_virtual_values,
        with_virtual_values_of_the_file,
    ],
)
def test_values_in_other_files_are_refused_unless_allowed(
    write: Callable[[h5py.File, Path], None], tmp_path: Path
) -> None:
    other_file(tmp_path)
    path = tmp_path / "volume.h5"
    with h5py.File(path, "w") as file:
        write(file, tmp_path)
    message = refusal(lambda: ft.data.Volume(f"{path}:raw"))
    assert str(path) in message
    assert "another file" in message
    assert "FLOODTIDE_ALLOW_EXTERNAL=1" in message
    program = f"import floodtide; print(floodtide.data.Volume('{path}:raw').read().shape)"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "FLOODTIDE_ALLOW_EXTERNAL": "1",
        },
    )
    assert printed.stdout == "(4, 4, 4)\n", printed.stderr


def test_soft_links_are_read(tmp_path: Path) -> None:
    path = tmp_path / "volume.h5"
    values = np.arange(64, dtype=np.uint8).reshape(4, 4, 4)
    with h5py.File(path, "w") as file:
        file["group/stored"] = values
        file["link"] = h5py.SoftLink("/group/stored")
    np.testing.assert_array_equal(ft.data.Volume(f"{path}:link").read(), values)


@pytest.mark.parametrize(
    ("number", "name"), [(32000, "LZF"), (32001, "Blosc"), (32015, "Zstandard")]
)
def test_a_filter_that_is_not_there_is_named(tmp_path: Path, number: int, name: str) -> None:
    path = tmp_path / "volume.h5"
    with h5py.File(path, "w") as file:
        if name == "LZF":  # h5py brings this filter
            file.create_dataset("raw", data=np.zeros((8, 8, 8), np.uint8), compression="lzf")
        else:  # a file of another program: its chunks are bytes that only the filter understands
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk((8, 8, 8))
            properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (2, 2, 1, 512, 5, 1, 0))
            space, kind = h5py.h5s.create_simple((8, 8, 8)), h5py.h5t.NATIVE_UINT8
            dataset = h5py.h5d.create(file.id, b"raw", kind, space, properties)
            dataset.write_direct_chunk((0, 0, 0), bytes(64), 0)
    message = refusal(lambda: ft.data.Volume(f"{path}:raw"))
    assert message.startswith(f"{path}:raw: is compressed with the HDF5 filter {name} ({number})")
    assert ("with h5py" if name == "LZF" else "h5repack") in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    "dataset",
    [
        "parameters/seed_update/conv0_a/weights",
        "average/seed_update/conv0_a/weights",
        "optimizer/second_moment",
        "walkers/position",
        "walkers/canvas",
    ],
)
def test_what_only_our_own_checksum_notices_is_refused(
    folder: Path, run: Path, capfd: pytest.CaptureFixture[str], dataset: str
) -> None:
    newest = run / "checkpoints" / "step-3.h5"
    with h5py.File(newest, "r+") as file:
        place = (0,) * file[dataset].ndim
        file[dataset][place] = file[dataset][place] + 1  # h5py writes a new Fletcher-32
    status, error = resumed(folder, run, capfd)
    assert status == 2
    assert "its checksum is wrong" in error
    assert error.endswith("move it away to resume from the checkpoint before it\n")


def test_a_checkpoint_of_another_optimizer_asks_for_another_folder(
    folder: Path, run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(checkpoint(run), run / "checkpoints" / "step-2.h5")
    settings = document(folder, run={"dir": str(run)}, optimizer={"name": "momentum"})
    path = run.parent / "run.toml"
    path.write_text(tomli_w.dumps(settings))
    assert command_line(["train", str(path)]) == 2
    said = "does not have: another network, optimizer or number of walkers needs another run.dir"
    error = capfd.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("raw", "mask", "filters"),
    [
        (zlib.compress(b"short"), 0, {"compression": "gzip"}),
        (zlib.compress(bytes(2049)), 0, {"compression": "gzip"}),
        (zlib.compress(bytes(2048))[:-5], 0, {"compression": "gzip"}),
        (b"not compressed", 1, {"compression": "gzip"}),
        (zlib.compress(bytes(2048)), 4, {"compression": "gzip"}),
        (zlib.compress(b"short"), 2, {"compression": "gzip", "fletcher32": True}),
        (bytes(2048), 0, {"fletcher32": True}),
    ],
    ids=["short", "long", "cut off", "not compressed", "mask", "no checksum", "checksum missing"],
)
def test_a_chunk_of_another_size_is_refused(
    tmp_path: Path, raw: bytes, mask: int, filters: dict[str, Any]
) -> None:
    # The library returned what lay behind the chunk in memory.
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        made = file.create_dataset(
            "raw", data=np.ones((8, 8, 32), "u1"), chunks=(8, 8, 32), **filters
        )
        made.id.write_direct_chunk((0, 0, 0), raw, filter_mask=mask)
    message = refusal(lambda: ft.data.Volume(path, "raw").read())
    assert "one of its chunks" in message
    assert f"of {len(raw)} bytes in the file, has not the size of 2048 bytes" in message


@pytest.mark.parametrize("libver", ["earliest", "v110"])
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"compression": "gzip"},
        {"compression": "gzip", "shuffle": True},
        {"compression": "gzip", "fletcher32": True},
        {"fletcher32": True},
        {"shuffle": True},
        {"scaleoffset": 0},
    ],
    ids=str,
)
def test_chunks_of_other_programs_are_read(
    tmp_path: Path, libver: str, filters: dict[str, Any]
) -> None:
    path = tmp_path / "a.h5"
    values = np.random.default_rng(1).integers(0, 60_000, (9, 10, 11)).astype(np.uint16)
    values[4:] = 7
    with h5py.File(
        path, "w", libver=("earliest", libver) if libver != "earliest" else libver
    ) as file:
        file.create_dataset("raw", data=values, chunks=(4, 4, 4), **filters)
        part = file.create_dataset("part", (9, 10, 11), "u2", chunks=(4, 4, 4), **filters)
        part[8, 9, 10] = 3
        noise = file.create_dataset("noise", (8, 8, 8), "u1", chunks=(8, 8, 8), compression="gzip")
        noise.id.write_direct_chunk(
            (0, 0, 0), bytes(range(256)) * 2, filter_mask=1
        )  # not smaller compressed
    np.testing.assert_array_equal(ft.data.Volume(path, "raw").read(), values)
    read = ft.data.Volume(path, "part").read()
    assert read[8, 9, 10] == read.sum() == 3
    assert ft.data.Volume(path, "noise").read().tobytes() == bytes(range(256)) * 2


def test_a_group_that_contains_itself_is_refused_at_once(tmp_path: Path) -> None:
    path = group_that_contains_itself(tmp_path)
    started = time.process_time()
    with pytest.raises(InvalidFileError, match="has no dataset 'labels'; its datasets are: none"):
        ft.data.Volume(path, "labels")
    assert time.process_time() - started < 5


def group_that_contains_itself(folder: Path) -> Path:
    """A file in which one wrong byte, the number of links to a group, hides a cycle from the HDF5 library."""
    path = folder / "cycle.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        group = file.create_group("group")
        group["itself"] = group
        header = h5py.h5o.get_info(group.id).addr
    content = bytearray(path.read_bytes())
    assert content[header + 4] == 2
    content[header + 4] = 1
    path.write_bytes(content)
    return path


def test_a_locked_file_says_who_may_hold_it(tmp_path: Path) -> None:
    path = tmp_path / "volume.h5"
    with h5py.File(path, "w", locking=True) as file:
        file["raw"] = np.zeros((4, 4, 4), np.uint8)
        file.flush()
        message = refusal(lambda: ft.data.Volume(f"{path}:raw"))
    assert str(path) in message
    assert "another program has it open for writing" in message
    assert "HDF5_USE_FILE_LOCKING=FALSE" in message
    assert ft.data.Volume(f"{path}:raw").shape == (4, 4, 4)


def test_a_pipe_as_a_volume_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe.h5"
    os.mkfifo(path)
    assert "a pipe" in refusal(lambda: ft.data.Volume(f"{path}:raw"))


def test_a_small_file_that_claims_a_huge_volume_is_refused(tmp_path: Path) -> None:
    for exponent in (16, 20):
        path = tmp_path / f"claims-{exponent}.h5"
        with h5py.File(path, "w") as file:
            shape = (2**exponent, 2**exponent, 2**exponent)
            file.create_dataset("raw", shape, "u1", chunks=(64, 64, 64))
        message = refusal(lambda path=path: ft.data.Volume(f"{path}:raw"))
        assert f"{path}:raw" in message
        assert "shape" in message


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])
def test_write_volume_takes_every_type_that_is_read(tmp_path: Path, dtype: str) -> None:
    values = np.arange(60).reshape(3, 4, 5).astype(dtype)
    path = tmp_path / "volume.h5"
    ft.data.write_volume(path, {"raw": values})
    read = ft.data.Volume(f"{path}:raw").read()
    assert read.dtype == values.dtype
    np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize("dtype", ["f2", "?", "c8", "S3"])
def test_write_volume_lists_the_types_that_it_takes(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\(u\)int8, \(u\)int16.*float64"):
        ft.data.write_volume(tmp_path / "volume.h5", {"raw": np.zeros((2, 2, 2), dtype)})
    assert list(tmp_path.iterdir()) == []
