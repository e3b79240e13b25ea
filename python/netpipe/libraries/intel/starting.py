# SPDX-License-Identifier: Apache-2.0
"""A process of its own that starts and ends Intel MPI, as one rank, so that it says which settings it takes:

python -m netpipe.libraries.intel.starting /path/of/libmpi.so
"""

from __future__ import annotations

import ctypes
import sys


def main(path: str) -> None:
    library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    if library.MPI_Init(None, None) != 0:
        sys.exit(1)
    library.MPI_Finalize()


if __name__ == "__main__":
    main(sys.argv[1])
