"""The synchronisation of a GPU as its target describes it: streams, barriers and fences.

Asynchronous operations of one wave complete on a *stream*. A *meeting* is a barrier object at which waves arrive and
wait. A *proxy* is a way to memory, and a fence makes data that came through one proxy visible through another.
`tkgen.proof` states what each means for the order of operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

GENERIC = "generic"  # the proxy of ordinary loads and stores


class Completion(Enum):
    """The event that completes operations of a stream."""

    COUNTED = "counted"  # a wait that leaves n operations outstanding, in order of issue
    GROUPS = "groups"  # a wait that leaves n groups outstanding; a commit ends a group
    BYTES = "bytes"  # the operation's bytes, on a meeting


@dataclass(frozen=True)
class Stream:
    """A stream of asynchronous operations.

    `counts` is the most that its counter counts: a wait that leaves as many outstanding waits for nothing. `in_order`
    says that two accesses of one wave take effect in order of issue, `finish` that none may be under way when the block
    ends. `proxy` is the way to memory; `carries` which asynchronous operations of a tile program are its own
    (`tkgen.tile.program.StreamKind`).
    """

    name: str
    completion: Completion
    counts: int | None = None
    proxy: str = GENERIC
    in_order: bool = False
    finish: bool = False
    carries: str = ""


class Attendance(Enum):
    """The participants of a barrier, and the form of its wait."""

    ALL = "all"  # every wave of the block: arrival and wait are one instruction
    NAMED = "named"  # so many threads, as the instruction says; one may arrive without waiting
    PHASED = "phased"  # arrivals and bytes as the object was set up; waits name a phase by one bit


@dataclass(frozen=True)
class MeetingKind:
    """A kind of meeting. `most` is how many of them a block can have (None: as many as fit in shared memory)."""

    name: str
    attendance: Attendance
    most: int | None = None


@dataclass(frozen=True)
class ProxyFence:
    """Accesses through `target` see what was done through `source` only after a fence of who did it.

    `writes_only`: reads through `source` need none before something is written through `target`.
    """

    name: str
    source: str
    target: str
    writes_only: bool


@dataclass(frozen=True)
class Synchronisation:
    """All of a target's streams, kinds of meetings and fences."""

    streams: tuple[Stream, ...] = ()
    meetings: tuple[MeetingKind, ...] = ()
    fences: tuple[ProxyFence, ...] = ()

    @property
    def counters(self) -> Mapping[str, int]:
        """The capacity of each counter, by its stream's name."""
        return {s.name: s.counts for s in self.streams if s.counts is not None}


NOTHING = Synchronisation()


def synchronisation(data: Mapping[str, Any]) -> Synchronisation:
    """Read the tables `[[stream]]`, `[[meeting]]` and `[[fence]]` of a target's file."""

    def number(table: Mapping[str, Any], key: str) -> int | None:
        return table[key]["value"] if key in table else None

    return Synchronisation(
        tuple(
            Stream(
                s["name"],
                Completion(s["completion"]),
                number(s, "counts"),
                s.get("proxy", GENERIC),
                s.get("effects") == "in order",
                s.get("at_end") == "complete",
                s.get("carries", ""),
            )
            for s in data.get("stream", ())
        ),
        tuple(MeetingKind(m["name"], Attendance(m["attendance"]), number(m, "most")) for m in data.get("meeting", ())),
        tuple(ProxyFence(f["name"], f["from"], f["to"], f.get("orders") == "writes") for f in data.get("fence", ())),
    )
