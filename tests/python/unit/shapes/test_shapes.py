# SPDX-License-Identifier: Apache-2.0
"""Meshes and skeletons: their geometry, their files, blocks, and wrong input."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from floodtide import cli, errors
from floodtide.data import convert
from floodtide.shapes.arrays import meshes_of
from floodtide.shapes.precomputed import add_meshes, add_skeletons

SIZE = (40.0, 8.0, 4.0)


def brick(shape: tuple[int, int, int] = (12, 20, 30)) -> np.ndarray:
    labels = np.zeros(shape, np.uint32)
    labels[3:9, 4:14, 6:26] = 70000
    return labels


def volume_of(vertices: np.ndarray, triangles: np.ndarray) -> float:
    """Return the signed volume inside a closed surface: positive if its normals point outwards."""
    a, b, c = (vertices[triangles[:, i]].astype(np.float64) for i in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)


def read_mesh(path: Path) -> tuple[np.ndarray, np.ndarray]:
    data = path.read_bytes()
    count = int(np.frombuffer(data, "<u4", 1)[0])
    vertices = np.frombuffer(data, "<f4", 3 * count, 4).reshape(-1, 3)
    return vertices, np.frombuffer(data, "<u4", -1, 4 + 12 * count).reshape(-1, 3)


def precomputed(folder: Path, labels: np.ndarray, offset: tuple[int, int, int]) -> str:
    with h5py.File(folder / "a.h5", "w") as file:
        file["labels"] = labels
        file["labels"].attrs["box_start"] = offset
    name = f"precomputed://{folder}/out"
    convert(f"{folder}/a.h5:labels", name, voxel_size_nm=SIZE)
    return name


def test_a_mesh_is_the_surface_of_its_segment() -> None:
    (mesh,) = meshes_of(brick(), voxel_size=SIZE)
    assert mesh.id == 70000
    np.testing.assert_allclose(mesh.vertices.min(axis=0), np.array([3, 4, 6]) * SIZE, atol=0.3 * 40)
    np.testing.assert_allclose(
        mesh.vertices.max(axis=0), np.array([9, 14, 26]) * SIZE, atol=0.3 * 40
    )
    expected = 6 * 10 * 20 * np.prod(SIZE)
    assert abs(volume_of(mesh.vertices[:, ::-1], mesh.triangles[:, ::-1])) == pytest.approx(
        expected, rel=0.1
    )
    assert [m.id for m in meshes_of(brick() + np.uint32(1))] == [1, 70001]


def test_files_in_several_blocks_are_one_closed_surface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = brick()
    labels[:, 16:, :3] = 5  # at the faces of the volume
    name = precomputed(tmp_path, labels, (100, 10, 20))
    volumes = []
    monkeypatch.setattr("floodtide.shapes.arrays._REDUCTION", 1)
    for block in (256, 16):
        monkeypatch.setattr("floodtide.shapes.precomputed._BLOCK", block)
        assert add_meshes(name) == 2
        folder = tmp_path / "out" / "mesh"
        fragments = json.loads((folder / "70000:0").read_text())["fragments"]
        assert len(fragments) == (1 if block == 256 else 2)
        found = [read_mesh(folder / fragment) for fragment in fragments]
        corners = np.concatenate([vertices for vertices, _ in found])
        low, high = np.array([103, 14, 26]) * SIZE, np.array([109, 24, 46]) * SIZE
        np.testing.assert_allclose(corners.min(axis=0), low[::-1], rtol=1e-5)
        np.testing.assert_allclose(corners.max(axis=0), high[::-1], rtol=1e-5)
        # About a point of the volume, so that the open sides of fragments cancel.
        centre = corners.mean(axis=0)
        volumes.append(sum(volume_of(v - centre, t) for v, t in found))
        (other,) = json.loads((folder / "5:0").read_text())["fragments"][:1]
        assert read_mesh(folder / other)[0][:, 0].min() == pytest.approx(20 * 4.0)
    assert volumes[0] == pytest.approx(6 * 10 * 20 * np.prod(SIZE), rel=0.05)
    assert volumes[0] > 0
    assert volumes[1] == pytest.approx(volumes[0], rel=0.01)
    info = json.loads((tmp_path / "out" / "info").read_text())
    assert info["mesh"] == "mesh"
    assert json.loads((tmp_path / "out/mesh/info").read_text()) == {
        "@type": "neuroglancer_legacy_mesh"
    }


def test_skeletons_lie_in_their_segments(tmp_path: Path) -> None:
    labels = np.zeros((20, 24, 200), np.uint32)
    labels[6:12, 8:14] = 9
    name = precomputed(tmp_path, labels, (0, 0, 50))
    assert add_skeletons(name) == 1
    data = (tmp_path / "out/skeletons/9").read_bytes()
    nodes, edges = np.frombuffer(data, "<u4", 2)
    vertices = np.frombuffer(data, "<f4", 3 * nodes, 8).reshape(-1, 3)
    assert len(data) == 8 + 12 * nodes + 8 * edges
    assert edges >= nodes - 1 > 20
    assert vertices[:, 0].min() >= 50 * 4
    assert vertices[:, 0].max() <= 250 * 4
    assert (vertices[:, 2] > 6 * 40).all()
    assert (vertices[:, 2] < 12 * 40).all()
    assert json.loads((tmp_path / "out/info").read_text())["skeletons"] == "skeletons"


def test_meshes_of_a_negative_offset_lie_on_their_voxels(tmp_path: Path) -> None:
    labels = np.repeat(brick(), 2, axis=0)
    add_meshes(precomputed(tmp_path, labels, (-2, 0, 5)))
    (path,) = (p for p in (tmp_path / "out/mesh").iterdir() if p.name.count(":") == 2)
    count = np.fromfile(path, "<u4", 1)[0]
    vertices = np.fromfile(path, "<f4", offset=4)[: 3 * count].reshape(-1, 3)[:, ::-1]
    where = np.argwhere(labels)
    low = (where.min(axis=0) + np.array([-2, 0, 5])) * SIZE
    np.testing.assert_allclose(vertices.min(axis=0), low, atol=0.6 * max(SIZE))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = precomputed(tmp_path, np.repeat(brick(), 3, axis=2), (0, 0, 0))
    assert cli.run(["mesh", name, "--skeletons"]) == 0
    assert capsys.readouterr().out == f"1 meshes and 1 skeletons: {name}\n"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("{folder}/a.h5:labels", "expected precomputed://FOLDER"),
        ("precomputed://{folder}/none", "info"),
        ("precomputed://{folder}/image", "is a precomputed image, expected a segmentation"),
    ],
)
def test_wrong_input_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, says: str
) -> None:
    precomputed(tmp_path, brick(), (0, 0, 0))
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["raw"] = np.zeros((4, 4, 4), np.uint8)
    convert(f"{tmp_path}/b.h5:raw", f"precomputed://{tmp_path}/image")
    capsys.readouterr()
    assert cli.run(["mesh", name.format(folder=tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert says in lines[0]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zmesh", None)
    with pytest.raises(errors.UnsupportedError, match=r"pip install '\.\[view\]'"):
        list(meshes_of(brick()))
    with pytest.raises(errors.ShapeError, match="expected integers"):
        list(meshes_of(np.zeros((2, 2))))
