# SPDX-License-Identifier: Apache-2.0
"""A segmentation that was killed continues in the middle of an object, and finds what an uninterrupted one finds."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import bright_network
import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from floodtide import cli, config, errors
from floodtide.data import Volume
from floodtide.segment import Pieces, Segmentation, Segmenter, SegmentOptions
from floodtide.segment.checkpoints import Checkpoint, passes_of, remove_checkpoints


class Killed(Exception):
    """What ends a segmentation in these tests."""


class Network:
    """A network whose objects grow over several moves, and that ends the process at a call."""

    fov, deltas = (5, 5, 5), (2, 2, 2)

    def __init__(self, calls: int | None = None) -> None:
        self.left = calls
        self.calls = 0

    def forward(self, image: np.ndarray, logits: np.ndarray) -> np.ndarray:
        if self.left is not None:
            if self.left == 0:
                raise Killed
            self.left -= 1
        self.calls += 1
        return np.float32(0.6) * logits + 3 * image


def image(seed: int) -> np.ndarray:
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=(20, 21, 22)), 2.0)
    return (noise / noise.std()).astype(np.float32)


def each(every: int) -> Callable[[Checkpoint, Any], None]:
    """Return a method `due` that writes a checkpoint each `every` calls of the network."""

    def due(self: Checkpoint, flooder: Any) -> None:
        if flooder.evaluations % every == 0:
            self.write(flooder)

    return due


def same(a: Segmentation, b: Segmentation) -> None:
    np.testing.assert_array_equal(a.segmentation, b.segmentation)
    np.testing.assert_array_equal(a.probability, b.probability)
    assert [origin[:4] for origin in a.origins] == [origin[:4] for origin in b.origins]
    assert a.overlaps == b.overlaps
    counts = [
        {name: n for name, n in r.counters.items() if not name.endswith("-time-ms")} for r in (a, b)
    ]
    assert counts[0] == counts[1]


OPTIONS = SegmentOptions(
    mean=0.0,
    std=1.0,
    min_segment_size=20,
    segment_threshold=0.5,
    probability=True,
    seed_policy="peaks, reversed grid",
    checkpoint_interval=1e-9,
)


@settings(deadline=None, max_examples=5)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 80), min_size=1, max_size=4),
    st.integers(1, 15),
    st.sampled_from(["none", "reverse"]),
    st.booleans(),
    st.booleans(),
)
def test_a_killed_segmentation_continues_with_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    kills: list[int],
    every: int,
    consensus: str,
    reflect: bool,
    with_initial: bool,
) -> None:
    raw = image(seed)
    options = dataclasses.replace(
        OPTIONS, consensus=consensus, consensus_min_size=5, reflect=reflect
    )
    initial = np.zeros(raw.shape, np.int64)
    initial[2:9, 2:9, 2:9] = 3
    given_initial = initial if with_initial else None
    whole = Segmenter(Network(), options)
    expected = whole.segment(raw, initial=given_initial)
    path = tmp_path_factory.mktemp("checkpoint") / "out.checkpoint"
    calls = 0
    result = None
    for limit in [*kills, None]:
        network = Network(limit)
        segmenter = Segmenter(network, options)
        due = each(every)
        try:
            with mock.patch.object(Checkpoint, "due", due):
                result = segmenter.segment(raw, initial=given_initial, checkpoint=path)
        except Killed:
            assert network.calls == segmenter.network_calls
        calls += network.calls
        if result is not None:
            break
    assert result is not None
    same(result, expected)
    # Only what came after the last checkpoint is computed twice.
    assert whole.model.calls <= calls <= whole.model.calls + len(kills) * (every - 1)
    remove_checkpoints(path)
    assert not any(file.exists() for file in passes_of(path))


def test_checkpoints_are_as_far_apart_as_asked(tmp_path: Path, monkeypatch: Any) -> None:
    now = [100.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            now[0] += 1.0
            return now[0]

    monkeypatch.setattr("floodtide.segment.checkpoints.time", Clock)
    written: list[int] = []
    network = Network()
    write = Checkpoint.write

    def counted(self: Checkpoint, flooder: Any) -> None:
        written.append(network.calls)
        write(self, flooder)

    monkeypatch.setattr(Checkpoint, "write", counted)
    path = tmp_path / "out.checkpoint"
    options = dataclasses.replace(OPTIONS, checkpoint_interval=10.0)
    Segmenter(network, options).segment(image(0), checkpoint=path)
    assert len(written) >= 3
    assert set(np.diff(written)) <= {9, 10, 11}
    remove_checkpoints(path)
    for unused in (dataclasses.replace(options, checkpoint_interval=0.0), options):
        name = None if unused is options else path
        Segmenter(Network(), unused).segment(image(0), checkpoint=name)
        assert not path.exists()


def damaged(content: bytes) -> list[bytes]:
    middle = len(content) // 2
    return [b"", content[:-30], content[:middle] + b"\x55" * 40 + content[middle + 40 :], b"text"]


def test_damaged_and_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    raw, path = image(5), tmp_path / "out.checkpoint"
    with pytest.raises(Killed):
        Segmenter(Network(8), OPTIONS).segment(raw, checkpoint=path)
    content = path.read_bytes()
    for wrong in damaged(content):
        path.write_bytes(wrong)
        with pytest.raises(errors.InvalidFileError) as failure:
            Segmenter(Network(), OPTIONS).segment(raw, checkpoint=path)
        assert str(path) in str(failure.value)
        assert "\n" not in str(failure.value)
    path.write_bytes(content)
    others: list[tuple[np.ndarray, SegmentOptions, Callable[[], Any], str]] = [
        (raw, dataclasses.replace(OPTIONS, min_segment_size=21), Network, "min_segment_size = 20"),
        (raw + 1, OPTIONS, Network, "voxels = "),
        (raw[1:], OPTIONS, Network, "voxels = "),
    ]
    for volume, options, network, says in others:
        with pytest.raises(errors.InvalidArgumentError, match=says):
            Segmenter(network(), options).segment(volume, checkpoint=path)
    assert path.read_bytes() == content
    # The interval may differ, and the file's own state must fit the box.
    again = dataclasses.replace(OPTIONS, checkpoint_interval=100.0)
    same(
        Segmenter(Network(), again).segment(raw, checkpoint=path),
        Segmenter(Network(), OPTIONS).segment(raw),
    )


def test_a_checkpoint_of_before_06a247ed_continues(tmp_path: Path) -> None:
    """Beside the seed, it had two positions of the object under way."""
    raw, path = image(5), tmp_path / "out.checkpoint"
    with pytest.raises(Killed), mock.patch.object(Checkpoint, "due", each(1)):
        Segmenter(Network(8), OPTIONS).segment(raw, checkpoint=path)
    with np.load(path) as file:
        arrays = dict(file)
    assert arrays["growth"].shape == (1, 3)
    arrays["growth"] = np.repeat(arrays["growth"], 3, axis=0)
    with path.open("wb") as file:
        np.savez(file, **arrays)
    same(
        Segmenter(Network(), OPTIONS).segment(raw, checkpoint=path),
        Segmenter(Network(), OPTIONS).segment(raw),
    )


SLOW = """
import sys, time
from floodtide import cli, nn
from floodtide.segment import flooding
forward = flooding.Segmenter.load.__func__
def load(cls, options, **keys):
    segmenter = forward(cls, options, **keys)
    network = segmenter.model
    class Slow:
        fov, deltas, depth = network.fov, network.deltas, network.depth
        parameters = staticmethod(network.parameters)
        def forward(self, image, logits):
            time.sleep(0.002)
            return network.forward(image, logits)
    segmenter.model = Slow()
    return segmenter
