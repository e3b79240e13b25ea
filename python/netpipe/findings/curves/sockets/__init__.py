# SPDX-License-Identifier: Apache-2.0
"""Rules about sockets: their buffers, what they lose, and how many of them it takes."""
