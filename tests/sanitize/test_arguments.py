"""The language of --arg, and Python functions instead of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tkgen.emulate import Buffer, Scalar, Struct
from tkgen.emulate.arguments import Layout
from tkgen.sanitize import ArgumentError, Output, from_file, parse
from tkgen.sanitize.arguments import lines_of


def one(text: str) -> object:
    (arg,) = parse([text]).make()
    return arg


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("i32=7", "i32", 7),
        ("i32", "i32", 0),
        ("u64=0x1fffffffff", "u64", 0x1FFFFFFFFF),
        ("i8=-128", "i8", -128),
        ("f32=-1.5e3", "f32", -1500.0),
        ("f64=inf", "f64", float("inf")),
        ("bf16=1", "bf16", 1),
    ],
)
def test_scalars(text: str, kind: str, value: float) -> None:
    assert one(text) == Scalar(kind, value)


@pytest.mark.parametrize(
    ("value", "bits"),
    [("1", 0x3F80), ("-0.2", 0xBE4D), ("1.00390625", 0x3F80), ("1.01171875", 0x3F82), ("inf", 0x7F80), ("nan", 0x7FC0)],
)
def test_bf16_is_rounded_to_nearest_even(value: str, bits: int) -> None:
    (number,) = parse([f"bf16={value}"]).make()
    assert Layout().encode(number) == bits.to_bytes(2, "little")


def test_several_in_one() -> None:
    named, count, data = parse(["eps:f32=0.5, i32=7", "A:f32[4]=ones"]).make()
    assert (named, count) == (Scalar("f32", 0.5, "eps"), Scalar("i32", 7)) and isinstance(data, Buffer)
    for text, message in (("i32,", "expected a type"), ("i32 i32", "expected the end"), ("i32=7;", "expected the end")):
        with pytest.raises(ArgumentError, match=message):
            parse([text])


@pytest.mark.parametrize(
    ("kind", "one_half", "nan"),
    [("fp8", 0x30, 0x7F), ("bf8", 0x38, 0x7F), ("fp8_fnuz", 0x38, 0x80), ("bf8_fnuz", 0x3C, 0x80)],
)
def test_small_floats_are_their_bits(kind: str, one_half: int, nan: int) -> None:
    halves, nans = parse([f"{kind}[3]=0.5, {kind}[2]=nan:out"]).make()
    assert isinstance(halves, Buffer) and halves.data.tolist() == [one_half] * 3 and halves.format == kind
    assert isinstance(nans, Output) and nans.data.tolist() == [nan] * 2
    assert len(set(one(f"{kind}[64]=randn").data.tolist())) > 16  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match="expected the extents of a buffer"):
        parse([f"{kind}=1"])


def test_random_numbers_may_be_larger() -> None:
    one_times, four_times = (parse([f"f32[64]=randn{factor}"]).make()[0] for factor in ("", "*4"))
    assert isinstance(one_times, Buffer) and isinstance(four_times, Buffer)
    assert (four_times.data == 4 * one_times.data).all()
    for text, message in (("f32[4]=ones*2", "expected the end"), ("f32[4]=randn*", "expected a number")):
        with pytest.raises(ArgumentError, match=message):
            parse([text])


def test_buffers() -> None:
    a = one("A:bf16[4,8]=randn:in")
    assert isinstance(a, Buffer) and (a.name, a.writable, a.data.shape, a.data.dtype) == ("A", False, (4, 8), np.uint16)
    c = one("f32[3]=nan:out")
    assert isinstance(c, Output) and np.isnan(c.data).all()
    assert (one("i32[5]=arange").data == np.arange(5)).all()  # type: ignore[attr-defined]
    assert (one("f16[2]=0.5").data == 0.5).all()  # type: ignore[attr-defined]
    assert (one("f32[6]").data == 0).all()  # type: ignore[attr-defined]
    assert set(one("i8[1000]=randn").data) <= {-2, -1, 0, 1, 2}  # type: ignore[attr-defined]
    assert one("f32[0]=randn").data.size == 0  # type: ignore[attr-defined]


def test_inputs_are_the_same_each_time_and_differ_by_seed() -> None:
    arguments = parse(["f32[64]=randn"])
    assert (arguments.make()[0].data == arguments.make()[0].data).all()  # type: ignore[union-attr]
    assert (parse(["f32[64]=randn"], seed=1).make()[0].data != arguments.make()[0].data).any()  # type: ignore[union-attr]


def test_structs_and_tensors() -> None:
    s = one("{bf16[2,3]=randn, i64=1, {f32=2}}")
    assert isinstance(s, Struct) and isinstance(s.fields[2], Struct)
    whole = one("gl(bf16[2,3]=randn)")
    assert isinstance(whole, Struct) and [f.value for f in whole.fields[1:]] == [1, 1, 2, 3]  # type: ignore[union-attr]
    rows = one("gl(f32[2,3,5], rc)")
    assert isinstance(rows, Struct) and [f.value for f in rows.fields[1:]] == [3, 5]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected a type"),
        ("q32=1", "column 1: expected a type"),
        ("i32=x", "column 5: expected a number, found `x`"),
        ("i32=1 2", "column 7: expected the end, found `2`"),
        ("i8=200", "200 does not fit i8"),
        ("i32=0.5", "i32 holds integers"),
        ("i32=nan", "i32 holds integers"),
        ("f32[", "column 5: expected an extent, found its end"),
        ("f32[3", "expected `,`, found its end"),
        ("f32[-3]", "expected an extent, found `-3`"),
        ("f32[3]=gauss", "expected a number, found `gauss`"),
        ("f32[3]:both", "expected one of in, out, inout"),
        ("f32[3]=1:out:out", "expected the end"),
        ("{f32", "expected `}`"),
        ("gl(i32)", "extents"),
        ("gl(f32[1,2,3,4,5])", "extents"),
        ("gl(f32[2], cr)", "some of b, d, r, c in this order"),
        ("3:f32[2]", "expected a name"),
        ("f32[999999999999]", "bytes; a launch may have"),
        ("f32[99999,99999]", "bytes; a launch may have"),
        ("f32[4]=1{4: 2}", "column 10: expected the number of an element, 0..3, found `4`"),
        ("f32[4]=1{1}", "expected `:`, found `}`"),
        ("u8[4]=1{1: 300}", "300 does not fit u8"),
        ("f32[4]={1: 2}", "expected a number, found `{`"),
    ],
)
def test_what_cannot_be_understood(text: str, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse([text])
    assert message in str(caught.value)


def test_single_elements_have_other_values() -> None:
    texts = ["flags:u32[2,3]=ones{0: 7, 5: 0xff}:in", "bf16[3]{1: 0.5}", "fp8[2]=zeros{1: 1}"]
    flags, numbers, small = parse(texts).make()
    assert isinstance(flags, Buffer) and flags.data.tolist() == [[7, 1, 1], [1, 1, 255]] and not flags.writable
    assert isinstance(numbers, Buffer) and numbers.data.tolist() == [0, 0x3F00, 0]
    assert isinstance(small, Buffer) and small.data.tolist() == [0, 0x38]


def test_a_file_of_arguments(tmp_path: Path) -> None:
    path = tmp_path / "inputs.txt"
    path.write_text("# of the kernel\nA:f32[4]=ones:in, i32=7\n\nC:f32[4]=nan:out  # every byte\n")
    texts = lines_of(path)
    assert texts == ["A:f32[4]=ones:in, i32=7", "C:f32[4]=nan:out"]
    assert [type(a).__name__ for a in parse(texts).make()] == ["Buffer", "Scalar", "Output"]
    path.write_text("f32[4]\nf32[4\n")
    with pytest.raises(ArgumentError, match=r"inputs\.txt:2: argument `f32\[4`, column 6"):
        lines_of(path)
    path.write_text("# nothing\n")
    with pytest.raises(ArgumentError, match="has no arguments"):
        lines_of(path)
    with pytest.raises(ArgumentError, match="cannot read arguments"):
        lines_of(tmp_path / "nowhere.txt")


def test_a_file_with_dataclasses_is_loaded(tmp_path: Path) -> None:
    """Their annotations are looked up in the module by its name."""
    path = tmp_path / "made.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom tkgen.emulate import Scalar\n"
        "@dataclass\nclass Shape:\n    rows: int\ndef arguments(): return [Scalar('i32', Shape(3).rows)]\n"
    )
    (only,) = from_file(str(path)).make()
    assert isinstance(only, Scalar) and only.value == 3


def test_many_buffers_are_too_much_together() -> None:
    with pytest.raises(ArgumentError, match="bytes; a launch may have"):
        parse(["f32[536870912]"] * 3)


def test_a_python_function(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text(
        "import numpy as np\nfrom tkgen.emulate import Buffer, Scalar\n"
        "def inputs():\n    return [Buffer(np.ones(4, np.float32)), Scalar('i32', 3)]\n"
        "def broken():\n    return 1 / 0\n"
        "def wrong():\n    return [4]\n"
        "def check(outcome):\n    assert outcome == 'right', 'outcome is not right'\n"
    )
    arguments = from_file(f"{path}:inputs")
    assert arguments.make()[1] == Scalar("i32", 3)
    assert arguments.make()[0].data is not arguments.make()[0].data  # type: ignore[union-attr]
    assert arguments.check is not None
    assert arguments.check("right", ()) == ""  # type: ignore[arg-type]
    assert arguments.check("wrong", ()) == "outcome is not right"  # type: ignore[arg-type]
    for name, message in (
        ("broken", "ZeroDivisionError"),
        ("wrong", "must return a list"),
        ("none", "no function none"),
    ):
        with pytest.raises(ArgumentError, match=message):
            from_file(f"{path}:{name}")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no file"):
        from_file(str(tmp_path / "nowhere.py"))
    bad = tmp_path / "bad.py"
    bad.write_text("def arguments(:\n")
    with pytest.raises(ArgumentError, match="SyntaxError"):
        from_file(str(bad))
