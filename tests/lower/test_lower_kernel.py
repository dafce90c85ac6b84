"""The generated file: its structure, its names, what a hostile spec can do to it, and that every construct compiles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pytest
from lowering import NAMES, SPECS, compiled, gemm, lowered, spec_plan, spec_source
from planning import planned

from tkgen.api import load
from tkgen.backends.cdna.kittens import include_dir, surface
from tkgen.backends.cdna.lower.names import comment_text, cpp_name
from tkgen.backends.cdna.lower.render import lower
from tkgen.ir.reductions import BYTES, exchanged
from tkgen.targets.model import Resources
from tkgen.toolchain.isa import Function, instruction_mix, main_loop, parse_asm
from tkgen.toolchain.metadata import read_resources

ROLES = """  shared A, B buffers 2
  role producer waves 0..3
    load A, B
  role consumer waves 4..7 as 2 x 2
    accumulate C : f32 tile 32 x 32
    store C
"""
PRODUCER_CONSUMER = gemm(waves="", shared="").replace("  accumulate C : f32 tile 32 x 32\n  store C\n", ROLES)


def code(text: str) -> str:
    """Generated text without comments and strings."""
    return re.sub(r'//[^\n]*|"[^"\n]*"', "", text)


def braces(text: str, start: int) -> str:
    """The block that opens at or after `start`."""
    depth = 0
    for i in range(text.index("{", start), len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[start : i + 1]
    raise AssertionError("unbalanced")


def check_compiles(text: str, target: str = "gfx942") -> None:
    result = compiled(text, target)
    assert result.warnings == ""
    assert result.asm is not None and result.hsaco is not None
    (resources,) = read_resources(result.hsaco).values()
    (function,) = parse_asm(result.asm).values()
    assert resources.clean
    assert function.flat_accesses == ()


# ------------------------------------------------------------ structure


@pytest.mark.parametrize("name", NAMES)
def test_structure(name: str) -> None:
    """No macros, exact launch bounds and LDS, the spec line of each line, nothing global but one namespace."""
    source = spec_source(name)
    text, program = source.text, spec_plan(name).program
    assert "#define" not in text
    assert text.count("{") == text.count("}")
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert "\n\n\n" not in text and not re.search(r"[ \t]\n", text)
    lds = sum(o.lds_bytes * o.buffers for o in program.operands) + BYTES * exchanged(program)
    assert f"constexpr int SHARED_BYTES = {lds};" in text
    assert f"constexpr int THREADS = {program.waves} * WARP_THREADS;" in text
    assert f"__launch_bounds__(THREADS, {-(-program.waves // 4)})" in text
    outside = text[: text.index(f"namespace {name} {{")] + text[text.index(f"}} // namespace {name}") :]
    assert not re.search(r"^(constexpr|struct|template|inline|__)", outside, re.MULTILINE)
    spec = (SPECS / f"{name}.tk").read_text().splitlines()
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"^\s+(mma_\w+|group<\d+>::load)\(", line):
            origin = source.origin(number)
            assert origin is not None
            words = spec[origin.line - 1].split()
            assert words[0] in ("shared", "accumulate", "each", "cluster", "group", "registers"), line


def test_a_line_without_a_spec_line_has_that_of_the_line_above() -> None:
    source = lower(planned(gemm()), "gfx942", "test.tk")
    lines = source.text.split("\n")
    at = next(i for i, line in enumerate(lines, 1) if "zero(C_acc" in line)
    origin = source.origin(at)
    assert origin is not None
    assert origin.line == gemm().splitlines().index("  accumulate C : f32 tile 32 x 32") + 1
    assert source.origin(1) is None
    assert source.origin(10**6) == source.origin(len(lines)) != None  # noqa: E711


def test_register_tiles_stand_in_the_scope_of_their_role() -> None:
    text = lowered(PRODUCER_CONSUMER)
    kernel = braces(text, text.index("__global__"))
    producer = braces(kernel, kernel.index("if (wave < 4)"))
    consumer = braces(kernel, kernel.index("} else"))
    assert "rt_" not in producer and "mma_" not in producer
    for declaration in ("rt_bf<32, 32> A_r[1][2];", "rt_bf<32, 32> B_r[1][2];"):
        assert declaration in consumer
    assert "rt_" not in kernel.replace(consumer, "")
    assert "group<4>::load" in producer and "group<" not in consumer


def test_barriers_in_a_branch_are_counted_ones() -> None:
    text = code(lowered(PRODUCER_CONSUMER))
    kernel = braces(text, text.index("__global__"))
    producer, consumer = braces(kernel, kernel.index("if (wave < 4)")), braces(kernel, kernel.index("} else"))
    loops = [braces(part, part.index("for (int k")) for part in (producer, consumer)]
    assert [len(re.findall(r"barrier\(\)", loop)) for loop in loops] == [1, 1]


SYNCHRONISING = re.compile(r"__syncthreads|__builtin_amdgcn_(?:s_barrier|s_waitcnt|sched_barrier(?=\(0\)))\b")


@pytest.mark.parametrize("name", NAMES)
def test_no_access_to_memory_crosses_a_barrier_a_wait_or_a_fence(name: str) -> None:
    """Each is a function of the headers that pins; `__syncthreads()` and bare builtins let LDS reads sink."""
    assert not SYNCHRONISING.findall(code(spec_source(name).text))


def test_functions_of_the_headers_pin() -> None:
    text = code((include_dir() / "tkgen/sync.cuh").read_text(encoding="utf-8"))
    bodies = {m[1]: braces(text, m.start()) for m in re.finditer(r"__device__ inline void (\w+)\(", text)}
    holding = {"fence", "wait", "barrier", "barrier_after", "begin_pass", "idle_turn"}
    assert holding == {name for name, body in bodies.items() if "pin();" in body}
    through = ("fence()", "barrier_after<", "lds_barrier()", "landed_barrier()")
    others = {name: body for name, body in bodies.items() if name not in holding and SYNCHRONISING.search(body)}
    bare = {name for name, body in others.items() if not any(call in body for call in through)}
    assert bare == {"arrived", "interleave"}  # which order instructions, and no access


def test_lds_is_static_and_holds_every_buffer() -> None:
    """So the compiler knows how many waves fit; nothing is asked for at launch."""
    for name in NAMES:
        text = spec_source(name).text
        program = spec_plan(name).program
        lds = sum(o.lds_bytes * o.buffers for o in program.operands) + BYTES * exchanged(program)
        assert f"constexpr int SHARED_BYTES = {lds};" in text, name
        array = "__shared__ alignment_dummy __shm[SHARED_BYTES / sizeof(alignment_dummy)];"
        assert (array in text) is (lds > 0), name
        assert "extern __shared__" not in text and "dynamic_shared_memory() const { return 0; }" in text, name


def test_errors_of_every_hip_call_are_checked_and_the_stream_is_an_argument() -> None:
    text = lowered(gemm())
    assert "uint64_t stream;" in text and "&gemm::globals::stream" in text
    dispatch = braces(text, text.index("inline void dispatch"))
    assert "reinterpret_cast<hipStream_t>(g.stream)" in dispatch
    for call in re.findall(r"^.*\bhip\w+\(.*$", dispatch, re.MULTILINE):
        assert call.strip().startswith("check("), call


def test_dynamic_sizes_are_checked_on_the_host() -> None:
    text = lowered(gemm(shape="M = dynamic, N = dynamic, K = dynamic"))
    checks = dict(re.findall(r'if \((.*)\) throw std::invalid_argument\("gemm: (.*)"\);', text))
    assert checks == {
        "g.A.rows_internal.v < 1 || g.A.rows_internal.v > 2147483520": "M must be from 1 to 2147483520",
        "g.B.rows_internal.v < 1 || g.B.rows_internal.v > 16777214": "N must be from 1 to 16777214",  # 32 rows of C
        "g.A.cols_internal.v < 1 || g.A.cols_internal.v > 8388607": "K must be from 1 to 8388607",  # 128 rows of A or B
        "size_t(g.grid_rows()) * g.grid_cols() > 16777215": "M and N must make at most 16777215 output tiles",
        "g.A.rows() % 128 != 0": "M must be a multiple of 128",
        "g.B.rows() % 128 != 0": "N must be a multiple of 128",
        "g.A.cols() % 32 != 0": "K must be a multiple of 32",
        "g.B.cols_internal.v != g.A.cols_internal.v": "B and its partners differ in K",
        "g.C.rows_internal.v != g.A.rows_internal.v": "C and its partners differ in M",
        "g.C.cols_internal.v != g.B.rows_internal.v": "C and its partners differ in N",
    }
    assert "gl<bf16, 1, 1, -1, -1> A;" in text
    assert "invalid_argument" not in lowered(gemm())


def test_a_dynamic_k_must_make_the_steps_of_prologue_and_epilogue() -> None:
    pipeline = gemm(shape="M = 256, N = 256, K = dynamic", shared="  shared A, B buffers 3\n")
    assert 'if (g.steps() < 2) throw std::invalid_argument("gemm: K must make at least 2 steps of 32");' in lowered(
        pipeline
    )
    doubled = pipeline.replace("buffers 3", "buffers 1\n  registers A, B buffers 2")
    assert 'if (g.A.cols() % 64 != 0) throw std::invalid_argument("gemm: K must be a multiple of 64");' in lowered(
        doubled
    )


def test_a_spec_without_scalars_or_remap_says_nothing_of_them() -> None:
    text = lowered(gemm())
    assert "numbers" not in text and "remap" not in text and "persistent" not in text
    assert "const int tile_row = block_id / GRID_COLS;" in text


# ------------------------------------------------------------ names


KEYWORDS = [
    "int",
    "class",
    "template",
    "operator",
    "kernel",
    "std",
    "kittens",
    "globals",
    "group",
    "main",
    "wave",
    "int_",
]


@pytest.mark.parametrize("name", KEYWORDS)
def test_kernel_names(name: str) -> None:
    text = lowered(gemm(name=name))
    assert f"namespace {cpp_name(name)} {{" in text
    check_compiles(text)


def test_tensor_dimension_and_scalar_names() -> None:
    text = """kernel float
  dims int = 256, double = dynamic, M = 64
  global char : bf16[int, M]
  global grid : bf16[double, M]
  global grid_rows : f32[int, double]
  global steps : f32[double]
  scalar g : f32
  block 128 x 128 step 32
  waves 2 x 2
  shared char, grid buffers 2 via registers
  accumulate grid_rows : f32 tile 32 x 32
  epilogue scale(g) | bias(steps) | add(grid_rows, 2)
  store grid_rows
