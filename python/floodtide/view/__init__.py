# SPDX-License-Identifier: Apache-2.0
"""Volumes in Neuroglancer, served to a browser."""
