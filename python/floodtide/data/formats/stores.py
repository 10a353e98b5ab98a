# SPDX-License-Identifier: Apache-2.0
"""Chunked arrays in folders, through tensorstore: Zarr 2 and 3, OME-Zarr, N5, Neuroglancer precomputed.

Zarr stores the axes z, y, x, or those that the array or an OME-Zarr image names. N5 and precomputed store x, y, z. All
are read as z, y, x. An absent chunk holds the fill value by definition, so that a lost one looks like zeros.
"""

from __future__ import annotations

import dataclasses
import math
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.base import notes
from floodtide.base.libraries import tensorstore_library
from floodtide.base.limits import require_decoded
from floodtide.base.outputs import PRECOMPUTED, STORES
from floodtide.base.reading import read_json, reason
from floodtide.data.formats import readers
from floodtide.data.formats.geometry import (
    NAMES,
    NO_PLACE,
    NO_SIZE,
    SIZES,
    UNKNOWN,
    WRITTEN_BY,
    Geometry,
    are_numbers,
    axis_names,
    geometry_of,
    images_of,
    listed,
    names_of,
    not_used,
    order_of,
    size_of,
)
from floodtide.data.formats.tiff import file_and_series
from floodtide.errors import InvalidFileError

_WEBKNOSSOS = "datasource-properties.json"
_OME_XML = "OME/METADATA.ome.xml"  # of bioformats2raw
_MOST_ABOVE = 5  # folders above an array in which its image or group may be
_OF_HDF5 = re.compile(r"\.(h5|hdf5|hdf):[^:]*$", re.IGNORECASE)
_ENDINGS = (".gz", ".br", ".zst", ".zstd", ".bz2", ".xz", ".lz4")
_MOST = 1 << 16  # files that rank 0 looks at
_FEW = 64  # files that every other rank looks at: a volume is listed once, and each rank refuses what it would misread


def is_in(reference: str, suffix: str) -> bool:
    """Return True if the path contains a folder with this suffix, or is a folder with one of its files."""
    if "\0" in reference or "://" in reference:
        return False
    if _OF_HDF5.search(reference) or os.path.isfile(file_and_series(reference)[0]):
        return False  # a file of another format in such a folder
    if any(part.lower().endswith(suffix) for part in reference.split("/")):
        return True
    return any(os.path.isfile(os.path.join(reference, name)) for name in STORES[suffix])


def open_zarr(reference: str, channel: int | None = None) -> readers.Opened:
    """Open an array of a Zarr 2 or 3 folder, or the finest level of an OME-Zarr image."""
    from floodtide.data.formats.ome import geometry_of_level

    array = _zarr_array(reference)
    document = _metadata(array.parent, reference)
    driver = "zarr3" if array.name == "zarr.json" else "zarr"
    store = _opened(reference, {"driver": driver, **readers.in_folder(array.parent)})
    image, level = _image_around(array.parent, reference)
    attributes = {
        "dimension_names": document.get("dimension_names"),
        "axisOrder": _axis_order(array.parent, reference),
        **_attributes(document),
    }
    own, known = attributes, UNKNOWN
    if level is not None:
        of_image, known = geometry_of_level(reference, image, level, store.rank)
        own = {key: one for key, one in attributes.items() if key in NAMES and axis_names(one)}
    names = names_of(reference, own, store.rank)
    if level is not None and names not in (None, of_image):
        raise InvalidFileError(
            f"{reference}: its attributes name the axes {', '.join(names or ())}, expected"
            f" {', '.join(of_image)} as its OME-Zarr metadata do"
        )
    names = names if level is None else of_image
    geometry = geometry_of(reference, attributes, names, known=known)
    opened = _volume(reference, store, names, channel, geometry, array)
    if geometry.voxel_size_nm is None:
        _note_above(reference, array.parent.absolute(), names or (), level is not None)
    if "downsamplingFactors" in attributes:
        not_used(reference, f"attribute downsamplingFactors is {attributes['downsamplingFactors']}")
    chunks, writer = _zarr_chunks(document, store.rank), attributes.get(WRITTEN_BY)
    _check_chunks(reference, array.parent, chunks.fullmatch, _grid_of(store), writer)
    return opened


