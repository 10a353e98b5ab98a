# SPDX-License-Identifier: Apache-2.0
"""Shapes of segments: surface meshes, and meshes and skeletons in Neuroglancer's formats."""

from floodtide.data.skeletons import Skeleton
from floodtide.shapes.meshes import Mesh, meshes_of
from floodtide.shapes.precomputed import add_meshes, add_skeletons
from floodtide.shapes.skeletons import skeletons_of

__all__ = ["Mesh", "Skeleton", "add_meshes", "add_skeletons", "meshes_of", "skeletons_of"]
