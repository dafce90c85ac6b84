"""The Python interface: arguments, implicit arguments, blocks, traces, errors."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import Any, cast

import numpy as np
import pytest

from tests.emulate import frame
from tkgen.emulate import Buffer, Bytes, EmulateError, Policy, Scalar, Struct, TraceRequest, launch, load
from tkgen.emulate.arguments import Geometry, Layout, kernarg
from tkgen.emulate.code_object import Argument, Kernel


def test_struct_by_value_with_pointers(build):
    a = np.arange(256, dtype=np.float32)
    out = np.zeros(256, dtype=np.float32)
    inner = Struct([Buffer(a), Scalar("i32", 3)])
    arguments = Struct([Scalar("i8", 7), inner, Scalar("f64", 0.5), Buffer(out, "out"), Scalar("i16", -2)])
    for policy in Policy:
        out[:] = 0
        outcome = launch(
            build("structs.cpp"),
            kernel="scale",
            grid=(1, 1, 1),
            block=(256, 1, 1),
            args=[arguments],
            policy=policy,
            watch=True,
        )
        assert outcome.findings == ()
        np.testing.assert_array_equal(out, a * 3 * 0.5 + 7 - 2)


def test_raw_bytes_are_a_struct_too(build):
    out = np.zeros(256, dtype=np.float32)
    buffer = Buffer(out)
    arguments = [Struct([Bytes(bytes(range(16)), 4), buffer])]
    outcome = launch(
        build("structs.cpp"), kernel="copy_bytes", grid=(1, 1, 1), block=(16, 1, 1), args=arguments, watch=True
    )
    assert outcome.completed
    assert out[:16].tolist() == list(range(16))


def test_implicit_arguments_and_ids(build):
    """Grid, block and thread numbers as HIP's implicit arguments and registers give them."""
    out = np.zeros((2 * 3 * 2, 8 * 4 * 2, 8), dtype=np.int32)
    outcome = launch(
        build("structs.cpp"), kernel="ids", grid=(2, 3, 2), block=(8, 4, 2), args=[Buffer(out)], watch=True, workers=2
    )
    assert outcome.findings == ()
    block, thread = 0, 0
    for z in range(2):
        for y in range(3):
            for x in range(2):
                thread = 0
                for tz in range(2):
                    for ty in range(4):
                        for tx in range(8):
                            want = [x, y, z, tx, ty, tz, 2 | 3 << 8 | 2 << 16, 8 | 4 << 8 | 2 << 16]
                            assert out[block, thread].tolist() == want
                            thread += 1
                block += 1


def test_some_blocks_only(build):
    out = np.zeros((12, 64, 8), dtype=np.int32)
    outcome = launch(
        build("structs.cpp"), kernel="ids", grid=(2, 3, 2), block=(8, 4, 2), args=[Buffer(out)], blocks=[5, 7]
    )
    assert len(outcome.barriers) == 2
    assert {b for b in range(12) if out[b].any()} == {5, 7}
    with pytest.raises(EmulateError, match=r"blocks 0\.\.11"):
        launch(build("structs.cpp"), kernel="ids", grid=(2, 3, 2), block=(8, 4, 2), args=[Buffer(out)], blocks=[12])


def test_bytes_that_no_block_wrote_are_known(assemble):
    """Of the first of two outputs that are written by the blocks 1, 2 and 5 of six."""
    path = assemble(
        frame.kernel("  s_lshl_b32 s20, s2, 8\n  v_add_u32 v4, s20, v1\n  global_store_dword v4, v1, s[8:9]\n")
    )
    buffers = [Buffer(np.zeros((6, 64), dtype=np.uint32)) for _ in range(2)]
    options = {"grid": (6, 1, 1), "block": (64, 1, 1), "args": buffers, "watch": True}
    outcome = launch(path, blocks=(5, 1, 2), **options)
    assert outcome.unwritten(buffers[0]) == [(0, 256), (768, 1280)]
    assert outcome.unwritten(buffers[1]) == [(0, 1536)]
    assert sorted({w.block for w in outcome.written}) == [1, 2, 5]
    assert launch(path, **options).unwritten(buffers[0]) == []


def test_partial_last_wave(build):
    out = np.zeros(100, dtype=np.float32)
    arguments = [Struct([Bytes(bytes(16), 4), Buffer(out)])]
    outcome = launch(
        build("structs.cpp"), kernel="copy_bytes", grid=(1, 1, 1), block=(10, 1, 1), args=arguments, watch=True
    )
    assert outcome.findings == ()


def test_trace(build):
    a, b = np.zeros((64, 64), dtype=np.uint16), np.zeros((64, 64), dtype=np.uint16)
    c = np.zeros((64, 64), dtype=np.float32)
    args = [Buffer(a), Buffer(b), Buffer(c), Scalar("i32", 64), Scalar("i32", 64)]
    outcome = launch(build("gemm.cpp"), grid=(1, 1, 1), block=(256, 1, 1), args=args, trace=TraceRequest(wave=2))
    trace = outcome.trace
    assert set(trace.wave.tolist()) == {2}
    names = [outcome.program.mnemonic(int(i)) for i in trace.index]
    assert names[-1] == "s_endpgm" and names.count("s_barrier") == 4
    # With four waves that do the same, a quarter of all instructions.
    assert len(names) * 4 == outcome.instructions
    stores = [i for i, n in enumerate(names) if n.startswith("global_store")]
    addresses = trace.addresses[trace.lanes[stores]]
    assert addresses.shape == (len(stores), 64)
    assert len(np.unique(addresses)) == 32 * 32  # each element of the wave's quarter once
    reads = [i for i, n in enumerate(names) if n.startswith("ds_read")]
    assert (trace.addresses[trace.lanes[reads]] < outcome.kernel.descriptor.group_bytes).all()
    everything = launch(build("gemm.cpp"), grid=(1, 1, 1), block=(256, 1, 1), args=args, trace=TraceRequest(limit=100))
    assert len(everything.trace.wave) == 100


