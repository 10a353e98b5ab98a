# SPDX-License-Identifier: Apache-2.0
"""Who started this process, and which MPI library and plug-in serve it."""