flooding.Segmenter.load = classmethod(load)
sys.exit(cli.run(sys.argv[1:]))
"""


def test_a_command_that_is_killed_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = bright_network.configuration(tmp_path, checkpoint_interval=0.05, consensus='"reverse"')
    arguments = ["segment", str(toml), "--out", f"{tmp_path}/out/a.h5:labels"]
    (tmp_path / "out").mkdir()
    assert cli.run([*arguments[:-1], f"{tmp_path}/whole.h5:labels"]) == 0
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    file = tmp_path / "out/a.h5.labels.checkpoint"
    for _ in range(2):
        before = file.stat().st_mtime_ns if file.exists() else 0
        process = subprocess.Popen(
            [sys.executable, "-c", SLOW, *arguments], env=environment, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while not (file.exists() and file.stat().st_mtime_ns > before):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "out/a.h5").exists()
    capsys.readouterr()
    assert cli.run([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert 0 < report["network_calls_before"] < report["network_calls"]
    with h5py.File(tmp_path / "out/a.h5") as a, h5py.File(tmp_path / "whole.h5") as b:
        np.testing.assert_array_equal(a["labels"], b["labels"])
        np.testing.assert_array_equal(a["origins/start_zyx"], b["origins/start_zyx"])
    left = {name for name in os.listdir(tmp_path / "out") if not name.endswith(".tmp")}
    assert left <= {"a.h5", ".a.h5.lock"}


def test_a_subvolume_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml = bright_network.configuration(tmp_path, subvolume=[24, 30, 30], overlap=[8, 8, 8])
    assert cli.run(["segment", str(toml), "--out", f"{tmp_path}/whole"]) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "pieces")
    for path in (tmp_path / "pieces").glob("*.h5"):
        path.unlink()
    options = dataclasses.replace(config.load(toml).segment, checkpoint_interval=0.005)
    volume, pieces = Volume(options.image), Pieces.open(tmp_path / "pieces")
    interrupted = 0
    for number in range(len(pieces.cut)):
        segmenter = Segmenter.load(options)

        def stop(done: int, total: int, segmenter: Segmenter = segmenter) -> None:
            time.sleep(0.003)
            if segmenter.network_calls > 6:
                raise Killed

        with contextlib.suppress(Killed):
            bright_network.segment_block(pieces, number, segmenter, volume, stop)
        if pieces.done(number):
            continue
        interrupted += pieces.checkpoint(number).exists()
        assert bright_network.segment_block(pieces, number, Segmenter.load(options), volume)
        assert not pieces.checkpoint(number).exists()
        with (
            h5py.File(pieces.path(number)) as a,
            h5py.File(tmp_path / "whole" / pieces.path(number).name) as b,
        ):
            np.testing.assert_array_equal(a["segmentation"], b["segmentation"])
    capsys.readouterr()