def test_debug_lines(build):
    code = load(build("gemm.cpp"))
    kernel = code.kernel()
    file, line = code.line(kernel.entry)
    assert file.endswith("gemm.cpp") and line > 20
    assert load(build("gemm.cpp", debug=False)).line(kernel.entry) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"args": []}, "takes 5 arguments"),
        ({"kernel": "nothing"}, "no kernel 'nothing'"),
        ({"grid": (0, 1, 1)}, "must be positive"),
        ({"block": (512, 1, 1)}, "at most 256 threads"),
        ({"lds_bytes": 1 << 17}, "bytes of LDS"),
        ({"lds_bytes": -1}, "negative"),
    ],
)
def test_launches_that_cannot_start(build, change, message):
    c = Buffer(np.zeros((64, 64), dtype=np.float32))
    options = {"grid": (1, 1, 1), "block": (256, 1, 1), "args": [c, c, c, Scalar("i32", 64), Scalar("i32", 32)]}
    with pytest.raises(EmulateError, match=message):
        launch(build("gemm.cpp"), **(options | change))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (Buffer(np.zeros((4, 4))[:, ::2]), "not contiguous"),
        (Buffer("text"), "numpy array or a torch tensor"),
        (Scalar("i33", 1), "no scalar type"),
        (Scalar("i8", 1000), "does not fit"),
        (Scalar("i32", 1), "pointer of 8 bytes"),
    ],
)
def test_bad_arguments(build, argument, message):
    c = Buffer(np.zeros((64, 64), dtype=np.float32))
    args = [argument, c, c, Scalar("i32", 64), Scalar("i32", 32)]
    with pytest.raises(EmulateError, match=message):
        launch(build("gemm.cpp"), grid=(1, 1, 1), block=(256, 1, 1), args=args)


def test_read_only_memory_needs_saying_so(build):
    data = np.zeros(16, dtype=np.float32)
    data.flags.writeable = False
    with pytest.raises(EmulateError, match="read-only"):
        Buffer(data).bytes()
    assert len(Buffer(data, writable=False).bytes()) == 64


def test_torch_tensors_are_written_in_place(build):
    torch = pytest.importorskip("torch")
    a, b = torch.ones(64, 32, dtype=torch.bfloat16), torch.ones(64, 32, dtype=torch.bfloat16)
    c = torch.zeros(64, 64)
    launch(
        build("gemm.cpp"),
        grid=(1, 1, 1),
        block=(256, 1, 1),
        args=[Buffer(a), Buffer(b), Buffer(c), Scalar("i32", 64), Scalar("i32", 32)],
    )
    assert (c == 32).all()


def test_results_are_the_same_for_any_number_of_workers(assemble):
    body = (
        "  s_lshl_b32 s20, s2, 8\n  v_mov_b32 v3, s2\n  v_add_u32 v4, s20, v1\n  global_store_dword v4, v3, s[10:11]\n"
    )
    path = assemble(frame.kernel(body))
    for workers in (1, 4):
        out = np.zeros((16, 64), dtype=np.uint32)
        launch(path, grid=(16, 1, 1), block=(64, 1, 1), args=[Buffer(out), Buffer(out)][::-1], workers=workers)
        np.testing.assert_array_equal(out, np.arange(16)[:, None].repeat(64, 1))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_ends_the_run(assemble, workers):
    """Ctrl-C while the core runs: its threads stop soon, and the interrupt goes on."""
    path = assemble(frame.kernel(".Lloop:\n  s_branch .Lloop\n"))
    code = (
        "import numpy as np\nfrom tkgen.emulate import Buffer, launch, native\n"
        "native.core()\nprint('ready', flush=True)\n"
        "args = [Buffer(np.zeros(64, np.uint32)), Buffer(np.zeros(64, np.uint32))]\n"
        f"launch({str(path)!r}, grid=(8, 1, 1), block=(64, 1, 1), args=args, budget=1 << 60, workers={workers})\n"
    )
    python = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )  # fmt: skip
    assert python.stdout.readline() == "ready\n"
    time.sleep(0.5)  # into the loop, which has no end of its own
    python.send_signal(signal.SIGINT)
    _, errors = python.communicate(timeout=120)
    assert python.returncode != 0 and "KeyboardInterrupt" in errors


@pytest.mark.parametrize(("offset", "size"), [(0, 0), (0, 1), (14, 4), (-4, 4), (1 << 40, 4), (0, 1 << 40)])
def test_a_hidden_argument_of_damaged_metadata_is_named(offset: int, size: int) -> None:
    count = Argument("", offset, size, "hidden_block_count_x")
    kernel = Kernel("k", 0, cast(Any, None), (count,), 16, 1024, False, False, {})
    with pytest.raises(EmulateError, match="the metadata of k is damaged: hidden_block_count_x"):
        kernarg(kernel, [], Layout(), Geometry((300, 1, 1), (64, 1, 1), 0, 0, 0))