"""
    check_compiles(lowered(text))


def test_names_stay_different() -> None:
    names = ["int", "int_", "int__", "_int", "Int", "__x", "hipMalloc", "A", "load", "load_", "grid_rows", "std", "N"]
    assert len({cpp_name(n) for n in names}) == len(names)
    assert cpp_name("A") == "A" and cpp_name("load") == "load_"
    for bad in ("a b", "a;b", "1a", "", "a\n", "é", 'a"'):
        with pytest.raises(ValueError, match="not an identifier"):
            cpp_name(bad)


CPP_TEXT = """
    asm auto bool break case char class const constexpr continue decltype do double else enum extern false float for if
    inline int long namespace new nullptr operator public reinterpret_cast return short sizeof static static_cast struct
    switch template this throw true typename unsigned using void while include ifndef ifdef endif define if defined else
    pragma unroll volatile
"""
CPP_WORDS = set(CPP_TEXT.split())
HOST = {
    "string",
    "runtime_error",
    "invalid_argument",
    "TKGEN_STANDALONE",
    "stdexcept",
    "cuh",
    "pyutils",
    "m",
    "doc",
    "def",
}
TYPE = (
    r"(?:int|float|bool|char|auto|void|uint32_t|uint64_t|size_t|dim3|T|F|GL|ST|RT|chunk|half_chunk|hipError_t|globals|"
    r"int2|col_vec|row_vec|typename|shared_allocator|alignment_dummy|uint16_t|(?:gl|rt|st|rt_\w+|st_\w+)<[^;(){}=]*?>(?:::\w+)?)"
)


def defined_in(text: str) -> set[str]:
    """Names that generated code declares: variables, parameters, functions, types, template parameters."""
    names = set(re.findall(rf"\b{TYPE}(?!\w)\s*(?:const)?\s*[&*(]*\s*(\w+)", text))
    names |= set(re.findall(r"\b(?:namespace|struct|using) (\w+)", text))
    names |= set(re.findall(r"\bint \w+ = [^;()]*, (\w+);", text))
    names |= set(re.findall(r"ducks::\w+::all(?:\.\.\.)? (\w+)", text)) | set(re.findall(r"&\.\.\.(\w+)", text))
    for line in re.findall(r"\b(?:const|constexpr) (?:int|float|auto) ([^;]*);", text):
        names |= set(re.findall(r"(?:^|, )(\w+) =", line))
    return names


OURS = {
    name
    for path in (include_dir() / "tkgen").glob("*.cuh")
    for name in re.findall(
        r"^(?:template <.*>\s)?(?:__device__ (?:inline|__force\w+) .*?(?=\w+\()|struct |using |constexpr \w+ )(\w+)",
        path.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}


@pytest.mark.parametrize("name", NAMES)
def test_only_functions_that_exist(name: str) -> None:
    """Every identifier is C++, of the table of ThunderKittens' surface, or defined in the file."""
    text = code(spec_source(name).text)
    ours = set(re.findall(r"\btk::(\w+)", text))
    assert ours <= OURS
    text = re.sub(r"\btk::\w+(?:<\d+>)?(?= )", "auto", text)  # a type
    text = re.sub(r"\btk::\w+", "", text)
    used = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", re.sub(r"\b0x[0-9a-f]+|\b\d[\w.]*", "", text)))
    unknown = used - CPP_WORDS - HOST - set(surface) - defined_in(text)
    assert unknown == set()
    members = set(re.findall(r"\.([A-Za-z_]\w*)", re.sub(r"\d\.\w*", "", text)))
    swizzles = {"xy", "zw"}
    assert members - set(surface) - defined_in(text) - HOST - swizzles == set()


