# SPDX-License-Identifier: Apache-2.0
"""Golden vectors: results of PyTorch, kept in `pytorch.npz` for comparisons on machines without PyTorch.

`vectors.py` lists the cases. A case computes the same results with floodtide and with PyTorch. `python
tests/golden/make.py` writes the file, and `tests/python/unit/test_pytorch.py` makes the comparisons.
"""
