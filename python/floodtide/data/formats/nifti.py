# SPDX-License-Identifier: Apache-2.0
"""NIfTI files through nibabel, decoded whole. They store x fastest, and an affine that turns and shifts the axes.

A volume is read with x to the right, y to the front and z to the top of the body (RAS+), so that volumes of one body
that programs have stored in different orientations fit.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import notes
from floodtide.base.libraries import library
from floodtide.base.limits import require_decoded
from floodtide.base.reading import require_file
from floodtide.data.formats.geometry import SAME, Geometry, size_text, stated_size, voxels_of
from floodtide.data.formats.readers import Opened, array_volume
from floodtide.errors import InvalidFileError

NIFTI = (".nii", ".nii.gz")
"""Endings of names of NIfTI files."""

_EXACT = 2**53  # integers up to here are exact as float64
_HARMLESS = ("bitpix", "pixdim[0]")  # problems of headers that change nothing
_STRAIGHT = 1e-3  # share of an axis that may lie along another one


def open_nifti(reference: str) -> Opened:
    """Open a file of one volume."""
    require_file(reference)
    nibabel = library("nibabel", reference, "formats")
    with nibabel.imageglobals.LoggingOutputSuppressor():
        file = nibabel.load(reference, mmap=False)
    if not isinstance(file, nibabel.Nifti1Pair):  # the class of NIfTI-2, too
        raise InvalidFileError(f"{reference}: is a file of {type(file).__name__}, expected NIfTI")
    opened = _opened(nibabel, reference, file)
    with nibabel.openers.ImageOpener(reference) as stored:  # nibabel has repaired the header
        block = stored.read(file.header.template_dtype.itemsize)
    problems = file.header.diagnose_binaryblock(block)
    for text in problems.splitlines():
        if not text.startswith(_HARMLESS):
            notes.show(f"{reference}: its header is repaired: {text}")
    if "non-zero" in problems:  # nibabel takes 1 for edges of 0
        unknown = dataclasses.replace(opened.geometry, voxel_size_nm=None, size_source="")
        return opened._replace(geometry=unknown)
    return opened


def _opened(nibabel: Any, path: str, file: Any) -> Opened:
    header, shape = file.header, file.shape
    if len(shape) < 3 or any(n != 1 for n in shape[3:]):
        raise InvalidFileError(
            f"{path}: has {len(shape)} axes, shape {shape} (x, y, z, ...); expected one volume (x, y, z)"
        )
    plain = (file.dataobj.slope, file.dataobj.inter) == (1, 0)
    dtype = np.dtype(file.dataobj.dtype if plain else np.float64)
    require_decoded(path, shape[:3], dtype.itemsize)
    if not plain and file.dataobj.dtype.kind in "iu" and file.dataobj.dtype.itemsize == 8:
        stored = file.dataobj.get_unscaled()
        if max(-int(stored.min()), int(stored.max())) > _EXACT:
            raise InvalidFileError(
                f"{path}: holds integers above 2^53, which scl_slope {file.dataobj.slope:g} and scl_inter"
                f" {file.dataobj.inter:g} would round; expected 1 and 0 for ids"
            )
    voxels = np.asarray(file.dataobj).astype(dtype, copy=False).reshape(shape[:3])
    # The header has numbers of 32 bits: 0.008, and not 0.00800000037997961.
    edges = np.array([float(str(n)) for n in header.get_zooms()[:3]])
    affine = None
    if int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0:
        affine = header.get_best_affine()
        if int(header["sform_code"]) > 0 and int(header["qform_code"]) > 0:
            other = header.get_qform()
            far = np.abs(affine - other) > SAME * max(np.abs(affine).max(), np.abs(other).max())
            if far[:3, 3].any() or nibabel.aff2axcodes(affine) != nibabel.aff2axcodes(other):
                notes.show(f"{path}: sform and qform state different places: sform is used")
        if not np.isfinite(affine).all() or np.linalg.matrix_rank(affine[:3, :3]) < 3:
            raise InvalidFileError(
                f"{path}: its affine is {affine.tolist()}, expected three directions"
            )
        names = "".join(nibabel.aff2axcodes(affine))
        if names != "RAS":
            notes.show(
                f"{path}: its axes point to {names}; it is read as RAS (x right, y front, z top)"
            )
        turn = nibabel.io_orientation(affine)
        voxels = nibabel.apply_orientation(voxels, turn)
        affine = affine @ nibabel.orientations.inv_ornt_aff(turn, shape[:3])
        edges = edges[np.argsort(turn[:, 0])]
    unit = header.get_xyzt_units()[0]
    geometry = _geometry(path, edges, affine, "" if unit == "unknown" else unit)
    return array_volume(voxels.T, path, geometry)


def _geometry(path: str, edges: NDArray[Any], affine: NDArray[Any] | None, unit: str) -> Geometry:
    """Return voxel size and offset.

    Args:
        edges: Edges (x, y, z) of a voxel by the header.
        affine: Of the axes x, y, z; None if the file states none.
        unit: The unit of both.
    """
    source = "pixdim" if affine is None else "its affine"
    offset = None
    if affine is not None:
        lengths = np.sqrt((affine[:3, :3] ** 2).sum(axis=0))
        if not np.allclose(lengths, edges, rtol=SAME, atol=0):
            notes.show(
                f"{path}: pixdim states edges of {size_text(edges.tolist())}, its affine of"
                f" {size_text(lengths.tolist())} (x, y, z): the affine is used"
            )
            edges = np.array([float(f"{n:.7g}") for n in lengths])
        if np.abs(np.abs(affine[:3, :3] / lengths).max(axis=0) - 1).max() > _STRAIGHT:
            notes.show(
                f"{path}: its affine turns the axes by other angles than right ones: the nearest axes are taken, and"
                " its position is not used"
            )
        else:
            offset = voxels_of(path, (affine[:3, 3] / edges)[::-1].tolist(), source)
    size = stated_size(path, source, edges[::-1].tolist(), [unit] * 3)
    return Geometry.by(source, size, offset, "NIfTI stores x, y, z" if affine is None else source)
