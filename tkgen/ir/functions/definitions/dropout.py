"""Random numbers that are a function of a seed and a place: the same in every schedule, forwards and backwards.

Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): ten rounds that
encrypt a counter of four 32-bit words with a key of two. A counter is for four places, which differ in the lowest two
bits of their second coordinate (a row's column) alone: these choose one of the four words of the result, whose upper 24
bits are the fraction. So a lane that has neighbours along that axis computes a quarter of a cipher for each. The key
has the bits of the f32 seed, and zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkgen.ir.functions.model import CDNA, HOPPER, HOST, TORCH, Function

if TYPE_CHECKING:
    from torch import Tensor

ROUNDS = 10
FACTORS = (0xD2511F53, 0xCD9E8D57)
STEPS = (0x9E3779B9, 0xBB67AE85)  # of the key: the golden ratio, the square root of 3 less 1
MASK = 0xFFFFFFFF
UNIFORM = f"""\
/// Uniform in [0, 1): Philox 4x32-10 of four neighbours in a row, with the bits of `seed` as its key.
__device__ inline float uniform(float seed, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {{
    uint32_t low = __builtin_bit_cast(uint32_t, seed), high = 0;
    const uint32_t word = b % 4;
    b /= 4;
#pragma unroll
    for (int round = 0; round < {ROUNDS}; ++round, low += {STEPS[0]:#x}u, high += {STEPS[1]:#x}u) {{
        const uint64_t left = uint64_t({FACTORS[0]:#x}u) * a, right = uint64_t({FACTORS[1]:#x}u) * c;
        a = uint32_t(right >> 32) ^ b ^ low, b = uint32_t(right);
        c = uint32_t(left >> 32) ^ d ^ high, d = uint32_t(left);
    }}
    return float((word == 0 ? a : word == 1 ? b : word == 2 ? c : d) >> 8) * 0x1p-24f;
}}"""

CUDA_UNIFORM = UNIFORM.replace("__builtin_bit_cast(uint32_t, seed)", "__float_as_uint(seed)")
TORCH_UNIFORM = f'''\
def uniform(seed, a, b, c, d):
    """Uniform in [0, 1): Philox 4x32-10 of four neighbours in a row, with the bits of `seed` as its key."""
    mask = 0x{MASK:X}
    low, high = seed.float().view(torch.int32).long() & mask, 0
    a, b, c, d = (x.long() & mask for x in (a, b, c, d))
    word, b = b & 3, b >> 2
    for _ in range({ROUNDS}):
        left, right = 0x{FACTORS[0]:X} * a, 0x{FACTORS[1]:X} * c
        a, b = (right >> 32 & mask) ^ b ^ low, right & mask
        c, d = (left >> 32 & mask) ^ d ^ high, left & mask
        low, high = low + 0x{STEPS[0]:X} & mask, high + 0x{STEPS[1]:X} & mask
    word = torch.where(word < 2, torch.where(word == 0, a, b), torch.where(word == 2, c, d))
    return (word >> 8).double() * 2.0**-24'''
PLACE = "uint32_t({1}), uint32_t({2}), uint32_t({3}), uint32_t({4})"


def philox(counter: list[Tensor], key: list[Tensor]) -> list[Tensor]:
    """The four words for a counter and a key; int64 tensors that hold 32-bit words."""
    (a, b, c, d), (low, high) = counter, key
    for _ in range(ROUNDS):
        left, right = FACTORS[0] * a, FACTORS[1] * c  # modulo 2^64: their upper words are right, the sign is masked off
        a, b = (right >> 32 & MASK) ^ b ^ low, right & MASK
        c, d = (left >> 32 & MASK) ^ d ^ high, left & MASK
        low, high = low + STEPS[0] & MASK, high + STEPS[1] & MASK
    return [a, b, c, d]


def uniform(seed: Tensor, *place: Tensor) -> Tensor:
    """A number in [0, 1) for each place."""
    import torch

    key = seed.float().view(torch.int32).long() & MASK
    row, column, *rest = (p.long() & MASK for p in place)
    words = torch.broadcast_tensors(*philox([row, column >> 2, *rest], [key, key.new_zeros(())]), column)
    return (torch.stack(words[:4]).gather(0, (words[4] & 3)[None])[0] >> 8).double() * 2.0**-24


POSITION = 9
FUNCTIONS = (
    Function(
        "random", 5,
        "A number uniform in [0, 1) that depends only on the seed and on up to four positions. The numbers of four "
        "neighbors along the second argument are computed together.",
        uniform, lambda *arguments: tuple(a.new_zeros(()) for a in arguments),
        {CDNA: f"uniform({{0}}, {PLACE})", HOPPER: f"uniform({{0}}, {PLACE})", HOST: f"uniform(float({{0}}), {PLACE})"},
        "uniform({0}, {1}, {2}, {3}, {4})",
        {
            CDNA: (UNIFORM,), HOPPER: (CUDA_UNIFORM,), HOST: (UNIFORM.replace("__device__ ", ""),),
            TORCH: (TORCH_UNIFORM,),
        },
        takes="place", optional=3,
    ),
)  # fmt: skip
