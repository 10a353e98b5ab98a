# SPDX-License-Identifier: Apache-2.0
"""TIFF, PNG, names and arrays as other programs make them: used as stated, refused in one line, or noted.

The matrix (the rows of the tables below), format: conventions x values.

* TIFF: ImageJ, OME, plain resolution; series, pyramids, pages; byte order, tiles, codecs, planes, colours x nm, micron,
  Å, pixel, no unit; types and bits that are read or not; channels, times.
* PNG: grey, alpha, palette, transparency, interlaced, gamma x 1, 4, 8, 16 bits.
* Folders: order of numbers, endings in capitals, hidden and foreign files x gaps, other sizes.
* Other formats, by their endings: each is refused.
* NumPy: order in memory, byte order, masks, records, objects x types that are read or not.
"""

from __future__ import annotations

import importlib.util
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zarr", "3", reason="zarr 3 needs Python 3.11")

import h5py
import tifffile
import zarr
from other_programs import ARRAY, NM, Case, parametrized, zarr_array
from PIL import Image

from floodtide import cli, data, errors

ZYX = {"axes": "ZYX"}
GREY = {"photometric": "minisblack"}


def tiff(array: Any = ARRAY, name: str = "v.tif", **options: Any) -> Callable[[Path], str]:
    """Return a function that writes a TIFF file with tifffile."""

    def make(folder: Path) -> str:
        tifffile.imwrite(folder / name, array, **options)
        return f"{folder}/{name}"

    return make


def imagej(
    array: Any = ARRAY, axes: str = "ZYX", edges: Any = NM[1:], **metadata: Any
) -> Callable[[Path], str]:
    """Return a function that writes what ImageJ does: `edges` are those along y and x."""
    resolution = None if edges is None else (1 / edges[1], 1 / edges[0])
    return tiff(array, imagej=True, resolution=resolution, metadata={"axes": axes, **metadata})


def ome(
    *,
    unit: str | None = "nm",
    size: Any = NM,
    order: str = "XYZCT",
    counts: tuple[int, int, int] = (4, 1, 1),
    images: int = 1,
    ending: str = "",
) -> Callable[[Path], str]:
    """Return a function that writes an OME-TIFF with a description of its own; `counts` are those of z, c, t."""

    def make(folder: Path) -> str:
        with tifffile.TiffWriter(folder / "v.ome.tif") as file:
            text = '<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
            for number in range(images):
                stated = "".join(
                    f' PhysicalSize{a}="{n * (number + 1)}"'
                    + ("" if unit is None else f' PhysicalSize{a}Unit="{unit}"')
                    for a, n in zip("ZYX", size, strict=True)
                )
                z, c, t = counts
                text += (
                    f'<Image ID="Image:{number}"><Pixels ID="Pixels:{number}" DimensionOrder="{order}" Type="uint8"'
                    f' SizeX="6" SizeY="5" SizeZ="{z}" SizeC="{c}" SizeT="{t}"{stated}>'
                    f'<TiffData IFD="{number * 4}" PlaneCount="4"/></Pixels></Image>'
                )
            text += f"{ending}</OME>"
            for number in range(images):
                for at, page in enumerate(ARRAY + 100 * number):
                    first = number + at == 0
                    file.write(
                        page, metadata=None, contiguous=False, description=text.encode() if first else None
                    )  # fmt: skip
        return f"{folder}/v.ome.tif"

    return make


def elsewhere(folder: Path) -> str:
    unique = "urn:uuid:00000000-0000-0000-0000-00000000000"
    text = (
        f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="{unique}0">'
        f'<BinaryOnly MetadataFile="v.companion.ome" UUID="{unique}1"/></OME>'
    )
    return tiff(name="v.ome.tif", metadata=None, description=text, **GREY)(folder)


def pages(*arrays: Any, **options: Any) -> Callable[[Path], str]:
    """Return a function that writes series into one file."""

    def make(folder: Path) -> str:
        with tifffile.TiffWriter(folder / "v.tif") as file:
            for array in arrays:
                file.write(array, **GREY, **options)
        return f"{folder}/v.tif"

    return make


def series(number: int) -> Callable[[Path], str]:
    """Return a function that writes two series and names one."""
    return lambda folder: f"{pages(ARRAY[0, :2, :3], ARRAY)(folder)}:{number}"


