"""How the waves of a GPU wait for each other and for what they started: streams, meetings, fences, as targets say.

A *stream* is where asynchronous operations of one wave complete; a *meeting* is an object at which waves arrive and for
which they wait; a *proxy* is a way to memory, and a fence lets what came one way be seen the other. What each means for
the order of operations, `tkgen.proof` states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

GENERIC = "generic"  # the proxy of ordinary loads and stores


class Completion(Enum):
    """What says that operations of a stream are complete."""

    COUNTED = "counted"  # a wait that leaves n operations outstanding, in order of issue
    GROUPS = "groups"  # a wait that leaves n groups outstanding; a commit ends a group
    BYTES = "bytes"  # the operation's bytes, on a meeting


@dataclass(frozen=True)
class Stream:
    """A stream of asynchronous operations.

    `most` is the largest number that a wait can leave outstanding (None: any, or no such wait), `in_order` says that
    two accesses of one wave take effect in order of issue, `finish` that none may be under way when the block ends.
    `proxy` is the way to memory.
    """

    name: str
    completion: Completion
    most: int | None = None
    proxy: str = GENERIC
    in_order: bool = False
    finish: bool = False


class Attendance(Enum):
    """Who takes part in a meeting, and how it is waited for."""

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
    """Accesses through `target` see what was done through `source` only behind a fence of who did it.

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


NOTHING = Synchronisation()


def synchronisation(data: Mapping[str, Any]) -> Synchronisation:
    """What the tables `[[stream]]`, `[[meeting]]` and `[[fence]]` of a target's file say."""
    return Synchronisation(
        tuple(
            Stream(
                s["name"],
                Completion(s["completion"]["value"]),
                s["most"]["value"] if "most" in s else None,
                s["proxy"]["value"] if "proxy" in s else GENERIC,
                s["in_order"]["value"],
                s["finish"]["value"],
            )
            for s in data.get("stream", ())
        ),
        tuple(
            MeetingKind(m["name"], Attendance(m["attendance"]["value"]), m["most"]["value"] if "most" in m else None)
            for m in data.get("meeting", ())
        ),
        tuple(
            ProxyFence(f["name"], f["source_proxy"], f["target_proxy"], f["writes_only"]["value"])
            for f in data.get("fence", ())
        ),
    )
