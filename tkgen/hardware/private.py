"""Texts for a report that anyone may read: without the names of hosts and users, and without folders."""

from __future__ import annotations

import getpass
import re
import socket
from contextlib import suppress
from functools import cache

_PATH = re.compile(r"(?<![\w:/.<])(?:~|\.{0,2})/(?:[^\s:'\"`,;()<>|]+/)*([^\s:'\"`,;()<>|/]*)")


def cleaned(text: str) -> str:
    """`text` with files without their folders, and this host's and this user's names replaced."""
    found = _PATH.sub(lambda match: match[1] or "...", text)
    for name, word in _names():
        found = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", word, found, flags=re.IGNORECASE)
    return found


@cache
def _names() -> tuple[tuple[str, str], ...]:
    """Names to replace, longest first; short ones and the names of everybody are words, too."""
    host = socket.gethostname()
    pairs = [(host, "HOST"), (host.partition(".")[0], "HOST")]
    with suppress(KeyError, OSError):  # a user without an entry
        pairs.append((getpass.getuser(), "USER"))
    usual = {"root", "localhost", "user", "ubuntu"}
    return tuple(sorted((p for p in set(pairs) if len(p[0]) > 2 and p[0] not in usual), key=lambda p: -len(p[0])))