def _axis_order(array: Path, reference: str) -> list[str] | None:
    """Return the names of the axes of an array that the `axisOrder` of WEBKNOSSOS states; None without one."""
    place = array.resolve()
    for folder in array.absolute().parents[:3]:
        path = folder / _WEBKNOSSOS
        for layer in listed(_json(path, reference).get("dataLayers")) if path.is_file() else ():
            for mag in listed(layer.get("mags")):
                order, steps = mag.get("axisOrder"), mag.get("mag")
                steps = [*map(str, steps if isinstance(steps, list) else [steps])]
                size = "-".join(steps if len(set(steps)) > 1 else steps[:1])
                where = mag.get("path") or f"{layer.get('name')}/{size}"
                where = str(where).removeprefix("file://")
                if order is None or (folder / where).resolve() != place:
                    continue
                known = isinstance(order, Mapping) and {*map(type, order.values())} <= {int}
                if not known:
                    raise InvalidFileError(
                        f"{reference}: {path} has the axisOrder {str(order)[:80]}, expected the index of each axis"
                    )
                return sorted(order, key=order.__getitem__)
    return None


def open_n5(reference: str, channel: int | None = None) -> readers.Opened:
    """Open a dataset of an N5 folder."""
    from floodtide.data.formats.n5 import geometry_of_dataset, names_of_dataset

    path = Path(reference, "attributes.json")
    attributes = _json(path, reference) if path.is_file() else {}
    if "dimensions" not in attributes:
        raise InvalidFileError(_no_array(reference, "N5 dataset", "attributes.json"))
    if attributes.get("isLabelMultiset") is True:
        raise InvalidFileError(
            f"{reference}: holds label multisets of Paintera, expected one label for each voxel: export it as scalars"
            " (paintera-convert to-scalar)"
        )
    store = _opened(reference, {"driver": "n5", **readers.in_folder(path.parent)})
    names = names_of_dataset(reference, path.parent, attributes, store.rank)
    source = "its attributes"
    if names is None:
        names = ("x", "y", "z", "c")[: store.rank] if store.rank in (3, 4) else None
        source = "N5 stores x, y, z"
    geometry = geometry_of_dataset(reference, path.parent, attributes, names or ("x", "y", "z"))
    geometry = dataclasses.replace(geometry, axes_source=source)
    opened = _volume(reference, store, names, channel, geometry, path)
    known, writer = re.compile("/".join([r"\d+"] * store.rank)), attributes.get(WRITTEN_BY)
    _check_chunks(reference, path.parent, known.fullmatch, _grid_of(store), writer)
    return opened


def open_precomputed(reference: str, channel: int | None = None) -> readers.Opened:
    """Open the finest scale of a Neuroglancer precomputed volume of one channel, or one of its channels."""
    metadata = Path(reference.removeprefix(PRECOMPUTED), "info")
    info = _json(metadata, reference)
    sizes: list[Any] = [one.get("resolution") for one in listed(info.get("scales"))]
    # If the scales have another form, tensorstore says so.
    finest = sizes.index(min(sizes, key=math.prod)) if sizes and all(map(are_numbers, sizes)) else 0
    driver = {"driver": "neuroglancer_precomputed", "scale_index": finest}
    store = _opened(reference, {**driver, **readers.in_folder(metadata.parent)})
    scale = info["scales"][finest]
    x, y, z = scale["resolution"]
    i, j, k = map(int, scale.get("voxel_offset", (0, 0, 0)))  # tensorstore has refused fractions
    unknown, unplaced = info.get(NO_SIZE) is True, info.get(NO_PLACE) is True
    size = None if unknown else size_of(reference, "its info", (z, y, x))
    offset = None if unplaced else (k, j, i)
    geometry = Geometry.by("its info", size, offset, "precomputed stores x, y, z")
    opened = _volume(reference, store, ("x", "y", "z", "c"), channel, geometry, metadata)
    chunk, sharding = store.chunk_layout.read_chunk.shape[:3], scale.get("sharding")
    known: Callable[[str], object]
    if sharding is None:
        known = _names_of_precomputed((i, j, k), scale["size"], chunk)
        expected = math.prod(_grid_of(store)) // store.shape[-1]
    else:
        from floodtide.data.formats.precomputed_shards import shard_files

        files = shard_files(sharding, scale["size"], chunk)
        known, expected = re.compile(r"[0-9a-f]+\.shard").fullmatch, len(files)
        known = files.__contains__ if files else known
    folder, writer = metadata.parent / scale["key"], info.get(WRITTEN_BY)
    others = [metadata.parent / str(one.get("key")) for one in listed(info["scales"])]
    if not any(_files(folder, "")) and (there := [one for one in others if any(_files(one, ""))]):
        raise InvalidFileError(
            f"{reference}: its finest scale {folder} has no chunks, and {there[0]} has some: expected the finest"
        )
    _check_chunks(reference, folder, known, (expected,), writer)
    return opened


