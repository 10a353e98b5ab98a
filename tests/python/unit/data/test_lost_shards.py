# SPDX-License-Identifier: Apache-2.0
"""Lost shard files of sharded precomputed volumes, which tensorstore has written, are noted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorstore")

import tensorstore

from floodtide import data
from floodtide.data.formats import precomputed_shards
from floodtide.data.formats.precomputed_shards import shard_files

SIZE, CHUNK = (40, 48, 17), (8, 4, 8)


def sharding(hashed: str, preshift: int, minishard: int, shard: int) -> dict[str, Any]:
    return {
        "@type": "neuroglancer_uint64_sharded_v1",
        "hash": hashed,
        "preshift_bits": preshift,
        "minishard_bits": minishard,
        "shard_bits": shard,
    }


def written(folder: Path, spec: dict[str, Any]) -> list[Path]:
    """Write a volume of ones, and return its shard files."""
    scale = {
        "key": "s", "size": SIZE, "encoding": "raw", "chunk_size": CHUNK, "resolution": [4, 4, 40], "sharding": spec,
    }  # fmt: skip
    store = tensorstore.open(
        {
            "driver": "neuroglancer_precomputed",
            "kvstore": {"driver": "file", "path": f"{folder}/"},
            "create": True,
            "multiscale_metadata": {"type": "image", "data_type": "uint8", "num_channels": 1},
            "scale_metadata": scale,
        }
    ).result()
    store[..., 0].write(np.ones(SIZE, np.uint8)).result()
    return sorted((folder / "s").iterdir())


@pytest.mark.parametrize("hashed", ["identity", "murmurhash3_x86_128"])
@pytest.mark.parametrize("bits", [(1, 1, 3), (0, 2, 5), (3, 0, 9), (20, 2, 0)])
def test_lost_shards_are_counted(
    tmp_path: Path, hashed: str, bits: tuple[int, int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = sharding(hashed, *bits)
    shards = written(tmp_path, spec)
    assert shard_files(spec, SIZE, CHUNK) == {path.name for path in shards}
    assert data.Volume(f"precomputed://{tmp_path}").read().min() == 1
    assert not capsys.readouterr().err
    for path in shards[: len(shards) // 2 + 1]:
        path.unlink()
    data.Volume(f"precomputed://{tmp_path}")
    said = capsys.readouterr().err
    assert f"{len(shards) // 2 + 1} of {len(shards)} chunks do not exist" in said


def test_shards_of_large_volumes_are_counted_without_hashing_every_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = {
        hashed: shard_files(sharding(hashed, 0, 2, 4), (64, 64, 64), (2, 2, 2))
        for hashed in ("identity", "murmurhash3_x86_128")
    }
    monkeypatch.setattr(precomputed_shards, "_MOST_HASHED", 1 << 12)
    for hashed, files in exact.items():
        assert shard_files(sharding(hashed, 0, 2, 4), (64, 64, 64), (2, 2, 2)) == files
    few = sharding("murmurhash3_x86_128", 0, 2, 12)  # some shards may be empty: none is noted
    assert shard_files(few, (64, 64, 64), (2, 2, 2)) == set()
    large = sharding("identity", 9, 1, 11)
    assert len(shard_files(large, (10**5, 10**5, 10**4), (64,) * 3)) == 1 << 11
    assert shard_files(sharding("identity", 0, 0, 3), (1 << 50, 1, 1), (1, 1, 1)) == set()
