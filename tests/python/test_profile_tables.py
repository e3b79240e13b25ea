# SPDX-License-Identifier: Apache-2.0
"""The tables of a profile: the published cells of Liu et al. 2003 from the calls that the kernels make, and what counts
and what does not. Table 6 is built from the neighbours that the kernels have in their grids of processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest
from profiled import CALLS, KERNELS, Made, made, profile_of

from netpipe.profiles.lines import ANY, MANY, NONE, Reuse
from netpipe.profiles.tables import LIMITS, NotThere, Tables, tables


def of_rank_0(kernel: str) -> Tables:
    return tables(profile_of(KERNELS[kernel], [made("Barrier", 0, 1)]))


@pytest.mark.parametrize(
    ("kernel", "calls"),
    [
        ("IS", [14, 11, 0, 11]),
        ("CG", [16113, 0, 11856, 0]),
        ("MG", [1607, 630, 3702, 0]),
        ("LU", [100021, 0, 1008, 0]),
        ("FT", [24, 0, 0, 22]),
        ("SP", [9, 0, 9636, 0]),
        ("BT", [9, 0, 4836, 0]),
        ("S3d-50", [19236, 0, 0, 0]),
    ],
)
def test_table_1_of_the_paper(kernel: str, calls: list[int]) -> None:
    found = of_rank_0(kernel).message_sizes
    assert found.rank is not None
    assert found.rank.calls == calls
    assert found.all_ranks == found.rank  # the other rank has but a barrier


@pytest.mark.parametrize(
    ("kernel", "sends", "receives"),
    [
        ("IS", (0, None), (0, None)),
        ("CG", (0, None), (13984, 63591)),
        ("MG", (0, None), (2922, 270400)),
        ("LU", (0, None), (508, 311692)),
        ("FT", (0, None), (0, None)),
        ("SP", (4818, 263970), (4818, 263970)),
        ("BT", (2418, 293108), (2418, 293108)),
        ("S3d-50", (0, None), (0, None)),
    ],
)
def test_table_3_of_the_paper(
    kernel: str, sends: tuple[int, int | None], receives: tuple[int, int | None]
) -> None:
    found = of_rank_0(kernel).non_blocking.rank
    assert found is not None
    for started, (calls, mean) in ((found.sends, sends), (found.receives, receives)):
        assert started.calls == calls
        assert (started.mean_bytes and int(started.mean_bytes)) == mean  # the paper cuts
        assert started.share == (pytest.approx(0.5, abs=0.01) if calls else None)
    assert found.collectives.calls == 0


@pytest.mark.parametrize(
    ("kernel", "calls", "of_calls", "share", "of_volume"),
    [
        ("IS", 35, 36, "97.22", "100.00"),
        ("CG", 2, 27970, "0.01", "0.00"),
        ("MG", 101, 5945, "1.70", None),  # the paper has more volume in collectives than these calls have
        ("LU", 18, 101030, "0.02", "0.00"),
        ("FT", 47, 47, "100.00", "100.00"),
        ("SP", 11, 12455, "0.09", None),
        ("BT", 11, 5049, "0.22", None),
        ("S3d-50", 39, 19239, "0.20", "0.00"),
    ],
)
def test_table_5_of_the_paper(
    kernel: str, calls: int, of_calls: int, share: str, of_volume: str | None
) -> None:
    found = of_rank_0(kernel).collectives.rank
    assert found is not None
    assert found.share is not None
    assert found.share_of_bytes is not None
    assert (found.calls, found.of_calls, f"{100 * found.share:.2f}") == (calls, of_calls, share)
    if of_volume:
        assert f"{100 * found.share_of_bytes:.2f}" == of_volume


# --------------------------------------------------------------------------------- all of 16 ranks, 8 hosts of 2 each


def both_ways(call: tuple[str, str], size: int, calls: int, peers: Iterable[int]) -> Iterator[Made]:
    """As many sent to each peer as received from it; the receive may name no source."""
    for (name, from_any), peer in itertools.product(((call[0], False), (call[1], False)), peers):
        yield made(name, size, calls, ANY if from_any else peer)


def cg() -> list[list[Made]]:
    """A grid of 4 by 4: sums and products along the row, and an exchange with the transposed rank."""
    ranks = []
    for row, column in itertools.product(range(4), range(4)):
        along = [4 * row + (column ^ bit) for bit in (1, 2)]
        transposed = 4 * column + row
        ranks.append(
            [
                *both_ways(("Send", "Irecv"), 8, 3952, along),
                *both_ways(("Send", "Irecv"), 16, 76, along),
                *both_ways(("Send", "Irecv"), 150000, 1976, [*along, transposed]),
                made("Barrier", 0, 1),
                made("Reduce", 8, 1, 0),
            ]
        )
    return ranks


def multipartition(steps: int, waitalls: int) -> list[list[Made]]:
    """SP and BT on 4 by 4: in each direction a halo with both neighbours, and 3 stages forward and back. The exchange
    of halos is done once more at the end.
    """
    ranks = []
    for j, i in itertools.product(range(4), range(4)):
        near = [
            (i + x) % 4 + 4 * ((j + y) % 4) for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1), (-1, 1), (1, -1))
        ]
        ranks.append(
            [
                *both_ways(("Isend", "Irecv"), 100000, 4 * steps + 1, near),
                made("Waitall", 0, waitalls),
                made("Wait", 100000, 2 * 18 * steps),
                made("Allreduce", 40, 8),
                made("Barrier", 0, 3),
            ]
        )
    return ranks


def wavefront(sweeps: int, halos: int, collectives: list[Made], face: int = 1000) -> list[list[Made]]:
    """A grid of 4 by 4: `sweeps` messages in each direction over each link, and `halos` received from any source."""
    ranks = []
    for y, x in itertools.product(range(4), range(4)):
        near = [
            4 * b + a
            for a, b in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1))
            if 0 <= a < 4 and 0 <= b < 4
        ]
        rows = list(both_ways(("Send", "Recv"), face, sweeps, near))
        if halos:
            rows += [made("Send", 200000, halos, peer) for peer in near]
            rows += [made("Irecv", 200000, halos, ANY) for _ in near]
        ranks.append([*rows, *collectives])
    return ranks


def test_table_6_of_cg() -> None:
    found = tables(profile_of(*cg()), ranks_per_host=2).same_host.all_ranks
    assert (found.calls, found.of_calls) == (192128, 447488 + 32)
    assert found.share == pytest.approx(0.4293, abs=5e-5)
    assert found.share_of_bytes == pytest.approx(1 / 3, abs=5e-4)  # the paper has 33.41


def test_hosts_of_the_profile_are_those_of_table_6() -> None:
    assumed = tables(profile_of(*cg()), ranks_per_host=2)
    real = tables(profile_of(*cg(), hosts=8))
    assert assumed.same_host == real.same_host
    assert (assumed.ranks_per_host, real.ranks_per_host) == (2, None)
    alone = tables(profile_of(*cg(), hosts=16)).same_host.all_ranks
    assert (alone.calls, alone.of_calls) == (0, found_calls(assumed))
    together = tables(profile_of(*cg())).same_host.all_ranks
    assert together.calls == 447488 - 15808  # messages to itself are on no wire, and not between ranks


def found_calls(made: Tables) -> int:
    return made.same_host.all_ranks.of_calls


def test_table_6_of_bt() -> None:
    found = tables(profile_of(*multipartition(201, 202)), ranks_per_host=2).same_host.all_ranks
    assert (found.calls, found.of_calls) == (25760, 157968)
    assert found.share == pytest.approx(0.1631, abs=5e-5)


def test_table_6_of_sp_without_its_waitalls() -> None:
    """The paper's 70608 has 3 MPI_Waitall of each step and rank in it, which here have no peer."""
    found = tables(profile_of(*multipartition(401, 7620)), ranks_per_host=2).same_host.all_ranks
    assert (found.calls, found.of_calls) == (70608 - 16 * 3 * 401, 430256)