def _volume(
    reference: str,
    store: Any,
    names: Sequence[str] | None,
    channel: int | None,
    geometry: Geometry,
    metadata: Path,
) -> readers.Opened:
    """Return the volume of one channel of an array with axes of these names."""
    index, order = order_of(reference, names, store.shape, channel)
    store = store[tensorstore_library(reference).d[:].translate_to[0]][index].transpose(list(order))
    chunks = [int(n) or 1 for n in store.chunk_layout.read_chunk.shape]
    require_decoded(reference, chunks, store.dtype.numpy_dtype.itemsize)
    source = readers.Store(store, reference, chunks)
    return readers.object_volume(source, reference, geometry, file=str(metadata))


def _grid_of(store: Any) -> tuple[int, ...]:
    """Return the number of files of chunks, or of shards, along each axis of an array if all exist."""
    sizes = zip(store.shape, store.chunk_layout.write_chunk.shape, strict=True)
    return tuple(-(-n // (size or n or 1)) for n, size in sizes)


def _check_chunks(
    name: str, folder: Path, known: Callable[[str], object], grid: Sequence[int], writer: Any
) -> None:
    """Refuse files of chunks that would be passed over. On rank 0, note if many chunks do not exist.

    Args:
        known: Says if a path in the folder is that of a chunk.
        grid: Number of chunks along each axis of the volume, or of all chunks if their names have no index of each.
        writer: The attribute `written_by`. floodtide writes all chunks, so that every absent one is noted.
    """
    expected = math.prod(grid)
    digits = re.compile(r"[\dc]+([./][\dc]+)*|(-?\d+--?\d+_){2}-?\d+--?\d+")
    found, other, misplaced, most = 0, "", False, _MOST if notes.speaks() else _FEW
    for number, path in enumerate(_files(folder, "")):
        if number >= most:
            expected = 0  # not all are listed
            break
        indices = [*map(int, re.findall(r"\d+", path))] if len(grid) > 1 else []
        inside = len(indices) == len(grid) and all(map(int.__lt__, indices, grid))
        if known(path):
            found += inside or not indices
            continue
        plain, ending = os.path.splitext(path)
        if ending in _ENDINGS and known(plain):
            raise InvalidFileError(
                f"{name}: the chunk {folder / path} is compressed as a whole file, expected {plain}: decompress the"
                f" chunks, or write the volume without the ending {ending} (CloudVolume: compress=False)"
            )
        if digits.fullmatch(path):
            other, misplaced = path, misplaced or inside
    if other and (misplaced or not found):
        raise InvalidFileError(
            f"{name}: the chunk {folder / other} has another name than its metadata state, expected the separator and"
            " the chunk size of the metadata"
        )
    own = writer if isinstance(writer, str) and writer.startswith("floodtide") else ""
    readers.note_absent(name, expected - found, expected, own)


def _names_of_precomputed(
    start: Sequence[int], size: Sequence[int], chunk: Sequence[int]
) -> Callable[[str], bool]:
    """Return a function that says if a name is that of a chunk of a precomputed scale: "0-64_64-128_0-40".

    Args:
        start, size, chunk: First voxel and size (x, y, z) of the scale, and size of a chunk.
    """
    ranges = [
        {f"{a}-{min(a + c, first + n)}" for a in range(first, first + n, c)}
        for first, n, c in zip(start, size, chunk, strict=True)
    ]

    def known(name: str) -> bool:
        parts = name.split("_")
        return len(parts) == 3 and all(one in axis for one, axis in zip(parts, ranges, strict=True))

    return known


def _files(folder: Path, below: str) -> Iterator[str]:
    try:
        entries = os.scandir(folder / below)
    except OSError:
        return  # a folder that does not exist has no chunks; reading names one that cannot be read
    with entries:
        for entry in entries:
            path = f"{below}{entry.name}"
            if entry.is_dir():
                yield from _files(folder, f"{path}/")
            elif not entry.is_file():  # reading a FIFO would never end
                raise InvalidFileError(f"{folder / path} is no regular file, expected a chunk")
            else:
                yield path


def _zarr_chunks(document: Mapping[str, Any], rank: int) -> re.Pattern[str]:
    """Return the regular expression of the paths of the chunks of a Zarr array."""
    if "chunk_key_encoding" not in document:  # version 2
        separator = str(document.get("dimension_separator", "."))
        return re.compile(re.escape(separator).join([r"\d+"] * rank))
    encoding = document["chunk_key_encoding"]
    first = encoding.get("name") == "default"
    separator = encoding.get("configuration", {}).get("separator", "/" if first else ".")
    return re.compile(re.escape(str(separator)).join(["c"] * first + [r"\d+"] * rank))


def _opened(reference: str, spec: Mapping[str, Any]) -> Any:
    tensorstore = tensorstore_library(reference)
    context = {
        "cache_pool": {"total_bytes_limit": readers.CACHE_BYTES},
        "data_copy_concurrency": {"limit": max(1, _core.num_threads())},
    }
    spec = {**spec, "recheck_cached_data": "open", "context": context}
    try:
        return tensorstore.open(spec, read=True).result()
    except Exception as error:
        # without the specification, and without what is known: the file and the driver
        text = str(error).partition(" [tensorstore_spec=")[0]
        text = re.sub(r'^[A-Z_]+: (Error opening "\w+" driver: )?', "", text)
        text = reason(ValueError(re.sub(r'Error reading local file "[^"]*": ', "", text)))
        raise InvalidFileError(f"{reference}: cannot be opened: {text}") from error


def _json(path: Path, reference: str) -> dict[str, Any]:
    value = read_json(path, f"the metadata of the volume {reference}")
    if not isinstance(value, dict):
        raise InvalidFileError(f"{path}: is no JSON object, expected the metadata of {reference}")
    return value


def _zarr_array(reference: str) -> Path:
    """Return the metadata file of the array that a name means."""
    folder = Path(reference)
    document = _metadata(folder, reference)
    if (folder / "zarr.json").is_file():
        if document.get("node_type") == "array":
            return folder / "zarr.json"
    elif (folder / ".zarray").is_file():
        return folder / ".zarray"
    attributes = _attributes(document)
    images = images_of(attributes)
    if len(images) > 1:
        notes.show(f"{reference}: describes {len(images)} images (multiscales); the first is read")
    levels = _levels_of(images[0]) if images else []
    if levels and (level := _path_of(levels[0])):
        return _zarr_array(str(folder / level))
    if "bioformats2raw.layout" in {**attributes, **attributes.get("ome", {})}:
        numbered = sorted((p.name for p in folder.iterdir() if p.name.isdecimal()), key=int)
        if len(numbered) == 1:
            return _zarr_array(str(folder / numbered[0]))
        named = " or ".join(f"{folder}/{one}" for one in numbered[:5])
        raise InvalidFileError(f"{reference}: holds {len(numbered)} images, expected {named}")
    raise InvalidFileError(_no_array(reference, "Zarr array", "zarr.json or .zarray"))


def _levels_of(image: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the levels of an image, the finest first."""
    return sorted(listed(image.get("datasets")), key=_coarseness)


def _path_of(level: Mapping[str, Any]) -> str:
    """Return the path of the array of a level, relative to its image; "" if there is none below the image."""
    path = posixpath.normpath(str(level.get("path", "")))
    return "" if path.startswith(("/", "..")) or path == "." else path


def _coarseness(level: Mapping[str, Any]) -> float:
    changes = level.get("coordinateTransformations") or []
    scale = next((c.get("scale") for c in changes if isinstance(c, dict) and "scale" in c), None)
    return math.prod(scale) if isinstance(scale, list) and are_numbers(scale, len(scale)) else 1.0


def _image_around(array: Path, reference: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the OME-Zarr image of which an array is a level, and the level; None without such an image."""
    for place in dict.fromkeys((array.absolute(), array.resolve())):  # also behind a link
        for folder in place.parents[:_MOST_ABOVE]:
            for image in images_of(_attributes(_metadata(folder, reference))):
                for level in _levels_of(image):
                    below = folder / _path_of(level)
                    if place in (below, below.resolve()):
                        return image, level
    return {}, None


def _note_above(reference: str, folder: Path, names: Sequence[str], is_level: bool) -> None:
    """Note a voxel size, or axes, that something around an array states: coordinates of xarray, WEBKNOSSOS, a group.

    Args:
        names: The names of the axes of the array; empty: unknown. The group may then name them.
        is_level: True for a level of an OME-Zarr image. Else the group may be an image of which the array is no level.
    """
    siblings = [folder.parent / axis for axis in names]
    elsewhere = [one for one in siblings if _metadata(one, reference)]
    others = [one / file for file in (_WEBKNOSSOS, _OME_XML) for one in folder.parents[:3]]
    elsewhere += [one for one in others if one.is_file()]
    if elsewhere:
        not_used(reference, f"{elsewhere[0]} may state a voxel size")
        return
    for group in folder.parents[:_MOST_ABOVE]:
        stated = _attributes(_metadata(group, reference))
        axes = [key for key in NAMES if not names and axis_names(stated.get(key))]
        if axes:
            notes.show(
                f"{reference}: the group {group} has an attribute {axes[0]}, which may name its axes: not used, they"
                " are taken as z, y, x"
            )
        key = next((one.key for one in SIZES if one.key in stated), None)
        key = key or ("multiscales" if images_of(stated) and not is_level else None)
        if key is not None:
            not_used(reference, f"the group {group} has an attribute {key}")
            break


def _metadata(folder: Path, reference: str) -> dict[str, Any]:
    for name in STORES[".zarr"]:
        if (folder / name).is_file():
            document = _json(folder / name, reference)
            if name != "zarr.json":
                more = folder / ".zattrs"
                document["attributes"] = _json(more, reference) if more.is_file() else {}
            return document
    return {}


def _attributes(document: Mapping[str, Any]) -> dict[str, Any]:
    attributes = document.get("attributes", {})
    return attributes if isinstance(attributes, dict) else {}


def _no_array(reference: str, kind: str, file: str) -> str:
    """Return a message that the folder holds no array, with those in folders below, or in the store around it."""
    folder, text = Path(reference), f"{reference}: is no {kind} (no {file} of one)"
    if not folder.is_dir():
        stores = [one for one in folder.parents if one.suffix in STORES and one.is_dir()]
        folder, text = stores[0] if stores else folder, f"{reference}: there is no such folder"
    return f"{text}; expected {' or '.join(arrays_below(folder, 4)) or f'a {kind}'}"


def arrays_below(folder: Path, depth: int) -> list[str]:
    """Return the paths of the first Zarr arrays and N5 datasets up to `depth` folders below a folder."""
    found: list[str] = []
    folders = [one for one in folder.iterdir() if one.is_dir()] if depth and folder.is_dir() else []
    for child in sorted(folders):
        files = [child / name for name in ("zarr.json", ".zarray", "attributes.json")]
        documents = [read_json(one) for one in files if one.is_file()]
        is_array = any("shape" in one or "dimensions" in one for one in documents)
        found += [str(child)] if is_array else arrays_below(child, depth - 1)
    return found[:5]