def test_the_test_of_names_finds_an_invented_one() -> None:
    text = code(lowered(gemm()).replace("mma_ABt(", "mma_fast("))
    assert "mma_fast" in set(re.findall(r"\b[A-Za-z_]\w*", text)) - CPP_WORDS - HOST - set(surface) - defined_in(text)


# ------------------------------------------------------------ comments


HEADERS = [
    "# ends here */ int evil;\n",
    "# a backslash \\\n",
    "# backslashes \\ \\\\  \n",
    "# a trigraph ??/\n",
    "# deeper ????//\n",
    "# \u2028int evil;\u2029 \x0bint evil; \x0cint evil; \x85 \u202e live\n",
    "# tab\tand é, ∑ and 😀\n",
    "# \" ' # ## %d {{ evil }} {% evil %}\n",
]


@pytest.mark.parametrize("header", HEADERS)
def test_header_comments_stay_comments(header: str) -> None:
    text = lowered(gemm(header=header))
    opening = text[: text.index("#include")].splitlines()
    assert len(opening) == 2
    assert all(line.startswith("// ") for line in opening)
    assert not opening[0].endswith("\\") and "??/" not in text
    result = compiled(text.replace("using namespace kittens;", "using namespace kittens;\nint after = 1;"))
    assert result.warnings == ""


