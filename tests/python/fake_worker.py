# SPDX-License-Identifier: Apache-2.0
"""A worker that measures nothing: it speaks the protocol of docs/reference/worker.md and makes up plausible records,
in milliseconds. So all of the front is tested without a compiler, and its faults are tested on purpose.

FAKE_WORKER says how it behaves, words with spaces: pass_s=0.2 (a pass lasts), passes=4, die=VARIANT (killed by a
signal when that variant is in the plan), leaves=CODE (so exits its module, while it measures), says=CODE (and it
writes to standard error before), unopened=VARIANT (cannot be opened, so it ends with 3), skipped=VARIANT (all of its
sizes are skipped, so it ends with 3), blame=VARIANT (writes an error record for it and ends with 4), torn=VARIANT
(dies in the middle of a line), garbage, silent, deaf (to SIGINT too), full (says that the disk is full), stubborn
(does not leave after its end), foreseen=VARIANT (the plan says that it has no points), noisy (points do not converge),
states (the machine changes), refuse (listing is no JSON), libraries (two of
MPI were added), slow=10 (every operation takes ten times as long), unoptimised (the worker was built so), visits
(points have visits, as those of a run that can be continued), far=RELEASE (rank 1 is on another host, with that
kernel), answers=VERSION (of the library in the ranks).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import signal
import sys
import time
from typing import Any, NoReturn


def _option(name: str, kind: str, default: str, text: str, **more: Any) -> dict[str, Any]:
    made = {"name": name, "type": kind, "default": default, "min": 0, "max": 0, "choices": [], "unit": ""}
    return {**made, "help": text, "tunable": False, "about": None, **more}


WAIT = _option(
    "wait", "choice", "block", "how it waits for a message",
    choices=["block", "poll", "hybrid"], tunable=True, about="waiting",
)  # fmt: skip
SNDBUF = _option(
    "sndbuf", "size", "0", "send buffer of the socket; 0 leaves it to the kernel",
    max=1 << 30, unit="bytes", tunable=True,
)  # fmt: skip
REUSE = _option("reuse", "int", "100", "percentage of messages that reuse a buffer", max=100, unit="%")
PAGES = _option("pages", "choice", "auto", "pages of message memory", choices=["auto", "small", "huge"])
# name, below, adds, latency in ns, bytes per ns, options
MODULES = [
    ("null", None, None, 3.0, 1e5, []),
    ("memcpy", None, None, 8.0, 12.0, []),
    ("shm", "memcpy", "a second process", 110.0, 9.5, [WAIT]),
    ("pipe", "shm", "the kernel's pipes", 2600.0, 2.9, []),
    ("unix", "shm", "Unix sockets", 3900.0, 3.4, [WAIT]),
    ("tcp", "unix", "TCP/IP", 24000.0, 3.1, [SNDBUF, WAIT]),
]
DEFAULT = {  # what a run without variants measures, by module: as the real layers have it
    "null": ["null"],
    "memcpy": ["memcpy"],
    "shm": ["shm", "shm:wait=block"],
    "pipe": ["pipe"],
    "unix": ["unix", "unix:wait=poll"],
    "tcp": ["tcp", "tcp:wait=poll"],
}
TRANSPORT = {
    **WAIT,
    "name": "transport",
    "default": "shm",
    "choices": ["shm", "tcp"],
    "help": "how messages travel",
}
if "libraries" in os.environ.get("FAKE_WORKER", ""):
    MODULES += [(f"mpi@{name}", None, None, 500.0, 4.0, [TRANSPORT, SNDBUF]) for name in ("one", "two")]
# option, metavar, type, default; those of the real worker, which tests/python/test_native.py holds them to
PLAN_KEYS = [
    ("schedule", "KIND", "choice", "classic"),
    ("sizes", "SIZES", "sizes", None),
    ("start", "SIZE", "size", "1"),
    ("end", "SIZE", "size", "8M"),
    ("perturbation", "BYTES", "size", "3"),
    ("buffers", "POLICY", "choice", "warm"),
    ("send-offset", "BYTES", "size", "0"),
    ("recv-offset", "BYTES", "size", "0"),
    ("target", "WIDTH", "percent", "1%"),
    ("budget", "SECONDS", "real", "3"),
    ("timeout", "SECONDS", "real", "10"),
    ("verify", None, "yes_no", "no"),
    ("seed", "NUMBER", "integer", "1"),
    ("ranks", "N", "integer", "2"),
    ("pin", "CPUS", "processors", "auto"),
    ("bind", "ADDRESS", "text", "127.0.0.1"),
    ("host", "HOST", "text", None),
    ("port", "PORT", "integer", "5002"),
    ("token-file", "FILE", "text", None),
]
CHOICES = {
    "schedule": ["classic", "powers", "list", "adaptive"],
    "buffers": ["warm", "apart", "cold", "fresh"],
    "pin": ["auto", "none", "smt", "cache", "socket", "sockets"],
}
BEHAVIOUR = dict(word.partition("=")[::2] for word in os.environ.get("FAKE_WORKER", "").split())


def fail(code: int, sentence: str) -> NoReturn:
    print(f"netpipe-worker: {sentence}", file=sys.stderr, flush=True)
    sys.exit(code)


def size(text: str) -> int:
    units = {"k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    digits, factor = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    if not digits.isdigit():
        fail(2, f"'{text}' is not a size; write a number of bytes such as 8, 64k, 1M or 2G (k = 1024)")
    return int(digits) * factor


def real(text: str) -> float:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        fail(2, f"'{text}' is not a number")


def keys() -> dict[str, Any]:
    """What needs no module."""
    return {
        "plan_keys": [
            {
                "name": {"end": "end-size"}.get(option, option),
                "option": option,
                "metavar": metavar,
                "type": kind,
                "default": default,
                "choices": CHOICES.get(option, []),
                "help": f"made-up {option}",
                "repeatable": False,
            }
            for option, metavar, kind, default in PLAN_KEYS
        ],
        "serve_options": [],
        "exit_codes": [{"code": code} for code in (0, 5, 3, 2, 4, 1, 130)],
        "module_directories": module_directories(),
    }


def module_directories() -> list[dict[str, str]]:
    named = os.environ.get("NETPIPE_MODULE_PATH", "").split(":")
    return [
        *({"path": path, "kind": "environment"} for path in named if path),
        {"path": os.environ.get("NETPIPE_NATIVE", "") + "/lib/netpipe/modules", "kind": "installation"},
        {"path": os.environ.get("XDG_DATA_HOME", "") + "/netpipe/modules", "kind": "user"},
    ]


def listing() -> dict[str, Any]:
    return {
        **keys(),
        "netpipe": "0.1.0",
        "abi": 1,
        "modules": [
            {
                "name": name,
                "summary": f"made-up {name}",
                "version": "none",
                "below": below,
                "adds": adds,
                "idle": name == "null",
                "path": f"lib/netpipe/modules/{name}.so",
                "available": True,
                "reason": None,
                "default": DEFAULT.get(name, []),
                "min_ranks": 1 if name in ("null", "memcpy") else 2,
                "max_ranks": 1 if name in ("null", "memcpy") else 1 << 20,
                "crosses_hosts": name == "tcp",
                "operations": ["open", "close", "send", "recv"],
                "options": options,
                "patterns": ["pingpong", "stream"],
            }
            for name, below, adds, _, _, options in MODULES
        ],
        "refused": [],
        "patterns": [
            {
                "name": "pingpong",
                "summary": "there and back",
                "formula": "size / (t / 2)",
                "source": "Snell 1996",
                "options": [],
                "measures": [],
            },
            {
                "name": "stream",
                "summary": "one way, back to back",
                "formula": "size / t",
                "source": "Snell 1996",
                "options": [],
                "measures": [
                    {"name": "gap", "unit": "ns", "help": "between two arrivals", "worse": "more"},
                    {"name": "fraction", "unit": "1", "help": "of overlap", "worse": "less"},
                    {"name": "degree", "unit": "1", "help": "of a graph", "worse": None},
                ],
            },
        ],
        "variant_options": [PAGES],
        "pattern_options": [REUSE],
    }


def variant(text: str) -> dict[str, Any]:
    name, _, rest = text.partition(":")
    module = next((m for m in MODULES if m[0] == name), None)
    if module is None:
        fail(2, f"there is no module '{name}'; there are {', '.join(m[0] for m in MODULES)}")
    options = {option["name"]: option["default"] for option in module[5]}
    chosen = []
    for setting in filter(None, rest.split(",")):
        key, _, value = setting.partition("=")
        if key not in options:
            fail(2, f"module {name} has no option '{key}'; did you mean '{next(iter(options), '')}'?")
        options[key] = value
        chosen.append(f"{key}={value}")
    return {"variant": ":".join(filter(None, [name, ",".join(chosen)])), "module": name, "options": options}


def sizes(keys: dict[str, str]) -> list[int]:
    start, end = size(keys.get("start", "1")), size(keys.get("end-size", "8M"))
    if end < start:
        fail(
            2,
            f"the schedule ends at {end} bytes, below its start at {start}; give an end that is not smaller",
        )
    kind = keys.get("schedule", "classic")
    if kind == "list":
        return sorted({size(one) for one in keys["sizes"].split(",")})
    if kind == "powers":
        return [1 << p for p in range(60) if start <= 1 << p <= end]
    found, increment, length, step = set(), 1, start, 0
    perturbation = size(keys.get("perturbation", "3"))
    while length <= end:
        if step > 2 and step % 2 == 1:
            increment *= 2
        around = (-perturbation, 0, perturbation) if 0 < perturbation < increment - 1 else (0,)
        found |= {length + offset for offset in around}
        length += increment
        step += 1
    return sorted(found)


def read_plan() -> tuple[dict[str, str], dict[str, Any]]:
    keys: dict[str, str] = {}
    variants, patterns = [], []
    for line in iter(sys.stdin.readline, ""):
        key, _, value = line.strip().partition(" ")
        if key == "end":
            break
        if key == "variant":
            variants.append(variant(value))
        elif key == "pattern":
            if value.partition(":")[0] not in ("pingpong", "stream"):
                fail(2, f"there is no pattern '{value}'; there are pingpong, stream")
            patterns.append(value)
        else:
            keys[key] = value
    plan = {
        "launch": int(keys.get("launch", "0")),
        "hash": hashlib.sha256(json.dumps([variants, patterns, keys], sort_keys=True).encode()).hexdigest(),
        "variants": variants,
        "patterns": patterns or ["pingpong"],
        "schedule": {
            "kind": keys.get("schedule", "classic"),
            "start_bytes": size(keys.get("start", "1")),
            "end_bytes": size(keys.get("end-size", "8M")),
            "perturbation_bytes": size(keys.get("perturbation", "3")),
        },
        "sizes": sizes(keys),
        "buffers": {
            "policy": keys.get("buffers", "warm"),
            "send_offset_bytes": size(keys.get("send-offset", "0")),
            "recv_offset_bytes": size(keys.get("recv-offset", "0")),
            "pool_bytes": None,
        },
        "target": real(keys.get("target", "0.01")),
        "confidence": 0.95,
        "budget_s": real(keys.get("budget", "3")),
        "ranks": int(keys.get("ranks", "2")),
        "verify": keys.get("verify", "no") == "yes",
        "timeout_s": real(keys.get("timeout", "10")),
        "seed": int(keys.get("seed", "1")),
        "pin": [0, 1],
    }
    return keys, plan


def resolved(plan: dict[str, Any]) -> dict[str, Any]:
    curves = [
        {
            "variant": one["variant"],
            "pattern": pattern,
            "ranks": 1 if one["module"] in ("null", "memcpy") else plan["ranks"],
            "points": 0 if one["variant"] == BEHAVIOUR.get("foreseen") else len(plan["sizes"]),
            "reason": "it has no sends" if one["variant"] == BEHAVIOUR.get("foreseen") else None,
        }
        for one in plan["variants"]
        for pattern in plan["patterns"]
    ]
    seconds = plan["budget_s"] * sum(one["reason"] is None for one in curves)
    return {"type": "plan", **plan, "curves": curves, "expected_s": seconds, "memory_bytes": 32 << 20}


class Fake:
    """One launch."""

    def __init__(self, keys: dict[str, str], plan: dict[str, Any]) -> None:
        self.plan = plan
        self.launch = plan["launch"]
        self.paced = keys.get("paced") == "yes"
        self.path = keys.get("record", "-")
        self.file = (
            None if self.path == "-" else os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        )
        self.random = random.Random(plan["seed"] + self.launch)
        self.began = time.monotonic()
        self.interrupted = False
        self.state = 0
        signal.signal(signal.SIGINT, signal.SIG_IGN if "deaf" in BEHAVIOUR else self.interrupt)

    def interrupt(self, *_: object) -> None:
        self.interrupted = True

    def write(self, kind: str, **fields: Any) -> None:
        if self.file is None:
            return
        try:
            os.write(self.file, json.dumps({"type": kind, "launch": self.launch, **fields}).encode() + b"\n")
        except OSError as error:
            fail(4, f"{self.path}: {error.strerror}; what was measured so far is kept, free some space")

    def event(self, **fields: Any) -> None:
        print(json.dumps(fields), flush=True)

    def at_s(self) -> float:
        return round(time.monotonic() - self.began, 6)

    def yardstick(self) -> None:
        bounce = 54.0 if self.state == 0 else 278.0
        self.write(
            "yardstick",
            at_s=self.at_s(),
            state=self.state,
            clock_ns=22.0,
            clock_resolution_ns=1.0,
            bounce_ns=bounce * self.random.uniform(0.97, 1.03),
            copy_bytes_per_s=1.1e10,
            wakeup_ns=4100.0,
        )

    def op_ns(self, module: str, options: dict[str, str], pattern: str, size_bytes: int) -> float:
        latency, rate = next((m[3], m[4]) for m in MODULES if m[0] == module)
        if module == "null":
            return latency
        if options.get("wait") == "poll":
            latency /= 5
        if pattern == "stream":
            latency /= 3
        if self.state:
            latency *= 1.8
        whole = latency + size_bytes / rate * (1.35 if size_bytes > 1 << 20 else 1)
        return whole * float(BEHAVIOUR.get("slow", 1))

    def open(self) -> None:
        self.write("plan", **{key: value for key, value in self.plan.items() if key != "launch"})
        facts: dict[str, Any] = {"cpu": {"model": "made up", "cores": 2}}
        if "unoptimised" in BEHAVIOUR:
            facts["software"] = {"optimised": False, "sanitizers": []}
        self.write("environment", rank=0, host="fake", facts=facts)
        far = BEHAVIOUR.get("far")
        if far:
            self.write("environment", rank=1, host="far", facts={**facts, "kernel": {"release": far}})
        hosts = ("fake", "far" if far else "fake")
        for one in self.plan["variants"]:
            _, below, adds, *_ = next(m for m in MODULES if m[0] == one["module"])
            ranks = [
                {"rank": r, "host": host, "cpu": r, "settings": one["options"]}
                for r, host in enumerate(hosts)
            ]
            self.write(
                "variant",
                variant=one["variant"],
                module=one["module"],
                version=BEHAVIOUR.get("answers", "none"),
                below=below,
                adds=adds,
                ranks=ranks,
            )

    def sample(self, one: dict[str, Any], pattern: str, size_bytes: int, number: int) -> list[float]:
        truth = self.op_ns(one["module"], one["options"], pattern, size_bytes)
        ops = max(1, int(2e4 / truth))
        ns = [round(truth * ops * self.random.lognormvariate(0, 0.02), 1) for _ in range(8)]
        self.write(
            "sample",
            variant=one["variant"],
            pattern=pattern,
            size_bytes=size_bytes,
            **{"pass": number},
            state=self.state,
            at_s=self.at_s(),
            ops=ops,
            ns=ns,
            dropped_ns=[ns[0] * 2] if number == 0 else [],
            verified_bytes=size_bytes * 16 if self.plan["verify"] else None,
        )
        return [one_ns / ops for one_ns in ns]

    def point(
        self, one: dict[str, Any], pattern: str, size_bytes: int, values: list[float], passes: int
    ) -> None:
        values = sorted(values)
        median = values[len(values) // 2]
        converged = "noisy" not in BEHAVIOUR or self.random.random() < 0.7
        half = 0.006 if converged else 0.04
        self.write(
            "point",
            variant=one["variant"],
            pattern=pattern,
            size_bytes=size_bytes,
            state=self.state,
            samples=len(values),
            ops=len(values) * 10,
            single=median > 1e4,
            median_ns=median,
            low_ns=median * (1 - half),
            high_ns=median * (1 + half),
            half_width=half,
            min_ns=values[0],
            max_ns=values[-1],
            mean_ns=math.fsum(values) / len(values),
            p90_ns=None,
            p99_ns=None,
            p999_ns=None,
            bytes_per_s=size_bytes / median * 1e9,
            correlation=1.2,
            converged=converged,
            stop="interrupted" if self.interrupted else "precision" if converged else "budget",
            passes=passes,
            dropped=1,
            other_states=0,
            verified_bytes=size_bytes * 16 if self.plan["verify"] else None,
            histogram={"resolution": 1 / 128, "low_ns": [values[0]], "count": [len(values)]},
            **self.visits(values),
        )

    def visits(self, values: list[float]) -> dict[str, Any]:
        if "visits" not in BEHAVIOUR:
            return {}
        few = values[:: max(1, len(values) // 4)]
        places = list(range(len(few)))
        same = {"state": [0] * len(few), "samples": [8] * len(few)}
        return {"visits": {"block": places, "at_s": [float(at) for at in places], **same, "median_ns": few}}

    def misbehave(self, number: int) -> None:
        """Between the passes, where it was told to."""
        if number != 1:
            return
        here = [one["variant"] for one in self.plan["variants"]]
        if "says" in BEHAVIOUR:
            sys.stderr.write("something that a module said\n")
            sys.stderr.flush()
        if code := BEHAVIOUR.get("leaves") or BEHAVIOUR.get("says"):
            os._exit(int(code))
        if BEHAVIOUR.get("die") in here:
            os.kill(os.getpid(), signal.SIGKILL)
        if BEHAVIOUR.get("torn") in here:
            assert self.file is not None
            os.write(self.file, b'{"type":"point","variant":"shm","pat')
            os.kill(os.getpid(), signal.SIGSEGV)
        blamed = BEHAVIOUR.get("blame")
        if blamed in here:
            sentence = f"{blamed}: rank 1 on fake has gone"
            place = {"pattern": "pingpong", "size_bytes": 8, "rank": 1, "host": "fake"}
            self.write("error", variant=blamed, **place, code=4, message=sentence)
            fail(4, sentence)
        if "garbage" in BEHAVIOUR:
            print("Segmentation fault (not really)", flush=True)
        if "silent" in BEHAVIOUR:
            time.sleep(600)
        if "full" in BEHAVIOUR:
            fail(
                4, f"{self.path}: No space left on device; what was measured so far is kept, free some space"
            )

    def run(self) -> int:
        passes = int(BEHAVIOUR.get("passes", "4"))
        curves = [(one, pattern) for one in self.plan["variants"] for pattern in self.plan["patterns"]]
        todo = [(one, pattern, s) for one, pattern in curves for s in self.plan["sizes"]]
        budget_s = self.plan["budget_s"] * len(curves)
        unopened = BEHAVIOUR.get("unopened")
        if unopened in [one["variant"] for one in self.plan["variants"]]:
            self.event(event="ready", variants=0, points=0, budget_s=0)
            self.write("plan", **{key: value for key, value in self.plan.items() if key != "launch"})
            self.write("error", variant=unopened, code=3, message=f"{unopened}: it cannot be opened")
            self.write("launch", seconds=self.at_s(), passes=1, rss_bytes=0, buffer_bytes=0, states=1)
            self.event(event="end", exit=3)
            return 3
        self.open()
        self.yardstick()
        self.event(event="ready", variants=len(self.plan["variants"]), points=len(todo), budget_s=budget_s)
        if (skipped := BEHAVIOUR.get("skipped")) in [one["variant"] for one in self.plan["variants"]]:
            self.write("skipped", variant=skipped, pattern="pingpong", reason="it has no such sizes")
            self.write("launch", seconds=self.at_s(), passes=1, rss_bytes=0, buffer_bytes=0, states=1)
            self.event(event="end", exit=3)
            return 3
        values: dict[tuple[str, str, int], list[float]] = {}
        done: set[tuple[str, str, int]] = set()
        number = 0
        while number < passes and not self.interrupted:
            self.misbehave(number)
            if "states" in BEHAVIOUR and number == passes - 1:
                self.state = 1
            self.random.shuffle(todo)
            time.sleep(float(BEHAVIOUR.get("pass_s", "0")))
            for one, pattern, size_bytes in todo:
                key = (one["variant"], pattern, size_bytes)
                if key in done:
                    continue
                values.setdefault(key, []).extend(self.sample(one, pattern, size_bytes, number))
                if number == passes - 1 or (number and self.random.random() < 0.3):
                    self.point(one, pattern, size_bytes, values[key], number + 1)
                    done.add(key)
            number += 1
            self.yardstick()
            left = (passes - number) * self.at_s() / number
            counted = {"pass": number - 1, "done": len(done), "total": len(todo)}
            self.event(event="pass", **counted, elapsed_s=self.at_s(), left_s=left)
            if self.paced and not self.interrupted and sys.stdin.readline() != "go\n":
                fail(4, "its launcher has gone")
        if self.interrupted:
            for one, pattern, size_bytes in todo:
                key = (one["variant"], pattern, size_bytes)
                if key in values and key not in done:
                    self.point(one, pattern, size_bytes, values[key], number)
        for one in self.plan["variants"]:
            self.write("counters", variant=one["variant"], rank=0, values={"retransmits": "0"})
        memory = {"rss_bytes": 9 << 20, "buffer_bytes": 16 << 20}
        self.write("launch", seconds=self.at_s(), passes=number, **memory, states=self.state + 1)
        end = {"event": "end", "exit": 130 if self.interrupted else 0}
        if (
            "stubborn" in BEHAVIOUR
        ):  # as a module whose destructor hangs: the last pass and the end are one write
            last = {"event": "pass", "pass": number, "done": 1, "total": 1, "elapsed_s": 1.0, "left_s": 0.0}
            print(f"{json.dumps(last)}\n{json.dumps(end)}", flush=True)
            time.sleep(600)
        self.event(**end)
        return 130 if self.interrupted else 0


def main() -> int:
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "keys":
        print(json.dumps(keys()))
    elif what == "list":
        print("refused" if "refuse" in BEHAVIOUR else json.dumps(listing()))
    elif what == "plan":
        print(json.dumps(resolved(read_plan()[1])))
    elif what == "environment":
        print(json.dumps({"cpu": {"model": "made up"}, "spoilers": []}))
    elif what == "run":
        return Fake(*read_plan()).run()
    else:
        fail(2, f"there is no command '{what}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
