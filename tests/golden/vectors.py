# SPDX-License-Identifier: Apache-2.0
"""All cases, and the file with PyTorch's results."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from golden import optimizers, unets
from golden.case import Array, Case, Results

FILE = Path(__file__).with_name("pytorch.npz")
VERSION = "version of PyTorch"
MOST_VALUES = 32

CASES: dict[str, Case] = {case.name: case for case in optimizers.CASES + unets.CASES}


def some(array: Array) -> Array:
    """Return the values of an array that the file keeps: all, or MOST_VALUES at places drawn at random."""
    places = np.random.RandomState(0).permutation(array.size)[:MOST_VALUES]
    return array.ravel()[np.sort(places)]


def shortened(results: Results) -> Results:
    """Return results with the values that the file keeps."""
    return {name: some(array) for name, array in results.items()}


def write(path: Path) -> None:
    """Write the results of PyTorch: a record for each case, and a field for each result. Needs PyTorch."""
    from golden import oracle

    oracle.use_one_thread()
    records = {VERSION: np.array(oracle.version())}
    for name, case in CASES.items():
        results = shortened(case.pytorch())
        fields = [(result, array.dtype, array.shape) for result, array in results.items()]
        records[name] = np.array(tuple(results.values()), fields)
    np.savez(path, **records)  # type: ignore[arg-type]


def read(path: Path) -> dict[str, Results]:
    """Return the results of each case in a file."""
    with np.load(path) as file:
        records = {name: file[name] for name in file.files if name != VERSION}
    return {
        name: {result: record[result] for result in record.dtype.names}
        for name, record in records.items()
    }
