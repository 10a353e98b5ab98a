# SPDX-License-Identifier: Apache-2.0
"""Meshes of segments: their geometry, and wrong input."""

import numpy as np
import pytest

from floodtide import errors
from floodtide.shapes.meshes import meshes_of

SIZE = (40.0, 8.0, 4.0)


def brick(shape: tuple[int, int, int] = (12, 20, 30)) -> np.ndarray:
    labels = np.zeros(shape, np.uint32)
    labels[3:9, 4:14, 6:26] = 70000
    return labels


def volume_of(vertices: np.ndarray, triangles: np.ndarray) -> float:
    """Return the signed volume inside a closed surface: positive if its normals point outwards."""
    a, b, c = (vertices[triangles[:, i]].astype(np.float64) for i in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)


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
    assert [m.id for m in meshes_of(brick() + np.uint32(1), ids=[70001])] == [70001]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zmesh", None)
    with pytest.raises(errors.UnsupportedError, match=r"pip install '\.\[view\]'"):
        list(meshes_of(brick()))
    with pytest.raises(errors.ShapeError, match="expected integers"):
        list(meshes_of(np.zeros((2, 2))))
