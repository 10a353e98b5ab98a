# SPDX-License-Identifier: Apache-2.0
"""Examination of a job before it starts: launcher, MPI library, threads, cores, memory, and the run directory."""
