# SPDX-License-Identifier: Apache-2.0
"""What the launchers of libraries need, and whoever starts them:

description  what starts the processes of an added library, from the file beside its module
hosts        the hosts that were named, and how many ranks each has
condense     what a launcher wrote, as one sentence
processes    processes that a launcher left behind
"""
