# SPDX-License-Identifier: Apache-2.0
"""A process of its own that asks UCX or libfabric what can carry messages on this machine:

    python -m netpipe.tuning.library.transports ucx
    python -m netpipe.tuning.library.transports libfabric rdm

It prints a JSON list: the values of `tls` of the module ucx, or of `provider` of libfabric for that endpoint type, in
the order of the library. A library may look for devices, start threads or crash, and its own settings in the
environment may hide a transport, so netpipe itself never loads one for this.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from netpipe.tuning.library.apart import answer

# As the modules open them.
UCP, LIBFABRIC = "libucp.so.0", "libfabric.so.1"
EVERYTHING = {"UCX_TLS": "all", "UCX_NET_DEVICES": "all", "UCX_WARN_UNUSED_ENV_VARS": "n"}
HIDES = "FI_PROVIDER"  # the others; an empty one hides all

# Transports of UCX that carry messages by themselves, and what UCX_TLS calls each with what it needs to connect
# (OpenUCX FAQ, "Which transports does UCX use?"). Those that only copy are tried beside those of shared memory.
CARRIES = {
    "posix": "posix",
    "sysv": "sysv",
    "tcp": "tcp",
    "rc_verbs": "rc_v",
    "rc_mlx5": "rc_x",
    "dc_mlx5": "dc_x",
    "ud_verbs": "ud_v",
    "ud_mlx5": "ud_x",
}
IN_MEMORY = ("posix", "sysv")
COPIES = ("cma", "knem", "xpmem")

FIELD_FEATURES, FEATURE_TAG = 1, 1  # ucp_params_t and its features (ucp/api/ucp.h)
PARAMS_NUMBERS = 64  # more 64-bit numbers than the structure has in any version
ENDPOINTS = {"msg": 1, "dgram": 2, "rdm": 3}  # enum fi_ep_type (rdma/fabric.h)


def offered(module: str, settings: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The values worth trying of the option that names transports, by its name. `settings`: of the start. Empty where
    the library does not say, or the layer is another one.
    """
    if module == "ucx":
        return _some("tls", _asked("ucx"))
    if module == "libfabric":
        return _some("provider", _asked("libfabric", settings.get("ep", "rdm")))
    return {}


def _some(option: str, values: Sequence[str]) -> dict[str, tuple[str, ...]]:
    return {option: tuple(values)} if values else {}


def _asked(*words: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != HIDES} | EVERYTHING
    return [str(one) for one in answer(__name__, list(words), environment) or ()]


def combinations(transports: Sequence[str]) -> list[str]:
    """Values of UCX_TLS for these transports, joined by + as the option `tls` has them."""
    there = dict.fromkeys(transports)
    found = []
    for one in there:
        if one in IN_MEMORY:
            found += [f"{one}+{copies}" for copies in COPIES if copies in there]
        if one in CARRIES:
            found.append(CARRIES[one])
    return found


# ------------------------------------------------------------------------------------------------- in the process


def main(arguments: list[str]) -> None:
    ask: dict[str, Callable[..., list[str]]] = {"ucx": ucx, "libfabric": libfabric}
    sys.stdout.write(json.dumps(ask[arguments[0]](*arguments[1:])))


def ucx() -> list[str]:
    library, libc = ctypes.CDLL(UCP), ctypes.CDLL(None)
    major, minor, release = (ctypes.c_uint() for _ in range(3))
    library.ucp_get_version(ctypes.byref(major), ctypes.byref(minor), ctypes.byref(release))
    params = (ctypes.c_uint64 * PARAMS_NUMBERS)(FIELD_FEATURES, FEATURE_TAG)
    context = ctypes.c_void_p()
    if library.ucp_init_version(major, minor, params, None, ctypes.byref(context)) != 0:
        return []
    # Only this function lists them, and only into a FILE.
    text, length = ctypes.c_char_p(), ctypes.c_size_t()
    libc.open_memstream.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(length)))
    library.ucp_context_print_info(context, file)
    libc.fclose(file)
    return combinations(resources((text.value or b"").decode(errors="replace")))


def resources(said: str) -> list[str]:
    """The transports in what UCX prints, such as `#  resource 1 : md 0 dev 1 flags -- tcp/eth0`."""
    lines = [line.split() for line in said.splitlines()]
    return [words[-1].partition("/")[0] for words in lines if words[1:2] == ["resource"] and "/" in words[-1]]


class Fabric(ctypes.Structure):
    """struct fi_fabric_attr"""

    _fields_ = (
        ("fabric", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("provider", ctypes.c_char_p),
    )


class Info(ctypes.Structure):
    """struct fi_info, as it is since libfabric 1.0"""


Info._fields_ = (
    ("next", ctypes.POINTER(Info)),
    ("caps", ctypes.c_uint64),
    ("mode", ctypes.c_uint64),
    ("addr_format", ctypes.c_uint32),
    ("src_addrlen", ctypes.c_size_t),
    ("dest_addrlen", ctypes.c_size_t),
    ("src_addr", ctypes.c_void_p),
    ("dest_addr", ctypes.c_void_p),
    ("handle", ctypes.c_void_p),
    ("tx_attr", ctypes.c_void_p),
    ("rx_attr", ctypes.c_void_p),
    ("ep_attr", ctypes.POINTER(ctypes.c_uint32)),  # begins with its type
    ("domain_attr", ctypes.c_void_p),
    ("fabric_attr", ctypes.POINTER(Fabric)),
)


def libfabric(endpoint: str) -> list[str]:
    library = ctypes.CDLL(LIBFABRIC)
    found = ctypes.POINTER(Info)()
    if library.fi_getinfo(library.fi_version(), None, None, ctypes.c_uint64(0), None, ctypes.byref(found)):
        return []
    names: dict[str, None] = {}
    while found:
        info = found.contents
        if info.fabric_attr and info.ep_attr and info.ep_attr[0] == ENDPOINTS[endpoint]:
            names[(info.fabric_attr.contents.provider or b"").decode(errors="replace")] = None
        found = info.next
    return [name for name in names if name]


if __name__ == "__main__":
    main(sys.argv[1:])
