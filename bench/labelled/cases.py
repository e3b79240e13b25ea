# SPDX-License-Identifier: Apache-2.0
"""What is measured, and what must be found in it. One case is one run of netpipe, as a user would call it.

A provoked curve names the rule that has to speak, and where it can, the same variant without the cause: the two are
measured in one run, and a cause that cost nothing today (less than `BITES`) is no pathology, so its curve is counted
neither way, and named. Everything else is clean: no graded rule may speak.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

BITES = 1.3  # times as long as without the cause, by plain medians, at the worst size
LIMIT_BITES = 1.1  # a threshold: at the first size above it that both have


@dataclass(frozen=True)
class Labelled:
    """A curve, and the rules that must find something in it; none: it is clean."""

    variant: str
    finds: tuple[str, ...] = ()
    pattern: str = "pingpong"
    without: str | None = None  # the variant without the cause
    # the pattern with the cause, where that is a setting of it: `pattern` is the one without
    caused_by: str | None = None
    limit_bytes: int | None = None  # the last size below the threshold that the rule has to locate
    repeats: bool = False  # the threshold is at all multiples of that as well
    allows: tuple[str, ...] = ()  # rules that count neither way here: they are right, and not always certain

    @property
    def name(self) -> tuple[str, str]:
        return self.variant, self.pattern


@dataclass(frozen=True)
class Case:
    """A run. `shell` is run before it, in namespaces of its own (network and mounts), or on each host of its lab."""

    name: str
    curves: tuple[Labelled, ...]
    words: tuple[str, ...] = ()  # of netpipe run
    others: tuple[str, ...] = ()  # variants that are measured too, as a user would, and not counted
    shell: str = ""
    refuses_attach: bool = (
        False  # under a filter of system calls that refuses cross-memory attach (refusing.py)
    )
    lab: tuple[str, ...] | None = None  # options of netpipe lab up: measured between two hosts
    noise: str = ""  # bench/noise.py
    finds_host: tuple[str, ...] = ()  # rules about the host or the whole run
    allows: tuple[str, ...] = ()  # rules that count neither way here, because nobody knows
    needs: tuple[str, ...] = ()  # programs

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.others, *(curve.variant for curve in self.curves))))

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(curve.pattern for curve in self.curves))

    @property
    def modules(self) -> frozenset[str]:
        return frozenset(variant.partition(":")[0] for variant in self.variants)


def clean(*variants: str, pattern: str = "pingpong") -> tuple[Labelled, ...]:
    return tuple(Labelled(variant, pattern=pattern) for variant in variants)


def wrong(rule: str, without: str | None, *variants: str, pattern: str = "pingpong") -> tuple[Labelled, ...]:
    return tuple(Labelled(variant, (rule,), pattern, without) for variant in variants)


def sizes(text: str) -> tuple[str, ...]:
    return ("--schedule", "list", "--sizes", text)


# --------------------------------------------------------------------------------------------------- sockets, here

TCP = "tcp:wait=poll,congestion=cubic"  # the system's own may be BBR, which is a case of its own


def tcp(settings: str) -> str:
    return f"{TCP},{settings}"


BUFFERS = Case(
    "buffers",
    (
        *clean(TCP, tcp("sndbuf=1M"), tcp("rcvbuf=1M"), tcp("sndbuf=2M,rcvbuf=2M")),
        *wrong("small-buffers", TCP, *map(tcp, ("sndbuf=4k", "sndbuf=8k", "sndbuf=16k"))),
        *wrong("small-buffers", TCP, *map(tcp, ("rcvbuf=4k", "rcvbuf=8k", "sndbuf=8k,rcvbuf=8k"))),
    ),
    sizes("8,4k,64k,512k"),
)
# 512 KiB through a send buffer of 4 KiB did not complete within the deadline of a visit.
STREAMS = Case(
    "buffers-stream",
    (
        *clean(TCP, tcp("sndbuf=1M"), tcp("rcvbuf=1M"), pattern="stream"),
        *wrong(
            "small-buffers",
            TCP,
            tcp("sndbuf=4k"),
            tcp("rcvbuf=4k"),
            tcp("sndbuf=8k,rcvbuf=8k"),
            pattern="stream",
        ),
    ),
    sizes("8,4k,64k"),
)
# Nobody set a buffer: the kernel's limits are too low. They are set in the namespace of the run.
WINDOW = Case(
    "receive-window",
    wrong("receive-window", None, TCP, pattern="stream"),
    sizes("64k,1M"),
    shell="echo 4096 8192 8192 > /proc/sys/net/ipv4/tcp_rmem",
)
# Buffers that no kernel gives. (The limits are those of the whole machine, so they are not made smaller.)
CLAMPED = Case(
    "clamped-buffers",
    (
        *clean(TCP),
        *wrong("clamped-buffer", None, tcp("sndbuf=512M"), tcp("rcvbuf=512M")),
    ),
    sizes("8,64k"),
)
# Nobody measured the plain variant: the layer below has to do.
BUFFERS_ALONE = Case(
    "buffers-alone",
    (*clean("unix:wait=poll"), *wrong("small-buffers", None, tcp("sndbuf=4k,rcvbuf=4k"))),
    sizes("8,4k,64k,512k"),
)
NAGLE = Case(
    "nagle",
    (
        *clean(TCP, tcp("nodelay=no")),  # one message is one write: nothing is held back
        *clean(TCP, pattern="stream"),
        *clean(TCP, pattern="window"),
        *wrong("delayed-acknowledgement", TCP, tcp("nodelay=no"), pattern="stream"),
        *wrong("delayed-acknowledgement", TCP, tcp("nodelay=no"), pattern="window"),
    ),
    sizes("8,1000"),
)
BBR = "tcp:wait=poll,congestion=bbr"
CONGESTION = Case(
    "congestion",
    (
        *clean(TCP),
        *clean(TCP, pattern="stream"),
        *wrong("unfit-congestion-control", TCP, BBR),
        *wrong("unfit-congestion-control", TCP, BBR, pattern="stream"),
    ),
    sizes("8,64k,1M"),
)
ASLEEP = ("pipe", "unix", "tcp", "shm:wait=block")
AWAKE = ("pipe:wait=poll", "unix:wait=poll", TCP, "shm")
SLEEPS = Case(
    "sleeps",
    (
        *clean(*AWAKE),
        *(Labelled(one, ("sleeps",), without=other) for one, other in zip(ASLEEP, AWAKE, strict=True)),
    ),
    sizes("8,1k"),
)
SLEEPS_ALONE = Case(
    "sleeps-alone", (*wrong("sleeps", None, "pipe", "unix", "tcp"), *clean("shm")), sizes("8,1k")
)
DATAGRAMS = Case(
    "datagrams",
    (
        *clean("udp:wait=poll,payload=16000"),
        Labelled("udp:wait=poll,payload=1472", ("segment-step",), limit_bytes=1472 - 24, repeats=True),
        Labelled("udp:wait=poll,payload=1000", ("segment-step",), limit_bytes=1000 - 24, repeats=True),
        Labelled("udp:wait=poll,payload=4000", ("segment-step",), limit_bytes=4000 - 24, repeats=True),
    ),
    ("--start", "256", "--end", "8k", "--budget", "6"),
)

# Messages come faster than they are taken out; at a rate that the receiver can take, they do not.
LOST = Case(
    "lost",
    (
        *clean("udp:rcvbuf=1M,rate=50", pattern="stream"),
        *wrong("messages-lost", None, "udp:rcvbuf=4k", "udp:rcvbuf=8k", pattern="stream"),
    ),
    sizes("1k,8k"),
)

# ------------------------------------------------------------------------------------------------ memory, libraries

ODD = Case(
    "odd-sizes",
    (
        *clean("memcpy", "memcpy:routine=word4_tail", "memcpy:routine=byte"),
        *wrong("odd-sizes", None, "memcpy:routine=word4"),
        # Its own limit: 4099 bytes are the next size. It copies whole lines of a cache faster than a part of one.
        Labelled("shm", ("eager-limit",), limit_bytes=4 << 10, allows=("odd-sizes",)),
    ),
    ("--schedule", "classic", "--start", "64", "--end", "4k"),
    allows=("cache-cliff",),
)
# Where messages start and land, from a page boundary. Many processors have a fast way for `rep movsb` between aligned
# addresses only.
ALIGNMENT = Case(
    "alignment",
    (Labelled("memcpy:routine=movsb", ("unaligned-buffers",), caused_by="pingpong:send_offset=8"),),
    (*sizes("256,4k"), "--pattern", "pingpong:send_offset=8|64", "--pattern", "pingpong:recv_offset=8|64"),
)
ALIGNED = Case(
    "aligned",
    clean("memcpy", "memcpy:routine=movsb"),
    (*sizes("256,4k"), "--pattern", "pingpong:send_offset=64|128"),
)
CACHES = Case(
    "caches", (*wrong("cache-cliff", None, "memcpy"), *clean("memcpy:routine=byte")), ("--end", "16M")
)
NO_CACHE = Case("no-cache", clean("memcpy"), ("--buffers", "cold", "--end", "8M"))
COPIES = Case(
    "copies",
    (
        *clean("shm", "shm:copy=cma", "mpi@openmpi:transport=shm,single_copy=cma"),
        *clean("mpi@mpich:transport=shm,single_copy=cma"),
        *wrong("extra-copy", "shm", "shm:copy=pipeline"),
        *wrong(
            "extra-copy",
            "mpi@openmpi:transport=shm,single_copy=cma",
            "mpi@openmpi:transport=shm,single_copy=none",
        ),
        *wrong(
            "extra-copy",
            "mpi@mpich:transport=shm,single_copy=cma",
            "mpi@mpich:transport=shm,single_copy=none",
        ),
    ),
    sizes("8,64k,1M,4M"),
)
# Nobody set anything, and a container's filter of system calls refuses process_vm_readv. shm has its message memory
# mapped and does without, so only its messages from other memory are copied twice: fresh buffers. MPICH 5.0.2 does not
# go on at 1 MiB there.
REFUSED = Case(
    "refused-copies",
    (*clean("shm"), *wrong("extra-copy", None, "mpi@openmpi:transport=shm")),
    sizes("8,64k,1M,4M"),
    refuses_attach=True,
)
REFUSED_FRESH = Case(
    "refused-fresh",
    wrong("extra-copy", None, "shm"),
    (*sizes("8,64k,1M"), "--buffers", "fresh"),
    refuses_attach=True,
)
HEADER_BYTES = 56  # Open MPI counts its own header with a message (of_runs.py)


def eager(module: str, transport: str, *limits: str, header: int = HEADER_BYTES) -> Case:
    """A library whose limit is set to several sizes, which the rule is told, and once where no message reaches it."""
    bytes_of = {text: int(text[:-1]) << 10 for text in limits}
    # With eager=160k all sizes are eager. Open MPI 4 failed at 512k.
    all_eager = f"{module}:transport={transport},eager=160k"
    provoked = (
        Labelled(
            f"{module}:transport={transport},eager={text}",
            ("eager-limit",),
            without=all_eager,
            limit_bytes=limit - header,
        )
        for text, limit in bytes_of.items()
    )
    return Case(
        f"eager-{module}-{transport}",
        (*provoked, *clean(all_eager)),
        ("--start", "512", "--end", "128k", "--budget", "6"),
    )


EAGER = (
    eager("mpi@openmpi", "shm", "1k", "4k", "16k", "32k"),
    eager("mpi@openmpi", "tcp", "1k", "4k", "16k", "32k"),
    eager("mpi@openmpi4", "shm", "2k", "8k"),
)


def untold(library: str, transport: str, component: str, default: int, others: str) -> Case:
    """The limit where the library has it by default, and where a variable sets it. The option `eager` is at its default
    both times, so the rule is not told where the limit is.
    """
    plain = f"{library}:transport={transport}"
    without = f"{plain},eager=160k"

    def at(limit: int, variant: str) -> Labelled:
        return Labelled(variant, ("eager-limit",), without=without, limit_bytes=limit - HEADER_BYTES)

    set_by = f"{plain},env=OMPI_MCA_btl_{component}_eager_limit={{}}".format
    provoked = [at(int(text[:-1]) << 10, set_by(int(text[:-1]) << 10)) for text in others.split(",")]
    return Case(
        f"untold-{library}-{transport}",
        (at(default, plain), *provoked, *clean(without)),
        ("--start", "512", "--end", "128k", "--budget", "6"),
    )


UNTOLD = (
    # ompi_info: btl_tcp_eager_limit is 65536, btl_sm_eager_limit and btl_vader_eager_limit are 4096.
    untold("mpi@openmpi", "tcp", "tcp", 64 << 10, "4k,16k"),
    untold("mpi@openmpi", "shm", "sm", 4 << 10, "8k,16k"),
    untold("mpi@openmpi4", "shm", "vader", 4 << 10, "8k"),
)
# Above its limit a message is copied once, below it twice.
LATE = Case(
    "late-switch",
    wrong("late-switch", "shm", "shm:eager=128k", "shm:eager=256k"),
    ("--start", "8k", "--end", "1M", "--budget", "6"),
    others=("shm",),
)
# Its provider rxm asks the receiver first from its buffer of 16 KiB on, which only longer messages repay.
DIP = Case(
    "dip",
    (Labelled("libfabric", ("dip",), limit_bytes=16 << 10),),
    ("--start", "8k", "--end", "256k", "--budget", "6"),
)
TRANSPORT = Case(
    "transport",
    (
        *clean("mpi@openmpi", "mpi@openmpi4", "mpi@mpich", "mpi@mpich4", "mpi@impi"),
        *wrong(
            "wrong-transport",
            None,
            "mpi@openmpi:env=OMPI_MCA_pml=ob1;OMPI_MCA_btl=^sm",
            "mpi@openmpi4:env=OMPI_MCA_pml=ob1;OMPI_MCA_btl=^vader",
            "mpi@mpich:env=MPIR_CVAR_NOLOCAL=1;MPIR_CVAR_CH4_NETMOD=ofi;FI_PROVIDER=tcp",
            "mpi@mpich4:env=MPIR_CVAR_NOLOCAL=1;UCX_TLS=^sm",
            "mpi@impi:env=I_MPI_FABRICS=ofi;FI_PROVIDER=tcp",
        ),
    ),
    sizes("8,8k"),
)
MPI_BUFFERS = Case(
    "mpi-buffers",
    (
        *clean("mpi@openmpi:transport=tcp", "mpi@openmpi4:transport=tcp"),
        *wrong("small-buffers", "mpi@openmpi:transport=tcp", "mpi@openmpi:transport=tcp,sndbuf=8k,rcvbuf=8k"),
        *wrong(
            "small-buffers", "mpi@openmpi4:transport=tcp", "mpi@openmpi4:transport=tcp,sndbuf=8k,rcvbuf=8k"
        ),
    ),
    sizes("8,16k,256k"),
    allows=("unfit-congestion-control",),  # the library takes the system's
)
DAEMONS = Case(
    "daemons",
    (
        *clean("pvm:route=direct,encoding=inplace,wait=poll"),
        *wrong("daemon-route", None, "pvm:wait=poll", "pvm:encoding=inplace,wait=poll"),
    ),
    sizes("8,16k"),
)
# The kernel goes on with what a socket took; a copy through shared memory is made by who calls.
OVERLAP = Case(
    "overlap",
    (
        *clean("tcp", pattern="overlap"),
        *wrong("no-overlap", None, "mpi@openmpi:transport=shm", "mpi@mpich:transport=shm", pattern="overlap"),
    ),
    sizes("64k,1M"),
)
# UCX copies messages up to some 100 bytes in another way than longer ones, by its own choice.
UCX_SMALL = Case("ucx-small", clean("ucx:tls=posix+cma"), ("--start", "8", "--end", "4k"))
ON_DISK = "mpi@openmpi:env=OMPI_MCA_pml=ob1;OMPI_MCA_btl=self|sm;OMPI_MCA_btl_sm_backing_directory=/var/tmp"
BACKING = Case(
    "backing-file",
    (*clean("mpi@openmpi:transport=shm"), *wrong("backing-file", None, ON_DISK)),
    sizes("8,4k"),
)
LAMD = Case(
    "lamd",
    (*clean("mpi@lam:rpi=usysv", "mpi@lam:rpi=tcp"), *wrong("daemon-route", None, "mpi@lam:rpi=lamd")),
    sizes("8,8k"),  # above 8 KiB, of several packets, a pinned rank does not go on (docs/modules/mpi.md)
)
SLOW_ALLREDUCE = "OMPI_MCA_coll_tuned_priority=100;OMPI_MCA_coll_tuned_use_dynamic_rules=1"
SLOW_ALLREDUCE += (
    ";OMPI_MCA_coll_tuned_allreduce_algorithm=5;OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize=64"
)
COLLECTIVE = "collective:what={}".format
GUIDELINE = Case(
    "guideline",
    (
        *clean("mpi@openmpi4", pattern="collective"),
        Labelled(f"mpi@openmpi4:env={SLOW_ALLREDUCE}", ("broken-guideline",), "collective"),
    ),
    (*sizes("8,8k,64k"), "--pattern", COLLECTIVE("reduce"), "--pattern", COLLECTIVE("bcast")),
    # Of two ranks, its allreduce of 8 KiB takes 1.8 times as long as both of the others: the guideline is broken.
    allows=("broken-guideline",),
)

# A rank that polls holds the processor that its sender needs.
SLICES = Case(
    "time-slices",
    (
        Labelled("mpi@mpich", ("time-slice",), "collective"),
        *clean("mpi@openmpi", pattern="collective"),
    ),
    (*sizes("8,64"), "--ranks", "4"),
)

# As a launcher that binds each rank to a core: its threads share that.
THREADED = "mpi@mpich:thread=multiple"
THREADS = Case(
    "threads",
    (
        Labelled(THREADED, ("oversubscribed-threads",), "threads:processors=rank", allows=("time-slice",)),
        *clean(THREADED),
    ),
    sizes("8,1k"),
)

# ------------------------------------------------------------------------------------------------ hosts and links

SHM_SIZE = "mount -t tmpfs -o size={} tmpfs /dev/shm".format
SMALL_SHM = Case(
    "small-shm",
    clean("shm"),
    sizes("8,4k"),
    shell=SHM_SIZE("128m"),
    finds_host=("small-dev-shm",),
)
FULL_SHM = Case(
    "full-shm",
    clean("shm"),
    sizes("8,4k"),
    shell=f"{SHM_SIZE('512m')} && head -c 500m /dev/zero > /dev/shm/left-behind",
    finds_host=("full-dev-shm",),
)
ROOMY_SHM = Case("roomy-shm", clean("shm", "shm:eager=1k"), sizes("8,512"), shell=SHM_SIZE("512m"))
ONE_CORE = Case(
    "one-core",
    clean("unix", "shm:wait=block"),
    (*sizes("8,4k"), "--pin", "0,0"),
    finds_host=("oversubscribed",),
)
BUSY = Case("busy", clean(TCP, "shm"), sizes("8,1k"), noise="steal=0.9", finds_host=("busy-processes",))


def between(
    name: str, lab: tuple[str, ...], *curves: Labelled, text: str = "8,16k,256k", shell: str = ""
) -> Case:
    return Case(name, curves, sizes(text), lab=lab, allows=("sleeps",), shell=shell)


# A virtual card has interrupts, of a kind (NAPI), only where it gathers packets (GRO), and only for packets of a sender
# that does not hand it segments (TSO): hence without offloads.
DEFER_INTERRUPTS = (
    "ethtool -K eth0 gro on && echo 500000 > /sys/class/net/eth0/gro_flush_timeout && "
    "echo 20 > /sys/class/net/eth0/napi_defer_hard_irqs"
)


# Of both directions, by 3 % every half second, down from 1 Gbit/s. It ends with the link, or after two minutes.
NARROW = (
    "(rate=1000000; while [ $rate -gt 1000 ] && "
    "tc qdisc replace dev eth0 root tbf rate ${rate}kbit burst 64k latency 50ms; "
    "do rate=$((rate * 97 / 100)); sleep 0.5; done) > /dev/null 2>&1 &"
)

BY_LOSS, BY_ESTIMATE = "tcp:congestion=cubic", "tcp:congestion=bbr"
LOSSY = ("--rate", "1g", "--delay", "2ms", "--loss", "1%")

LINKS = (
    between(
        "link-100m",
        ("--rate", "100m"),
        *wrong("rate-limit", None, "tcp", pattern="pingpong"),
        *wrong("rate-limit", None, "tcp", pattern="stream"),
    ),
    between(
        "link-1g", ("--rate", "1g"), *wrong("rate-limit", None, "tcp", pattern="stream"), text="8,64k,1M"
    ),
    between("link-open", (), *clean("tcp"), *clean("tcp", pattern="stream")),
    between(
        "link-delayed",
        ("--delay", "1ms"),
        *wrong("path-delay", None, "tcp"),
        *clean("tcp", pattern="stream"),
        *wrong("small-buffers", "tcp", "tcp:sndbuf=8k,rcvbuf=8k", pattern="stream"),
    ),
    # A connection that loses packets waits for each of them; of four, one does.
    between(
        "link-lossy",
        LOSSY,
        Labelled(
            BY_LOSS,
            ("one-flow",),
            "stream",
            f"{BY_LOSS},streams=4",
            allows=(
                "unfit-congestion-control",
            ),  # the other remedy, where the gain of this one is not certain
        ),
        *clean(f"{BY_LOSS},streams=4", pattern="stream"),
        text="64k,256k",
    ),
    # The losses do not come from a full link: CUBIC makes its window smaller at each of them, and BBR does not.
    between(
        "link-unfit",
        LOSSY,
        *wrong("unfit-congestion-control", BY_ESTIMATE, BY_LOSS, pattern="stream"),
        *clean(BY_ESTIMATE, pattern="stream"),
        text="64k,256k",
    ),
    # Nobody measured another one: what TCP counted has to do.
    between(
        "link-unfit-alone",
        LOSSY,
        *wrong("unfit-congestion-control", None, BY_LOSS, pattern="stream"),
        text="64k,256k",
    ),
    between("link-long", LOSSY[:4], *clean(BY_LOSS, pattern="stream"), text="64k,256k"),
    between(
        "link-losing",
        ("--loss", "5%"),
        *wrong("messages-lost", None, "udp", pattern="stream"),
        text="64,1k",
    ),
    between(
        "link-timer",
        ("--offloads", "off"),
        *wrong("timer-interval", None, "tcp", "tcp:wait=poll"),
        text="8,1k,16k",
        shell=DEFER_INTERRUPTS,
    ),
    between(
        "link-narrows",
        (),
        Labelled("tcp", ("drift",), allows=("rate-limit",)),
        text="256k,512k",
        shell=NARROW,
    ),
)

QUIET = (
    BUFFERS,
    STREAMS,
    BUFFERS_ALONE,
    WINDOW,
    CLAMPED,
    NAGLE,
    CONGESTION,
    SLEEPS,
    SLEEPS_ALONE,
    DATAGRAMS,
    LOST,
    ODD,
    ALIGNMENT,
    ALIGNED,
    CACHES,
    NO_CACHE,
    COPIES,
    REFUSED,
    REFUSED_FRESH,
    *EAGER,
    *UNTOLD,
    LATE,
    DIP,
    TRANSPORT,
    MPI_BUFFERS,
    DAEMONS,
    OVERLAP,
    UCX_SMALL,
    BACKING,
    LAMD,
    GUIDELINE,
    SLICES,
    THREADS,
    SMALL_SHM,
    FULL_SHM,
    ROOMY_SHM,
    ONE_CORE,
    BUSY,
    *LINKS,
)

NOISE = "steal=0.1,burst-ms=2,wakeups=500,seed=1"
UNDER_NOISE = (BUFFERS, STREAMS, NAGLE, SLEEPS, TRANSPORT, ODD, DAEMONS)
NOISY = tuple(
    replace(case, name=f"{case.name}-noise", noise=NOISE, allows=(*case.allows, "busy-processes"))
    for case in UNDER_NOISE
)
CASES = (*QUIET, *NOISY)
