# SPDX-License-Identifier: Apache-2.0
"""Settings of the kernel and of network interfaces that a layer stands on. They belong to the whole machine, so they
are shown with what they mean, tried only with `--apply`, and put back afterwards unless `--keep`.

    table     which settings, and the values worth trying
    nic       those of network interfaces
    applied   changing them, and putting them back whatever happens
    trial     what they gain: launches with and without, in turn
"""
