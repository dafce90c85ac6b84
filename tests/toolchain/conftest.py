"""Compilers as fixtures: each test of a real compile runs with every kind that is installed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tkgen.targets import Target, load_target
from tkgen.toolchain.compiler import Compiler
from tkgen.toolchain.discover import Host, candidates, probe, this_host


@pytest.fixture(scope="session")
def gfx942() -> Target:
    return load_target("gfx942")


@pytest.fixture(scope="session")
def probe_host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """This machine, with its own cache and without the user's TKGEN_CXX."""
    here = this_host()
    environ = {k: v for k, v in os.environ.items() if k != "TKGEN_CXX"}
    environ["TKGEN_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    return Host(environ, here.root, here.zig)


def _first(host: Host, target: Target, wanted: Callable[[str], bool], what: str) -> Compiler:
    for candidate in candidates(host):
        if wanted(candidate.origin):
            attempt = probe(candidate, target, host)
            if attempt.compiler is not None:
                return attempt.compiler
    pytest.skip(f"no {what} that compiles for {target.name} is installed")


@pytest.fixture(scope="session")
def clang(probe_host: Host, gfx942: Target) -> Compiler:
    """A compiler that links by itself: the system's clang, ROCm's, or hipcc."""
    return _first(probe_host, gfx942, lambda origin: origin != "ziglang wheel", "clang")


@pytest.fixture(scope="session")
def ziglang(probe_host: Host, gfx942: Target) -> Compiler:
    return _first(probe_host, gfx942, lambda origin: origin == "ziglang wheel", "ziglang wheel")


@pytest.fixture(scope="session", params=["clang", "ziglang"])
def compiler(request: pytest.FixtureRequest) -> Compiler:
    found: Compiler = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Makes an executable: `script("bin/hipcc", body)`."""

    def make(name: str, body: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + body)
        path.chmod(0o755)
        return path

    return make