def pyramid(folder: Path) -> str:
    with tifffile.TiffWriter(folder / "v.tif", bigtiff=True) as file:
        file.write(ARRAY, subifds=1, metadata=ZYX, **GREY)
        file.write(ARRAY[:, ::2, ::2], subfiletype=1, **GREY)
    return f"{folder}/v.tif"


def pillow(compression: str, array: Any = ARRAY, **options: Any) -> Callable[[Path], str]:
    """Return a function that writes a compressed TIFF file with Pillow."""

    def make(folder: Path) -> str:
        first, *others = (Image.fromarray(page) for page in array)
        more = {"save_all": True, "append_images": others, "compression": compression}
        first.save(folder / "v.tif", **more, **options)
        return f"{folder}/v.tif"

    return make


def twelve_bits(folder: Path) -> str:
    bits = np.unpackbits(ARRAY.astype(">u2").view("u1").reshape(4, 5, 6, 2), axis=-1)[..., 4:]
    rows = np.packbits(bits.reshape(4, 5, -1), axis=-1)
    return tiff(
        iter([page.tobytes() for page in rows]), shape=ARRAY.shape, dtype="u2", bitspersample=12, **GREY
    )(folder)  # fmt: skip


def stating(images: int, pages: int, bulk: bool = False) -> Callable[[Path], str]:
    """Return a function that writes pages of which ImageJ's metadata state another number; `bulk`: behind one page."""

    def make(folder: Path) -> str:
        text = f"ImageJ=1.54f\nimages={images}\nslices={images}\nunit=nm\nspacing=40\nloop=false\n"
        written = ARRAY[: 1 if bulk else pages]
        name = tiff(written, description=text, metadata=None, resolution=(1 / 8, 1 / 4), **GREY)(
            folder
        )
        if bulk:
            with open(name, "ab") as file:
                file.write(ARRAY[1:pages].tobytes())
        return name

    return make


def cut_off(folder: Path) -> str:
    path = Path(tiff(compression="zlib", **GREY)(folder))
    path.write_bytes(path.read_bytes()[:60])
    return str(path)


def last_bytes_lost(compression: str | None) -> Callable[[Path], str]:
    """Return a function that writes a file without its last 300 bytes."""

    def make(folder: Path) -> str:
        path = Path(tiff(compression=compression, **GREY)(folder))
        path.write_bytes(path.read_bytes()[:-300])
        return str(path)

    return make


