# SPDX-License-Identifier: Apache-2.0
"""Reader of TensorFlow checkpoints ("bundle", version 2), without TensorFlow.

`<prefix>.index` is a sorted table of keys and values in blocks. The values are protocol buffers that say where each
array lies. `<prefix>.data-<shard>-of-<shards>` has the values, little-endian. All checksums are verified.

Source: tensorflow/core/protobuf/tensor_bundle.proto and LevelDB's doc/table_format.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import reading
from floodtide.errors import UnsupportedError

_EXPECTED = "a file of a TensorFlow checkpoint"
_LARGEST_INDEX = 1 << 24  # bytes; the index of a thousand arrays has about 100,000
_FOOTER = 48  # bytes: two places of blocks, padding, the magic bytes
_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_FLOAT = 1  # TensorFlow's DT_FLOAT
_MOST_SHARDS = 99_999


def read_bundle(prefix: str, scope: str) -> dict[str, NDArray[np.float32]]:
    """Return the float32 arrays of a checkpoint whose names begin with `scope`.

    Args:
        prefix: Path without `.index`.
        scope: Beginning of the names, such as "seed_update/".

    Raises:
        InvalidFileError: If a file is missing, truncated or corrupt.
        UnsupportedError: If the index is compressed or big-endian, or an array is stored in slices.
    """
    path = f"{prefix}.index"
    index = reading.read_bytes(path, _EXPECTED, _LARGEST_INDEX)
    shards, entries = 0, {}
    with reading.reading(path, _EXPECTED):
        for key, value in _rows(index, path):
            fields = dict(_fields(value))
            if key:
                entries[key.decode()] = fields
            else:
                shards = fields.get(1, 0)
                if fields.get(2, 0) != 0:
                    raise UnsupportedError(f"{path}: is big-endian, expected little-endian")
        if not 1 <= shards <= _MOST_SHARDS:
            raise ValueError(f"the index names {shards} data files")
    wanted = (name for name in entries if name.startswith(scope))
    floats = [name for name in wanted if entries[name].get(1, 0) == _FLOAT]
    files: dict[str, bytes] = {}
    return {name: _array(name, entries[name], prefix, shards, files) for name in floats}


def _rows(index: bytes, path: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of an index."""
    if len(index) < _FOOTER or index[-8:] != _MAGIC:
        raise ValueError("no index ends here: the file is truncated or another kind of file")
    footer = _Cursor(index[-_FOOTER:])
    footer.place()  # of the meta index, which bundles leave empty
    for _, place in _block(index, footer.place(), path):
        yield from _block(index, _Cursor(place).place(), path)


def _block(index: bytes, place: tuple[int, int], path: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block. Keys are stored without the beginning that they share with the last one."""
    begin, size = place
    end = begin + size  # a byte for the compression and the checksum follow
    if end + 5 > len(index):
        raise ValueError("the index is truncated")
    (checksum,) = struct.unpack_from("<I", index, end + 1)
    if checksum != _core.masked_crc32c(index[begin : end + 1]):
        raise ValueError("the checksum of the index is wrong: the file is corrupt")
    if index[end] != 0:
        raise UnsupportedError(
            f"{path}: the index is compressed, expected an uncompressed one (as TensorFlow 1 and 2 write by default)"
        )
    (restarts,) = struct.unpack_from("<I", index, end - 4)
    block = _Cursor(index[begin : end - 4])
    rows = _Cursor(block.take(len(block.data) - 4 * restarts))
    key = b""
    while rows.left:
        shared, rest, length = rows.varint(), rows.varint(), rows.varint()
        if shared > len(key):
            raise ValueError("the index is corrupt")
        key = key[:shared] + rows.take(rest)
        yield key, rows.take(length)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and values of the fields of a protocol buffer: integers, or bytes of what has a length."""
    cursor = _Cursor(message)
    while cursor.left:
        number, kind = divmod(cursor.varint(), 8)
        if kind == 0:
            yield number, cursor.varint()
        elif kind == 2:
            yield number, cursor.take(cursor.varint())
        else:
            yield number, int.from_bytes(cursor.take({1: 8, 5: 4}[kind]), "little")


class _Cursor:
    """Reads numbers and bytes one after another. Raises ValueError at the end of the data."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self._at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise ValueError("the index is corrupt")
        self._at += count
        return self.data[self._at - count : self._at]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("the index is corrupt")

    def place(self) -> tuple[int, int]:
        """Return where a block begins, and its size."""
        return self.varint(), self.varint()


def _array(
    name: str, entry: Mapping[int, Any], prefix: str, shards: int, files: dict[str, bytes]
) -> NDArray[np.float32]:
    """Return the values of an array. `files` keeps the files that were read."""
    if 7 in entry:
        raise UnsupportedError(
            f"{prefix}.index: '{name}' is stored in slices, expected whole arrays"
        )
    shard, offset, size = (entry.get(number, 0) for number in (3, 4, 5))
    path = f"{prefix}.data-{shard:05d}-of-{shards:05d}"
    if path not in files:
        files[path] = reading.read_bytes(path, _EXPECTED)
    content = files[path][offset : offset + size]
    with reading.reading(path, _EXPECTED):
        if len(content) < size:
            raise ValueError(
                f"'{name}' ends beyond the file's {len(files[path])} bytes: it is truncated"
            )
        if _core.masked_crc32c(content) != entry.get(6, 0):
            raise ValueError(f"the checksum of '{name}' is wrong: the file is corrupt")
        extents = (part for number, part in _fields(entry.get(2, b"")) if number == 2)
        shape = [dict(_fields(extent)).get(1, 0) for extent in extents]
        return np.frombuffer(content, "<f4").reshape(shape)
