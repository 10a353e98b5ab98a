# SPDX-License-Identifier: Apache-2.0
"""Warnings before a segmentation: a table of images that fit a network, and of images that do not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy import ndimage

from floodtide import data, nn
from floodtide.data import look
from floodtide.data.boxes import Box
from floodtide.data.look import QUICK, problems
from floodtide.data.look.problems import Reading, image_problems
from floodtide.data.look.trained_on import to_text

Array = np.ndarray[Any, Any]
SizeNm = tuple[float, float, float]

DATA = Path(os.environ.get("FLOODTIDE_DATA", Path(__file__).parents[5] / "shared" / "data"))


def cells(shape: tuple[int, int, int], across: tuple[float, ...], seed: int) -> Array:
    """Return walls between cells: 1 at a wall, and less inside of cells. `across`: cells' size (z, y, x) in voxels."""
    rng = np.random.default_rng(seed)
    scale = np.asarray(across)
    count = int(np.prod(np.asarray(shape) / scale)) + 1
    centres = rng.uniform(size=(count, 3)) * shape / scale
    first = np.full(shape, np.inf, np.float32)
    second = first.copy()
    z, y, x = np.ogrid[: shape[0], : shape[1], : shape[2]]
    for centre in centres:
        away = sum((n / s - c) ** 2 for n, s, c in zip((z, y, x), scale, centre, strict=True))
        away = np.sqrt(away).astype(np.float32)
        second = np.minimum(second, np.maximum(first, away))
        first = np.minimum(first, away)
    result: Array = np.exp(-(((second - first) / 0.12) ** 2))
    return result


def grey(image: Array, noise: float, seed: int) -> Array:
    """Return an image as 8 bits, with noise."""
    noisy = image + np.random.default_rng(seed).normal(0, noise, image.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def tubes(seed: int) -> Array:
    return data.synth((48, 96, 96), seed=seed)[0]


def membranes(seed: int) -> Array:
    return grey(
        150 - 90 * ndimage.gaussian_filter(cells((48, 96, 96), (24, 24, 24), seed), (1, 1, 1)),
        12,
        seed,
    )


def confocal(seed: int) -> Array:
    """Bright walls whose blur along z is twice as wide in nm as along y and x, darker in deeper sections."""
    walls = ndimage.gaussian_filter(cells((32, 128, 128), (8, 22, 22), seed), (1.0, 1.5, 1.5))
    fading = np.linspace(1.15, 0.75, 32)[:, None, None]
    return grey(15 + 330 * walls * fading, 6, seed)


def sections(seed: int) -> Array:
    """Sections that are five times as thick as their pixels."""
    thick = data.synth((120, 128, 128), seed=seed)[0].reshape(24, 5, 128, 128).mean(1)
    return thick.astype(np.uint8)


def dark(seed: int) -> Array:
    return (data.synth((48, 80, 80), seed=seed)[0] // 4 + 3).astype(np.uint8)


@dataclass(frozen=True)
class Kind:
    """An image that a network was trained on, another one of the same kind, and the training box."""

    image: Array
    other: Array
    voxel_size_nm: SizeNm
    box: Box | None = None

    @property
    def levels(self) -> tuple[float, float]:
        """Mean and standard deviation of the training box, which the network is trained with."""
        start, size = self.box or ((0, 0, 0), self.image.shape)
        part = self.image[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))]
        return float(part.mean()), float(part.std())


SYNTHETIC: dict[str, Callable[[], Kind]] = {
    "tubes": lambda: Kind(tubes(3), tubes(4), (10, 10, 10), ((0, 0, 0), (36, 96, 96))),
    "membranes": lambda: Kind(membranes(1), membranes(2), (8, 8, 8)),
    "confocal": lambda: Kind(
        confocal(1), confocal(2), (450, 150, 150), ((0, 0, 0), (32, 128, 90))
    ),
    "sections": lambda: Kind(sections(3), sections(4), (40, 8, 8), ((0, 0, 0), (18, 128, 128))),
    "dark": lambda: Kind(dark(5), dark(6), (10, 10, 10)),
}  # fmt: skip


