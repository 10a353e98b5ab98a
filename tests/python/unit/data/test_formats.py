# SPDX-License-Identifier: Apache-2.0
"""Volumes of every format: the same boxes, the same training and the same segmentation, whatever stores them."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import training_volume
import volumes
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from floodtide import _core, cli, config, data, errors, nn, optim
from floodtide.base.tasks import Affinities, Classes
from floodtide.config.sections import ValidationConfig
from floodtide.data.formats import table
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.train import Trainer

TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")
OTHERS = [form for form in volumes.FORMS if form not in ("hdf5", "pngs")]
ARRAY = np.random.default_rng(1).integers(0, 250, (9, 70, 67)).astype(np.uint16)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, data.Volume]:
    """One array, open in every format, in memory, and as an object that the core asks."""
    folder = tmp_path_factory.mktemp("stored")
    found = {form: data.Volume(volumes.write(ARRAY, folder, "a", form)) for form in volumes.FORMS}
    found["array"] = data.Volume(ARRAY)
    found["strided"] = data.Volume(np.asfortranarray(ARRAY)[:, ::-1][:, ::-1])
    found["swapped"] = data.Volume(ARRAY.astype(">u2"))
    found["object"] = data.Volume(volumes.Asked(ARRAY))
    return found


@settings(max_examples=60, deadline=None)
@given(box=st.tuples(*(st.tuples(st.integers(0, n - 1), st.integers(1, n)) for n in ARRAY.shape)))
def test_boxes_are_those_of_numpy(
    stored: dict[str, data.Volume], box: tuple[tuple[int, int], ...]
) -> None:
    start = tuple(a for a, _ in box)
    size = tuple(min(n, m - a) for (a, n), m in zip(box, ARRAY.shape, strict=True))
    expected = ARRAY[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))]
    for form, volume in stored.items():
        np.testing.assert_array_equal(volume.read((start, size)), expected, err_msg=form)
        intensities = volume.core.read_intensities(start, size)
        np.testing.assert_array_equal(intensities, expected.astype(np.float32), err_msg=form)


def test_boxes_outside_are_refused_by_every_reader(stored: dict[str, data.Volume]) -> None:
    for volume in stored.values():
        assert volume.shape == ARRAY.shape
        assert volume.dtype == np.uint16
        for box in (((0, 0, 0), (10, 1, 1)), ((0, 0, -1), (1, 1, 1)), ((0, 0, 0), (1, 0, 1))):
            with pytest.raises(errors.OutOfRangeError, match="is not inside the volume"):
                volume.read(box)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_survives_every_format_that_has_it(dtype: str, tmp_path: Path) -> None:
    array = np.random.default_rng(2).integers(0, 120, (3, 65, 5)).astype(dtype)
    if array.dtype.kind != "f":
        array[0, 0, 0] = np.iinfo(array.dtype).max
        array[0, 0, 1] = np.iinfo(array.dtype).min
    for form in volumes.FORMS:
        if form == "pngs" and dtype not in ("u1", "u2"):
            continue
        if form == "precomputed" and dtype in ("i8", "f8"):
            with pytest.raises(errors.InvalidArgumentError, match="cannot hold"):
                volumes.write(array, tmp_path, "a", form)
            continue
        volume = data.Volume(volumes.write(array, tmp_path, "a", form))
        assert volume.dtype == array.dtype
        np.testing.assert_array_equal(volume.read(), array, err_msg=form)
    left = {path.name for path in tmp_path.iterdir()}
    assert all(name.startswith("a") for name in left), left


def test_reading_an_array_copies_nothing_beforehand() -> None:
    array = np.zeros((4, 4, 4), np.int32)
    volume = data.Volume(array, name="mine")
    array[1, 2, 3] = 5
    assert volume.read()[1, 2, 3] == 5
    assert volume.name == "mine"
    users = sys.getrefcount(array)
    del volume
    gc.collect()
    assert sys.getrefcount(array) == users - 1


def test_truth_values_are_uint8() -> None:
    mask = ARRAY > 100
    for source in (mask, volumes.Asked(mask)):
        volume = data.Volume(source)
        assert volume.dtype == np.uint8
        np.testing.assert_array_equal(volume.read(), mask)


# Training and segmentation


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training volume in HDF5, and its arrays in every other format."""
    folder = tmp_path_factory.mktemp("cube")
    training_volume.write_volume(folder)
    for form in OTHERS:
        for name, reference in sources(folder).items():
            volumes.write(data.Volume(reference).read(), folder, name, form)
    return folder