def test_table_6_of_lu() -> None:
    """But for its last messages: 12 accesses of the paper's 804044."""
    collectives = [made("Bcast", 4, 7, 0), made("Allreduce", 40, 10), made("Barrier", 0, 1)]
    found = tables(profile_of(*wavefront(25000, 252, collectives)), ranks_per_host=2).same_host.all_ranks
    assert found.calls == 804044 - 12
    assert found.share == pytest.approx(0.3316, abs=5e-5)


@pytest.mark.parametrize(("messages", "calls", "share"), [(4800, 153600, 0.3329), (14400, 460800, 0.3332)])
def test_table_6_of_sweep3d(messages: int, calls: int, share: float) -> None:
    collectives = [made("Allreduce", 8, 32), made("Bcast", 4, 4, 0), made("Barrier", 0, 3)]
    found = tables(profile_of(*wavefront(messages, 0, collectives)), ranks_per_host=2).same_host.all_ranks
    assert found.calls == calls
    assert found.share == pytest.approx(share, abs=5e-5)


def test_table_6_of_mg_knows_no_peer_of_its_receives() -> None:
    """The sums over 16 ranks, on two of them. The sizes differ, so one row takes the bytes that are left."""
    near, sent = 14912, 45072
    calls: list[list[Made]] = [
        [
            made("Send", 12375, near - 1, 1),
            made("Send", 184544000 - 12375 * (near - 1), 1, 1),
            made("Send", 19077, sent - near - 1, 2),
            made("Send", 759882496 - 184544000 - 19077 * (sent - near - 1), 1, 2),
            made("Irecv", 270400, 45072, ANY),
            made("Allreduce", 0, 16 * 101),
        ],
        [],
        [],
    ]
    found = tables(profile_of(*calls), ranks_per_host=2).same_host.all_ranks
    assert (found.calls, found.of_calls) == (14912, 90144 + 1616)
    assert found.of_bytes == 759882496 + 12187468800
    assert found.share == pytest.approx(0.1625, abs=5e-5)
    assert found.share_of_bytes == pytest.approx(0.0143, abs=5e-5)


