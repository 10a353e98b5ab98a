# SPDX-License-Identifier: Apache-2.0
"""HDF5 datasets as other programs write them: used as stated, refused in one line, or noted.

CREMI, ilastik, PlantSeg, BigDataViewer, dimension scales; filters, links, layouts x types that are read or not; axes;
sizes of 0, NaN, texts.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

pytest.importorskip("zarr", "3", reason="zarr 3 needs Python 3.11")

from other_programs import ARRAY, LARGE, NM, UM, Case, hdf5, ordered, parametrized, tags


def external(file: h5py.File) -> None:
    with h5py.File(Path(file.filename).with_name("other.h5"), "w") as other:
        other["raw"] = ARRAY
    file["raw"] = h5py.ExternalLink("other.h5", "/raw")


def soft(file: h5py.File) -> None:
    file["volumes/raw"] = ARRAY
    file["raw"] = h5py.SoftLink("/volumes/raw")


def virtual(file: h5py.File) -> None:
    external(file)
    del file["raw"]
    layout = h5py.VirtualLayout(ARRAY.shape, ARRAY.dtype)
    layout[...] = h5py.VirtualSource("other.h5", "raw", ARRAY.shape)
    file.create_virtual_dataset("raw", layout)


def unwritten(file: h5py.File) -> None:
    dataset = file.create_dataset("raw", ARRAY.shape, "u1", chunks=(2, 5, 6), fillvalue=9)
    dataset[:2] = ARRAY[:2]


def labelled(file: h5py.File) -> None:
    dataset = file.create_dataset("raw", data=ordered("xyz"))
    for at, name in enumerate("xyz"):
        dataset.dims[at].label = name


def five_labels(file: h5py.File) -> None:
    dataset = file.create_dataset("raw", data=ordered("tczyx").astype("<i2").astype(">i2"))
    dataset.attrs["resolution"] = NM
    for at, name in enumerate("tczyx"):
        dataset.dims[at].label = name


def external_of_four(file: h5py.File) -> None:
    external(file)
    with h5py.File(Path(file.filename).with_name("other.h5"), "w") as other:
        other["raw"] = ARRAY[..., None]
        other["raw"].attrs.update(tags("zyxc"))


def external_of_bool(file: h5py.File) -> None:
    external(file)
    with h5py.File(Path(file.filename).with_name("other.h5"), "w") as other:
        other["raw"] = ARRAY > 60


def above(file: h5py.File) -> None:
    file["volumes/raw"] = ARRAY
    file["volumes"].attrs["resolution"] = NM


def itk(file: h5py.File) -> None:
    file["ITKImage/0/VoxelData"], file["ITKImage/0/Spacing"] = ARRAY, NM[::-1]


def scaled_axis(file: h5py.File) -> None:
    file["raw"], file["z"] = ARRAY, np.arange(4) * 40.0
    file["z"].make_scale("z")
    file["raw"].dims[0].attach_scale(file["z"])


IMARIS = "DataSet/ResolutionLevel 0/TimePoint 0/Channel 0/Data"


BRIGHT = ARRAY.astype(np.uint16) + 40000


def bigdataviewer(file: h5py.File) -> None:
    file["t00000/s00/0/cells"] = BRIGHT.view(np.int16)


def blosc(file: h5py.File) -> None:
    form = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    form.set_chunk(ARRAY.shape)
    form.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (0,))
    space = h5py.h5s.create_simple(ARRAY.shape)
    dataset = h5py.h5d.create(file.id, b"raw", h5py.h5t.NATIVE_UINT8, space, form)
    dataset.write_direct_chunk((0, 0, 0), ARRAY.tobytes(), 0)


FILLED = np.concatenate([ARRAY[:2], np.full((2, 5, 6), 9, np.uint8)])
HDF5 = [
    Case("plain", hdf5()),
    Case("cremi", hdf5({"resolution": NM, "offset": (80.0, -8.0, 0.0)}), NM, (2, -2, 0)),
    Case("cremi-integers", hdf5({"resolution": np.int64(NM)}), NM),
    Case("plantseg", hdf5({"element_size_um": UM}), NM),
    Case("nrrd-like", hdf5({"spacings": NM[::-1], "space units": ["nm"] * 3}), NM),
    Case("ilastik-xyz", hdf5(tags("xyz"), ordered("xyz"))),
    Case("ilastik-zyxc", hdf5(tags("zyxc"), ordered("zyxc"))),
    Case("ilastik-tzyxc", hdf5(tags("tzyxc"), ordered("tzyxc"), chunks=(1, 2, 3, 6, 1), compression="gzip")),
    Case("ilastik-czyx", hdf5(tags("czyx"), ordered("czyx"))),
    Case("ilastik-xyczt", hdf5({**tags("xyczt"), "element_size_um": UM[::-1]}, ordered("xyczt")), NM),
    Case("labels-of-five", hdf5(write=five_labels), NM, voxels=ARRAY.astype("i2")),
    Case("two-classes", hdf5(tags("zyxc"), np.stack([ARRAY] * 2, -1)), refused="Volume(name, channel=0)"),
    Case("two-times", hdf5(tags("tzyx"), np.stack([ARRAY] * 2)), refused="expected one time and one channel"),
    Case("four-axes", hdf5(array=ARRAY[None]), refused="expected three (z, y, x)"),
    Case("external-of-four", hdf5(write=external_of_four), refused="FLOODTIDE_ALLOW_EXTERNAL"),
    Case("ilastik-tyx", hdf5(tags("tyx")), refused="names the axes t, y, x"),
    Case("dimension-labels", hdf5(write=labelled)),
    Case("matlab", hdf5({"MATLAB_class": np.bytes_("uint8")}), note="MATLAB stores the axes"),
    Case("size-as-json", hdf5({"element_size_um": "[0.04, 0.004, 0.008]"}), NM),
    Case("whole-words", hdf5({"axis_names": ["width", "height", "depth"]}, ordered("xyz"))),
    Case("scikit-image", hdf5({"axes": ["row", "col", "pln"]}, ordered("yxz"))),
    Case("numbered-names", hdf5({"axes": ["dim_0", "axis_1", "phony_dim_2"]})),
    Case("unknown-names", hdf5({"axes": ["i", "j", "k"]}), note="names the axes i, j, k, which are not known"),
    Case("scale-factor", hdf5({"scale_factor": 0.5}), note="attribute scale_factor is 0.5: not used"),
    Case("fill-value", hdf5({"_FillValue": np.uint8([255])}), note="attribute _FillValue is 255"),
    Case("values-unchanged", hdf5({"scale_factor": 1.0, "add_offset": 0.0, "_FillValue": float("nan")})),
    Case("resolution-nm", hdf5({"resolution_nm": NM}), note="attribute resolution_nm is"),
    Case("voxel-offset", hdf5({"voxel_offset": [3, 4, 5]}), note="attribute voxel_offset is [3, 4, 5]"),
    Case("bigdataviewer", hdf5(write=bigdataviewer, dataset="t00000/s00/0/cells"), voxels=BRIGHT,
         note="the .xml file of BigDataViewer has the voxel size"),
    Case("imaris", hdf5(dataset=IMARIS), note="DataSetInfo/Image of Imaris has the voxel size"),
    Case("size-of-a-group", hdf5(write=above, dataset="volumes/raw"), note="the group /volumes has an attribute"),
    Case("itk", hdf5(write=itk, dataset="ITKImage/0/VoxelData"), note="/ITKImage/0/Spacing has the voxel size"),
    Case("empty-attributes", hdf5({"axes": h5py.Empty("S1")})),
    Case("scale", hdf5({"scale": NM}), note="attribute scale is"),
    Case("dimension-scale", hdf5(write=scaled_axis), note="dimension scales may state a voxel size: not used"),
    Case("axistags-with-size", hdf5(tags("zyx", resolution=8)), note="axistags state a resolution of 8, 8, 8"),
    Case("size-as-text", hdf5({"voxelsize": "8x8x8"}), note="attribute voxelsize is 8x8x8"),
    Case("spacing", hdf5({"spacing": NM}), note="attribute spacing is"),
    Case("soft-link", hdf5(write=soft)),
    Case("external-link", hdf5(write=external), refused="FLOODTIDE_ALLOW_EXTERNAL"),
    Case("virtual", hdf5(write=virtual), refused="FLOODTIDE_ALLOW_EXTERNAL"),
    Case("unwritten", hdf5(write=unwritten), voxels=FILLED, note="1 of 2 chunks do not exist"),
    Case("lzf", hdf5(compression="lzf", chunks=True), refused="with h5py"),
    Case("blosc", hdf5(write=blosc), refused="filter Blosc (32001), which is not installed"),
    Case("scale-offset", hdf5(scaleoffset=0, chunks=True)),
    Case("shuffle-gzip", hdf5(compression="gzip", shuffle=True, fletcher32=True)),
    Case("big-endian", hdf5(array=ARRAY.astype(">i4")), voxels=ARRAY.astype("i4")),
    Case("bool", hdf5({"element_size_um": UM}, ARRAY > 60, chunks=(1, 5, 6), compression="gzip"), NM,
         voxels=(ARRAY > 60).astype("u1")),
    Case("bool-xyz", hdf5({"axes": ["x", "y", "z"]}, ordered("xyz") > 60), voxels=(ARRAY > 60).astype("u1")),
    Case("bool-of-four-axes", hdf5(array=ARRAY[None] > 60), refused="has 4 axes"),
    Case("bool-elsewhere", hdf5(write=external_of_bool), refused="FLOODTIDE_ALLOW_EXTERNAL"),
    Case("record", hdf5(array=np.zeros((4, 5, 6), [("a", "u1")])), refused="compound records"),
    Case("float16", hdf5(array=ARRAY.astype("f2")), refused="floating-point numbers of 2 bytes"),
    Case("text", hdf5(array=np.full((2, 2, 2), b"a")), refused="elements are text"),
    Case("uint64", hdf5(array=LARGE), voxels=LARGE),
    Case("zero", hdf5({"resolution": (0.0, 4.0, 8.0)}), note="not used"),
    Case("negative", hdf5({"resolution": (40.0, -4.0, 8.0)}), note="not used"),
    Case("infinite", hdf5({"resolution": (float("inf"), 4.0, 8.0)}), note="not used"),
    Case("huge", hdf5({"resolution": (1e300, 4.0, 8.0)}), note="not used"),
    Case("texts", hdf5({"resolution": ["40", "4", "8"]}), note="not used"),
    Case("two-numbers", hdf5({"resolution": (4.0, 8.0)}), note="not used"),
    Case("four-numbers", hdf5({"resolution": (1.0, 40.0, 4.0, 8.0)}), note="not used"),
    Case("voxels", hdf5({"resolution": (5.0, 1.0, 1.0), "units": ["voxel"] * 3}), note="are no length"),
]  # fmt: skip


@parametrized(HDF5)
def test_hdf5(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.check(tmp_path, capsys)
