# SPDX-License-Identifier: Apache-2.0
"""The kinds of runs of a suite, a file each."""
