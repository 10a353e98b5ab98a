# SPDX-License-Identifier: Apache-2.0
"""Find out which launcher started this process, and which MPI library and plug-in it uses."""