@pytest.fixture(scope="module")
def synthetic() -> dict[str, Kind]:
    """Every synthetic kind."""
    return {name: make() for name, make in SYNTHETIC.items()}


def raw(name: str) -> Array:
    with h5py.File(DATA / name) as file:
        key = "raw" if "raw" in file else "image"
        stored: Array = file[key][:]
    return stored


def fib25() -> Kind:
    first, second = (raw(f"fib25/training_sample{n}/grayscale_maps.h5") for n in (2, 1))
    return Kind(first, second, (10, 10, 10), ((0, 0, 0), (190, 250, 250)))


def gala() -> Kind:
    image = raw("gala_fib/train/grayscale_maps.h5")
    return Kind(image[:, :, :140], image[:, :, 60:], (10, 10, 10), ((0, 0, 0), (40, 100, 140)))


FOREIGN = {
    "tubes": "confocal",
    "membranes": "sections",
    "confocal": "tubes",
    "sections": "membranes",
    "dark": "confocal",
    "fib25": "gala",
    "gala": "fib25",
}
"""An image of another microscope or tissue, for each kind."""


@dataclass(frozen=True)
class Case:
    """An image for a network, how it is read, and whether it fits."""

    name: str
    image: Array
    fits: bool
    reading: Reading
    box: Box | None = None


