# SPDX-License-Identifier: Apache-2.0
"""Lines that stand for many sizes: latency and rate by pieces, and the parameters of the LogGP model."""
