# SPDX-License-Identifier: Apache-2.0
"""A virtual cluster on one machine, for tests, tutorials and suites: `netpipe lab`.

A host is a process that keeps four namespaces: network, host name, shared memory and mounts. Nothing else is made on
this machine: when the process and those that were started on the host have ended, the kernel removes all of it.
docs/decisions/0025-lab.md says why.
"""
