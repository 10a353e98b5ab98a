# SPDX-License-Identifier: Apache-2.0
"""Cases that floodtide and PyTorch both compute. `vectors.py` lists the cases."""
