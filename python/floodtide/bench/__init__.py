# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of this machine: kernels, passes of networks and training steps on several ranks.

They compare with PyTorch, with the MPI library, and with the processor's peak multiply-add rate of the same run.
"""
