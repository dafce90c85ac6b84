"""Writing files so that a reader, a second writer or a kill at any moment never sees half of one."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path


def write_atomic(path: Path, data: bytes | str) -> None:
    """Put `data` (text as UTF-8) at `path`: written whole under a temporary name beside it, then renamed over it.

    Missing parent folders are made. OSError passes through, naming `path` where it names no file, as that of a full
    disk; the temporary file is then gone and `path` untouched.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:80]}.", suffix=TEMPORARY_SUFFIX, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


TEMPORARY_SUFFIX = ".tkgen-tmp"
"""How the temporary names of `write_atomic` end, so that leftovers of a killed process can be told and removed."""


def remove_leftovers(folder: Path, older_than: float = 3600.0) -> None:
    """Remove temporary files in `folder` that a killed process left, those untouched for `older_than` seconds."""
    for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        with contextlib.suppress(OSError):  # another process may remove it meanwhile
            if time.time() - path.stat().st_mtime > older_than:
                path.unlink()


def _umask() -> int:
    """The process's umask; the system offers no way to read it but to set it, so read it from /proc where that is."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    except OSError:
        pass
    return 0o022
