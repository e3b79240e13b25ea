# SPDX-License-Identifier: Apache-2.0
"""The MPI libraries of this machine: where they are, what each one is, and the module `mpi@NAME` that is built for it.

compiler   what an mpicc is, and how it compiles
starter    what starts the processes of its programs
added      the modules that were added, and whether they still work
add        adds one
discover   finds the libraries that could be added
"""