@pytest.mark.parametrize("path", ["a\nint evil;\n.tk", "a\\", "b??/", "dir/c*/.tk", "$(touch x).tk"])
def test_the_path_stays_in_its_comment(path: str) -> None:
    text = lower(planned(gemm()), "gfx942", path).text
    line = next(line for line in text.splitlines() if "Generated by tkgen" in line)
    assert line.startswith("// ") and line.endswith("`spec:N` names its lines.")
    assert "evil" not in code(text)


def test_comment_text() -> None:
    assert comment_text("plain") == "plain"
    assert comment_text("end \\ \\") == "end"
    assert "\n" not in comment_text("a\nb\r\u2028c") and "??/" not in comment_text("??????/")


# ------------------------------------------------------------ every construct

STAGED = "  shared A, B buffers 1 via registers\n"
CONSTRUCTS = {
    "AB": gemm(b="K, N"),
    "AtB": gemm(a="K, M", b="K, N"),
    "AtBt": gemm(a="K, M"),
    "f16": gemm(dtype="f16", out="f16"),
    "f32": gemm(dtype="f32"),
    "bf16 to f16": gemm(out="f16"),
    "32x32 mfma": gemm(tile="64 x 32 mfma 32 x 32"),
    "32x32 mfma f16 AB": gemm(tile="32 x 32 mfma 32 x 32", dtype="f16", b="K, N", out="bf16"),
    "32x32 mfma f32": gemm(tile="32 x 32 mfma 32 x 32", dtype="f32"),
    "blocked": gemm(tile="32 x 32 blocked"),
    "interleaved": gemm(tile="16 x 32 interleaved"),
    "a row of waves": gemm(waves="  waves 1 x 4\n"),
    "a column of waves": gemm(waves="  waves 4 x 1\n"),
    "waves to be split": gemm(waves="  waves 8\n", block="128 x 256 step 32"),
    "sixteen waves": gemm(waves="  waves 4 x 4\n"),
    "mixed buffers": gemm(shared="  shared A buffers 2\n  shared B buffers 3\n"),
    "mixed ways into LDS": gemm(shared="  shared A buffers 1 via registers\n  shared B buffers 2\n"),
    "staged": gemm(shared=STAGED),
    "staged twice": gemm(shared="  shared A, B buffers 2 via registers\n", dtype="f32"),
    "register buffers": gemm("  registers A, B buffers 2\n"),
    "register buffers and slices": gemm("  registers A, B slice 16 buffers 2\n", shared=STAGED),
    "slices of a transposed operand": gemm("  registers A, B slice 16\n", a="K, M", b="K, N"),
    "unroll": gemm("  unroll 2\n", shared="  shared A, B buffers 2\n"),
    "unroll 3 of 8 steps": gemm("  unroll 3\n"),
    "occupancy": gemm("  occupancy 2 waves per simd\n"),
    "every remap": gemm("  remap xcd(8, chunk = 2) | xcd(2, 1) | group(rows = 3)\n", shape="M = 1280, N = 896, K = 64"),
    "column_major": gemm("  remap column_major\n"),
    "morton": gemm("  remap morton\n", shape="M = dynamic, N = 896, K = 64"),
    "hilbert": gemm("  remap hilbert\n", shape="M = dynamic, N = dynamic, K = 64"),
    "persistent": gemm("  grid persistent(3)\n", shape="M = dynamic, N = 256, K = dynamic"),
    "masked": gemm("  tail masked\n", shape="M = 100, N = 130, K = 50"),
    "masked odd": gemm("  tail masked\n", shape="M = 101, N = 131, K = 51", b="K, N", out="bf16"),
    "masked f32": gemm("  tail masked\n", shape="M = 101, N = 131, K = 51", dtype="f32", shared=STAGED),
    "masked dynamic": gemm("  tail masked\n", shape="M = dynamic, N = dynamic, K = dynamic", a="K, M"),
    "masked 32x32 mfma": gemm("  tail masked\n", shape="M = 100, N = 130, K = 50", tile="32 x 32 mfma 32 x 32"),
    "masked bias and add": gemm(
        "  tail masked\n  global D : f32[M, N]\n  global v : f32[M]\n  epilogue bias(v) | add(D)\n",
        shape="M = 101, N = 131, K = 51",
    ),
    "one huge tensor": gemm(shape="M = 65536, N = 256, K = 65536", shared=STAGED),
    "activations": gemm("  epilogue scale(0.5) | relu | silu | gelu | gelu_tanh\n"),
    "add to itself": gemm("  scalar beta : f32 = 1.0\n  epilogue add(C, beta)\n"),
    "biases": gemm("  global v : bf16[M]\n  global w : f16[N]\n  epilogue bias(v) | bias(w)\n"),
    "add of another type": gemm("  global D : bf16[M, N]\n  epilogue add(D)\n", out="f16"),
    "roles": PRODUCER_CONSUMER,
    "roles, staged": PRODUCER_CONSUMER.replace("buffers 2", "buffers 2 via registers"),
    "roles, one producer each": PRODUCER_CONSUMER.replace(
        "  role producer waves 0..3\n    load A, B\n",
        "  role first waves 0..1\n    load A\n  role second waves 2..3\n    load B\n",
    ),
    "roles, consumers first": PRODUCER_CONSUMER.replace("0..3", "here").replace("4..7", "0..3").replace("here", "4..5"),
    "roles, smaller groups": PRODUCER_CONSUMER.replace("load A, B", "load A, B by 2 waves"),
    "persistent roles": PRODUCER_CONSUMER.replace("  shared A", "  grid persistent(2)\n  shared A"),
    "one step": gemm(shape="M = 128, N = 128, K = 32", shared="  shared A, B buffers 3\n"),
    "two steps, deep": gemm(shape="M = 128, N = 128, K = 64", shared="  shared A, B buffers 4\n"),
    "clusters": gemm(shared=STAGED) + "  schedule\n    cluster fetch A[k+1] B[k+1] read A B wait lds 0\n"
    "    group priority 2 multiply\n    cluster write A[k+1] B[k+1] wait lds 0\n",
    "two phases": gemm(shared=STAGED, waves="  waves 4 x 2\n") + "  phase waves 2..3 by 1 cluster\n"
    "  phase waves 6..7 by 2 clusters\n  schedule\n"
    "    cluster fetch A[k+1] B[k+1] read A B wait lds 0\n    cluster multiply\n"
    "    cluster barrier\n    cluster write A[k+1] B[k+1] wait lds 0 barrier barrier\n",
    "ping_pong": gemm(shared=STAGED, waves="  waves 2 x 4\n", block="256 x 256 step 64") + "  schedule ping_pong\n",
    "ping_pong of slices": gemm(
        "  registers A, B slice 16\n", shared=STAGED, waves="  waves 2 x 4\n", block="256 x 256 step 64", tile="32 x 32"
    )
    + "  schedule ping_pong\n",
    "ping_pong halved by columns": gemm(
        "  registers A, B slice 32\n", shared=STAGED, waves="  waves 8 x 1\n", block="256 x 256 step 64", tile="32 x 32"
    )
    + "  schedule ping_pong\n",
    "interleave": gemm(shared=STAGED, block="128 x 128 step 64") + "  schedule interleave\n",
}  # fmt: skip


