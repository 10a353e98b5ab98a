# SPDX-License-Identifier: Apache-2.0
"""Volumes in Neuroglancer, served to a browser."""

from floodtide.view.layers import Layer, layers_of
from floodtide.view.server import Served, serve

__all__ = ["Layer", "Served", "layers_of", "serve"]
