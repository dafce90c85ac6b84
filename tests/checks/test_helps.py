"""Every help that is printed leads on: what is taken of it brings no other error, and what is accepted then is right.

Mistakes of one edit each are made in batched, grouped and attention specs, for AMD and for Hopper; a sample by default.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from helps import Help, found, helps, mistakes, sample
from sampling import only
from typer.testing import CliRunner

from tkgen.cli import app

ATTENTION = """\
kernel attention
  dims B = 2, H = 4, L = 256, D = 64
  global Q : bf16[B, H, L, D]
  global K : bf16[B, H, L, D]
  global V : bf16[B, H, L, D]
  global O : bf16[B, H, L, D]
  scalar scale : f32 = 0.18
  over b in B, h in H, q in L by 128
  waves 4 along q
  shared K, V buffers 2
  carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0
  each j in L by 64
    s = scale * Q[b, h, q] @ K[b, h, j].T
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[b, h, j]
    m = n
  O[b, h, q] = o / l
"""
PING_PONG = ATTENTION.replace("waves 4", "waves 8").replace("  carry", "  schedule ping_pong\n  carry", 1)
HOPPER = ATTENTION.replace("waves 4", "waves 8").replace("buffers 2", "buffers 2 via direct")
PACKED = """\
kernel packed
  dims H = 4, SEQS = 3, ENDS = SEQS + 1, L = 256, D = 64
  global FIRST : i32[ENDS]
  global Q : bf16[H, L, D]
  global K : bf16[H, L, D]
  global V : bf16[H, L, D]
  global G : f32[H, L]
  global O : bf16[H, L, D]
  global E : f32[H, L]
  over e in SEQS, h in H, q in L within FIRST[e] by 64
  waves 4 along q
  shared K, V buffers 2
  shared G buffers 2
  carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0
  each j in L within FIRST[e] by 64
    s = 0.18 * Q[h, q] @ K[h, j].T
    t = where(q >= j, s + G[h, j], -inf)
    n = max(m, rowmax(t))
    z = where(n > -inf, n, 0)
    p = exp2(t - z)
    r = exp2(m - z)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = o / l
  E[h, q] = m
"""
BATCHED = """\
kernel batched
  dims B = 4, M = 256, N = 256, K = 128
  global A : bf16[B, M, K]
  global W : bf16[B, N, K]
  global C : f32[B, M, N]
  scalar alpha : f32 = 0.5
  over b in B, m in M by 128, n in N by 128
  waves 2 x 2
  shared A, W buffers 2
  each k in K by 32
    c = c + A[b, m, k] @ W[b, n, k].T
  C[b, m, n] = alpha * relu(c)
"""
SPECS = {
    "attention": (ATTENTION, "gfx942"), "ping_pong": (PING_PONG, "gfx950"), "hopper": (HOPPER, "sm_90a"),
    "packed": (PACKED, "gfx90a"), "batched": (BATCHED, "gfx942"),
}  # fmt: skip


def wrong(text: str, target: str, count: int) -> tuple[int, list[str]]:
    """The number of helps taken of `count` mistakes, and those of them that led to another error."""
    taken, failed = 0, list[str]()
    for mistake in sample(sorted(set(mistakes(text))), count, 1):
        for each, errors in helps(mistake, target):
            taken += 1
            if errors and not each.is_guess:
                failed.append(f"{each.said}: {errors[0].code} {errors[0].message}\n{each.text}")
    return taken, failed


@pytest.mark.parametrize("name", only(SPECS, ("attention", "hopper", "batched")))
def test_a_help_that_is_taken_leads_to_no_other_error(name: str) -> None:
    text, target = SPECS[name]
    assert not [d for d in found(text, target) if d.code.startswith("E")]
    taken, failed = wrong(text, target, 30)
    assert taken and not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_of_all_mistakes_no_help_leads_to_another_error(name: str) -> None:
    taken, failed = wrong(*SPECS[name], 10_000)
    assert taken > 50 and not failed, "\n".join(failed)


# A mistake in a spec, what is said of it, and a word of the help.
SAID = [
    (BATCHED, ("N = 256, K", "N = 255, K"), "E604", "add a tail clause"),
    (BATCHED, ("global W : bf16", "global W : f32"), "E204", "declare `W` as bf16"),
    (BATCHED, ("each k in", "each kx in"), "E200", "declare it"),
    (ATTENTION, ("  shared K, V buffers 2\n", ""), "E230", "`shared K, V buffers 2`"),
    (ATTENTION, ("o / l\n", "o\n"), "W502", "and from `carry`"),
    (ATTENTION, ("  shared", "  tail masked\n  shared"), "E222", "remove it"),
    (ATTENTION, ("shared K, V", "shared o, V"), "E200", "write `V`|write `Q`|write `K`|declare it"),
]


@pytest.mark.parametrize(("text", "edit", "code", "help_"), SAID)
def test_what_is_said_is_true(text: str, edit: tuple[str, str], code: str, help_: str) -> None:
    assert edit[0] in text
    (said,) = [d for d in found(text.replace(*edit, 1), "gfx942") if d.code == code][:1]
    assert said.fix is not None and any(word in said.fix.text for word in help_.split("|")), said
    assert code != "E222" or "have none" not in said.message


def accepted(text: str, target: str, edit: tuple[str, str]) -> Help:
    (first,) = [(each, errors) for each, errors in helps(text.replace(*edit, 1), target)][:1]
    assert not first[1]
    return first[0]


@pytest.mark.parametrize(
    ("text", "edit"),
    [(BATCHED, ("N = 256, K", "N = 255, K")), (ATTENTION, ("  shared K, V buffers 2\n", "")),
     (ATTENTION, ("  shared", "  tail masked\n  shared"))],
    ids=["tail", "shared", "clause"],
)  # fmt: skip
def test_what_a_help_leaves_is_right(text: str, edit: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "helped.tk"
    path.write_text(
        accepted(text.replace("B = 2, H = 4", "B = 1, H = 1").replace("B = 4", "B = 1"), "gfx942", edit).text
    )
    result = CliRunner().invoke(app, ["run", str(path), "-t", "gfx942", "--schedules", "1"])
    assert result.exit_code == 0, result.output


def test_a_schedule_of_a_kernel_for_hopper_is_shown() -> None:
    spec = Path(__file__).parents[2] / "specs/hopper/h100_lcf.tk"
    shown = CliRunner().invoke(app, ["check", str(spec), "--print-after", "schedule"])
    assert shown.exit_code == 0 and "tile A0 x STAGES" in shown.output