def sources(folder: Path) -> dict[str, str]:
    return {
        "image": f"{folder}/volume.h5:raw",
        "labels": f"{folder}/volume.h5:labels",
        "partitions": f"{folder}/partitions.h5:af",
    }


Trained = tuple[dict[str, bytes], Any]
"""The bits of the parameters after training, and the scores of validation."""


def trained(run: Path, named: dict[str, Any], steps: int = 6, **loading: int) -> Trained:
    with trainer_on(run, named, steps, **loading) as trainer:
        for _ in range(steps):
            trainer.step()
        parameters = {name: array.tobytes() for name, array in trainer.model.state_dict().items()}
        return parameters, trainer.validate()["first_pass"]


def trainer_on(run: Path, named: dict[str, Any], steps: int = 6, **loading: int) -> Trainer:
    model = nn.FFN(depth=2, features=4, fov=(7, 7, 7), deltas=(2, 2, 2), seed=4)
    volume = data.TrainingVolume(**named, box="0:28,0:40,0:40", name="cube", mean=178.0, std=45.0)
    return Trainer(
        directory=run,
        model=model,
        data=data.Shards(
            volume,
            data.DataOptions(**loading),
            patch_size=model.patch_size,
            walkers=2,
            seed=4,
        ),
        optimizer=optim.SGD(lr=0.01),
        validation=ValidationConfig(box="22:40,0:40,0:40", centres=5),
        steps=steps,
    )


@pytest.fixture(scope="module")
def reference(cube: Path) -> Trained:
    return trained(cube / "run-hdf5", sources(cube))


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("form", OTHERS)
def test_training_has_the_same_bits(
    form: str, prefetch: int, cube: Path, tmp_path: Path, reference: Trained
) -> None:
    names = {name: volumes.FORMS[form].format(folder=cube, name=name) for name in sources(cube)}
    assert trained(tmp_path / "run", names, prefetch=prefetch) == reference


@pytest.mark.parametrize("kind", [np.asarray, volumes.Asked])
def test_training_on_arrays_and_objects_has_the_same_bits(
    kind: Any, cube: Path, tmp_path: Path, reference: Trained
) -> None:
    assert trained(tmp_path / "run", in_memory(cube, kind)) == reference


def test_a_run_on_arrays_says_so_in_its_configuration(cube: Path, tmp_path: Path) -> None:
    trainer_on(tmp_path / "run", in_memory(cube, np.asarray)).close()
    kept = config.load(tmp_path / "run/config.toml").data.volumes[0]
    assert kept.image == "the array"
    with pytest.raises(errors.InvalidArgumentError, match="volume 'the array': expected file:data"):
        Trainer.from_config(config.load(tmp_path / "run/config.toml"))


def in_memory(cube: Path, kind: Any) -> dict[str, data.Volume]:
    return {n: data.Volume(kind(data.Volume(ref).read())) for n, ref in sources(cube).items()}


def test_shards_take_volumes(cube: Path) -> None:
    names = sources(cube)
    volumes_ = [data.Volume(data.Volume(reference).read()) for reference in names.values()]
    wanted = data.Shards(data.TrainingVolume(*names.values()), patch_size=(9, 9, 9))
    shards = data.Shards(data.TrainingVolume(*volumes_), patch_size=(9, 9, 9))
    for index in range(3):
        for a, b in zip(shards.load(0, index), wanted.load(0, index), strict=True):
            np.testing.assert_array_equal(a, b)


PLAIN = data.Augmentation(permutable_axes=())


def test_patches_take_every_format(cube: Path) -> None:
    names = sources(cube)

    def patches(image: str, labels: str) -> list[np.ndarray]:
        volume = data.TrainingVolume(image, labels)
        table = Classes(classes={"0": "background", "1-9": "object"})
        small = data.Patches(volume, data.DataOptions(patch=(8, 8, 8)), task=Affinities())
        whole = data.Patches(volume, data.DataOptions(patch="whole"), PLAIN, task=table)
        return [*small.fixed(1), *small.load(0, 2), *whole.fixed(3)]

    wanted = patches(names["image"], names["labels"])
    for form in OTHERS:
        found = patches(
            *(volumes.FORMS[form].format(folder=cube, name=n) for n in ("image", "labels"))
        )
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def test_partitions_take_every_format(cube: Path, tmp_path: Path) -> None:
    wanted = data.Volume(sources(cube)["partitions"]).read()
    rows = data.Shards(data.TrainingVolume(*sources(cube).values()), patch_size=(9, 9, 9))
    assert len(rows) > 0
    for form in OTHERS:
        labels = volumes.FORMS[form].format(folder=cube, name="labels")
        out = f"{tmp_path}/{form}.h5:af"
        data.partition(labels, out, lom_radius=(4, 4, 4), min_size=10)
        np.testing.assert_array_equal(data.Volume(out).read(), wanted)