def test_table_6_of_is_and_ft() -> None:
    keys = [
        [
            *([made("Send", 4, 1, number + 1)] if number < 15 else []),
            *([made("Irecv", 4, 1, number - 1)] if number else []),
        ]
        for number in range(16)
    ]
    found = tables(profile_of(*keys), ranks_per_host=2).same_host.all_ranks
    assert (found.calls, found.of_calls) == (16, 30)  # the paper has 100 %
    none = tables(profile_of(*[KERNELS["FT"]] * 16), ranks_per_host=2).same_host.all_ranks
    assert (none.calls, none.share, none.share_of_bytes) == (0, 0, None)


# --------------------------------------------------------------------------------------------------------- what counts


def test_the_bins_have_their_limits_in_them() -> None:
    sizes = [0, 2048, 2049, 16384, 16385, 1 << 20, (1 << 20) + 1, 1 << 40]
    found = tables(profile_of([made("Send", size, 1, 0) for size in sizes])).message_sizes.all_ranks
    assert (found.calls, tuple(found.limits_bytes)) == ([2, 2, 2, 2], LIMITS)
    assert found.bytes == sum(sizes)


def test_a_call_that_sends_and_receives_is_two() -> None:
    both = [made("Sendrecv", 8, 5, 1), made("Sendrecv_recv", 4096, 5, 1)]
    found = tables(profile_of(both, []))
    assert found.message_sizes.all_ranks.calls == [5, 5, 0, 0]
    assert found.collectives.all_ranks.of_calls == 10
    assert [one.call for one in found.time_by_call] == ["Sendrecv"]  # which has the time of both
    assert [one.call for one in found.time_by_size] == ["Sendrecv"]


