"""From the tree to the typed program: what is derived, and every problem of a spec at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest

from tkgen.diagnostics import SpecError
from tkgen.ir.equations import Argument, Load, Map
from tkgen.ir.program import matrix_program as resolve
from tkgen.ir.types import DType, Program, Via
from tkgen.source import SourceFile
from tkgen.syntax import ast
from tkgen.syntax.parser import parse

LINES = {
    "dims": "dims M = 1024, N = 512, K = 256",
    "a": "global A : bf16[M, K]",
    "b": "global B : bf16[N, K]",
    "c": "global C : f32[M, N]",
    "block": "block 128 x 64 step 32",
    "waves": "waves 2 x 2",
    "shared": "shared A, B",
    "accumulate": "accumulate C : f32 tile 32 x 16",
    "store": "store C",
}


def resolved(defines: dict[str, int | None] | None = None, extra: str = "", **lines: str) -> Program:
    text = "kernel gemm\n" + "".join(f"  {line}\n" for line in {**LINES, **lines}.values() if line) + extra
    return resolve(parse(SourceFile("gemm.tk", text)), defines)


def codes(defines: dict[str, int | None] | None = None, extra: str = "", **lines: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        resolved(defines, extra, **lines)
    return [d.code for d in caught.value.diagnostics]


def test_a_split_among_one_block_is_no_split() -> None:
    whole, split = (resolved(shared=f"shared A, B\n  grid split_k({n})") for n in (1, 2))
    assert whole.grid.name == "linear" and not whole.added
    assert split.grid.name == "split_k" and split.added == {"C"}
    assert not resolved({"K": None}, shared="shared A, B\n  grid split_k(1)").added


def test_fragments_and_operands_are_derived() -> None:
    p = resolved()
    assert p.accumulator.fragments == (2, 2)
    assert p.accumulator.registers == 4 * 32 * 16 // 64
    assert (p.a.lds_shape, p.b.lds_shape) == ((128, 32), (64, 32))
    assert (p.a.fragments, p.a.fragment_extent, p.b.fragments, p.b.fragment_extent) == (2, 32, 2, 16)
    assert (p.a.lds_bytes, p.a.registers_per_tile) == (128 * 32 * 2, 32 * 32 * 2 // 256)
    assert (p.waves, p.threads, p.steps, p.products[0].layouts) == (4, 256, 8, "ABt")
    assert (p.a.via, p.a.buffers, p.a.register_buffers, p.a.slices) == (Via.COLLECTIVE, 1, 1, 1)


@pytest.mark.parametrize(
    ("a", "b", "product", "layouts"),
    [
        ("A : bf16[M, K]", "B : bf16[K, N]", "AB", ("row", "col")),
        ("A : bf16[M, K]", "B : bf16[N, K]", "ABt", ("row", "row")),
        ("A : bf16[K, M]", "B : bf16[K, N]", "AtB", ("col", "col")),
        ("A : bf16[K, M]", "B : bf16[N, K]", "AtBt", ("col", "row")),
    ],
)
def test_layouts_of_the_product(a: str, b: str, product: str, layouts: tuple[str, str]) -> None:
    p = resolved(a=f"global {a}", b=f"global {b}")
    assert p.products[0].layouts == product
    assert (p.a.register_layout, p.b.register_layout) == layouts


def test_the_factors_are_told_apart_by_the_outputs_dimensions() -> None:
    assert [o.name for o in resolved(shared="shared B, A").operands] == ["A", "B"]
    p = resolved(accumulate="accumulate C = B2 * A2 : f32 tile 32 x 16", a="global B2 : bf16[M, K]",
                 b="global A2 : bf16[N, K]", shared="shared A2, B2")  # fmt: skip
    assert [o.name for o in p.operands] == ["B2", "A2"]


def test_sizes_are_expressions_and_can_be_set() -> None:
    lines = {
        "waves": "param R = 2\n  waves R x 4 / R",
        "block": "block 64 * R x max(64, 16) step ceil_div(60, 30) * 16",
    }
    p = resolved({"M": 2048}, **lines)
    assert (p.block, p.compute.shape, p.m.size) == ((128, 64, 32), (2, 2), 2048)
    assert resolved({"R": 1}, **lines).compute.shape == (1, 4)
    assert resolved({"K": None}).steps is None
    assert resolved(dims="dims M = dynamic, N = 512, K = 256").dynamic


def test_a_number_of_waves_is_split_so_that_little_is_read() -> None:
    square = {"block": "block 128 x 128 step 32", "accumulate": "accumulate C : f32 tile 32 x 32"}
    assert resolved(waves="waves 4", **square).compute.shape == (2, 2)
    assert resolved(waves="waves 8", block="block 256 x 128 step 32", accumulate="accumulate C : f32 tile 16 x 16"
                    ).compute.shape == (4, 2)  # fmt: skip


def test_interleaved_and_blocked_fragments() -> None:
    blocked, interleaved = (resolved(accumulate=f"accumulate C : f32 tile 32 x 16 {x}").accumulator
                            for x in ("blocked", "interleaved"))  # fmt: skip
    assert [blocked.tile_index(0, 1, i, 2) for i in range(2)] == [2, 3]
    assert [interleaved.tile_index(0, 1, i, 2) for i in range(2)] == [1, 3]


def test_roles() -> None:
    text = """  role producer waves 0..2
    load A, B by 3 waves
  role consumer waves 3..6 as 4 x 1
    accumulate C : f32 tile 32 x 16
    store C