LARGE = ARRAY.astype(np.uint64) + np.uint64(2**63)
ODD = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6) - 50
COLOURS = np.zeros((5, 6, 3), np.uint8)
PALETTE = np.random.default_rng(0).integers(0, 256, (256, 3), np.uint16)
IMAGECODECS = (
    {} if importlib.util.find_spec("imagecodecs") else {"refused": "pip install imagecodecs"}
)
TIFF = [
    Case("plain", tiff(**GREY)),
    Case("imagej", imagej(spacing=40.0, unit="nm"), NM),
    Case("imagej-micron", imagej(edges=(0.004, 0.008), spacing=0.04, unit="micron"), NM),
    Case("imagej-escaped", imagej(edges=(0.004, 0.008), spacing=0.04, unit="\\u00B5m"), NM),
    Case("imagej-zunit", imagej(spacing=0.04, unit="nm", zunit="um"), NM),
    Case("imagej-pixel", imagej(spacing=40.0, unit="pixel"), note="in 'pixel', as stated by"),
    Case("imagej-no-unit", imagej(spacing=40.0), note="are no length"),
    Case("imagej-no-spacing", imagej(unit="nm"), note="state 4 x 8 for the edges"),
    Case("imagej-uncalibrated", imagej(edges=None)),
    Case("imagej-channels", imagej(axes="CYX"), refused="has axes CYX"),
    Case("imagej-zcyx", imagej(np.stack([ARRAY] * 2, 1), "ZCYX"), refused="expected pictures of one channel"),
    Case("imagej-tzyx", imagej(np.stack([ARRAY] * 2), "TZYX"), refused="expected pictures of one channel"),
    Case("imagej-calibrated", imagej(edges=None, c0=-32768.0, c1=1.0), note="calibrate the values"),
    Case("ome", ome(), NM),
    Case("ome-no-unit", ome(unit=None, size=(0.04, 0.004, 0.008)), NM),
    Case("ome-angstrom", ome(unit="\u00c5", size=(400, 40, 80)), NM),
    Case("ome-angstrom-sign", ome(unit="\u212b", size=(400, 40, 80)), NM),
    Case("ome-entity", ome(unit="&#181;m", size=(0.04, 0.004, 0.008)), NM),
    Case("ome-pixel", ome(unit="pixel"), note="in 'pixel', as stated by"),
    Case("ome-reference-frame", ome(unit="reference frame"), note="are no length"),
    Case("ome-xyczt", ome(order="XYCZT"), NM),
    Case("ome-channels", ome(order="XYCZT", counts=(2, 2, 1)), refused="expected pictures of one channel"),
    Case("ome-times", ome(counts=(1, 1, 4)), refused="has axes TYX"),
    Case("ome-two-images", ome(images=2), refused="v.ome.tif:1 (4 x 5 x 6 ZYX)"),
    Case("ome-second-image", lambda folder: f"{ome(images=2)(folder)}:1", (80, 8, 16), voxels=ARRAY + 100),
    Case("ome-elsewhere", elsewhere, note="OME metadata are in another file"),
    Case("two-series", series(0), voxels=ARRAY[0, :2, :3][None]),
    Case("series-1", series(1)),
    Case("no-such-series", series(2), refused="holds 2 series, expected one with the index 2"),
    Case("unnamed-series", pages(ARRAY[0, :2, :3], ARRAY), refused="v.tif:1 (4 x 5 x 6 QYX)"),
    Case("pages-of-other-types", pages(ARRAY[0], ODD[0]), refused="holds 2 series of pictures"),
    Case("pyramid", pyramid),
    Case("big-endian", tiff(ARRAY.astype(">u2"), byteorder=">", **GREY), voxels=ARRAY.astype("u2")),
    Case("bigtiff", tiff(bigtiff=True, **GREY)),
    Case("tiles", tiff(tile=(16, 16), **GREY)),
    Case("rows", tiff(rowsperstrip=2, **GREY)),
    Case("deflate", tiff(ODD, compression="zlib", **GREY), voxels=ODD),
    Case("deflate-predictor", pillow("tiff_adobe_deflate", tiffinfo={317: 2})),
    Case("packbits", pillow("packbits")),
    Case("lzw", pillow("tiff_lzw"), **IMAGECODECS),
    Case("12-bits", twelve_bits, voxels=ARRAY.astype("u2"), **IMAGECODECS),
    Case("int8", tiff(ODD.astype("i1"), **GREY), voxels=ODD.astype("i1")),
    Case("uint64", tiff(LARGE, compression="zlib", **GREY), voxels=LARGE),
    Case("float64", tiff(ODD.astype("f8"), **GREY), voxels=ODD.astype("f8")),
    Case("float16", tiff(ODD.astype("f2"), **GREY), refused="elements are float16"),
    Case("complex", tiff(ODD.astype("c8"), **GREY), refused="elements are complex64"),
    Case("bool", tiff(ARRAY > 60, **GREY), voxels=(ARRAY > 60).astype("u1")),
    Case("white-is-zero", tiff(photometric="miniswhite"), note="states that 0 is white"),
    Case("bilevel-of-tifffile", tiff(ARRAY > 60), voxels=(ARRAY > 60).astype("u1"),
         note="states that 0 is white; its values are read as they are stored"),
    Case("bilevel-white-is-zero", tiff(ARRAY > 60, photometric="miniswhite", software="other"),
         voxels=(ARRAY <= 60).astype("u1"), note="states that 0 is white; it is read so"),
    Case("bilevel-of-pillow", pillow("packbits", tiffinfo={262: 0}, array=ARRAY > 60),
         voxels=(ARRAY > 60).astype("u1"), note="states that 0 is white; it is read so"),
    Case("turned", tiff(extratags=[(274, "H", 1, 3, True)], **GREY), note="turned or mirrored (Orientation 3)"),
    Case("rgb", tiff(COLOURS, photometric="rgb"), refused="has axes YXS"),
    Case("rgb-separate", tiff(COLOURS.transpose(2, 0, 1), photometric="rgb", planarconfig="separate"),
         refused="has axes SYX"),
    Case("alpha", tiff(np.stack([ARRAY, ARRAY], -1), extrasamples=["unassalpha"],
         planarconfig="contig", **GREY), refused="S"),
    Case("palette", tiff(photometric="palette", colormap=PALETTE.T * 256), note="indices of a colour table"),
    Case("palette-of-8-bits", tiff(photometric="palette", colormap=PALETTE.T), note="indices of a colour table"),
    Case("grey-palette", tiff(photometric="palette", colormap=np.repeat(np.arange(256)[None, ::-1], 3, 0) * 257),
         voxels=255 - ARRAY),
    Case("resolution-of-a-microscope", tiff(resolution=(1e7 / 8, 1e7 / 4), resolutionunit="centimeter", **GREY),
         note="pixels of 4 x 8 nm (y, x)"),
    Case("resolution-of-a-printer", tiff(resolution=(300, 300), resolutionunit="inch", **GREY)),
    Case("in-one-piece", stating(4, 4, bulk=True), NM),
    Case("in-one-piece-cut-off", stating(4, 3, bulk=True), refused="state 4 pictures, and it holds 1"),
    Case("last-bytes-lost", last_bytes_lost("zlib"), refused="state 4 pictures, and it holds 1"),
    Case("last-tags-lost", last_bytes_lost(None)),
    Case("pages-lost", stating(6, 4), refused="has 4 pictures for a shape of (6, 5, 6)"),
    Case("pages-more", stating(3, 4), NM, voxels=ARRAY[:3], note="holds 4 pictures, and its metadata describe 3"),
    Case("resolution-in-um", tiff(resolution=(125, 250), resolutionunit="MICROMETER", **GREY), note="of 4 x 8 nm"),
    Case("size-of-ome-alone", tiff(metadata={"axes": "ZYX", "PhysicalSizeX": 8}, **GREY), note="states PhysicalSizeX"),
    Case("cut-off", cut_off, refused="v.tif"),
]  # fmt: skip


