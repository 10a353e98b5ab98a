# SPDX-License-Identifier: Apache-2.0
"""Makes one valid file of every sort that floodtide reads, small and the same each time.

Runs in a separate process (`python samples.py FOLDER`): what it computes with starts threads, and the fuzzer forks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path

import h5py
import numpy as np

SHAPE = (24, 24, 24)

NETWORK = "[model]\ndepth = 2\nfeatures = 4\nfov = [7, 7, 7]\ndeltas = [2, 2, 2]\n"
VOLUME = """\
[[data.volumes]]
name = "cube"
image = "volume.h5:raw"
labels = "volume.h5:labels"
"""
TRAIN = f"""\
[run]
dir = "run"
seed = 4
threads = 1
log_every_s = 0.0
{VOLUME}partitions = "partitions.h5:af"
box = "0:18,0:24,0:24"
{NETWORK}[training]
steps = 4
walkers = 2
[validation]
box = "10:24,0:24,0:24"
centres = 3
"""
SEGMENT = f"""\
{VOLUME}{NETWORK}[segment]
checkpoint = "network.h5"
image = "cube"
box = "0:20,0:22,0:24"
min_segment_size = 1
disco_seed_threshold = -1.0
segment_threshold = 0.3
move_threshold = 0.15
"""
REQUEST = """\
image { hdf5: "volume.h5:raw" }
image_mean: 128 image_stddev: 33
seed_policy: "PolicyPeaks"
model_checkpoint_path: "network.h5"
model_name: "convstack_3d.ConvStack3DFFNModel"
inference_options {
  init_activation: 0.95 pad_value: 0.05 move_threshold: 0.15 segment_threshold: 0.3
  min_boundary_dist { x: 1 y: 1 z: 1 } min_segment_size: 1 disco_seed_threshold: -1
}
"""
SLICES = """\
[run]
dir = "slices_run"
seed = 4
threads = 1
log_every_s = 0.0
[data]
patch = "whole"
[[data.volumes]]
image = "slices.h5:image"
labels = "slices.h5:mask"
groups = "slices.h5:patient"
mean = 100.0
std = 50.0
[task]
kind = "classes"
[model]
kind = "unet"
depth = 1
kernels = [[1, 3, 3]]
[training]
steps = 2
walkers = 1
batch = 2
[validation]
share = 0.4
"""
AFFINITIES = f"""\
[run]
dir = "affinities_run"
seed = 4
threads = 1
log_every_s = 0.0
[data]
patch = [4, 8, 8]
patches = 4
{VOLUME}box = "0:14,0:24,0:24"
[task]
kind = "lsd"
[model]
kind = "unet"
depth = 2
kernels = [[1, 3, 3], [3, 3, 3]]
pools = [[1, 2, 2]]
[training]
steps = 2
walkers = 1
[validation]
box = "14:24,0:24,0:24"
"""
SWEEP = """\
config = "train.toml"
directory = "sweep"
[set]
training.steps = 3
validation.every = 1
[grid]
optimizer.lr = [1e-4, 1e-3, 1e-2]
training.walkers = [1, 2]
"""


def make(folder: Path) -> None:
    """Write all samples into a folder."""
    os.chdir(folder)
    _volumes()
    _foreign()
    _slices()
    for name, text in (
        ("train.toml", TRAIN),
        ("segment.toml", SEGMENT),
        ("slices.toml", SLICES),
        ("affinities.toml", AFFINITIES),
        ("sweep.toml", SWEEP),
    ):
        Path(name).write_text(text)
    _run("partition volume.h5:labels partitions.h5:af --lom-radius 3,3,3 --min-size 10")
    _run("train train.toml --set training.steps=2")
    _run("train train.toml")
    _run("train slices.toml")
    _run("train affinities.toml")
    _run("lab sweep sweep.toml")
    _formats()
    _networks()
    _run("segment segment.toml --out segmentation.h5:segmentation")
    _run("segment segment.toml --out run/segmentation.h5:segmentation")
    _run("segment segment.toml --out pieces --set segment.subvolume=[14,14,14]")
    _checkpoint()
    Path("request.pbtxt").write_text(REQUEST)
    _run("convert request.pbtxt request.toml")
    _run("segment request.toml --box 0:20,0:22,0:24 --out npz.h5:labels")
    _run("convert npz.h5:labels npz://npz")
    _run("agglomerate segment.toml segmentation.h5:segmentation --pairs pairs")
    Path("seeds.txt").write_text("# z, y, x\n12, 11, 10\n8 9 10  # a dendrite\n")
    _run("predict affinities_run volume.h5:raw affinities.h5:affinities")
    _run("predict slices_run slices.h5:image predicted.h5:labels")
    _report_parts()
    _calibrations()
    shutil.copytree("run", "run2", ignore=shutil.ignore_patterns("checkpoints", "segmentation.h5"))


def _checkpoint() -> None:
    """Leave the checkpoint of a segmentation in the middle of an object."""
    from floodtide import config
    from floodtide.data import Volume, parse_box
    from floodtide.segment import Segmenter

    class Stop(Exception):
        pass

    options = config.load("segment.toml", ["segment.checkpoint_interval=1e-9"]).segment
    segmenter = Segmenter.load(
        dataclasses.replace(options, image="volume.h5:raw", mean=128.0, std=33.0)
    )

    def stop(done: int, total: int) -> None:
        if segmenter.network_calls >= 4:
            raise Stop

    with contextlib.suppress(Stop):
        segmenter.segment(
            Volume("volume.h5:raw"),
            parse_box(options.box),
            stop,
            checkpoint="out.h5.segmentation.checkpoint",
        )


def _run(line: str) -> None:
    from floodtide import cli

    if cli.run(line.split()):
        raise SystemExit(f"samples: floodtide {line} failed")


def _volumes() -> None:
    from floodtide import data

    z, y, x = np.indices(SHAPE)
    labels = (1 + (y + z // 3 > 12) + 2 * (x > 11)).astype(np.int32)
    raw = np.random.default_rng(0).integers(0, 255, SHAPE)  # noise has seeds everywhere
    data.write_volume("volume.h5", {"raw": raw.astype(np.uint8), "labels": labels})


def _formats() -> None:
    from fuzz.commands import FORMATS, OF_OTHERS

    for volume in ("raw", "labels"):
        with h5py.File("volume.h5") as file, h5py.File("bytes.h5", "w") as copy:
            copy[volume] = file[volume][...].astype(np.uint8)  # pictures have 8 bits
        for form, pattern in FORMATS.items():
            name = pattern.format(volume)
            Path(name.removeprefix("precomputed://")).parent.mkdir(exist_ok=True)
            if form not in OF_OTHERS:
                _run(f"convert bytes.h5:{volume} {name}")
        with h5py.File("bytes.h5") as file:
            _of_others(
                {form: FORMATS[form].format(volume) for form in OF_OTHERS}, file[volume][...]
            )
    Path("bytes.h5").unlink()


def _of_others(names: dict[str, str], voxels: np.ndarray) -> None:
    """Write pictures, NIfTI, OME-Zarr with axes c, x, y, z, OME-TIFF, and a TIFF of ImageJ."""
    import imageio.v3
    import nibabel
    import tensorstore
    import tifffile

    for z, section in enumerate(voxels):
        tifffile.imwrite(names["slices"].replace("*", f"{z:05}"), section)
        imageio.v3.imwrite(names["png"].replace("*", f"{z:05}"), section)
    image = nibabel.Nifti1Image(voxels.T, np.diag([0.008, 0.008, 0.03, 1.0]))
    image.header.set_xyzt_units("micron")
    nibabel.save(image, names["nifti"])
    array = tensorstore.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": f"{names['ome_zarr']}/0"},
            "metadata": {"dimension_names": ["c", "x", "y", "z"]},
        },
        create=True,
        dtype=tensorstore.uint8,
        shape=(1, *voxels.T.shape),
        chunk_layout=tensorstore.ChunkLayout(chunk_shape=(1, 16, 16, 16)),
    ).result()
    array[...] = voxels.T[np.newaxis]
    space = [{"name": axis, "type": "space", "unit": "nanometer"} for axis in "xyz"]
    scale = {"type": "scale", "scale": [1, 8, 8, 30]}
    scales = {
        "axes": [{"name": "c", "type": "channel"}, *space],
        "datasets": [{"path": "0", "coordinateTransformations": [scale]}],
    }
    group = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"ome": {"version": "0.5", "multiscales": [scales]}},
    }
    Path(names["ome_zarr"], "zarr.json").write_text(json.dumps(group))
    sizes = {f"PhysicalSize{axis}": size for axis, size in zip("XYZ", (8, 8, 30), strict=True)}
    units = {f"PhysicalSize{axis}Unit": "nm" for axis in "XYZ"}
    tifffile.imwrite(names["ome_tif"], voxels, metadata={"axes": "ZYX", **sizes, **units})
    stated = {"axes": "ZYX", "spacing": 0.03, "unit": "um"}
    tifffile.imwrite(
        names["imagej"], voxels, imagej=True, metadata=stated, resolution=(125.0, 125.0)
    )


def _foreign() -> None:
    """The volumes as other programs write them: HDF5's oldest format, which has no checksums."""
    with h5py.File("volume.h5") as ours, h5py.File("foreign.h5", "w", libver="earliest") as file:
        file.attrs["program"] = "another one"
        group = file.create_group("volumes")
        group.create_dataset(
            "raw", data=ours["raw"], chunks=(8, 8, 8), compression="gzip", shuffle=True
        )
        group.create_dataset("labels", data=ours["labels"])
        group["labels"].attrs["resolution"] = [40.0, 4.0, 4.0]
        group["labels"].attrs["text"] = "of variable length"
        chunked = group.create_dataset(
            "chunked", data=ours["labels"], chunks=(8, 8, 8), maxshape=(None,) * 3
        )
        chunked.attrs.create("offset", [0, 0, 0])


