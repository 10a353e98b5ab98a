# SPDX-License-Identifier: Apache-2.0
"""TensorFlow checkpoints: arrays are read, and damage is noticed wherever it is."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from fuzz.tensorflow_files import masked_crc32c, write_bundle

from floodtide import _core
from floodtide.errors import Error, InvalidFileError, UnsupportedError
from floodtide.nn.bundle import read_bundle

ARRAYS = {"ab/x": np.float32([[1, 2]]), "ab/y": np.float32([3]), "c": np.float32(4)}
FILES = ("model.index", "model.data-00000-of-00001")


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "model", ARRAYS)
    return tmp_path / "model"


def test_arrays_are_read(prefix: Path) -> None:
    found = read_bundle(str(prefix), "")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], array)
    assert read_bundle(str(prefix), "ab/").keys() == {"ab/x", "ab/y"}


def test_the_checksum_is_that_of_leveldb() -> None:
    for content in (b"", b"floodtide", bytes(range(256)) * 9):
        assert _core.masked_crc32c(content) == masked_crc32c(content)


def test_a_compressed_index_is_refused(prefix: Path) -> None:
    index = bytearray(prefix.with_name(FILES[0]).read_bytes())
    end = _end_of_first_block(index)
    index[end] = 1
    index[end + 1 : end + 5] = struct.pack("<I", masked_crc32c(bytes(index[: end + 1])))
    prefix.with_name(FILES[0]).write_bytes(index)
    with pytest.raises(UnsupportedError, match="compressed"):
        read_bundle(str(prefix), "")


@pytest.mark.parametrize("name", FILES)
def test_missing_files_and_pipes_are_refused(prefix: Path, name: str) -> None:
    prefix.with_name(name).unlink()
    with pytest.raises(InvalidFileError, match="No such file"):
        read_bundle(str(prefix), "")
    os.mkfifo(prefix.with_name(name))
    with pytest.raises(InvalidFileError, match="not a regular file"):
        read_bundle(str(prefix), "")


@pytest.mark.parametrize("name", FILES)
def test_every_truncation_is_noticed(prefix: Path, name: str) -> None:
    whole = prefix.with_name(name).read_bytes()
    for size in range(len(whole)):
        prefix.with_name(name).write_bytes(whole[:size])
        with pytest.raises(InvalidFileError):
            read_bundle(str(prefix), "")


@pytest.mark.parametrize("name", FILES)
def test_every_changed_byte_that_is_read_is_noticed(prefix: Path, name: str) -> None:
    """The meta index, which bundles leave empty, is not read, nor is the padding of the footer."""
    whole = prefix.with_name(name).read_bytes()
    arrays = read_bundle(str(prefix), "")
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x21
        prefix.with_name(name).write_bytes(changed)
        try:
            found = read_bundle(str(prefix), "")
        except Error:
            continue
        footer, meta = len(whole) - 48, _end_of_first_block(bytearray(whole)) + 5
        assert name == FILES[0]
        assert at in {*range(meta, footer + 2), *range(footer + 4, len(whole) - 8)}
        assert {key: array.tolist() for key, array in found.items()} == {
            key: array.tolist() for key, array in arrays.items()
        }


def _end_of_first_block(index: bytearray) -> int:
    """Return where the compression of the first block stands: before the first checksum that fits."""
    return next(
        at
        for at in range(len(index) - 5)
        if struct.unpack_from("<I", index, at + 1)[0] == masked_crc32c(bytes(index[: at + 1]))
    )