FOR_GFX90A = ("AtB", "f16", "32x32 mfma", "staged", "masked odd", "roles", "activations", "clusters")
TOGETHER = 8  # kernels in one file, as a compiler takes longer to start than for one of them


def names(constructs: Sequence[str]) -> dict[str, str]:
    """The name of the kernel of each construct."""
    return {construct: f"kernel_{n}" for n, construct in enumerate(constructs)}


@cache
def machine_code(constructs: tuple[str, ...], target: str) -> tuple[str, dict[str, Resources], dict[str, Function]]:
    """The warnings, the resources and the functions of some constructs, compiled as one file."""
    texts = (CONSTRUCTS[c].replace("kernel gemm\n", f"kernel {name}\n") for c, name in names(constructs).items())
    result = compiled("\n".join(lowered(text, target=target) for text in texts), target)
    assert result.asm is not None and result.hsaco is not None
    return result.warnings, read_resources(result.hsaco), parse_asm(result.asm)


def check_construct(construct: str, among: Sequence[str], target: str) -> None:
    first = list(among).index(construct) // TOGETHER * TOGETHER
    together = tuple(among)[first : first + TOGETHER]
    warnings, resources, functions = machine_code(together, target)
    assert warnings == "" and len(resources) == len(functions) == len(together)
    (symbol,) = (symbol for symbol in resources if names(together)[construct] in symbol)
    assert resources[symbol].clean
    assert functions[resources[symbol].kernel].flat_accesses == ()


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_every_construct_is_proven_and_compiles(construct: str) -> None:
    assert planned(CONSTRUCTS[construct]).conflicts() == []
    check_construct(construct, list(CONSTRUCTS), "gfx942")


