# SPDX-License-Identifier: Apache-2.0
"""Runs application kernels (src/apps: the NAS parallel benchmarks, Sweep3D) over the MPI libraries that were added:
what is run (plan), one run (running), all of them in random order (session).
"""
