# SPDX-License-Identifier: Apache-2.0
"""Ranks that read volumes through Python."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import training_volume
import volumes
from damaged_hdf5 import endless_file, oldest_file
from launch import check, mpiexec, script, shared

from floodtide import config, data

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    training_volume.write_volume(tmp_path)
    for name, reference in (("image", "volume.h5:raw"), ("labels", "volume.h5:labels")):
        volumes.write(data.Volume(f"{tmp_path}/{reference}").read(), tmp_path, name, "zarr")
    return tmp_path


def settings(folder: Path, run: str, zarr: bool) -> str:
    document = training_volume.document(
        folder, run={"dir": str(folder / run)}, training={"steps": 8}
    )
    document["data"]["prefetch"] = 4
    if zarr:
        names = {
            n: volumes.FORMS["zarr"].format(folder=folder, name=n) for n in ("image", "labels")
        }
        document["data"]["volumes"][0] |= names
    (folder / f"{run}.toml").write_text(str(config.from_dict(document)))
    return str(folder / f"{run}.toml")


def test_two_ranks_train_the_same_bits_from_zarr_as_from_hdf5(folder: Path) -> None:
    parameters = []
    for run, zarr in (("hdf5", False), ("zarr", True)):
        result = shared(2, ["-m", "floodtide", "train", settings(folder, run, zarr)])
        assert result.status == 0, result.stderr
        with h5py.File(folder / run / "checkpoints/step-8.h5") as file:
            found: dict[str, bytes] = {}
            file["parameters"].visititems(
                lambda name, node, found=found: found.update(
                    {name: np.asarray(node).tobytes()} if isinstance(node, h5py.Dataset) else {}
                )
            )
        parameters.append(found)
    assert parameters[0] == parameters[1]
    assert parameters[0]


def test_partitions_of_two_ranks_are_those_of_one(folder: Path) -> None:
    labels = volumes.FORMS["zarr"].format(folder=folder, name="labels")
    command = ["-m", "floodtide", "partition", labels, f"{folder}/two.h5:af"]
    result = shared(2, [*command, "--lom-radius", "4,4,4", "--min-size", "10"])
    assert result.status == 0, result.stderr
    wanted = data.Volume(f"{folder}/partitions.h5:af").read()
    np.testing.assert_array_equal(data.Volume(f"{folder}/two.h5:af").read(), wanted)


def test_a_missing_volume_ends_all_ranks_with_one_line(folder: Path) -> None:
    file = settings(folder, "missing", True)
    (folder / "image.zarr").rename(folder / "elsewhere")
    result = shared(2, ["-m", "floodtide", "train", file], status=2)
    assert result.status == 2
    assert result.stderr.count("there is no such folder") == 1, result.stderr


FAULTY = """
import sys
from floodtide import data, nn, optim
from floodtide.comm import world
from floodtide.train import Trainer
import volumes

class Faulty(volumes.Asked):
    def __getitem__(self, box):
        block = super().__getitem__(box)
        if self.boxes > 20 and world.rank() == 1:
            raise RuntimeError("the disk is gone")
        return block

folder = sys.argv[1]
image = data.Volume(Faulty(data.Volume(folder + "/volume.h5:raw").read()), name="mine")
model = nn.FFN(depth=2, features=4, fov=(7, 7, 7), deltas=(2, 2, 2))
examples = data.Shards(
    data.TrainingVolume(image, folder + "/volume.h5:labels", folder + "/partitions.h5:af"),
    patch_size=model.patch_size, walkers=2,
)
optimizer = optim.SGD(lr=0.01)
Trainer(directory=folder + "/run", steps=400, model=model, data=examples, optimizer=optimizer).run()
"""


def test_a_reader_that_fails_on_one_rank_ends_the_job(folder: Path) -> None:
    script = folder / "faulty.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(volumes.__file__).parent)!r})\n{FAULTY}"
    )
    result = mpiexec(2, [str(script), str(folder)])
    assert result.status != 0
    assert "the disk is gone" in result.stderr, result.stderr


WRITE = """
    import sys
    from pathlib import Path

    import numpy as np
    import floodtide as ft
    from floodtide.data import copies
    from floodtide.data.formats.geometry import Geometry
    from floodtide.data.formats.writers import Plan
    from floodtide.errors import InvalidFileError

    copies.BLOCK_BYTES = 1  # one chunk at a time
    ft.init()
    values = np.random.default_rng(5).integers(0, 9, (130, 70, 200)).astype(np.uint32)
    plan = Plan(
        shape=values.shape,
        dtype=values.dtype,
        geometry=Geometry(voxel_size_nm=(40.0, 4.0, 4.0), offset=(3, 2, 1)),
        command="floodtide reconcile",
    )