def test_segmentation_is_the_same(cube: Path) -> None:
    model = nn.FFN(depth=2, fov=(7, 7, 7), deltas=(2, 2, 2), features=4, seed=3)
    options = SegmentOptions(
        mean=128.0, std=33.0, min_segment_size=1, move_threshold=0.4, segment_threshold=0.4
    )
    image = sources(cube)["image"]
    box = ((2, 3, 4), (20, 22, 21))
    wanted = Segmenter(model, options).segment(data.Volume(image), box).segmentation
    assert len(np.unique(wanted)) > 1
    found = [data.Volume(volumes.FORMS[form].format(folder=cube, name="image")) for form in OTHERS]
    found += [data.Volume(data.Volume(image).read())]
    for volume in found:
        again = Segmenter(model, options).segment(volume, box).segmentation
        np.testing.assert_array_equal(again, wanted, err_msg=volume.name)


def test_commands_take_every_format(
    cube: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = sources(cube)["labels"]
    for form in OTHERS:
        other = volumes.FORMS[form].format(folder=cube, name="labels")
        image = volumes.FORMS[form].format(folder=cube, name="image")
        pictures = ["--picture", str(tmp_path / "a.png"), "--image", image]
        arguments = pictures if form == OTHERS[0] else []
        assert cli.run(["evaluate", other, labels, "--json", *arguments]) == 0
        assert json.loads(capsys.readouterr().out)["adapted_rand_error"] == 0
        assert (tmp_path / "a.png").exists()


# Conversion


def test_voxel_size_and_offset_survive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = volumes.write(ARRAY, tmp_path, "first", "hdf5")
    assert cli.run(["convert", first, f"{tmp_path}/a.zarr", "--voxel-nm", "30,4.5,5"]) == 0
    last = f"{tmp_path}/a.zarr"
    for name in ("b.n5/x", "c.tif", "d.h5:raw", "e.zarr"):
        assert cli.run(["convert", last, f"{tmp_path}/{name}", "--json"]) == 0
        report = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert report["voxel_size_nm"] == [30, 4.5, 5]
        last = f"{tmp_path}/{name}"
    box = f"{tmp_path}/box.h5:labels"
    file = _core.data.Hdf5Writer(f"{tmp_path}/box.h5", "test", ["labels"])
    file.create("labels", "uint16", [2, 3, 4], [2, 3, 4], 0)
    file.write("labels", [0, 0, 0], np.ones((2, 3, 4), np.uint16))
    file.attribute("labels", "box_start", [7, 0, 5])
    file.finish()
    for name in ("i.zarr", "j.n5", "precomputed://k", "l.tif", "m.h5:x"):
        there = name.replace("precomputed://", f"precomputed://{tmp_path}/")
        there = there if "//" in there else f"{tmp_path}/{name}"
        copy = data.convert(box, there)
        assert copy.geometry.offset == (7, 0, 5), name
        box = there


def test_arrays_of_other_programs_are_read(tmp_path: Path) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    small = ARRAY[:4, :5, :6]
    for path, dtype, order in (("z2.zarr", "<u2", "C"), ("big.zarr", ">u2", "F")):
        metadata = {"shape": small.shape, "chunks": [2, 3, 4], "dtype": dtype, "order": order}
        kvstore = {"driver": "file", "path": f"{tmp_path}/{path}"}
        store = tensorstore.open(
            {"driver": "zarr", "kvstore": kvstore, "metadata": metadata}, create=True
        ).result()
        store.write(small).result()
        volume = data.Volume(tmp_path / path)
        assert volume.chunks == (2, 3, 4)
        np.testing.assert_array_equal(volume.read(), small)
        np.testing.assert_array_equal(data.Volume(store).read(), small)


def test_a_dataset_without_voxels_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["empty"] = h5py.Empty("f4")
    with pytest.raises(errors.InvalidFileError, match="empty"):
        data.Volume(f"{tmp_path}/v.h5:empty")


def test_the_finest_level_of_an_ome_zarr_image_is_read(tmp_path: Path) -> None:
    data.convert(data.Volume(ARRAY[:4, :5, :6]), f"{tmp_path}/image.zarr/s0")
    data.convert(data.Volume(ARRAY[:2, :2, :2]), tmp_path / "image.zarr/s1")
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"]
    levels = [
        {
            "path": f"s{i}",
            "coordinateTransformations": [
                {"type": "scale", "scale": [0.03 * 2**i, 0.004 * 2**i, 0.004 * 2**i]},
                {"type": "translation", "translation": [0.06, 0, 0.008]},
            ],
        }
        for i in range(2)
    ]
    group = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {
            "ome": {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
        },
    }
    (tmp_path / "image.zarr/zarr.json").write_text(json.dumps(group))
    volume = data.Volume(tmp_path / "image.zarr")
    np.testing.assert_array_equal(volume.read(), ARRAY[:4, :5, :6])
    assert volume.geometry.voxel_size_nm == pytest.approx((30, 4, 4))
    assert volume.geometry.offset == (2, 0, 2)


def test_the_voxel_size_of_an_image_with_time_and_channel_axes_is_that_of_its_space_axes(
    tmp_path: Path,
) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    image = ARRAY[None, None, :4, :5, :6]
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "i.zarr/s0")}}
    store = tensorstore.open(spec, create=True, dtype=str(image.dtype), shape=image.shape).result()
    store.write(image).result()
    axes = [{"name": "t", "type": "time"}, {"name": "c", "type": "channel"}]
    axes += [{"name": n, "type": "space", "unit": "nanometer"} for n in "zyx"]
    transformations = [
        {"type": "scale", "scale": [2, 3, 30, 4, 5]},
        {"type": "translation", "translation": [0, 0, 60, 0, 10]},
    ]
    levels = [{"path": "s0", "coordinateTransformations": transformations}]
    group = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {
            "ome": {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
        },
    }
    (tmp_path / "i.zarr/zarr.json").write_text(json.dumps(group))
    volume = data.Volume(tmp_path / "i.zarr")
    np.testing.assert_array_equal(volume.read(), ARRAY[:4, :5, :6])
    assert volume.geometry.voxel_size_nm == pytest.approx((30, 4, 5))
    assert volume.geometry.offset == (2, 0, 2)