def _slices() -> None:
    random = np.random.default_rng(1)
    y, x = np.mgrid[:8, :8]
    centres = random.integers(2, 6, (10, 2, 1, 1))
    masks = np.hypot(y - centres[:, 0], x - centres[:, 1]) < 3
    images = 100 + 60 * masks + 20 * random.normal(size=masks.shape)
    with h5py.File("slices.h5", "w") as file:
        file["image"] = images.clip(0, 255).astype(np.uint8)
        file["mask"] = masks.astype(np.uint8)
        file["patient"] = np.arange(10, dtype=np.int32) // 2


def _networks() -> None:
    import floodtide as ft
    from fuzz.tensorflow_files import write_bundle

    network = ft.nn.load("run/checkpoints/step-4.h5")
    network.save("network.h5")
    write_bundle(Path("model.ckpt"), dict(network.state_dict()))


def _report_parts() -> None:
    failure = {"reason": "rank 0 was told to", "events": [{"name": "step", "ago_us": 1}]}
    Path("run/failure-rank-0.json").write_text(json.dumps(failure))
    Path("run/traces").mkdir()
    trace = [{"name": "step", "ph": "X", "ts": 0, "dur": 5, "pid": 0, "tid": 0}]
    Path("run/traces/rank-0.json").write_text(json.dumps(trace))


def _calibrations() -> None:
    Path("samples.txt").write_text("".join(f"{0.05 + 0.001 * i:.4f}\n" for i in range(30)))
    rows = [
        {
            "name": "allreduce 2",
            "kernel": "ring",
            "ranks": ranks,
            "shape": f"{count} float32",
            "median_s": 1e-4 * ranks,
        }
        for ranks in (2, 4, 8)
        for count in (1, 1000, 10_000_000)
    ]
    Path("allreduce.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    make(Path(sys.argv[1]))