"""


def test_ranks_write_a_volume_together(tmp_path: Path) -> None:
    names = ("a.zarr", "b.n5/labels", "precomputed://c", "d.h5:labels", "e.tif")
    printed = check(
        3,
        WRITE
        + f"""
    for name in {names}:
        marked = name.startswith("precomputed://")
        place = "precomputed://" * marked + "{tmp_path}/" + name.removeprefix("precomputed://")
        written = []
        def read(box):
            written.append(box)
            return values[tuple(slice(a, a + n) for a, n in zip(*box))]
        volume = copies.write_blocks(place, plan, read, on_ranks=True)
        np.testing.assert_array_equal(volume.read(((0, 0, 0), values.shape)), values)
        counts = ft.allgather([len(written)])
        if ft.rank() == 0:
            print(name, counts.tolist())
    """,
    )
    shared = dict(line.split(" ", 1) for line in printed.splitlines())
    for name in names[:3]:
        assert shared[name] == "[8, 8, 8]"
    assert shared["d.h5:labels"] == "[24, 0, 0]"
    assert shared["e.tif"].endswith(", 0, 0]")


@pytest.mark.parametrize(("name", "bad"), [("a.zarr", 0), ("a.zarr", 2), ("d.h5:labels", 0)])
def test_a_failure_of_a_rank_ends_the_writing_on_all_and_leaves_nothing(
    tmp_path: Path, name: str, bad: int
) -> None:
    printed = check(
        3,
        WRITE
        + f"""
    def read(box):
        if ft.rank() == {bad}:
            raise InvalidFileError("this block is damaged")
        return values[tuple(slice(a, a + n) for a, n in zip(*box))]
    try:
        copies.write_blocks("{tmp_path}/{name}", plan, read, on_ranks=True)
    except InvalidFileError as error:
        failed = str(error) == "this block is damaged"
    else:
        failed = False
    alike = ft.allgather([failed])
    if ft.rank() == 0:
        print(alike.all())
    """,
    )
    assert printed.strip() == "True"
    assert list(tmp_path.iterdir()) == []


def test_ranks_go_on_after_a_damaged_file(tmp_path: Path) -> None:
    """Each rank starts the program that meets the crash. The launcher and its streams do not notice it."""
    oldest_file(tmp_path / "v.h5")
    endless_file(tmp_path / "damaged.h5")
    result = script(
        2,
        f"""
        import floodtide as ft
        ft.init(timeout_s=20)
        try:
            ft.data.Volume("{tmp_path}/damaged.h5:raw")
        except ft.errors.InvalidFileError:
            found = ft.data.Volume("{tmp_path}/v.h5:raw").read().size
        print(ft.allreduce(found, op=ft.Sum))
        """,
    )
    assert (result.status, result.stderr) == (0, "")
    assert result.stdout == "27648\n" * 2


def test_a_damaged_file_is_one_line_and_exit_status_2_on_all_ranks(tmp_path: Path) -> None:
    endless_file(tmp_path / "v.h5")
    command = ["partition", f"{tmp_path}/v.h5:raw", f"{tmp_path}/p.h5:af"]
    result = mpiexec(2, ["-m", "floodtide", *command])
    assert result.status == 2
    assert result.stderr.count("another copy of the file") == 1
