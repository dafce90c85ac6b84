"""Launches over an algebra: what an output's payload is of those of the inputs, however numbers were rounded."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.test_kernels import bf16
from tkgen.emulate import Buffer, EmulateError, Scalar, launch
from tkgen.emulate.algebra import NEVER_WRITTEN, P, Q, hashed, moduli, number_format

RNG = np.random.default_rng(14)


def random_payload(numbers: int) -> np.ndarray:
    fields = [RNG.integers(0, modulus, numbers) for modulus in (P, Q)]
    return np.stack(fields, axis=1).astype(np.uint32)


def unwritten(numbers: int) -> np.ndarray:
    return np.full((numbers, 2), NEVER_WRITTEN[0], np.uint32)


def test_the_fields_are_those_of_the_core():
    assert moduli() == (P, Q) and P == 2 * Q + 1 and P % 8 == 7
    assert pow(2, Q, P) == 1  # so 2**x of an x modulo q is one number


def test_hash():
    def mix(tag: str, x: int) -> int:
        mask = 2**64 - 1
        z = int.from_bytes(tag.encode(), "little") ^ x * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    for x in map(int, RNG.integers(0, P, 1000)):
        assert hashed("log2", x, 0) == mix("log2", x) % P and hashed("Q", x, 1) == mix("Q", x) % Q


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_product(build, target):
    """A product through LDS: what is stored is the sum of products, in both fields, of any payloads."""
    m, n, k = 64, 128, 96
    a, b = bf16(RNG.standard_normal((m, k))), bf16(RNG.standard_normal((n, k)))
    c = np.zeros((m, n), np.float32)
    pa, pb, pc = random_payload(m * k), random_payload(n * k), unwritten(m * n)
    args = [Buffer(a, "a", payload=pa, format="bf16"), Buffer(b, "b", payload=pb, format="bf16"),
            Buffer(c, "c", payload=pc), Scalar("i32", n), Scalar("i32", k)]  # fmt: skip
    outcome = launch(build("gemm.cpp", target), grid=(2, 1, 1), block=(256, 1, 1), args=args, algebra=True)
    assert outcome.completed and outcome.lost == ()
    for field, modulus in enumerate((P, Q)):
        x, y = pa[:, field].astype(object).reshape(m, k), pb[:, field].astype(object).reshape(n, k)
        np.testing.assert_array_equal(pc[:, field].reshape(m, n), (x @ y.T) % modulus)


def test_a_payload_must_fit_its_buffer():
    with pytest.raises(EmulateError, match=r"buffer a has a payload and needs a format: one of f32, bf16, f16"):
        launch_nothing(Buffer(np.zeros(4, np.uint16), "a", payload=random_payload(4)))
    with pytest.raises(EmulateError, match=r"the payload of buffer a has 5 numbers of 32 bits, its data 16 bytes"):
        launch_nothing(Buffer(np.zeros(4, np.float32), "a", payload=random_payload(5)))


def launch_nothing(buffer: Buffer) -> None:
    number_format(buffer)
