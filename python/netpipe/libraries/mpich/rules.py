# SPDX-License-Identifier: Apache-2.0
"""MPICH's trees of collective algorithms, as JSON: conditions within conditions, and an algorithm at each end.

A file replaces the whole tree, so the library's own is taken and changed in one place. It is a text in the library
itself (src/mpi/coll in its sources makes it so), and is found there; no copy is kept here that another version would
make wrong. There are three levels:

* CH4 chooses a composition: within a host by shared memory, or by messages as between hosts;
* MPIR chooses the algorithm of the messages;
* POSIX chooses what is done in shared memory, and is left alone.

For sizes that have an algorithm here, CH4 is told to use messages, and MPIR is told which algorithm. Both trees stay as
they were for other operations, sizes and numbers of ranks. Traps: the order of the keys counts; a level without an end
for all cases is an assertion; unknown keys abort; `comm_size<N` is read in two ways, so here it is always `<=`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from netpipe.libraries.tunables import Chosen, Rules, by_operation, file_stem, steps_of

CVAR = "MPIR_CVAR_"
CH4_FILE = f"{CVAR}CH4_COLL_SELECTION_TUNING_JSON_FILE"
MPIR_FILE = f"{CVAR}COLL_SELECTION_TUNING_JSON_FILE"
# Operations whose sizes the patterns count as the library does.
OPERATIONS = frozenset({"allreduce", "alltoall", "bcast", "reduce"})
# What no rule may choose. smp aborts on a communicator that is not split by hosts (an assertion in 5.0.2), and a rule
# is for all communicators of its size. The others take parameters, which the tree must give and for which there are no
# values that fit everywhere.
UNRULED = frozenset(
    {
        "smp",
        "tree",
        "pipelined_tree",
        "recexch",
        "recursive_multiplying",
        "k_reduce_scatter_allgather",
        "k_brucks",
        "pairwise_sendrecv_replace",  # for MPI_IN_PLACE alone
    }
)
_BEGINNING = re.compile(rb'\{\s*"collective=')
Tree = dict[str, Any]


def rules(some: Sequence[Chosen], folder: Path) -> Rules | None:
    """None for an operation, or a library, whose tree is not known here."""
    library = some[0].library
    ruled = library is not None and all(of.operation in OPERATIONS for of in some)
    trees = {level: dict(tree) for level, tree in own_trees(library).items()} if library and ruled else {}
    if set(trees) != {"composition", "algorithm"}:
        return None
    for operation, each in by_operation(some).items():
        key = f"collective={operation}"
        own = {level: tree[key]["comm_type=intra"] for level, tree in trees.items()}
        changed = {
            "composition": _for_ranks(each, own["composition"], _by_messages(own["composition"])),
            "algorithm": _for_ranks(each, own["algorithm"], _algorithm_of(operation)),
        }
        for level, tree in trees.items():
            tree[key] = {**tree[key], "comm_type=intra": changed[level]}
    names = {level: f"{file_stem(some)}-{level}s.json" for level in trees}
    files = {names[level]: json.dumps(tree, indent=1) + "\n" for level, tree in trees.items()}
    variables = {
        CH4_FILE: str(folder / names["composition"]),
        MPIR_FILE: str(folder / names["algorithm"]),
    }
    return Rules(variables, files)


def _by_messages(compositions: Tree) -> Callable[[str], Tree]:
    """The same end for every algorithm."""
    end = _last(compositions)
    return lambda _: end


def _algorithm_of(operation: str) -> Callable[[str], Tree]:
    return lambda word: {f"algorithm=MPIR_{operation.capitalize()}_intra_{word}": {}}


def own_trees(library: Path) -> Mapping[str, Tree]:
    """Those of a libmpi: `composition` of CH4, `algorithm` of MPIR. Empty where it has none, or another number."""
    try:
        text = library.read_bytes()
    except OSError:
        return {}
    found: dict[str, Tree] = {}
    for at in _BEGINNING.finditer(text):
        try:
            tree = json.loads(text[at.start() : text.index(b"\0", at.start())])
        except ValueError:
            continue
        ends = {name.partition("=")[0] for name in _ends(tree)}
        posix = any("_POSIX_" in name for name in _ends(tree))
        if len(ends) != 1 or posix:
            continue
        if (level := ends.pop()) in found:
            return {}  # two of one kind: which of them is in force is not known
        found[level] = tree
    return found


def _ends(tree: Tree) -> Iterator[str]:
    for name, below in tree.items():
        if name.startswith(("composition=", "algorithm=")):
            yield name
        else:
            yield from _ends(below)


def _last(tree: Tree) -> Tree:
    """The end that is left when no condition holds: of compositions the one without shared memory."""
    name = list(tree)[-1]
    return {name: tree[name]} if name.startswith(("composition=", "algorithm=")) else _last(tree[name])


def _for_ranks(each: Sequence[Chosen], own: Tree, end: Callable[[str], Tree]) -> Tree:
    """`own`, with rules by size for these numbers of ranks, which rise. `end`: of an algorithm's name."""
    whole: Tree = {}
    last = 0  # the number of ranks up to which there are conditions
    for of in each:
        if of.ranks - 1 > last:
            whole[f"comm_size<={of.ranks - 1}"] = own
        whole[f"comm_size<={of.ranks}"] = _for_sizes(of, own, end)
        last = of.ranks
    return {**whole, "comm_size=any": own}


def _for_sizes(of: Chosen, own: Tree, end: Callable[[str], Tree]) -> Tree:
    steps = steps_of(of.by_size)
    by_size: Tree = {}
    for (_, value), (until, _) in pairwise(steps):
        by_size[f"avg_msg_size<={until - 1}"] = end(of.words[value]) if value else own
    last = steps[-1][1]
    by_size["avg_msg_size=any"] = end(of.words[last]) if last else own
    return by_size


def chosen_at(tree: Tree, operation: str, ranks: int, size: int) -> str:
    """What a tree says for a call within one host, of a built-in commutative operation on as many elements as there are
    ranks or more: the end that MPICH comes to. Empty where no condition holds.
    """
    node = tree.get(f"collective={operation}", {}).get("comm_type=intra", {})
    while node:
        for name, below in node.items():
            if name.startswith(("composition=", "algorithm=")):
                return str(name.partition("=")[2])
            if _holds(name, ranks, size):
                node = below
                break
        else:
            return ""
    return ""


def _holds(condition: str, ranks: int, size: int) -> bool:
    name, sign, value = re.match(r"(\w+?)(<=|<|=)(\w+)$", condition).groups()  # type: ignore[union-attr]
    numbers = {"comm_size": ranks, "avg_msg_size": size, "total_msg_size": size * ranks}
    if value == "any":
        return True
    if value == "pow2":
        return name == "comm_size" and ranks & (ranks - 1) == 0
    if name in numbers and value.isdigit():
        return numbers[name] <= int(value) - (sign == "<")
    said = {
        "comm_size": "node_comm_size",
        "comm_hierarchy": "parent",
        "is_commutative": "yes",
        "is_op_built_in": "yes",
        "is_sendbuf_inplace": "no",
        "is_multi_threaded": "no",
    }
    return said.get(name) == value
