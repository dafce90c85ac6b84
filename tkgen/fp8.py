"""8-bit floats from one encoding to the other: the same numbers, as codes and a scale.

A checkpoint holds OCP's e4m3fn, the matrix instructions of gfx942 take e4m3fnuz. The exponents of the two are biased
by 7 and by 8, so one code means in the second encoding half of what it means in the first: codes stay, scales double.
But 0x80 is -0 in OCP's encoding and the NaN of the other, and OCP's NaNs (e5m2: infinities, too) are numbers there.

>>> weight, scale = convert(weight, scale, torch.float8_e4m3fnuz)
"""

from __future__ import annotations

import torch
from torch import Tensor

# Of OCP's encodings: the other one, and the code of the largest finite number.
PAIRS = {
    torch.float8_e4m3fn: (torch.float8_e4m3fnuz, 0x7E),
    torch.float8_e5m2: (torch.float8_e5m2fnuz, 0x7B),
}
OCP = {fnuz: (ocp, largest) for ocp, (fnuz, largest) in PAIRS.items()}
NAN_FNUZ, NAN_OCP = 0x80, 0x7F
SIGN = 0x80


def convert(codes: Tensor, scale: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Codes and scale in `dtype` of the numbers `codes * scale`, of the same exponent and fraction in either encoding.

    To a FNUZ encoding every finite number stays what it is; infinities become NaN. From one, what OCP's encoding has no
    code for becomes its largest: 240 times the scale (e4m3), from 32768 times the scale on (e5m2).

    Raises:
        ValueError: `codes` is neither of `dtype` nor of its twin.
    """
    if codes.dtype == dtype:
        return codes, scale
    bits = codes.view(torch.uint8)
    magnitude = bits & ~SIGN & 0xFF
    if codes.dtype in PAIRS and PAIRS[codes.dtype][0] == dtype:
        largest = PAIRS[codes.dtype][1]
        found = torch.where(magnitude > largest, NAN_FNUZ, torch.where(bits == SIGN, 0, bits))
        return found.to(torch.uint8).view(dtype), scale * 2
    if codes.dtype in OCP and OCP[codes.dtype][0] == dtype:
        largest = OCP[codes.dtype][1]
        within = torch.where(magnitude > largest, largest | bits & SIGN, bits)
        found = torch.where(bits == NAN_FNUZ, NAN_OCP, within)
        return found.to(torch.uint8).view(dtype), scale / 2
    raise ValueError(f"{codes.dtype} and {dtype} are not two encodings of one format: PAIRS has those that are")