@pytest.mark.parametrize("construct", FOR_GFX90A)
def test_constructs_compile_for_gfx90a(construct: str) -> None:
    check_construct(construct, FOR_GFX90A, "gfx90a")


@pytest.mark.parametrize(("tile", "shape"), [("32 x 32", "16x16x16_bf16"), ("32 x 32 mfma 32 x 32", "32x32x8_bf16")])
def test_the_matrix_instruction_is_the_one_asked_for(tile: str, shape: str) -> None:
    result = compiled(lowered(gemm(tile=tile)))
    assert result.asm is not None
    (function,) = parse_asm(result.asm).values()
    loop = main_loop(function)
    assert loop is not None
    assert set(instruction_mix(loop.instructions).mfma) == {shape}


def test_a_barrier_for_every_phase() -> None:
    """Waves that start late pass barriers before, all others as many after: the same sum for every wave."""
    text = code(lowered(CONSTRUCTS["two phases"]))
    shifts = [
        (c, body.count("barrier();"))
        for c, body in re.findall(r"if \((\(?wave [^{]*)\) \{\s*((?:tk::barrier\(\);\s*)+)\}", text)
    ]
    passed = dict.fromkeys(range(8), 0)
    for condition, count in shifts:
        for wave in passed:
            if eval(condition.replace("&&", "and").replace("||", "or"), {"wave": wave}):
                passed[wave] += count
    assert set(passed.values()) == {2}