"""
    p = resolved(extra=text, waves="", accumulate="", store="")
    producer, consumer = p.roles
    assert (producer.loads, producer.group, producer.multiplies) == (("A", "B"), 3, False)
    assert (consumer.shape, consumer.loads, consumer.multiplies) == ((4, 1), (), True)
    assert p.compute is consumer and p.waves == 7


def test_epilogue() -> None:
    extra = "  scalar alpha : f32 = 0.5\n  global v : bf16[N]\n  epilogue scale(alpha) | bias(v) | gelu\n"
    ops = resolved(extra=extra).equations.epilogue
    assert [op.function for op in ops if isinstance(op, Map)] == ["mul", "add", "gelu"]
    assert [op.scalar.name for op in ops if isinstance(op, Argument)] == ["alpha"]
    assert [(op.source.tensor.name, [a.name for a in op.source.axes]) for op in ops if isinstance(op, Load)] == [
        ("v", ["n"])
    ]


def test_what_is_declared_and_unused() -> None:
    p = resolved(extra="  global v : f32[N]\n  scalar beta : f32 = 1.0\n  shared C\n",
                 accumulate="accumulate C = A * B : f32 tile 32 x 16")  # fmt: skip
    assert [(u.what, u.name) for u in p.unused] == [("shared tile", "C"), ("tensor", "v"), ("scalar", "beta")]


def test_types() -> None:
    p = resolved(a="global A : f16[M, K]", b="global B : fp16[N, K]", c="global C : bf16[M, N]")
    assert (p.a.tensor.dtype, p.b.tensor.dtype, p.accumulator.tensor.dtype) == (DType.F16, DType.F16, DType.BF16)
    assert codes(b="global B : f16[N, K]") == ["E204"]
    assert codes(b="global B : f8[N, K]") == ["E204"]


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ({"block": ""}, "E201"),
        ({"accumulate": ""}, "E201"),
        ({"shared": "shared A"}, "E205"),
        ({"shared": "shared A, B\n  shared A"}, "E202"),
        ({"block": "block 128 x 64 step 0"}, "E203"),
        ({"block": "block 128 x 64 step 33 / 2"}, "E203"),
        ({"block": "block 128 x 64 step W"}, "E200"),
        ({"block": "block 128 x 64 step foo(1, 2)"}, "E200"),
        ({"waves": "waves 3 x 1"}, "E206"),
        ({"waves": "waves 32 x 1"}, "E214 E203"),
        ({"accumulate": "accumulate C : f32 tile 8 x 16"}, "E207"),
        ({"accumulate": "accumulate C : f32 tile 32 x 16 mfma 32 x 32"}, "E207"),
        ({"accumulate": "accumulate D : f32 tile 32 x 16"}, "E200"),
        ({"b": "global B : bf16[M, K]"}, "E205"),
        ({"c": "global C : f32[M, M]"}, "E209"),
        ({"a": "global A : bf16[M, 64]"}, "E209"),
        ({"store": "store A"}, "E215"),
        ({"store": ""}, "E215"),
        ({"store": "store C\n  store C"}, "E602"),
        ({"shared": "shared A, B via magic"}, "E213"),
        ({"shared": "shared A, B\n  registers A, B slice 24"}, "E208"),
        ({"shared": "shared A, B\n  tail ragged"}, "E212"),
        ({"shared": "shared A, B\n  grid round(4)"}, "E212"),
        ({"shared": "shared A, B\n  occupancy 9 waves per simd"}, "E203"),
        ({"shared": "shared A, B\n  allow nonsense"}, "E200"),
        ({"shared": "shared A, B\n  epilogue softplus"}, "E211"),
    ],
)
def test_what_cannot_be(lines: dict[str, str], code: str) -> None:
    assert codes(**lines) == code.split()


def test_defines_that_set_nothing() -> None:
    assert codes({"Q": 3}) == ["E210"]
    assert codes({"M": -1}) == ["E210"]
    assert codes(dims="dims M = 0, N = M * 2, K = 256") == ["E203"]


def test_independent_problems_come_together() -> None:
    assert codes(a="global A : bf17[M, K]", c="global C : f32[M, Q]") == ["E204", "E209"]


def test_suggestions() -> None:
    with pytest.raises(SpecError) as caught:
        resolved(shared="shared A, BB")
    assert "did you mean" in caught.value.diagnostics[0].message


def test_the_problems_of_a_schedule_are_said_with_those_of_other_clauses() -> None:
    lines = "cluster load A B", "group read A(9) B(0; 9) multiply (0, 5)"
    schedule = "  schedule barriers sometimes\n" + "".join(f"    {line}\n" for line in lines)
    assert codes(extra="  epilogue squash\n" + schedule) == ["E211", "E216", "E217", "E217", "E217"]


def test_no_node_of_the_tree_stands_behind_resolution() -> None:
    program = resolved(
        extra="  schedule waits auto\n    cluster load A B\n    cluster read A B  multiply  priority low\n"
    )

    def nodes(value: object) -> Iterator[object]:
        if isinstance(value, ast.Node):
            yield value
        elif is_dataclass(value):
            yield from (n for f in fields(value) for n in nodes(getattr(value, f.name)))
        elif isinstance(value, tuple | dict):
            yield from (n for v in (value.values() if isinstance(value, dict) else value) for n in nodes(v))

    assert program.schedule is not None and len(program.schedule.clusters) == 2
    assert not list(nodes(program))
