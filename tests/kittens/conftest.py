"""Kernels written against the embedded headers, compiled once per session and target."""

from __future__ import annotations

import pytest
from kittens_support import Build, Compiled, compile_kernels

from tkgen.targets import load_target
from tkgen.toolchain.compiler import Compiler
from tkgen.toolchain.discover import NoCompilerError, find_compiler


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    """Any compiler for the targets; both come with every clang that has one of them."""
    try:
        return find_compiler(load_target("gfx942"))
    except NoCompilerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=["gfx942", "gfx90a"])
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def build(compiler: Compiler) -> Build:
    """`build(source, target)` compiles kernels once and checks that none of them spills or goes through flat memory."""
    done: dict[tuple[str, str], Compiled] = {}

    def compile_once(source: str, target: str = "gfx942") -> Compiled:
        key = (source, target)
        if key not in done:
            done[key] = compile_kernels(source, target, compiler)
        return done[key]

    return compile_once