def test_functions_of_elements_name_the_indices_that_they_read() -> None:
    """A member of the arguments with the name of an index does not count: `g.c` is no column of a lane."""
    text = load("scaled.tk", text=(
        "kernel scaled\n  dims M = 256, N = 128, K = 128\n  global A : bf16[M, K]\n  global B : bf16[N, K]\n"
        "  global S : f32[M, N]\n  scalar c : f32\n  over m in M by 64, n in N by 128\n  waves 4 along m\n"
        "  shared A, B\n  each k in K by 32\n    s = s + A[m, k] @ B[n, k].T\n  S[m, n] = s / (rowsum(s * s) + c)\n"
    )).source.text  # fmt: skip
    (body,) = re.findall(r"tk::combine\(.*?\n *return .*?;\n", text, re.DOTALL)
    assert "g.c;" in body
    assert "[&](int, int, int r, int, float s_e) {" in body


def test_kernels_of_rows_define_the_locals_that_they_name() -> None:
    """A member of the arguments with the name of a local does not count: where a lane has whole rows, none is read."""
    text = load("small.tk", text=(
        "kernel small\n  dims M = 4096, N = 4\n  global X : f32[M, N]\n  global Y : f32[M, N]\n  scalar lane : f32\n"
        "  over m in M by 256\n  waves 4\n  Y[m] = X[m] * lane\n"
    )).source.text  # fmt: skip
    assert "* g.lane)" in text
    assert "const int lane" not in text
    assert "const int group" in text
