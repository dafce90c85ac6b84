"""Code objects of Triton's AMD backend, where Triton is installed; it compiles without a GPU."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from sampling import slow

from tkgen.emulate import Buffer, Policy, Scalar, launch, load
from tkgen.emulate.algebra import P, Q

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton", reason="Triton is an optional peer: pip install triton")
LLD = next((p for n in ("ld.lld-22", "ld.lld-21", "ld.lld") if (p := shutil.which(n))), None)
tl = pytest.importorskip("triton.language")


def gemm(a, b, c, k_size, row_a, row_b, row_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    at_a = a + rows[:, None] * row_a + ks[None, :]
    at_b = b + ks[:, None] * row_b + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k_size, BK):
        total = tl.dot(tl.load(at_a), tl.load(at_b), total)
        at_a += BK
        at_b += BK * row_b
    tl.store(c + rows[:, None] * row_c + columns[None, :], total)


@pytest.mark.skipif(LLD is None, reason="Triton links with ld.lld: install lld-22")
@pytest.mark.parametrize(("target", "stages"), [("gfx942", 2), ("gfx950", 1), slow("gfx942", 1), slow("gfx950", 2)])
def test_gemm(monkeypatch, target, stages):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_HIP_LLD_PATH", LLD)
    names = ("a", "b", "c", "k_size", "row_a", "row_b", "row_c")
    signature = dict(zip(names, ("*bf16", "*bf16", "*fp32", "i32", "i32", "i32", "i32"), strict=True))
    signature |= {"BM": "constexpr", "BN": "constexpr", "BK": "constexpr"}
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(7)}
    source = ASTSource(triton.jit(gemm), signature, {(7,): 128, (8,): 128, (9,): 64}, attributes)
    options = {"num_warps": 4, "num_stages": stages}
    compiled = triton.compile(source, target=GPUTarget("hip", target, 64), options=options)

    torch.manual_seed(1)
    a, b = torch.randn(256, 192).bfloat16(), torch.randn(192, 256).bfloat16()
    for policy in (Policy.BARRIER, Policy.ADVERSARIAL):
        c = torch.zeros(256, 256)
        args = [Buffer(a), Buffer(b), Buffer(c), *(Scalar("i32", v) for v in (192, 192, 256, 256))]
        code = load(compiled.asm["hsaco"])
        # Triton adds pointers to scratch buffers that this kernel does not use.
        args += [Scalar("ptr", 0)] * (len(code.kernel().explicit_arguments) - len(args))
        outcome = launch(
            code,
            grid=(2, 2, 1),
            block=(256, 1, 1),
            args=args,
            lds_bytes=compiled.metadata.shared,
            policy=policy,
            watch=True,
            poison=True,
        )
        assert outcome.completed and [str(f) for f in outcome.findings] == []
        torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-4, atol=1e-4)

    rng = np.random.default_rng(2)
    given = [rng.integers(0, Q, (t.numel(), 2), np.uint32) for t in (a, b)]
    made = np.zeros((c.numel(), 2), np.uint32)
    payloads = [Buffer(t, payload=p) for t, p in zip((a, b, c), (*given, made), strict=True)]
    algebra = launch(
        code,
        grid=(2, 2, 1),
        block=(256, 1, 1),
        args=payloads + args[3:],
        lds_bytes=compiled.metadata.shared,
        policy=Policy.ADVERSARIAL,
        poison=True,
        algebra=True,
    )
    assert algebra.completed and algebra.lost == ()
    for field, modulus in enumerate((P, Q)):
        left, right = (p[:, field].astype(object).reshape(t.shape) for p, t in zip(given, (a, b), strict=True))
        np.testing.assert_array_equal(made[:, field].reshape(256, 256), left @ right % modulus)
