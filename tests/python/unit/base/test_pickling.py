# SPDX-License-Identifier: Apache-2.0
"""Public objects in other processes: they can be pickled and copied, or one line says why not."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomli_w
import training_volume
from flat_unet import flat_unet

from floodtide import config, nn, optim
from floodtide.comm import collectives
from floodtide.comm import world as ranks
from floodtide.config.sections import OptimizerConfig, ScheduleConfig
from floodtide.data import TrainingVolume, Volume
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.segment.affinities import AffinityFile
from floodtide.segment.pieces import Cut
from floodtide.train import FloodValidation, Trainer

WAYS: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda x: pickle.loads(pickle.dumps(x)),
]
IMAGE = np.random.default_rng(0).integers(0, 255, (12, 13, 14)).astype(np.uint8)
OPTIONS = SegmentOptions(mean=128.0, std=33.0, min_segment_size=1, seed_policy="grid")


def ffn() -> nn.FFN:
    return nn.FFN(depth=2, fov=(7, 7, 5), deltas=(2, 2, 1), features=4, seed=3)


@pytest.fixture(params=WAYS, ids=["copy", "deepcopy", "pickle"])
def way(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    found: Callable[[Any], Any] = request.param
    return found


@pytest.mark.parametrize(
    "section",
    [
        OPTIONS,
        config.Config(),
        config.from_dict({"task": {"kind": "lsd"}, "model": {"kind": "unet"}}),
        OptimizerConfig(name="momentum"),
        ScheduleConfig(name="cosine"),
        optim.Adam(lr=0.1),
        Cut(((0, 0, 0), (9, 9, 9)), (4, 4, 4), (1, 1, 1)),
    ],
    ids=lambda section: type(section).__name__,
)
def test_options_are_the_same_afterwards(section: Any, way: Callable[[Any], Any]) -> None:
    again = way(section)
    assert type(again) is type(section)
    assert (again == section) or (vars(again) == vars(section))
    assert str(again) == str(section) or not isinstance(section, config.Config)


@pytest.mark.parametrize(
    "network",
    [
        ffn(),
        nn.FFN(depth=1, fov=(5, 5, 5), deltas=(1, 1, 1), features=2, parallel="voxels"),
        flat_unet(dropout=0.25, classes=3, in_channels=2, seed=5),
        nn.UNet(nn.UNetOptions(depth=2, batch_norm=False), classes=3, output="sigmoid"),
    ],
    ids=lambda network: type(network).__name__,
)
def test_networks_have_the_same_options_and_parameters(
    network: nn.Network, way: Callable[[Any], Any]
) -> None:
    again = way(network)

    assert repr(again) == repr(network)
    assert (again.seed, again.origin) == (network.seed, network.origin)
    options = type(network.core.options)
    names = [name for name in dir(options) if isinstance(getattr(options, name), property)]
    assert "depth" in names
    for name in names:
        assert getattr(again.core.options, name) == getattr(network.core.options, name)
    np.testing.assert_array_equal(again.core.parameters(), network.core.parameters())
    before = again.core.parameters().copy()
    network.core.parameters()[0] += 1  # the copy must not change
    np.testing.assert_array_equal(again.core.parameters(), before)


def test_a_network_keeps_attributes_of_the_caller() -> None:
    network = ffn()
    network.origin, network.mine = "file.h5", [1, 2]  # type: ignore[attr-defined]

    again = copy.deepcopy(network)

    assert (again.origin, again.mine) == ("file.h5", [1, 2])  # type: ignore[attr-defined]


def test_volumes_read_the_same(tmp_path: Path, way: Callable[[Any], Any]) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["raw"] = IMAGE
        file["channels"] = np.stack([IMAGE, IMAGE + 1])
    volumes = [
        Volume(f"{tmp_path}/v.h5:raw"),
        Volume(tmp_path / "v.h5", "raw"),
        Volume(f"{tmp_path}/v.h5:channels", channel=1),
        Volume(IMAGE, name="mine"),
    ]
    for volume in volumes:
        again = way(volume)
        assert (again.name, again.geometry) == (volume.name, volume.geometry)
        np.testing.assert_array_equal(again.read(), volume.read())


def test_a_segmenter_finds_the_same_objects(way: Callable[[Any], Any]) -> None:
    segmenter = Segmenter(ffn(), OPTIONS)
    expected = segmenter.segment(IMAGE)

    again = way(segmenter)

    assert (again.options, again.forward) == (segmenter.options, segmenter.forward)
    np.testing.assert_array_equal(again.segment(IMAGE).segmentation, expected.segmentation)


def segmented(segmenter: Segmenter, volume: Volume, settings: config.Config) -> np.ndarray:
    assert settings == config.Config()
    return segmenter.segment(volume).segmentation


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_processes_segment(tmp_path: Path, method: str) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["raw"] = IMAGE
    work = (Segmenter(ffn(), OPTIONS), Volume(f"{tmp_path}/v.h5:raw"), config.Config())
    expected = segmented(*work)

    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply(segmented, work)

    np.testing.assert_array_equal(found, expected)


def test_affinities_and_held_out_centres(tmp_path: Path, way: Callable[[Any], Any]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.random.default_rng(1).random((3, 4, 5, 6)).astype(np.float32)
    affinities = AffinityFile(f"{tmp_path}/a.h5:a", [[-1, 0, 0], [0, -1, 0], [0, 0, -1]])
    again = way(affinities)
    assert again.offsets == affinities.offsets
    np.testing.assert_array_equal(again.read(again.box), affinities.read(affinities.box))

    training_volume.write_volume(tmp_path)
    row = training_volume.document(tmp_path)["data"]["volumes"][0]
    volume = TrainingVolume(**{k: row[k] for k in ("image", "labels", "partitions")})
    held_out = FloodValidation(volume, patch_size=(7, 7, 7), centres=4)
    network = nn.FFN(depth=1, fov=(7, 7, 7), deltas=(0, 0, 0), features=2)
    assert way(held_out).run(network).summary() == held_out.run(network).summary()


def test_what_cannot_be_pickled_says_why_in_one_line(tmp_path: Path) -> None:
    training_volume.write_volume(tmp_path)
    document = training_volume.document(tmp_path, run={"dir": str(tmp_path / "run")})
    (tmp_path / "train.toml").write_text(tomli_w.dumps(document))
    with Trainer.from_config(config.load(tmp_path / "train.toml")) as trainer:
        result = Segmenter(ffn(), OPTIONS).segment(IMAGE)
        group = ranks.ProcessSet([0])
        for thing in (trainer, trainer.data, result, group, collectives.Handle([], list)):
            for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=r"^\w+ cannot be pickled or copied: .*; exp"):
                    attempt(thing)
