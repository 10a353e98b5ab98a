# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints in TensorFlow's bundle format, as small as the fuzzer wants them.

The index is a sorted table of key-value blocks with a checksum (masked CRC-32C) after each; its values are protocol
buffers that say where in the data file an array lies. Source: the formats of LevelDB's tables and of TensorFlow's
tensor_bundle.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

_MAGIC = 0xDB4775248B80FB57
_FLOAT = 1


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def masked_crc32c(data: bytes) -> int:
    """The checksum of RFC 3720, rotated and shifted as LevelDB stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _block(rows: Mapping[bytes, bytes]) -> bytes:
    """Rows with whole keys, a restart point each, then compression (none) and checksum."""
    content, restarts = b"", []
    for key, value in rows.items():
        restarts.append(len(content))
        content += _varint(0) + _varint(len(key)) + _varint(len(value)) + key + value
    content += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts)) + b"\0"
    return content + struct.pack("<I", masked_crc32c(content))


def _handle(offset: int, block: bytes) -> bytes:
    return _varint(offset) + _varint(len(block) - 5)


def write_bundle(prefix: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write `prefix`.index and `prefix`.data-00000-of-00001 with float32 arrays."""
    data, rows = b"", {b"": b"\x08\x01"}
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name], np.float32).tobytes()
        extents = b"".join(
            b"\x12" + _varint(len(d)) + d
            for d in (b"\x08" + _varint(n) for n in arrays[name].shape)
        )
        rows[name.encode()] = (
            b"\x08" + _varint(_FLOAT) + b"\x12" + _varint(len(extents)) + extents
            + b"\x20" + _varint(len(data)) + b"\x28" + _varint(len(values))
            + b"\x35" + struct.pack("<I", masked_crc32c(values))
        )  # fmt: skip
        data += values
    table = _block(rows)
    meta = _block({})
    index = _block({max(rows) + b"\0": _handle(0, table)})
    footer = _handle(len(table), meta) + _handle(len(table) + len(meta), index)
    footer = footer.ljust(40, b"\0") + struct.pack("<Q", _MAGIC)
    prefix.with_name(prefix.name + ".index").write_bytes(table + meta + index + footer)
    prefix.with_name(prefix.name + ".data-00000-of-00001").write_bytes(data)
