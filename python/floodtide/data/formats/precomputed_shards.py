# SPDX-License-Identifier: Apache-2.0
"""Names of the shard files of a sharded Neuroglancer precomputed scale, so that a lost file is noticed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_HASHED = 1 << 21  # groups of chunks whose shard is computed
_FULL = 32  # groups of chunks per shard, above which a hash leaves no shard empty

_Hashes = NDArray[np.uint64]


def shard_files(sharding: Mapping[str, Any], size: Sequence[int], chunk: Sequence[int]) -> set[str]:
    """Return the names of the files that a scale has if all its chunks exist; empty: too many to tell.

    A chunk has a number, its compressed Morton code. The hash of this number, without its last `preshift_bits`, has the
    shard above the last `minishard_bits`.

    Args:
        sharding: The specification of the scale, which tensorstore has accepted.
        size, chunk: Voxels (x, y, z) of the scale and of a chunk.
    """
    bits, hashed = int(sharding["shard_bits"]), sharding["hash"] != "identity"
    shift, above = int(sharding.get("preshift_bits", 0)), int(sharding["minishard_bits"])
    mask = np.uint64((1 << bits) - 1)
    grid = [-(-n // c) for n, c in zip(size, chunk, strict=True)]
    if max(grid) > _MOST_HASHED:
        return set()
    parts = _numbers(grid, shift)
    if not hashed:
        parts = [np.unique((part >> np.uint64(above)) & mask) for part in parts]
    groups = int(np.prod([len(part) for part in parts], dtype=float))
    if groups <= _MOST_HASHED:
        x, y, z = parts
        numbers = (x[:, None, None] | y[:, None] | z).ravel()
        shards = (_murmur(numbers) >> np.uint64(above)) & mask if hashed else numbers
        found = np.unique(shards).tolist()
    elif groups >= _FULL << bits:
        found = list(range(1 << bits))
    else:
        return set()
    digits = -(-bits // 4)
    return {f"{shard:0{digits}x}.shard" for shard in found}


def _numbers(grid: Sequence[int], shift: int) -> list[_Hashes]:
    """Return what each place on each axis adds to the number of a chunk, without the last `shift` bits."""
    parts = [np.zeros(n, np.uint64) for n in grid]
    places = [np.arange(n, dtype=np.uint64) for n in grid]
    position = 0
    for bit in range(max(grid).bit_length()):
        for n, part, place in zip(grid, parts, places, strict=True):
            if n > 1 << bit:
                part |= ((place >> np.uint64(bit)) & np.uint64(1)) << np.uint64(position)
                position += 1
    return [np.unique(part >> np.uint64(shift)) for part in parts]


def _murmur(numbers: _Hashes) -> _Hashes:
    """Return the first 8 bytes of MurmurHash3_x86_128 of numbers of 8 bytes, with the seed 0."""

    def turned(n: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
        return (n << np.uint32(by)) | (n >> np.uint32(32 - by))

    def mixed(n: NDArray[np.uint32]) -> NDArray[np.uint32]:
        n = (n ^ (n >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        n = (n ^ (n >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return n ^ (n >> np.uint32(16))

    eight = np.uint32(8)  # the number of bytes; the third and fourth parts of the hash are equal
    low = turned(numbers.astype(np.uint32) * np.uint32(0x239B961B), 15) * np.uint32(0xAB0E9789)
    high = (numbers >> np.uint64(32)).astype(np.uint32) * np.uint32(0xAB0E9789)
    high = turned(high, 16) * np.uint32(0x38B34AE5)
    first, second = low ^ eight, high ^ eight
    first = first + second + eight + eight
    second, third = mixed(second + first), mixed(eight + first)
    first = mixed(first) + second + third + third
    return first.astype(np.uint64) | ((second + first).astype(np.uint64) << np.uint64(32))
