# SPDX-License-Identifier: Apache-2.0
"""Which transports UCX and libfabric have here, asked of the libraries themselves."""

from __future__ import annotations

import ctypes

import pytest

from netpipe.tuning.library import transports

# As UCX 1.13 prints its context, shortened.
CONTEXT = """#
# UCP context
#
#     component 0  :  self
#     component 1  :  tcp
#
#            md 0  :  component 0  self
#
#      resource 0  :  md 0  dev 0  flags -- self/memory
#      resource 1  :  md 1  dev 1  flags -- tcp/lo
#      resource 2  :  md 1  dev 2  flags -- tcp/eth0
#      resource 3  :  md 3  dev 4  flags -- posix/memory
#      resource 4  :  md 4  dev 4  flags -- cma/memory
#
# memory: 0.84MB, file descriptors: 2
"""


def has(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def test_what_ucx_prints_names_its_transports() -> None:
    assert transports.resources(CONTEXT) == ["self", "tcp", "tcp", "posix", "cma"]


def test_each_transport_that_carries_messages_is_tried_and_shared_memory_with_what_copies() -> None:
    found = transports.combinations(["self", "tcp", "tcp", "posix", "sysv", "cma", "rc_mlx5", "gdr_copy"])
    assert found == ["tcp", "posix+cma", "posix", "sysv+cma", "sysv", "rc_x"]


def test_a_layer_with_other_options_is_not_asked() -> None:
    assert transports.offered("tcp", {}) == {}


def test_a_library_that_is_not_here_or_crashes_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "_asked", lambda *_: [])
    assert transports.offered("ucx", {}) == {}
    monkeypatch.undo()
    assert transports._asked("no-such-library") == []


@pytest.mark.skipif(not has(transports.UCP), reason="UCX is not installed (apt install libucx0)")
def test_ucx_says_what_it_has_whatever_the_environment_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCX_TLS", "posix,self")
    assert {"tcp", "posix", "sysv"} <= set(transports.offered("ucx", {})["tls"])


@pytest.mark.skipif(
    not has(transports.LIBFABRIC), reason="libfabric is not installed (apt install libfabric1)"
)
def test_libfabric_says_what_it_has_for_an_endpoint_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FI_PROVIDER", "sockets")
    reliable = transports.offered("libfabric", {})["provider"]
    connected = transports.offered("libfabric", {"ep": "msg"})["provider"]
    assert {"tcp;ofi_rxm", "shm"} <= set(reliable)
    assert "tcp" in connected
    assert "tcp;ofi_rxm" not in connected