def right(kind: Kind) -> Iterator[Case]:
    image, (mean, std) = kind.image, kind.levels
    reading = Reading("segment", mean, std, "mean and std", kind.voxel_size_nm)
    depth, height, width = image.shape
    whole = Case("whole", image, True, reading)
    yield whole
    yield replace(whole, name="no voxel size", reading=replace(reading, voxel_size_nm=None))
    yield replace(whole, name="last sections", image=image[depth // 2 :])
    yield replace(whole, name="half of the width", image=image[:, :, width // 2 :])
    yield replace(whole, name="quarter", image=image[:, height // 2 :, : width // 2])
    yield replace(whole, name="small box", box=((depth - 20, 0, width - 40), (20, 40, 40)))
    yield replace(whole, name="same kind", image=kind.other)
    other = replace(reading, mean=mean + 0.15 * std, std=1.12 * std)
    yield replace(whole, name="other normalisation", reading=other)
    padded = np.pad(image, ((0, 0), (height // 3, 0), (0, width // 4)))
    yield replace(whole, name="padded", image=padded)
    yield replace(whole, name="few grey levels", image=image // 4 * 4)
    wide = replace(reading, mean=200 * mean, std=200 * std)
    yield replace(whole, name="16 bits", image=image.astype(np.uint16) * 200, reading=wide)
    unit = replace(reading, mean=mean / 255, std=std / 255)
    yield replace(whole, name="0 to 1", image=(image / 255).astype(np.float32), reading=unit)
    yield replace(whole, name="reversed", image=image[::-1, :, ::-1])


def wrong(kind: Kind, foreign: dict[str, Array]) -> Iterator[Case]:
    image, (mean, std) = kind.image, kind.levels
    reading = Reading("segment", mean, std, "mean and std", kind.voxel_size_nm)
    whole = Case("inverted", image.max() - (image - image.min()), False, reading)
    yield replace(whole, image=whole.image.astype(np.uint8))
    inverted = replace(reading, mean=float(whole.image.mean()), std=float(whole.image.std()))
    yield replace(whole, name="inverted, own mean", reading=inverted)

    def measured(name: str, other: Array) -> Case:
        levels = replace(reading, mean=float(other.mean()), std=float(other.std()))
        return Case(name, other, False, levels)

    if kind.voxel_size_nm[0] != kind.voxel_size_nm[2]:
        yield replace(whole, name="x and z exchanged", image=image.transpose(2, 1, 0))
        turned = replace(reading, voxel_size_nm=kind.voxel_size_nm[::-1])
        yield replace(whole, name="voxel size reversed", image=image, reading=turned)
    for name, factor in (("halved", 0.5), ("doubled", 2.0)):
        changed = (image.astype(np.float32) - mean) * factor + mean
        yield replace(whole, name=f"contrast {name}", image=changed)
    yield replace(whole, name="brighter", image=image.astype(np.float32) + np.float32(std))
    yield replace(whole, name="16 bits, mean of 8", image=image.astype(np.uint16) * 256)
    for name, other in foreign.items():
        yield replace(whole, name=f"{name}", image=other)
        yield measured(f"{name}, own mean", other)
    yield measured("blurred by 3", ndimage.gaussian_filter(image.astype(np.float32), 3))
    even = image[tuple(slice(0, n // 2 * 2) for n in image.shape)].astype(np.float32)
    depth, height, width = even.shape
    half = even.reshape(depth // 2, 2, height // 2, 2, width // 2, 2).mean((1, 3, 5))
    yield measured("half resolution", half)
    double = even[: depth // 2, : height // 2, : width // 2].repeat(2, 0).repeat(2, 1).repeat(2, 2)
    yield measured("double resolution", ndimage.gaussian_filter(double, 1))
    state = replace(reading, voxel_size_nm=tuple(2 * n for n in kind.voxel_size_nm))
    yield replace(whole, name="other voxel size", image=image, reading=state)


def judged(kind: Kind, cases: Iterator[Case], folder: Path) -> list[tuple[Case, list[str]]]:
    """Return the warnings and errors about each case, for a network that was trained on a kind."""
    mean, std = kind.levels
    kept = [
        look.trained_on(
            look.image_statistics(data.Volume(kind.image), box=box, budget=QUICK),
            name="image",
            mean=mean,
            std=std,
            voxel_size_nm=kind.voxel_size_nm,
        )
        for box in (None, kind.box)
    ]
    model = nn.FFN(depth=1, features=2, fov=(7, 7, 7), deltas=(2, 2, 2))
    model.save(folder / "network.h5", statistics=to_text(kept))
    return [
        (
            case,
            [
                problem.text
                for problem in image_problems(
                    data.Volume(np.ascontiguousarray(case.image)),
                    folder / "network.h5",
                    case.reading,
                    box=case.box,
                )
            ],
        )
        for case in cases
    ]


def confusion(made: dict[str, Kind], folder: Path, ct: Array | None) -> None:
    """Print the table of all cases; fail if more than one image that fits, or that does not, is judged wrongly."""
    false, missed, counts = [], [], [0, 0]
    for name, kind in made.items():
        other = FOREIGN[name]
        foreign = {f"image of {other}": made[other].image}
        if ct is not None:
            foreign["computed tomography"] = ct
        for cases in (right(kind), wrong(kind, foreign)):
            for case, texts in judged(kind, cases, folder):
                counts[case.fits] += 1
                print(f"{name:10} {'right' if case.fits else 'wrong'} {case.name:32} {texts}")
                if case.fits and texts:
                    false.append(f"{name}: {case.name}: {texts}")
                if not case.fits and not texts:
                    missed.append(f"{name}: {case.name}")
    print(f"{len(false)} false alarms of {counts[1]}, {len(missed)} misses of {counts[0]}")
    assert min(counts) >= 12
    assert len(false) <= 1, false
    assert len(missed) <= 1, missed


def test_synthetic_images(synthetic: dict[str, Kind], tmp_path: Path) -> None:
    confusion(synthetic, tmp_path, None)


@pytest.mark.data
@pytest.mark.skipif(
    not (DATA / "msd_liver_ct").exists(), reason="needs the volumes of $FLOODTIDE_DATA"
)
def test_real_images(tmp_path: Path) -> None:
    confusion({"fib25": fib25(), "gala": gala()}, tmp_path, raw("msd_liver_ct/liver_validation.h5"))


@pytest.mark.parametrize("name", SYNTHETIC)
def test_axes_before_a_training(name: str, synthetic: dict[str, Kind]) -> None:
    kind = synthetic[name]

    def found(image: Array, size: SizeNm | None) -> list[str]:
        statistics = look.image_statistics(data.Volume(np.ascontiguousarray(image)))
        return [one.text for one in problems.of_axes(statistics, "image", size)]

    z, y, x = kind.voxel_size_nm
    assert found(kind.image, (z, y, x)) == []
    assert found(kind.image, None) == []
    assert found(kind.image, (5 * z, y, x)) != []
    if name == "sections":
        assert found(kind.image, (x, y, z)) != []
        assert found(kind.image.transpose(2, 1, 0), None) != []
