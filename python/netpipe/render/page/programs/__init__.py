# SPDX-License-Identifier: Apache-2.0
"""What pages about programs have besides those of profiles: charts without scripts, the page of application kernels,
and what other libraries would make of a profile.
"""
