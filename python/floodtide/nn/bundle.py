# SPDX-License-Identifier: Apache-2.0
"""Reader of TensorFlow checkpoints ("bundle", version 2), without TensorFlow.

`<prefix>.index` is a sorted table of keys and values in blocks. The values are protocol buffers that say where each
array lies. `<prefix>.data-<shard>-of-<shards>` has the values, little-endian. All checksums are verified.

Source: tensorflow/core/protobuf/tensor_bundle.proto and LevelDB's doc/table_format.md.
"""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Callable, Iterator, Mapping
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
    read = functools.cache(functools.partial(reading.read_bytes, expected=_EXPECTED))
    return {
        name: _array(name, entry, prefix, shards, read)
        for name, entry in entries.items()
        if name.startswith(scope) and entry.get(1, 0) == _FLOAT
    }


def _rows(index: bytes, path: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of an index."""
    if len(index) < _FOOTER or index[-8:] != _MAGIC:
        raise ValueError("no index ends here: the file is truncated or another kind of file")
    footer = io.BytesIO(index[-_FOOTER:])
    _, _, begin, size = (_varint(footer) for _ in range(4))  # two of the empty meta index first
    for _, place in _block(index, begin, size, path):
        stream = io.BytesIO(place)
        yield from _block(index, _varint(stream), _varint(stream), path)


def _block(index: bytes, begin: int, size: int, path: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block. Keys are stored without the beginning that they share with the last one."""
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
    stop = size - 4 - 4 * restarts
    rows, key = io.BytesIO(index[begin : begin + stop]), b""
    while rows.tell() < stop:
        shared, rest, length = (_varint(rows) for _ in range(3))
        if shared > len(key):
            raise ValueError("the index is corrupt")
        key = key[:shared] + _bytes(rows, rest)
        yield key, _bytes(rows, length)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and values of the fields of a protocol buffer: integers, or bytes of what has a length."""
    stream = io.BytesIO(message)
    while stream.tell() < len(message):
        number, kind = divmod(_varint(stream), 8)
        if kind == 0:
            yield number, _varint(stream)
        elif kind == 2:
            yield number, _bytes(stream, _varint(stream))
        else:
            yield number, int.from_bytes(_bytes(stream, {1: 8, 5: 4}[kind]), "little")


def _bytes(stream: io.BytesIO, count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise ValueError("the index is corrupt")
    return found


def _varint(stream: io.BytesIO) -> int:
    value = 0
    for shift in range(0, 63, 7):
        byte = _bytes(stream, 1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("the index is corrupt")


def _array(
    name: str, entry: Mapping[int, Any], prefix: str, shards: int, read: Callable[[str], bytes]
) -> NDArray[np.float32]:
    """Return the values of an array."""
    if 7 in entry:
        raise UnsupportedError(f"{prefix}.index: '{name}' is in slices, expected whole arrays")
    shard, offset, size = (entry.get(number, 0) for number in (3, 4, 5))
    path = f"{prefix}.data-{shard:05d}-of-{shards:05d}"
    whole = read(path)
    content = whole[offset : offset + size]
    with reading.reading(path, _EXPECTED):
        if len(content) < size:
            raise ValueError(f"'{name}' ends beyond the file's {len(whole)} bytes: it is truncated")
        if _core.masked_crc32c(content) != entry.get(6, 0):
            raise ValueError(f"the checksum of '{name}' is wrong: the file is corrupt")
        extents = (part for number, part in _fields(entry.get(2, b"")) if number == 2)
        shape = [dict(_fields(extent)).get(1, 0) for extent in extents]
        return np.frombuffer(content, "<f4").reshape(shape)