@parametrized(TIFF)
def test_tiff(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.check(tmp_path, capsys)


# PNG


def packed(rows: Any, depth: int) -> bytes:
    """Return rows of samples as PNG stores them, each after its filter type 0."""
    if depth == 16:
        return b"".join(b"\0" + row.astype(">u2").tobytes() for row in rows)
    bits = np.unpackbits(rows.astype(np.uint8)[..., None], axis=-1)[..., 8 - depth :]
    return b"".join(b"\0" + np.packbits(row.ravel()).tobytes() for row in bits)


def png(
    depth: int = 8,
    kind: int = 0,
    chunks: tuple[tuple[bytes, bytes], ...] = (),
    interlaced: bool = False,
    colours: Any = PALETTE,
    alpha: int | None = None,
) -> Callable[[Path], str]:
    """Return a function that writes ARRAY, as far as the bits reach, as PNG files; `kind` is the colour type."""

    def one(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + name
            + content
            + struct.pack(">I", zlib.crc32(name + content))
        )

    def make(folder: Path) -> str:
        (folder / "v").mkdir()
        for number, page in enumerate(ARRAY.astype(np.uint32) % (1 << depth)):
            samples = page if kind in (0, 3) else np.repeat(page, {4: 2, 2: 3, 6: 4}[kind], axis=1)
            if alpha is not None:
                samples[:, {4: 2, 6: 4}[kind] - 1 :: {4: 2, 6: 4}[kind]] = alpha
            adam7 = ("0088", "0488", "4084", "0244", "2042", "0122", "1021")
            passes = [map(int, one) for one in (adam7 if interlaced else ("0011",))]
            parts = [samples[y::dy, x::dx] for y, x, dy, dx in passes]
            rows = b"".join(packed(part, depth) for part in parts if part.size)
            size = struct.pack(">IIBBBBB", 6, 5, depth, kind, 0, 0, int(interlaced))
            palette = ((b"PLTE", colours.astype(np.uint8).tobytes()),) if kind == 3 else ()
            written = [
                (b"IHDR", size),
                *palette,
                *chunks,
                (b"IDAT", zlib.compress(rows)),
                (b"IEND", b""),
            ]
            (folder / f"v/{number}.png").write_bytes(
                b"\x89PNG\r\n\x1a\n" + b"".join(one(*row) for row in written)
            )
        return f"{folder}/v/*.png"

    return make  # fmt: skip


BITS = ARRAY % 2 == 1


def bits_beside(
    grey: Any, where: Sequence[int], ending: str = ".png", **options: Any
) -> Callable[[Path], str]:
    """Return a function that writes pictures of 8 bits, and BITS in one bit where `where` says so."""

    def make(folder: Path) -> str:
        (folder / "v").mkdir()
        for number, page in enumerate(grey):
            name, one = folder / f"v/{number}{ending}", number in where
            if ending == ".png":
                Image.fromarray(BITS[number] if one else page).save(name)
            else:
                tifffile.imwrite(
                    name, BITS[number] if one else page, **({**GREY, **options} if one else GREY)
                )
        return f"{folder}/v/*{ending}"

    return make


def coloured(folder: Path) -> str:
    """Write grey sections as pictures of colours, of which the last is not grey."""
    (folder / "v").mkdir()
    for number, page in enumerate(ARRAY):
        colours = np.stack([page, page, page + (number == 3)], axis=-1)
        Image.fromarray(colours).save(folder / f"v/{number}.png")
    return f"{folder}/v/*.png"


def tables(folder: Path) -> str:
    """Write pictures of which the last has the same colours under other numbers."""
    (folder / "v").mkdir()
    for number, page in enumerate(ARRAY):
        picture = Image.fromarray(page, "P")
        picture.putpalette(np.roll(PALETTE, number == 3).astype(np.uint8).tobytes())
        picture.save(folder / f"v/{number}.png")
    return f"{folder}/v/*.png"


MASK = (BITS * 255).astype(np.uint8)
MIXED = np.where(np.arange(4)[:, None, None] == 2, MASK, ARRAY).astype("u1")
WHITE_MIXED = np.where(np.arange(4)[:, None, None] == 2, 255 - MASK, MASK).astype("u1")
PNG = [
    Case("8-bits", png()),
    Case("16-bits", png(16), voxels=ARRAY.astype("u2")),
    Case("4-bits", png(4), voxels=ARRAY % 16 * 17, note="has 4 bits for each pixel"),
    Case("1-bit", png(1), voxels=ARRAY % 2),
    Case("1-bit-beside-8", bits_beside(ARRAY, [2]), voxels=MIXED, note="of 1 bit beside others"),
    Case("1-bit-first", bits_beside(MASK, [0, 2]), voxels=MASK, note="of 1 bit beside others"),
    Case("1-bit-but-last", bits_beside(MASK, [0, 1, 2]), voxels=MASK, note="of 1 bit beside"),
    Case("1-bit-tiff", bits_beside(MASK, range(4), ".tif"), voxels=BITS.astype("u1")),
    Case("1-bit-tiff-first", bits_beside(MASK, [0], ".tif"), voxels=MASK, note="of 1 bit beside"),
    Case("1-bit-tiff-beside-8", bits_beside(MASK, [3], ".tif"), voxels=MASK, note="of 1 bit beside"),
    Case("1-bit-beside-16", bits_beside(ARRAY.astype("u2"), [3]), refused="is bool of shape (5, 6), expected uint16"),
    Case("interlaced", png(interlaced=True)),
    Case("gamma", png(chunks=((b"gAMA", struct.pack(">I", 45455)),))),
    Case("transparent-grey", png(chunks=((b"tRNS", b"\0\x07"),)), note="some values are transparent (tRNS)"),
    Case("palette", png(kind=3), note="its values are indices of a colour table"),
    Case("palette-of-4-bits", png(4, kind=3, colours=PALETTE[:16]), voxels=ARRAY % 16, note="indices of a colour"),
    Case("grey-palette", png(kind=3, colours=np.repeat(np.arange(256)[::-1], 3)), voxels=255 - ARRAY),
    Case("palette-of-1-bit", png(1, kind=3, colours=np.repeat([0, 255], 3)), voxels=MASK),
    Case("transparent", png(kind=4), refused="expected one picture of one channel"),
    Case("opaque", png(kind=4, alpha=255)),
    Case("opaque-rgb", png(kind=6, alpha=255)),
    Case("grey-rgb", png(kind=2)),
    Case("grey-rgb-of-16-bits", png(16, kind=2), refused="has colours of 16 bits"),
    Case("colours", coloured, refused="number those of all files together"),
]  # fmt: skip


def test_tables_of_a_folder_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidFileError, match=r"3\.png: has another colour table"):
        data.Volume(tables(tmp_path))


