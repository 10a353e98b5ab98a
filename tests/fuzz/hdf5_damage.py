# SPDX-License-Identifier: Apache-2.0
"""Damage to the structure of an HDF5 file: datasets of another shape or type, links, storage elsewhere, odd attributes.

Every function writes a valid HDF5 file that is not what its reader expects.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

HUGE = (1 << 20, 1 << 20, 1 << 20)


def damage_structure(path: Path, random: Random) -> tuple[str, bool]:
    """Change one object of an HDF5 file.

    Returns:
        What was done, and whether a reader may only refuse the file or be right as before: False if another result can
        be right, too (other values, other sizes).
    """
    with h5py.File(path, "r+") as file:
        datasets: list[str] = []
        holders: list[str] = ["/"]

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                datasets.append(name)
            if item.attrs:
                holders.append(name)

        file.visititems(visit)
        with_attributes = [name for name in holders if file[name].attrs]
        if with_attributes and (not datasets or random.random() < 0.4):
            holder = random.choice(with_attributes)
            return _damage_attribute(file[holder], holder, random)
        name = random.choice(datasets)
        damage, may_differ = random.choice(_DATASETS)
        if not file[name].size:  # no values, no chunks
            damage, may_differ = _missing, False
        text = damage(file, name, random)
        return f"{name} {text}", not may_differ


def _replace(file: h5py.File, name: str, **how: Any) -> h5py.Dataset:
    attributes = dict(file[name].attrs)
    del file[name]
    made = file.create_dataset(name, **how)
    for key, value in attributes.items():
        made.attrs[key] = value
    return made


def _missing(file: h5py.File, name: str, random: Random) -> str:
    del file[name]
    return "is missing"


def _group(file: h5py.File, name: str, random: Random) -> str:
    del file[name]
    file.create_group(name)
    return "is a group"


def _other_rank(file: h5py.File, name: str, random: Random) -> str:
    values = file[name][()]
    rank = random.choice((0, 1, 2, 4, 5, 32))
    if rank == 0:
        values = values.ravel()[0] if values.size else 0
    elif rank < values.ndim:
        values = values.reshape(-1) if rank == 1 else values.reshape(values.shape[0], -1)
    else:
        values = values.reshape((1,) * (rank - values.ndim) + values.shape)
    _replace(file, name, data=values)
    return f"has {np.ndim(values)} axes"


def _empty(file: h5py.File, name: str, random: Random) -> str:
    shape = list(file[name].shape) or [0]
    shape[random.randrange(len(shape))] = 0
    _replace(file, name, shape=tuple(shape), dtype=file[name].dtype)
    return f"has shape {tuple(shape)}"


def _null_space(file: h5py.File, name: str, random: Random) -> str:
    _replace(file, name, data=h5py.Empty("f4"))
    return "has a null dataspace"


def _huge(file: h5py.File, name: str, random: Random) -> str:
    old = file[name]
    shape = list(old.shape) or [1]
    for axis in range(len(shape)):
        if random.random() < 0.7:
            shape[axis] = random.choice((1 << 20, 1 << 31, (1 << 32) + 1, 1 << 16))
    while np.prod([float(n) for n in shape]) * old.dtype.itemsize >= 2.0**63:
        shape[shape.index(max(shape))] >>= 4
    chunks = tuple(min(n, 16) for n in shape)
    _replace(file, name, shape=tuple(shape), dtype=old.dtype, chunks=chunks)
    return f"claims the shape {tuple(shape)}"


def _huge_chunk(file: h5py.File, name: str, random: Random) -> str:
    old = file[name]
    shape = tuple(1 << 10 for _ in old.shape) or (1 << 28,)
    chunks = tuple(min(n, 512) for n in shape)
    _replace(file, name, shape=shape, dtype=old.dtype, chunks=chunks)
    return f"has the shape {shape} in chunks of {chunks}"


def _resized(file: h5py.File, name: str, random: Random) -> str:
    values = file[name][()]
    if values.ndim == 0:
        return _missing(file, name, random)
    axis = random.randrange(values.ndim)
    if random.random() < 0.5:
        values = np.take(values, range(max(values.shape[axis] // 2, 1)), axis)
    else:
        values = np.concatenate([values, values], axis)
    _replace(file, name, data=values)
    return f"has shape {values.shape}"


def _other_type(file: h5py.File, name: str, random: Random) -> str:
    values = file[name][()]
    kind = random.choice(
        ("compound", "text", "fixed", "reference", "enum", "bool", "complex", "opaque", "vlen")
    )
    shape = values.shape
    if kind == "compound":
        made = np.zeros(shape, [("a", "f4"), ("b", "i8")])
        _replace(file, name, data=made)
    elif kind == "text":
        _replace(file, name, shape=shape, dtype=h5py.string_dtype())
    elif kind == "fixed":
        _replace(file, name, data=np.full(shape, b"word", "S8"))
    elif kind == "reference":
        _replace(file, name, shape=shape, dtype=h5py.ref_dtype)
    elif kind == "enum":
        _replace(file, name, shape=shape, dtype=h5py.enum_dtype({"a": 1, "b": 2}, basetype="i4"))
    elif kind == "bool":
        _replace(file, name, data=values.astype(bool))
    elif kind == "complex":
        _replace(file, name, data=values.astype(np.complex64))
    elif kind == "opaque":
        _replace(file, name, data=np.zeros(shape, "V16"))
    else:
        _replace(file, name, shape=shape, dtype=h5py.vlen_dtype("i4"))
    return f"is of type {kind}"


def _other_number(file: h5py.File, name: str, random: Random) -> str:
    values = file[name][()]
    dtype = random.choice(
        ("i1", "u1", ">i2", "u2", "i4", ">u4", "i8", ">u8", "f2", ">f4", "f8", "f16", "i8")
    )
    if np.dtype(dtype) == values.dtype:
        dtype = ">" + values.dtype.str[1:]
    with np.errstate(all="ignore"):
        _replace(file, name, data=values.astype(dtype))
    return f"is of type {dtype}"


def _odd_values(file: h5py.File, name: str, random: Random) -> str:
    values = np.array(file[name][()])
    places = [random.randrange(values.size) for _ in range(random.choice((1, 1, values.size)))]
    if values.dtype.kind == "f":
        odd: Any = random.choice((np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45))
    else:
        bounds = np.iinfo(values.dtype)
        odd = random.choice((bounds.min, bounds.max, bounds.max // 2 + 1, 0))
    values.ravel()[places] = odd
    file[name][...] = values
    return f"holds {odd} at {len(places)} places"


def _soft_link(file: h5py.File, name: str, random: Random) -> str:
    target = random.choice((f"/{name}", "/nowhere", "/moved"))
    file.move(name, "moved")
    file[name] = h5py.SoftLink(target)
    return f"is a soft link to {target}"


def _external_link(file: h5py.File, name: str, random: Random) -> str:
    own = Path(file.filename)
    target = random.choice((own.name, "nowhere.h5", "/dev/zero", "elsewhere.h5"))
    if target == "elsewhere.h5":
        with h5py.File(own.with_name(target), "w") as other:
            file.copy(name, other, name="moved")
    file.move(name, "moved")
    file[name] = h5py.ExternalLink(target, "/moved")
    return f"is an external link to {target}"


def _external_storage(file: h5py.File, name: str, random: Random) -> str:
    old = file[name]
    target = random.choice(("/etc/passwd", "nowhere.bin", "/dev/zero", Path(file.filename).name))
    shape = old.shape or (1,)
    size = int(np.prod(shape)) * old.dtype.itemsize
    _replace(file, name, shape=shape, dtype=old.dtype, external=[(target, 0, max(size, 1))])
    return f"is stored in {target}"


def _virtual(file: h5py.File, name: str, random: Random) -> str:
    old = file[name]
    if old.ndim == 0:
        return _missing(file, name, random)
    target = random.choice((".", "nowhere.h5"))
    layout = h5py.VirtualLayout(shape=old.shape, dtype=old.dtype)
    layout[...] = h5py.VirtualSource(target, "moved", shape=old.shape)
    file.move(name, "moved")
    made = file.create_virtual_dataset(name, layout)
    for key, value in old.attrs.items():
        made.attrs[key] = value
    return f"is a virtual dataset over {target}"


def _unknown_filter(file: h5py.File, name: str, random: Random) -> str:
    values = np.atleast_1d(file[name][()])
    del file[name]
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    chunks = tuple(max(min(n, 16), 1) for n in values.shape)
    properties.set_chunk(chunks)
    made = h5py.h5d.create(
        file.id,
        name.encode(),
        h5py.h5t.py_create(values.dtype),
        h5py.h5s.create_simple(values.shape),
        dcpl=_with_filter(properties),
        lcpl=_parents(),
    )
    made.write_direct_chunk((0,) * values.ndim, bytes(int(np.prod(chunks)) * values.itemsize))
    return "has an unknown filter"


def _with_filter(properties: Any) -> Any:
    properties.set_filter(32000, h5py.h5z.FLAG_OPTIONAL, (1, 2, 3))
    return properties


def _parents() -> Any:
    properties = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    properties.set_create_intermediate_group(True)
    return properties


def _damaged_chunk(file: h5py.File, name: str, random: Random) -> str:
    values = np.atleast_1d(file[name][()])
    chunks = tuple(max(min(n, 16), 1) for n in values.shape)
    made = _replace(
        file, name, shape=values.shape, dtype=values.dtype, chunks=chunks, compression="gzip"
    )
    made.id.write_direct_chunk((0,) * values.ndim, random.randbytes(random.randrange(1, 200)))
    return "has a chunk that does not decompress"


def _renamed(file: h5py.File, name: str, random: Random) -> str:
    new = name + random.choice((" ", "x", "\u202e", "/inner", "." * 300))
    values = file[name][()]
    del file[name]
    file[new] = values
    return f"is called {new[:40]!r}"


def _stored_otherwise(file: h5py.File, name: str, random: Random) -> str:
    values = file[name][()]
    if not np.ndim(values) or not values.size:
        return _missing(file, name, random)
    how: dict[str, Any] = random.choice(
        (
            {},
            {
                "chunks": tuple(1 if n > 8 else n for n in values.shape[:1])
                + tuple(values.shape[1:])
            },
            {"chunks": True, "compression": "gzip", "shuffle": True},
            {"chunks": True, "fletcher32": True},
            {"chunks": True, "compression": "lzf"},
            {"chunks": True, "maxshape": (None,) * values.ndim},
        )
    )
    _replace(file, name, data=values, **how)
    return f"is stored otherwise: {how}"


def _parent_is_a_dataset(file: h5py.File, name: str, random: Random) -> str:
    parent = name.rpartition("/")[0] or name
    del file[parent]
    file[parent] = np.arange(3)
    return f"is gone: {parent} is a dataset"


def _cycle(file: h5py.File, name: str, random: Random) -> str:
    parent = name.rpartition("/")[0] or "/"
    del file[name]
    if random.random() < 0.5:
        file[name] = file[parent]
        return f"is the group {parent} that holds it"
    file[f"{name}_2"] = h5py.SoftLink(f"/{name}")
    file[name] = h5py.SoftLink(f"/{name}_2")
    return "is a soft link in a circle"


def _named_type(file: h5py.File, name: str, random: Random) -> str:
    del file[name]
    file[name] = np.dtype("f4")
    return "is a type"


def _companions(file: h5py.File, name: str, random: Random) -> str:
    for number in range(random.choice((1, 300))):
        file[f"{name}x{number}"] = np.float32(1)
    return "has further datasets beside it"


def _deep(file: h5py.File, name: str, random: Random) -> str:
    file.move(name, "/".join(["deep"] * 300) + "/moved")
    file[name] = h5py.SoftLink("/" + "/".join(["deep"] * 300) + "/moved")
    return "lies 300 groups deep"


def _filled(file: h5py.File, name: str, random: Random) -> str:
    old = file[name]
    if not old.ndim:
        return _missing(file, name, random)
    chunks = tuple(max(min(n, 16), 1) for n in old.shape)
    fill = random.choice((0, 1, 100))
    _replace(file, name, shape=old.shape, dtype=old.dtype, chunks=chunks, fillvalue=fill)
    return f"was never written, fill value {fill}"


def _skipped_filter(file: h5py.File, name: str, random: Random) -> str:
    """Chunks that say of themselves that they are not compressed, or that are shorter than they should be."""
    values = np.atleast_1d(file[name][()])
    chunks = tuple(max(min(n, 16), 1) for n in values.shape)
    how = {"compression": "gzip", "fletcher32": random.random() < 0.5}
    made = _replace(file, name, shape=values.shape, dtype=values.dtype, chunks=chunks, **how)
    raw = random.choice((zlib.compress(b"short"), zlib.compress(bytes(1 << 22)), b"short"))
    made.id.write_direct_chunk((0,) * values.ndim, raw, filter_mask=random.randrange(4))
    return "has a chunk of another size"


# Each with whether another result than before can be right.
_DATASETS: tuple[tuple[Callable[[h5py.File, str, Random], str], bool], ...] = (
    (_missing, False),
    (_group, False),
    (_other_rank, False),
    (_empty, False),
    (_null_space, False),
    (_huge, True),
    (_huge_chunk, True),
    (_resized, True),
    (_other_type, True),
    (_other_number, True),
    (_odd_values, True),
    (_odd_values, True),
    (_soft_link, False),
    (_external_link, False),
    (_external_storage, False),
    (_virtual, False),
    (_unknown_filter, False),
    (_damaged_chunk, False),
    (_parent_is_a_dataset, False),
    (_cycle, False),
    (_named_type, False),
    (_companions, False),
    (_deep, False),
    (_filled, True),
    (_skipped_filter, False),
    (_renamed, False),
    (_stored_otherwise, False),
)


def _damage_attribute(holder: Any, name: str, random: Random) -> tuple[str, bool]:
    key = random.choice(sorted(holder.attrs))
    old = holder.attrs[key]
    what = random.randrange(12)
    made: Any
    if what == 0:
        del holder.attrs[key]
        return f"attribute {key} of {name} is missing", False
    if what == 1:
        made = random.choice(
            ("", "x", "\udcff".encode("utf-8", "surrogateescape"), "a\nb", "y" * 70_000)
        )
        if isinstance(made, bytes):
            made = np.bytes_(made)
    elif what == 2:
        made = h5py.Empty("i8")
    elif what == 3:
        made = np.zeros((), [("a", "i4")])
    elif what == 4:
        made = np.array([[1, 2], [3, 4]])
    elif what == 5:
        made = np.array([], np.int64)
    elif what == 6:
        made = random.choice((np.nan, np.inf, -0.5, 1e300))
    elif what == 7:
        made = np.uint64(random.choice(((1 << 64) - 1, 1 << 63)))
    elif what == 8:
        del holder.attrs[key]
        with contextlib.suppress(OSError):  # too large for some places
            holder.attrs.create(key, np.arange(6000))
        return f"attribute {key} of {name} has 6000 entries", False
    elif isinstance(old, (np.integer, int)) or (
        isinstance(old, np.ndarray) and old.dtype.kind in "iu"
    ):
        odd = random.choice(
            (-1, 0, 1, 1 << 31, (1 << 32) + int(np.ravel(old)[0]), 1 << 62, -(1 << 63), 1048577, 3)
        )
        made = np.array(old, dtype=np.int64)
        made.reshape(-1)[random.randrange(made.size)] = odd
    elif isinstance(old, (str, bytes)):
        from fuzz.damage import damage_text

        text = old.encode() if isinstance(old, str) else bytes(old)
        changed, _ = damage_text(text, random)
        made = np.bytes_(changed.replace(b"\0", b"?")[:60_000] or b"?")
    else:
        made = np.float64(random.choice((np.nan, -1.0, 0.0, 1e308)))
    del holder.attrs[key]
    with contextlib.suppress(OSError):
        holder.attrs[key] = made
    return f"attribute {key} of {name} is {str(made)[:60]!r}", False


def datasets(path: Path) -> Iterator[tuple[str, Any]]:
    """Name and values of every dataset of a file, and of every attribute."""
    with h5py.File(path) as file:
        found: list[tuple[str, Any]] = [(f"@{key}", value) for key, value in file.attrs.items()]

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                found.append((name, item[()]))
            found.extend((f"{name}@{key}", value) for key, value in item.attrs.items())

        file.visititems(visit)
    yield from found
