# SPDX-License-Identifier: Apache-2.0
"""What ranks compare at the start: versions, keys, and how differences are listed."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from floodtide import _core, config
from floodtide.train import same_on_ranks


def test_the_version_has_a_checksum_of_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Path(_core.__file__).read_bytes()
    assert same_on_ranks.version().endswith(f"(build {zlib.crc32(library):08x})")
    other = tmp_path / "core.so"
    other.write_bytes(library + b"!")
    monkeypatch.setattr(_core, "__file__", str(other))
    assert same_on_ranks.version.__wrapped__() != same_on_ranks.version()


def test_all_keys_are_compared_but_threads_and_folders() -> None:
    volume = {"name": "a", "image": "/here/a.h5:raw"}
    one = config.from_dict({"run": {"threads": 1}, "data": {"volumes": [volume]}})
    other = config.from_dict(
        {"run": {"threads": 2}, "data": {"volumes": [{**volume, "image": "/there/a.h5:raw"}]}}
    )
    keys = dict(same_on_ranks.comparable_keys(one))
    assert keys == dict(same_on_ranks.comparable_keys(other))
    assert "run.threads" not in keys
    assert keys["data.volumes.0.image"] == "a.h5:raw"
    assert {"run.dir", "optimizer.lr", "model.fov", "comm.mode", "segment.fov"} <= keys.keys()
    renamed = config.from_dict({"data": {"volumes": [{**volume, "image": "/here/b.h5:raw"}]}})
    assert dict(same_on_ranks.comparable_keys(renamed)) != keys


def test_optimizers_parameters_are_compared_by_name() -> None:
    settings = config.from_dict({"optimizer": {"name": "adam", "beta1": 0.8}})
    assert dict(same_on_ranks.comparable_keys(settings))["optimizer.beta1"] == 0.8


def test_long_lists_of_keys_are_cut() -> None:
    tables = tuple({key: rank % 2 for key in "abcde"} for rank in range(30))
    assert same_on_ranks.differences(tables) == (
        ", ".join(f"{key} is 0 on rank 0 and 1 on rank 1" for key in "abc")
    )
    assert same_on_ranks.differences(({"a": 1}, {})) == "a is 1 on rank 0 and missing on rank 1"


def test_tables_are_compared_by_key_and_masks_without_their_folder() -> None:
    keys = []
    for folder in ("/here", "/there"):
        masks = {"mitochondria": f"{folder}/m.tif", "vesicles": f"{folder}/v.tif"}
        volume = {"image": "a.h5:raw", "masks": masks}
        task = {"kind": "classes", "classes": {"0": "background", "255": "mitochondria"}}
        document = {"task": task, "model": {"kind": "unet"}, "data": {"volumes": [volume]}}
        keys.append(dict(same_on_ranks.comparable_keys(config.from_dict(document))))
    assert keys[0] == keys[1]
    assert keys[0]["task.classes.255"] == "mitochondria"
    assert keys[0]["data.volumes.0.masks.vesicles"] == "v.tif"
