# SPDX-License-Identifier: Apache-2.0
"""Several runs: how they differ, and whether one is worse than another."""
