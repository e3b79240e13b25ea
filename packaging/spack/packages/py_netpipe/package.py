# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F403, F405  (how every recipe of Spack begins)
"""netpipe for Spack. `netpipe` is the classic NetPIPE there, so this is py-netpipe.

    spack repo add packaging/spack
    spack dev-build py-netpipe@0.1.0        in the folder of the sources

Each MPI library of Spack is added afterwards: netpipe modules add mpi --mpicc $(spack location -i openmpi)/bin/mpicc.
"""

from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyNetpipe(PythonPackage):
    """Measures how much of what the hardware can move reaches the application, and which layer loses the rest."""

    license("Apache-2.0")

    version("0.1.0")

    variant("ucx", default=True, description="Measure UCX")
    variant("libfabric", default=True, description="Measure libfabric")
    variant("verbs", default=False, description="Measure InfiniBand verbs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.20:", type="build")
    depends_on("ninja", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-scikit-build-core@0.10:", type="build")

    depends_on("py-click@8.1:", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type=("build", "run"))
    depends_on("py-matplotlib@3.8:", type=("build", "run"))
    depends_on("py-msgspec@0.19:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-plotly@5.20:", type=("build", "run"))
    depends_on("py-polars@1.9:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-scipy@1.11:", type=("build", "run"))
    depends_on("py-tomli@2:", type=("build", "run"), when="^python@:3.10")

    depends_on("openssl@3:", type=("build", "run"))  # for tcp:tls=openssl

    depends_on("ucx", when="+ucx")
    depends_on("libfabric", when="+libfabric")
    depends_on("rdma-core", when="+verbs")

    # `netpipe lab` starts them by name.
    depends_on("iproute2", type="run")
    depends_on("util-linux", type="run")

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def measure(self) -> None:
        netpipe = Executable(self.prefix.bin.netpipe)
        netpipe("run", "memcpy", "shm", "--sizes", "8,64k", "--budget", "0.2", "--launches", "1", "--verify")