def test_messages_to_nobody_are_none() -> None:
    found = tables(
        profile_of([made("Send", 8, 5, NONE), made("Irecv", 8, 5, NONE), made("Send", 8, 1, MANY)])
    )
    assert found.message_sizes.all_ranks.calls == [1, 0, 0, 0]
    assert found.non_blocking.all_ranks.receives.calls == 0
    assert found.same_host.all_ranks.of_calls == 1


def test_persistent_and_one_sided_calls_are_messages() -> None:
    rows = [
        made("Recv_init", 8, 1, 1),
        made("Send_init", 8, 1, 1),
        made("Start_send", 8, 7, 1),
        made("Start_recv", 8, 7, 1),
        made("Put", 4096, 3, 1),
        made("Get", 4096, 2, 1),
        made("Win_fence", 0, 4),
        made("Ibcast", 64, 6, 0),
    ]
    found = tables(profile_of(rows, []))
    assert found.message_sizes.all_ranks.calls == [20, 5, 0, 0]
    started = found.non_blocking.all_ranks
    assert (started.sends.calls, started.receives.calls, started.collectives.calls) == (7, 7, 6)
    assert found.collectives.all_ranks.calls == 10
    assert found.same_host.all_ranks.calls == 19


def test_reuse_is_that_of_the_ranks() -> None:
    whole = profile_of([], [])
    whole.ranks[0].reuse = Reuse(accesses=10, again=4, bytes=1000, bytes_again=900)
    whole.ranks[1].reuse = Reuse(accesses=30, again=26, bytes=3000, bytes_again=0)
    found = tables(whole).buffer_reuse
    assert found.rank is not None
    assert (found.rank.share, found.rank.share_of_bytes) == (0.4, 0.9)
    assert (found.all_ranks.share, found.all_ranks.share_of_bytes) == (0.75, 0.225)


def test_times_are_shares_of_the_time_of_the_ranks() -> None:
    whole = profile_of(
        [made("Recv", 8, 200_000, 1), made("Send", 64, 100_000, 1)], [made("Send", 8, 600_000, 0)]
    )
    found = tables(whole, rank=0)
    send, recv = found.time_by_call
    assert (send.call, recv.call) == ("Send", "Recv")
    assert send.rank is not None
    assert (send.rank.calls, send.rank.time_ns, send.rank.share) == (100_000, 100_000_000, 0.05)
    assert (send.all_ranks.calls, send.all_ranks.mean_ns) == (700_000, 1000)
    assert send.all_ranks.share == pytest.approx(0.7 / 4)
    assert send.all_ranks.most_ns == 5000
    assert [(one.call, one.bytes, one.rank is not None) for one in found.time_by_size] == [
        ("Send", 8, False),
        ("Send", 64, True),
        ("Recv", 8, True),
    ]
    assert tables(whole, rank=1).time_by_call[1].rank is None


def test_a_call_that_the_profile_does_not_name_is_unknown() -> None:
    whole = profile_of([made("Send", 8, 3, 0), made("Cart_sub", 8, 2, 0)], calls=CALLS[:1])
    found = tables(whole)
    assert [one.call for one in found.time_by_call] == ["Send", "unknown"]
    assert found.message_sizes.all_ranks.calls == [3, 0, 0, 0]


def test_a_rank_may_be_chosen() -> None:
    whole = profile_of([made("Send", 8, 1, 1)], [made("Send", 8, 2, 0)])
    assert tables(whole, rank=1).message_sizes.rank.calls == [2, 0, 0, 0]  # type: ignore[union-attr]
    with pytest.raises(NotThere, match="there is no rank 2; the program had 2, numbered from 0"):
        tables(whole, rank=2)
    del whole.entries[0]
    whole.ranks[0].problem = "it left nothing behind"
    assert tables(whole).rank == 1
    with pytest.raises(NotThere, match="there is nothing of rank 0: it left nothing behind"):
        tables(whole, rank=0)
