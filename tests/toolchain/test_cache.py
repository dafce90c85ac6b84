"""The store under everything that can happen to it: two builds at once, a kill at any moment, damage, no space."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path

import msgpack
import pytest
from toolchain_kernels import KERNEL

from tkgen.backends.hopper.toolchain import Nvcc, compile_cubin
from tkgen.emulate import native
from tkgen.targets import Target, load_target
from tkgen.toolchain import compile as compile_module
from tkgen.toolchain import discover
from tkgen.toolchain.cache import _MAGIC, Cache, cache_dir, cache_key, default_cache, hash_headers
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler
from tkgen.toolchain.files import TEMPORARY_SUFFIX, write_atomic

ENTRY = {"asm": b"s_endpgm\n" * 1000, "hsaco": bytes(range(256)) * 100}


def files(root: Path) -> list[Path]:
    return [p for p in root.rglob("*") if p.is_file()]


def test_round_trip(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new" / "cache")
    key = cache_key("a", b"b")
    assert cache.get(key) is None
    cache.put(key, ENTRY)
    assert cache.get(key) == ENTRY
    assert cache.get(cache_key("ab")) is None
    assert cache_key("a", "b") != cache_key("ab") != cache_key("ab", "")


def test_every_damage_is_a_miss_and_is_rebuilt(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    chance = random.Random(1)
    key = cache_key("x")
    for trial in range(60):
        cache.put(key, ENTRY)
        (path,) = files(tmp_path)
        data = bytearray(path.read_bytes())
        if trial % 3 == 0:
            data = data[: chance.randrange(len(data))]
        elif trial % 3 == 1:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        else:
            data += b"tail"
        path.write_bytes(data)
        assert cache.get(key) is None
        assert files(tmp_path) == []
    cache.put(key, ENTRY)
    assert cache.get(key) == ENTRY


def test_the_oldest_used_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=10_000)
    keys = [cache_key(str(i)) for i in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.put(key, {"x": bytes(3000)})
        os.utime(tmp_path / key[:2] / key[2:], (1000 + age, 1000 + age))
    assert cache.get(keys[0])  # used again: now the youngest
    cache.put(keys[3], {"x": bytes(3000)})
    assert [cache.get(k) is not None for k in keys] == [True, False, True, True]
    assert sum(p.stat().st_size for p in files(tmp_path)) <= 10_000


def test_leftovers_of_killed_writers_are_removed_when_stale(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    folder = tmp_path / cache_key("k")[:2]
    folder.mkdir()
    old, new = folder / f".x.1{TEMPORARY_SUFFIX}", folder / f".x.2{TEMPORARY_SUFFIX}"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.put(cache_key("k"), ENTRY)
    assert not old.exists() and new.exists()


def test_where_it_is(tmp_path: Path) -> None:
    assert cache_dir({"TKGEN_CACHE": str(tmp_path), "HOME": "/h"}) == tmp_path
    assert cache_dir({"TKGEN_CACHE": "", "HOME": "/h"}) is None
    assert cache_dir({"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == Path("/x/tkgen")
    assert cache_dir({"HOME": "/h"}) == Path("/h/.cache/tkgen")
    assert cache_dir({}) is None and default_cache({}) is None
    assert default_cache({"TKGEN_CACHE": str(tmp_path)}) == Cache(tmp_path)


def test_a_disk_that_refuses_is_a_miss(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = Cache(tmp_path / "file" / "cache")
    cache.put(cache_key("k"), ENTRY)
    assert cache.get(cache_key("k")) is None


def test_header_hash_is_of_names_and_contents(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    for folder in (one, two):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "a.cuh").write_text("x")
        (folder / "b.cuh").write_text("y")
    assert hash_headers([one]) == hash_headers([two])
    assert hash_headers([one]) != hash_headers([one, two])
    (two / "b.cuh").rename(two / "c.cuh")
    assert hash_headers([one]) != hash_headers([two])


def _build(root: str, compiler: Compiler, barrier: object) -> None:
    if barrier is not None:
        barrier.wait(30)  # type: ignore[attr-defined]
    compile_device(KERNEL, load_target("gfx942"), compiler, cache=Cache(Path(root)))


def test_two_builds_at_once_into_one_cache(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3)
    builds = [context.Process(target=_build, args=(str(tmp_path), clang, barrier)) for _ in range(3)]
    for build in builds:
        build.start()
    for build in builds:
        build.join(60)
    assert [b.exitcode for b in builds] == [0, 0, 0]
    assert len(files(tmp_path)) == 1
    assert compile_device(KERNEL, gfx942, clang, cache=Cache(tmp_path)).cached


def test_a_build_killed_at_any_moment_leaves_a_usable_cache(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    fresh = compile_device(KERNEL, gfx942, clang)
    for delay in (0.01, 0.05, 0.1, 0.15, 0.2, 0.25):
        build = context.Process(target=_build, args=(str(tmp_path), clang, None))
        build.start()
        time.sleep(delay)
        os.kill(build.pid or 0, signal.SIGKILL)
        build.join()
        result = compile_device(KERNEL, gfx942, clang, cache=Cache(tmp_path))
        assert (result.asm, result.hsaco) == (fresh.asm, fresh.hsaco)
        for path in files(tmp_path):
            path.unlink()


def _hammer(root: str, seed: int, failures: multiprocessing.Queue[str]) -> None:
    cache = Cache(Path(root), limit_bytes=200_000)
    chance = random.Random(seed)
    for _ in range(150):
        number = chance.randrange(8)
        expected = {"x": bytes([number]) * 30_000}
        if chance.random() < 0.5:
            cache.put(cache_key(str(number)), expected)
        else:
            found = cache.get(cache_key(str(number)))
            if found is not None and found != expected:
                failures.put(f"wrong entry {number}")


def test_concurrent_writers_readers_and_pruning(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    failures: multiprocessing.Queue[str] = context.Queue()
    workers = [context.Process(target=_hammer, args=(str(tmp_path), seed, failures)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [w.exitcode for w in workers] == [0, 0, 0, 0]
    assert failures.empty()


def _write_for_ever(path: str) -> None:
    while True:
        for letter in (b"a", b"b"):
            write_atomic(Path(path), letter * 2_000_000)


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "out.hsaco"
    write_atomic(target, b"a" * 2_000_000)
    chance = random.Random(3)
    context = multiprocessing.get_context("fork")
    for _ in range(12):
        writer = context.Process(target=_write_for_ever, args=(str(target),))
        writer.start()
        time.sleep(chance.uniform(0.005, 0.05))
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        data = target.read_bytes()
        assert len(data) == 2_000_000 and data in (b"a" * 2_000_000, b"b" * 2_000_000)
    leftovers = [p for p in tmp_path.iterdir() if p != target]
    assert all(p.name.startswith(".") and p.name.endswith(TEMPORARY_SUFFIX) for p in leftovers)


def test_write_atomic_of_text_and_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "name with 'quotes\".cpp"
    write_atomic(path, "é\n")
    assert path.read_bytes() == b"\xc3\xa9\n"
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.s"
    write_atomic(path, "old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_an_error_without_a_file_name_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "chmod", full)
    with pytest.raises(OSError, match="No space") as caught:
        write_atomic(tmp_path / "out.s", "new")
    assert caught.value.filename == str(tmp_path / "out.s") and list(tmp_path.iterdir()) == []


PAYLOADS = [
    b"",
    b"\xc1",
    msgpack.packb(["asm"]),
    msgpack.packb({"asm": 10**12}),
    msgpack.packb({1: b"x"}),
    msgpack.packb({"asm": "text"}),
    msgpack.packb({"asm": b"x"}) + b"more",
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_valid_checksum_over_something_else_is_a_miss(payload: bytes, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("ab" * 32, ENTRY)
    (path,) = files(tmp_path)
    path.write_bytes(_MAGIC + hashlib.sha256(payload).digest() + payload)
    assert cache.get("ab" * 32) is None and files(tmp_path) == []


ENTRIES: list[dict[str, bytes]] = [
    {},
    {"asm": b""},
    {"asm": b"\xff", "hsaco": b"", "warnings": b""},
    {"asm": b"", "hsaco": b"\x7fELF", "warnings": b""},
    {"asm": b"", "warnings": b""},
    {"asm": b"", "hsaco": b"", "warnings": b"", "more": b""},
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_of_something_else_is_compiled_anew(
    entry: dict[str, bytes], clang: Compiler, gfx942: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    key = "cd" * 32
    cache.put(key, entry)
    monkeypatch.setattr(compile_module, "cache_key", lambda *_: key)
    result = compile_device(KERNEL, gfx942, clang, cache=cache)
    assert not result.cached and result.hsaco is not None and result.hsaco[:4] == b"\x7fELF"
    assert compile_device(KERNEL, gfx942, clang, cache=cache).cached


COMPILERS = [{}, {"compiler": b"\xc1"}, {"compiler": msgpack.packb([1, 2])}, {"compiler": msgpack.packb([1] * 7)}]


@pytest.mark.parametrize("entry", COMPILERS)
def test_a_remembered_compiler_that_is_none_is_asked_anew(
    entry: dict[str, bytes], gfx942: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    cache.put("ef" * 32, entry)
    monkeypatch.setenv("TKGEN_CACHE", str(tmp_path))
    monkeypatch.setattr(discover, "cache_key", lambda *_: "ef" * 32)
    assert discover.find_compiler(gfx942).command


def test_a_damaged_core_of_the_emulator_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the process down: mapped pages past the end of a cut file are a bus error."""
    made = native.build()
    monkeypatch.setenv("TKGEN_CACHE", str(tmp_path))
    monkeypatch.setattr(native, "_compile", lambda _c, _s, library, _l, native: shutil.copy(made, library))
    kept = native.build()
    assert kept.parent == tmp_path / "emulate" and kept.read_bytes() == made.read_bytes()
    kept.write_bytes(made.read_bytes()[:4096])
    assert native.build() == kept and kept.read_bytes() == made.read_bytes()


def test_a_cubin_from_before_there_was_a_disassembler_is_disassembled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry has no machine code to read, which predictions and reports need."""
    monkeypatch.setattr("tkgen.backends.hopper.toolchain.candidates", lambda: ())
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    found = 'while [ "$1" != -o ]; do shift; done; echo cubin > "$2"; echo "entry function \'kernel\'"\n'
    for name, text in (("nvcc", found), ("cuobjdump", "echo '        /*0000*/ EXIT ;'\n")):
        cache, tool = Cache(tmp_path / "cache"), nvcc.with_name(name)
        tool.write_text(f"#!/bin/sh\n{text}")
        tool.chmod(0o755)
        built = compile_cubin("source", "kernel", "sm_90a", Nvcc(nvcc, "PATH", "13.0"), (), cache)
    assert "EXIT" in built.sass
