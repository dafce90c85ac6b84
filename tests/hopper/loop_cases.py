"""Attention for tests on Hopper: a spec of any sizes, tiles, masks, types and orders of dimensions."""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.api import load
from tkgen.backends.hopper.spec import HopperSpec

ORDERS = {"heads first": "[BATCH, {h}, {n}, D]", "models'": "[BATCH, {n}, {h}, D]"}
PLACES = {"heads first": "[b, {h}, {n}]", "models'": "[b, {n}, {h}]"}


@dataclass(frozen=True)
class Attention:
    """Queries by tiles of `rows`, keys by tiles of `block`; causal with the last query at the last key."""

    queries: int
    keys: int
    depth: int = 128
    rows: int = 128
    block: int = 128
    buffers: int = 2
    causal: bool = False
    window: int = 0  # keys that a query sees, with `causal`
    group: int = 1
    order: str = "heads first"
    dtype: str = "bf16"
    persistent: int = 0

    @property
    def text(self) -> str:
        """The spec."""
        shift = self.keys - self.queries
        moved = f" + {shift}" if shift else ""
        ends = f" to q{moved}" if self.causal else ""
        back = shift - self.window + 1
        starts = f" from q {'-' if back < 0 else '+'} {abs(back)}" if back else " from q"
        tensors = ORDERS[self.order]
        q, k = (tensors.format(h=h, n=n) for h, n in (("HEADS", "QUERIES"), ("KV_HEADS", "KEYS")))
        at = PLACES[self.order]
        row = f"q + {shift}" if shift else "q"
        mask = [f"    s = where({row} >= j, s, -inf)"] if self.causal else []
        mask += [f"    s = where({row} < j + {self.window}, s, -inf)"] if self.window else []
        lines = [
            "kernel attention", "  target sm_90a",
            f"  dims BATCH = 2, HEADS = {2 * self.group}, KV_HEADS = 2, QUERIES = {self.queries}, KEYS = {self.keys}, "
            f"D = {self.depth}",
            "  param GROUP = HEADS / KV_HEADS",
            *(f"  global {name} : {self.dtype}{shape}" for name, shape in (("Q", q), ("K", k), ("V", k), ("O", q))),
            "  global LSE2 : f32[BATCH, HEADS, QUERIES]",
            f"  scalar scale : f32 = {1.4426950408889634 / self.depth**0.5}",
            f"  over b in BATCH, h in HEADS, q in QUERIES by {self.rows}",
            f"  waves {self.rows // 16} along q",
            *([f"  grid persistent({self.persistent})"] if self.persistent else []),
            f"  shared K, V  buffers {self.buffers} via direct",
            f"  carry m : f32[q] = {'-1e30' if self.window else '-inf'}, l : f32[q] = 0, o : f32[q, D] = 0",
            f"  each j in KEYS by {self.block}{starts if self.window else ''}{ends}",
            f"    s = scale * Q{at.format(h='h', n='q')} @ K{at.format(h='h / GROUP', n='j')}.T",
            *mask,
            "    n = max(m, rowmax(s))",
            "    p = exp2(s - n)",
            "    r = exp2(m - n)",
            "    l = l * r + rowsum(p)",
            f"    o = o * r + {self.dtype}(p) @ V{at.format(h='h / GROUP', n='j')}",
            "    m = n",
            f"  O{at.format(h='h', n='q')} = o / l",
            "  LSE2[b, h, q] = m + log2(l)",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def spec(self) -> HopperSpec:
        """The spec, loaded."""
        found = load(self.text)
        assert isinstance(found, HopperSpec)
        return found


CASES = [Attention(n, n, causal=causal) for n in (1, 64, 128, 200, 384, 1000) for causal in (False, True)]
TILES = ((64, 64, 64, 2), (64, 192, 128, 2), (64, 128, 128, 3), (128, 192, 64, 3), (128, 64, 64, 4), (192, 128, 64, 2))
CASES += [Attention(300, 300, *tiles, causal) for causal in (False, True) for tiles in TILES]
CASES += [Attention(200, 200, group=4, order="models'", causal=causal) for causal in (False, True)]
CASES += [Attention(130, 700), Attention(130, 700, causal=True), Attention(64, 512, causal=True)]
CASES += [Attention(1000, 1000, causal=True, window=w) for w in (1, 100, 300)]
CASES += [Attention(200, 900, causal=True, window=300), Attention(256, 256, dtype="f16")]
CASES += [Attention(1000, 700, persistent=blocks) for blocks in (1, 3, 132)]