def test_white_of_one_bit_is_white(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = bits_beside(MASK, [2], ".tif", photometric="miniswhite", software="")(tmp_path)
    np.testing.assert_array_equal(data.Volume(name).read(), WHITE_MIXED)
    said = capsys.readouterr().err
    assert "states that 0 is white; it is read so" in said
    assert "are read as black and white, 0 and 255" in said


@parametrized(PNG)
def test_png(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.check(tmp_path, capsys)


# Names of files


def named(*names: str, pattern: str = "*.tif", others: tuple[str, ...] = ()) -> Any:
    """Return a function that writes a section of ARRAY under each name, and other files that are no pictures."""

    def make(folder: Path) -> str:
        (folder / "v").mkdir()
        for name, page in zip(names, ARRAY, strict=True):
            Image.fromarray(page).save(
                folder / "v" / name, "TIFF" if "tif" in name.lower() else "PNG"
            )
        for name in others:
            (folder / "v" / name).write_bytes(b"\0\5\x16\7")
        return f"{folder}/v/{pattern}"

    return make  # fmt: skip


APPLE = ("._s1.tif", ".DS_Store", "Thumbs.db")
NAMES = [
    Case("numbers", named("slice8.tif", "slice9.tif", "slice10.tif", "slice11.tif")),
    Case("from-1", named("1.png", "2.png", "3.png", "4.png", pattern="*.png")),
    Case("capitals", named("s1.TIF", "s2.tif", "s3.Tif", "s4.tif")),
    Case("capitals-in-the-pattern", named("a1.Png", "a2.png", "a3.PNG", "a4.png", pattern="*.PNG")),
    Case("hidden", named("s1.tif", "s2.tif", "s3.tif", "s4.tif", others=APPLE)),
    Case("two-forms", named("a1.tif", "a2.tif", "b1.tif", "b2.tif"), note="names of 2 forms"),
    Case("channels", named("z1_c0.tif", "z1_c1.tif", "z2_c0.tif", "z2_c1.tif"), note="as for channels or tiles"),
    Case("tiles", named("s1r1c1.tif", "s1r1c2.tif", "s1r2c1.tif", "s1r2c2.tif"), note="as for channels or tiles"),
    Case("same-numbers", named("01.tif", "1.tif", "2.tif", "3.tif"), note="no number in the names differs"),
    Case("dates", named("s1_1103.tif", "s2_1103.tif", "s3_1104.tif", "s4_1105.tif")),
    Case("gap", named("1.tif", "2.tif", "3.tif", "7.tif"), note="no file has the number 4, 5, 6"),
    Case("no-picture", named("1.tif", "2.tif", "3.tif", "4.tif", others=("5.tif",)), refused="5.tif"),
    Case("no-file", named("1.tif", "2.tif", "3.tif", "4.tif", pattern="*.png"), refused="no file has such a name"),
    Case("a-folder", named("1.tif", "2.tif", "3.tif", "4.tif", pattern=""), refused="/v/*.tif' for the pictures"),
]  # fmt: skip


@parametrized(NAMES)
def test_names_of_pictures(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.check(tmp_path, capsys)


@pytest.mark.parametrize(
    "name",
    [
        "a.nrrd", "a.mrc", "a.rec", "a.czi", "a.nd2", "a.lif", "a.am", "a.dm3", "a.lsm", "a.dcm",
        "a.mha", "a.stk", "a.npy", "a.npz", "a.raw", "a.zarr.zip", "*.jpg", "a.jp2", "a.btf", "a.mgz",
    ],
)  # fmt: skip
def test_other_formats_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"something")
    assert cli.run(["inspect", f"{tmp_path}/{name}", "--out", f"{tmp_path}/a.html"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "expected file:dataset" in said
    assert "all forms: file.h5:dataset, precomputed://folder, volume.zarr[/path]" in said


@pytest.mark.parametrize("name", ["a.ims", "a.nc", "a.h5", "no-ending"])
def test_an_hdf5_file_of_any_name_lists_a_volume_that_can_be_read(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / name, "w") as file:
        file["a table"], file["raw data/Channel 0"] = np.arange(5), ARRAY
    assert cli.run(["convert", f"{tmp_path}/{name}", f"{tmp_path}/o.zarr"]) == 2
    said = capsys.readouterr().err
    wanted = f"{tmp_path}/{name}:raw data/Channel 0"
    assert f"for example '{wanted}'; its datasets are: a table, raw data/Channel 0" in said
    assert cli.run(["convert", wanted, f"{tmp_path}/o.zarr"]) == 0


def test_a_folder_with_arrays_below_lists_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zarr_array()(tmp_path)
    (tmp_path / "layer").mkdir()
    (tmp_path / "v.zarr").rename(tmp_path / "layer/1")
    assert cli.run(["convert", str(tmp_path), f"{tmp_path}/o.h5:raw"]) == 2
    assert f", or {tmp_path}/layer/1; all forms" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("file:///d/v.zarr", "without file://, as in /d/v.zarr"),
        ("zarr://file:///d/v.zarr", "without zarr://file://, as in /d/v.zarr"),
        ("s3://bucket/v.zarr", "files and folders of this machine, without s3://"),
        ("graphene://https://host/table", "without graphene://https://"),
        ("precomputed://file:///d/v", "without file://, as in precomputed:///d/v"),
        ("precomputed://gs://bucket/v", "without gs://"),
    ],
)
def test_names_of_other_machines_are_refused(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["convert", name, f"{tmp_path}/o.h5:raw"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words in said


# Arrays


class Strided(np.ndarray[Any, Any]):
    """A subclass of an array."""


def test_arrays_of_any_order_are_read(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "a.bin", np.uint8, "w+", shape=ARRAY.shape)
    mapped[...] = ARRAY
    for array in (np.asfortranarray(ARRAY), ARRAY[:, ::-1][:, ::-1], mapped, ARRAY.view(Strided)):
        np.testing.assert_array_equal(data.Volume(array).read(), ARRAY)
    for dtype in (">u2", ">i8", ">f4", "?"):
        read = data.Volume(ARRAY.astype(dtype)).read()
        np.testing.assert_array_equal(read, ARRAY.astype(dtype))
    of_pillow = np.stack([np.asarray(Image.fromarray(page)) for page in BITS])  # True is 255
    np.testing.assert_array_equal(data.Volume(of_pillow).read(), BITS.astype("u1"))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ma.masked_array(ARRAY, ARRAY > 60), "it is a masked array: fill it first"),
        (ARRAY.astype("f2"), "float16"),
        (ARRAY.astype("c8"), "complex64"),
        (np.zeros((2, 2, 2), [("a", "u1")]), "expected"),
        (np.full((2, 2, 2), None), "expected"),
        (np.full((2, 2, 2), "a"), "expected"),
        (np.zeros((2, 2, 2), "M8[s]"), "expected"),
        (ARRAY[0], "axes"),
        (ARRAY[None], "axes"),
    ],
)
def test_arrays_that_are_no_volumes_are_refused(array: Any, words: str) -> None:
    with pytest.raises(errors.Error, match=words):
        data.Volume(array)


def test_booleans_of_h5py_and_zarr_are_labels(tmp_path: Path) -> None:
    mask = ARRAY > 60
    with h5py.File(tmp_path / "v.h5", "w") as file:
        for array in (file.create_dataset("a", data=mask), zarr.array(mask)):
            np.testing.assert_array_equal(data.Volume(array).read(), mask.astype("u1"))


def test_arrays_that_state_their_axes_and_size(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        array = file.create_dataset("raw", data=ARRAY)
        array.attrs.update(resolution=NM, offset=(40.0, 0.0, -8.0))
        found = data.Volume(array).geometry
        assert (found.voxel_size_nm, found.offset) == (NM, (1, 0, -1))
        array.dims[0].label, array.dims[1].label, array.dims[2].label = "xyz"
        with pytest.raises(errors.InvalidArgumentError, match="names its axes x, y, z"):
            data.Volume(array)
    other = zarr.open_array(
        zarr_array(version=2, attributes={"_ARRAY_DIMENSIONS": list("xyz")})(tmp_path)
    )
    with pytest.raises(errors.InvalidArgumentError, match="names its axes x, y, z"):
        data.Volume(other)
