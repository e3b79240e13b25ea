# SPDX-License-Identifier: Apache-2.0
"""Job scripts of a suite for the scheduler of a cluster.

scripts      the text of a script, and how it is submitted
submitting   from the options of `netpipe suite submit` to scripts in files
gathering    what the tasks of an array run: one run of a suite, and the report of all of them
"""
