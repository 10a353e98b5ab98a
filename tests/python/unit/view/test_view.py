# SPDX-License-Identifier: Apache-2.0
"""The viewer: which layers it shows, what its server answers, and how the command ends."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import report_runs

from floodtide import cli, errors
from floodtide.data.places import Place, table_of, write_places
from floodtide.view import viewer
from floodtide.view.viewer import Served, layers_of, places_of, serve


def write(path: Path, **datasets: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name] = values


@pytest.fixture
def volumes(tmp_path: Path) -> Path:
    """Return a file with an image, a truth, and a segmentation of a box of them."""
    labels = np.arange(5 * 6 * 7, dtype=np.int64).reshape(5, 6, 7)
    write(
        tmp_path / "a.h5",
        raw=np.zeros((9, 9, 9), np.uint8),
        truth=np.ones((9, 9, 9), np.uint16),
        box=labels,
    )
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["box"].attrs["box_start"] = [1, 2, 0]
        file["box"].attrs["image"] = f"{tmp_path}/a.h5:raw"
    return tmp_path / "a.h5"


def test_layers_of_a_segmentation(volumes: Path) -> None:
    layers, size = layers_of(f"{volumes}:box", truth=f"{volumes}:truth")
    assert [(layer.name, layer.labels, layer.start) for layer in layers] == [
        ("image", False, (0, 0, 0)),
        ("segmentation", True, (1, 2, 0)),
        ("truth", True, (0, 0, 0)),
    ]
    assert [layer.visible for layer in layers] == [True, True, False]
    assert size is None
    (image,), _ = layers_of(f"{volumes}:raw")
    assert (image.name, image.labels) == ("image", False)


def test_layers_of_a_run(tmp_path: Path) -> None:
    run = report_runs.make_run(tmp_path / "run")
    layers, size = layers_of(str(run))
    assert "segmentation" in [layer.name for layer in layers]
    assert size is None or len(size) == 3
    (run / "segmentation.h5").unlink()
    with pytest.raises(errors.InvalidArgumentError, match=r"has no segmentation\.h5"):
        layers_of(str(run))


def source_of(served: Served, layer: str) -> Any:
    """Return the volume that Neuroglancer reads for a layer."""
    url = served.viewer.state.layers[layer].layer.source[0].url
    (found,) = (one for key, one in served.viewer.volume_manager.volumes.items() if key in url)
    return found


def test_the_server_answers(volumes: Path) -> None:
    layers, _ = layers_of(f"{volumes}:box")
    served = serve(layers, (30.0, 8.0, 4.0))
    with urllib.request.urlopen(served.url, timeout=20) as answer:
        assert b"neuroglancer" in answer.read()
    state = served.viewer.state.to_json()
    assert [layer["name"] for layer in state["layers"]] == ["image", "segmentation"]
    assert state["dimensions"]["x"] == [4e-9, "m"]
    volume = source_of(served, "segmentation")
    whole = layers[1].volume.read().T
    part = volume.data[0:7, 1:3, 0:5]
    np.testing.assert_array_equal(part, whole[0:7, 1:3, 0:5])
    assert (volume.shape, part.dtype) == (whole.shape, np.uint64)
    assert list(volume.voxel_offset) == [0, 2, 1]
    assert re.search(r"ssh -N -L (\d+):localhost:\1 \S+@\S+", served.ssh)


def test_command_prints_the_address_and_ends_with_ctrl_c(volumes: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-um",
            "floodtide",
            "view",
            f"{volumes}:box",
            "--truth",
            f"{volumes}:truth",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    assert lines[0] == "layers: image, segmentation, truth\n"
    assert lines[1].startswith("open http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert stderr == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{folder}/none.h5:a"], "none.h5"),
        (["{folder}/a.h5:box", "--truth", "{folder}/none.h5:a"], "none.h5"),
        (["{folder}/a.h5:box", "--image", "{folder}/none.h5:a"], "none.h5"),
        (["{folder}/a.h5:box", "--truth", "{folder}/a.h5:real"], "expected ids of segments"),
        (["{folder}/a.h5:box", "--bind", "127.0.0.1:70000"], "0 to 65535"),
        (["{folder}/a.h5:box", "--bind", "203.0.113.7"], "203.0.113.7"),
    ],
)
def test_wrong_input_is_refused_in_one_line(
    volumes: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with h5py.File(volumes, "a") as file:
        file["real"] = np.zeros((9, 9, 9), np.float32)
    assert cli.run(["view", *(word.format(folder=volumes.parent) for word in arguments)]) in (1, 2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert says in lines[0]


def test_a_missing_library_is_named(volumes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neuroglancer", None)
    with pytest.raises(errors.UnsupportedError, match=r"pip install '\.\[view\]'"):
        serve(layers_of(f"{volumes}:box")[0])


def test_keys_step_through_the_places(volumes: Path) -> None:
    places = [
        Place((2, 3, 1), "merge", 0.5, (9, 9), (60, 50), ((2, 3, 1), (2, 3, 1))),
        Place((4, 5, 2), "end", 0.1, (7, 0), (60, 0), ((4, 5, 2), (4, 5, 2))),
    ]
    write_places(table_of(f"{volumes}:box"), places, (1, 2, 0), 0.5)
    with h5py.File(volumes, "a") as file:
        file["box"][1, 1, 1], file["box"][3, 3, 2] = 9, 7
    layers, _ = layers_of(f"{volumes}:box")
    assert places_of(layers) == places
    viewer = serve(layers, places=places_of(layers)).viewer
    points = viewer.state.layers["places"].layer.annotations
    assert [point.description for point in points] == [
        "1: merge, affinity 0.50, segment 9",
        "2: end, affinity 0.10, segment 7",
    ]
    for keys in ("viewer", "data_view"):  # the pictures have own meanings of these keys
        bound = getattr(viewer.config_state.state.input_event_bindings, keys)
        assert (bound["bracketright"], bound["bracketleft"]) == ("next-place", "previous-place")
    assert points[0].point.tolist() == [1.5, 3.5, 2.5]
    bound = viewer.config_state.state.input_event_bindings.viewer.to_json()
    assert bound == {"bracketright": "next-place", "bracketleft": "previous-place"}
    seen = []
    for action in ("previous-place", "next-place", "next-place", "previous-place"):
        viewer.actions.invoke(action, None)
        chosen = viewer.state.layers["segmentation"].layer.segments
        seen.append((viewer.state.position.tolist(), sorted(chosen)))
    first, second = ([1.5, 3.5, 2.5], [9]), ([2.5, 5.5, 4.5], [7])
    assert seen == [second, first, second, first]
    assert viewer.config_state.state.status_messages["place"].startswith("place 1: merge")


def test_segments_have_surfaces_up_to_a_size(
    volumes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from neuroglancer.local_volume import MeshesNotSupportedForVolume

    layers, _ = layers_of(f"{volumes}:box")
    segment = int(layers[1].volume.read().max())

    def mesh() -> bytes:
        return bytes(source_of(serve(layers), "segmentation").get_object_mesh(segment))

    assert len(mesh()) > 4
    monkeypatch.setattr(viewer, "_MESHED", 10)
    with pytest.raises(MeshesNotSupportedForVolume):  # not a request that waits forever
        mesh()
    assert "segmentation has more than 10 voxels: shown without surfaces" in capsys.readouterr().err