class Faulty(volumes.Asked):
    """An object whose blocks are wrong in one way after some time."""

    def __init__(self, array: NDArray[Any], fault: str, after: int = 0) -> None:
        super().__init__(array)
        self.fault, self.after = fault, after

    def __getitem__(self, box: tuple[slice, slice, slice]) -> Any:
        block = super().__getitem__(box)
        if self.boxes <= self.after:
            return block
        if self.fault == "raise":
            raise RuntimeError("first line\nsecond line")
        return {"shape": block[1:], "dtype": block.astype(np.float64), "none": None}[self.fault]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raise", "mine: box 0:9,0:70,0:67 .* RuntimeError: first line second line"),
        (
            "shape",
            r"mine: .* as uint16 of shape \(8, 70, 67\), expected uint16 of shape \(9, 70, 67\)",
        ),
        ("dtype", "mine: .* was read as float64"),
        ("none", "mine: .* was read as object"),
    ],
)
def test_a_wrong_block_is_one_error_that_names_the_volume(fault: str, message: str) -> None:
    with pytest.raises(errors.InvalidFileError, match=message):
        data.Volume(Faulty(ARRAY, fault), name="mine").read()


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("fault", ["raise", "shape"])
def test_a_block_that_fails_while_training_ends_the_run_with_that_error(
    fault: str, prefetch: int, cube: Path, tmp_path: Path
) -> None:
    named = sources(cube)
    faulty = Faulty(data.Volume(named["image"]).read(), fault, after=12)
    mixed = {**named, "image": data.Volume(faulty, name="mine")}
    with pytest.raises(errors.InvalidFileError, match=r"mine: .*box"):
        trained(tmp_path / "run", mixed, steps=400, prefetch=prefetch)


@pytest.mark.parametrize("form", ["zarr", "n5", "precomputed", "tiffs"])
def test_a_volume_that_vanishes_is_noticed(form: str, tmp_path: Path) -> None:
    tmp_path = tmp_path / ("a-long-name-" * 12)  # which messages do not cut
    tmp_path.mkdir()
    name = volumes.write(ARRAY, tmp_path, "a", form)
    volume = data.Volume(name)
    volume.read()
    table.format_of(name).path(name).rename(tmp_path / "elsewhere")
    if form == "tiffs":  # decoded planes are still known
        volume = data.Volume(str(tmp_path / "elsewhere/*.tif"))
        (tmp_path / "elsewhere/00004.tif").unlink()
    with pytest.raises(errors.InvalidFileError, match=r"cannot be read|00004.tif: no such file$"):
        volume.read()


# Threads


@pytest.mark.parametrize("form", ["zarr", "n5", "precomputed"])
def test_a_pipe_in_the_place_of_a_chunk_is_refused(form: str, tmp_path: Path) -> None:
    name = volumes.write(ARRAY, tmp_path, "a", form)
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    metadata = {path for path in files if path.name in ("zarr.json", "attributes.json", "info")}
    chunk = max(files - metadata)
    chunk.unlink()
    os.mkfifo(chunk)
    with pytest.raises(errors.InvalidFileError, match=rf"{chunk.name} is no regular file"):
        data.Volume(name)


