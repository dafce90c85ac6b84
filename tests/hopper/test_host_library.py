"""Compiled kernels of the host run are dropped while other processes drop and use them, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkgen.backends.hopper.host import library


def test_a_library_that_another_process_dropped_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing names a file that is gone when its time is asked for."""
    monkeypatch.setenv("TKGEN_CACHE", str(tmp_path))
    monkeypatch.setattr(library, "KEPT", 1)
    folder = library._directory()
    for name in ("kernel-a.so", "kernel-b.so"):
        (folder / name).touch()
    listed = Path.glob

    def with_one_gone(self: Path, pattern: str) -> list[Path]:
        return [*listed(self, pattern), folder / "kernel-gone.so"]

    monkeypatch.setattr(Path, "glob", with_one_gone)
    library._forget()
    assert sum(path.exists() for path in (folder / "kernel-a.so", folder / "kernel-b.so")) == 1
