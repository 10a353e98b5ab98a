# SPDX-License-Identifier: Apache-2.0
"""Shapes of segments: surface meshes, and meshes and skeletons in Neuroglancer's formats."""