def test_python_may_be_busy_while_the_core_reads(cube: Path, tmp_path: Path) -> None:
    names = sources(cube)
    arrays = [data.Volume(volumes.Asked(data.Volume(name).read())) for name in names.values()]
    shards = data.Shards(data.TrainingVolume(*arrays), patch_size=(9, 9, 9), walkers=4)
    wanted = data.Shards(data.TrainingVolume(*names.values()), patch_size=(9, 9, 9), walkers=4)
    stop = threading.Event()
    failures: list[BaseException] = []

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    def load(walker: int) -> None:
        try:
            for index in range(6):
                for a, b in zip(
                    shards.load(walker, index), wanted.load(walker, index), strict=True
                ):
                    np.testing.assert_array_equal(a, b)
        except BaseException as error:
            failures.append(error)

    busy = threading.Thread(target=spin)
    loaders = [threading.Thread(target=load, args=(walker,)) for walker in range(4)]
    for thread in (busy, *loaders):
        thread.start()
    for thread in loaders:
        thread.join(60)
        assert not thread.is_alive(), "deadlock"
    stop.set()
    busy.join()
    assert not failures


class Slow(volumes.Asked):
    """An object that takes its time, with the interpreter lock released."""

    def __getitem__(self, box: Any) -> Any:
        time.sleep(0.02)
        return super().__getitem__(box)


def test_a_trainer_may_be_dropped_while_its_readers_wait_for_python(
    cube: Path, tmp_path: Path
) -> None:
    trainer = trainer_on(tmp_path / "run", in_memory(cube, Slow), prefetch=8, readers=4)
    trainer.step()
    trainer.close()
    del trainer
    gc.collect()


SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from data import test_formats
trainer = test_formats.trainer_on(
    Path({run!r}), test_formats.in_memory(Path({cube!r}), test_formats.Slow), prefetch=50, readers=4
)
trainer.step()
print("end")
"""


def test_python_may_end_while_the_core_reads(cube: Path, tmp_path: Path) -> None:
    tests = Path(volumes.__file__).parent
    script = SCRIPT.format(
        paths=[str(tests), str(tests / "unit")], cube=str(cube), run=str(tmp_path / "run")
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    said = [
        line for line in done.stderr.splitlines() if not line.startswith("floodtide: warning: ")
    ]
    assert (done.returncode, done.stdout, said) == (0, "end\n", [])  # the held-out box overlaps


def test_one_volume_has_one_place_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def place(name: str) -> tuple[str, str]:
        return table.format_of(name).place(name)

    monkeypatch.chdir(tmp_path)
    for relative in ("a.h5:x/y", "a.zarr/raw", "precomputed://a", "a.tif", "a/*.png"):
        path = relative.removeprefix("precomputed://")
        absolute = relative.replace(path, f"{tmp_path}/{path}")
        assert place(relative) == place(absolute)
    assert place("a.h5:x") != place("a.h5:y")
    assert place("a/*.png") != place("a/*.tif")
    assert table.stem("b/a.h5:x") == table.stem("b/a.zarr/x") == table.stem("a/*.png") == "a"


def test_a_missing_library_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        volumes.write(ARRAY, tmp_path, "a", form)
        for form in ("zarr", "n5", "precomputed", "tiff", "pngs")
    ]
    for package in ("tensorstore", "tifffile", "imageio", "imageio.v3"):
        monkeypatch.setitem(sys.modules, package, None)
    for name in names:
        with pytest.raises(errors.UnsupportedError, match=r"pip install '\.\[formats\]'"):
            data.Volume(name)


def test_documentation_has_all_formats() -> None:
    page = (Path(__file__).parents[4] / "docs/formats.md").read_text("utf-8")
    for row in table.FORMATS:
        assert f"| `{row.form.replace(', ', '`, `')}` |" in page


@pytest.mark.parametrize("name", ["a.zarr", "a.n5", "precomputed://a"])
def test_a_name_may_go_up_in_the_tree(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    kind, _, folder = name.rpartition("//")
    above = f"{kind}//../{folder}" if kind else f"../{folder}"
    values = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)
    data.write_volume("source.h5", {"raw": values})
    data.convert("source.h5:raw", above, voxel_size_nm=(4, 4, 4))
    assert (tmp_path / folder).is_dir()
    np.testing.assert_array_equal(data.Volume(above).read(), values)
