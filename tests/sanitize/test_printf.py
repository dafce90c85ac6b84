"""Output of `printf` in kernels, in plain HIP."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from tkgen.cli import app

KERNEL = """\
#include <hip/hip_runtime.h>
#include <cstdio>
enum class colour { red, green };
__global__ __launch_bounds__(128) void twice(const float *x, float *y, int n) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
    BODY
}
int main() { printf("host %d\\n", 3); twice<<<2, 128>>>(nullptr, nullptr, 0); }
"""


def run(command: str, folder: Path, body: str, *words: str) -> Result:
    path = folder / "twice.cpp"
    path.write_text(KERNEL.replace("BODY", body))
    arguments = "x:f32[256]=arange:in, y:f32[256]=nan:out, i32=256"
    launch = ("--grid", "2", "--block", "128", "--arg", arguments)
    return CliRunner().invoke(app, [command, str(path), *launch, *words])


def test_lanes_of_all_blocks_print(tmp_path: Path) -> None:
    values = 'blockIdx.x, threadIdx.x, x[i], i > 128 ? "late" : "soon", \'a\' + i / 64'
    body = f'if (i % 64 == 1) printf("block %d lane %2u: x = %.1f, %s%c\\n", {values});'
    for words in ((), ("-j", "2")):
        result = run("sanitize", tmp_path, body, "--schedules", "3", *words)
        assert result.exit_code == 0, result.output
        *lines, last = result.output.splitlines()
        assert sorted(lines) == [
            "block 0 lane  1: x = 1.0, soona",
            "block 0 lane 65: x = 65.0, soonb",
            "block 1 lane  1: x = 129.0, latec",
            "block 1 lane 65: x = 193.0, lated",
        ]
        assert last.endswith("no findings; 2 blocks, 3 schedules, " + last.split()[-2] + " instructions")


def test_what_is_printed_is_no_number_that_verify_lost(tmp_path: Path) -> None:
    (tmp_path / "meaning.py").write_text("def thrice(x): return 3 * x\n")
    body = 'if (i < 2) printf("%f\\n", y[i]);'
    reference = ("--reference", f"{tmp_path / 'meaning.py'}:thrice")
    wrong = run("verify", tmp_path, body, *reference)
    assert wrong.exit_code == 1 and "WRONG y" in wrong.output and "2.000000\n" in wrong.output, wrong.output
    assert "lost" not in wrong.output, wrong.output
    kept = run(
        "verify",
        tmp_path,
        "__device__ static volatile float kept[2]; if (i < 2) kept[i] = x[i], y[i] = kept[i];",
        *reference,
    )
    assert "numbers lost" in kept.output and "stored in memory without payloads" in kept.output, kept.output


CONVERSIONS = [
    ('"plain"', "plain"),
    ('"100 %%, %d%%", 7', "100 %, 7%"),
    ('"%5d|%-5d|%05d|%+d", -3, 7, 42, 1', "   -3|7    |00042|+1"),
    ('"%x %#X %o %u", 255u, 255, 8, -1', "ff 0XFF 10 4294967295"),
    ('"%lld %llu %ld %zu", -1ll << 40, ~0ull, -5l, sizeof(int)', "-1099511627776 18446744073709551615 -5 4"),
    ('"%hhd %hd %hhu", 200, 40000, 300', "-56 -25536 44"),
    ('"%e %g %5.1f %.*f", 1.5, 0.25f, 3.14159, 2, 2.0 / 3', "1.500000e+00 0.25   3.1 0.67"),
    ('"%f %f", 1.0f / 0.0f, 0.1', "inf 0.100000"),
    ('"%*d|%-*d|", 4, 9, 4, 9', "   9|9   |"),
    ('"%s %.2s %5s %s", "one", "two", "3", (const char *)nullptr', "one tw     3 (null)"),
    ('"%p %p", (void *)16, nullptr', "0x10 0x0"),
    ('"%d %d %f %d", colour::green, true, (_Float16)0.5f, blockIdx.x', "1 1 0.500000 0"),
    ('"%d and %d", 1', "1 and %d"),
    ('"%*d|%.*f|%*d", -4, 9, -1, 0.5, 1 << 30, 1', "9   |0.500000|%*d"),
    ('"%f %d", 1, 1.5f', "(no float: 1) (no integer: 1.5)"),
    ('"%s", (const char *)64', "(no string at 0x40)"),
]


def test_conversions_are_those_of_c(tmp_path: Path) -> None:
    calls = " ".join(f'printf({call}), printf("\\n");' for call, _ in CONVERSIONS)
    result = run("sanitize", tmp_path, f"if (!i) {{ {calls} }}", "--schedules", "1")
    assert result.exit_code == 0 and result.output.splitlines()[:-1] == [text for _, text in CONVERSIONS], result.output


def test_more_than_there_is_room_for(tmp_path: Path) -> None:
    body = 'for (int k = 0; k < 100; ++k) printf("%d %d %d %d\\n", i, k, k, k);'
    result = run("sanitize", tmp_path, body, "--schedules", "1")
    lines = result.output.splitlines()
    assert result.exit_code == 0 and "(more was printed than there is room for)" in lines, lines[-3:]
    assert len([line for line in lines if line.count(" ") == 3]) == (2**18 - 1) // 15


def test_machines_read_no_prints(tmp_path: Path) -> None:
    result = run("sanitize", tmp_path, 'if (!i) printf("here\\n");', "--schedules", "1", "--json")
    assert json.loads(result.stdout) == [] and result.stderr == "here\n"


def test_verify_shows_them(tmp_path: Path) -> None:
    (tmp_path / "meaning.py").write_text("def twice(x): return 2 * x\n")
    words = ("--reference", f"{tmp_path / 'meaning.py'}:twice")
    body = 'if (!i) printf("at %d of %d\\n", i, n);'
    result = run("verify", tmp_path, body, *words)
    assert result.exit_code == 0 and result.output.startswith("at 0 of 256\ntwice.cpp: "), result.output
    (found,) = json.loads(run("verify", tmp_path, body, *words, "--json").stdout)
    assert found["ok"] and found["printed"] == "at 0 of 256\n"
