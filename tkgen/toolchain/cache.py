"""A content-addressed store of build results that survives anything but a full disk.

An entry is one file, named after the hash of all that decides its content, holding a checksum and a MessagePack map. It
appears by a rename, so two builds at once write the same entry twice and both read a whole one; a damaged entry fails
its checksum and is dropped. Losing the cache costs time, never a build: errors of the disk are taken as a miss.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgpack

from tkgen.toolchain.files import remove_leftovers, write_atomic

_MAGIC = b"tkgen cache 1\n"
_DIGEST_BYTES = 32
DEFAULT_LIMIT_BYTES = 512 * 2**20


def cache_dir(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of cached results: TKGEN_CACHE, else `tkgen` in XDG_CACHE_HOME, else in ~/.cache.

    TKGEN_CACHE set but empty turns caching off, as does a user without a home: None.
    """
    env = os.environ if environ is None else environ
    if "TKGEN_CACHE" in env:
        return Path(env["TKGEN_CACHE"]).absolute() if env["TKGEN_CACHE"] else None
    base = env.get("XDG_CACHE_HOME") or (f"{env['HOME']}/.cache" if env.get("HOME") else "")
    return Path(base) / "tkgen" if os.path.isabs(base) else None


def cache_key(*parts: str | bytes) -> str:
    """A name for the content that `parts` decide, in order: 64 hexadecimal digits."""
    digest = hashlib.sha256(_MAGIC)
    for part in parts:
        data = part.encode("utf-8") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def hash_headers(directories: Iterable[Path]) -> str:
    """A hash of every regular file below the folders, by relative name and content."""
    digest = hashlib.sha256()
    for directory in directories:
        for path in sorted(p for p in directory.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
            name = path.relative_to(directory).as_posix()
            digest.update(cache_key(name, path.read_bytes()).encode("ascii"))
        digest.update(b"\n")
    return digest.hexdigest()


@dataclass(frozen=True)
class Cache:
    """The store in `root`, kept below `limit_bytes` by dropping what was used longest ago."""

    root: Path
    limit_bytes: int = DEFAULT_LIMIT_BYTES

    def get(self, key: str) -> dict[str, bytes] | None:
        """The entry of `key`, or None where there is none or it is damaged (it is then removed).

        That its content is what the caller once put there is for the caller to see.
        """
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        entry = _decode(data)
        with contextlib.suppress(OSError):
            if entry is None:
                path.unlink(missing_ok=True)
            else:
                os.utime(path)
        return entry

    def put(self, key: str, entry: Mapping[str, bytes]) -> None:
        """Store an entry; where the disk refuses, nothing happens."""
        payload: bytes = msgpack.packb(dict(entry), use_bin_type=True)
        try:
            write_atomic(self._path(key), _MAGIC + hashlib.sha256(payload).digest() + payload)
        except OSError:
            return
        # Keys are hashes, so each of the 256 folders holds about as much; more than its share in one stands for all.
        if 256 * sum(size for _, size, _ in self._entries(self._path(key).parent)) > self.limit_bytes:
            self.prune()

    def prune(self) -> None:
        """Drop leftovers of killed processes, then the entries used longest ago until the rest fits the limit."""
        folders = [Path(f.path) for f in _listed(self.root) if re.fullmatch("[0-9a-f]{2}", f.name)]
        entries = [entry for folder in folders for entry in self._entries(folder)]
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries) if total > self.limit_bytes else ():
            if total <= self.limit_bytes:
                break
            _remove(Path(path))
            total -= size

    def _entries(self, folder: Path) -> list[tuple[float, int, str]]:
        """When each entry of a folder was last used, its bytes and its path. Removes leftovers of killed processes."""
        files = _listed(folder)
        if any(f.name.startswith(".") for f in files):
            remove_leftovers(folder)
        entries = []
        for file in files:
            with contextlib.suppress(OSError):  # another process may remove it meanwhile
                if not file.name.startswith("."):
                    stat = file.stat()
                    entries.append((stat.st_mtime, stat.st_size, file.path))
        return entries

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / key[2:]


def default_cache(environ: Mapping[str, str] | None = None) -> Cache | None:
    """The user's cache, or None where caching is off."""
    root = cache_dir(environ)
    return Cache(root) if root else None


def _decode(data: bytes) -> dict[str, bytes] | None:
    head = len(_MAGIC) + _DIGEST_BYTES
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(data[head:]).digest() != data[len(_MAGIC) : head]:
        return None
    try:
        entry = msgpack.unpackb(data[head:], raw=False)
    except ValueError:  # all that msgpack raises
        return None
    whole = isinstance(entry, dict) and all(isinstance(k, str) and isinstance(v, bytes) for k, v in entry.items())
    return entry if whole else None


def _listed(folder: Path | str) -> list[os.DirEntry[str]]:
    """List a folder; return an empty list where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
