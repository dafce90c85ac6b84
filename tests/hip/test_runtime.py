"""Our libamdhip64: programs find it, run on it, and end with a reason where it does not have what they ask for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tkgen.emulate.program import emulated
from tkgen.sanitize.program import Refereed

START = "#include <hip/hip_runtime.h>\n#include <cstdio>\n"

RACING = """
__global__ void reverse(const float *in, float *out) {
    __shared__ float tile[256];
    tile[threadIdx.x] = in[threadIdx.x];
    BARRIER;
    out[threadIdx.x] = tile[255 - threadIdx.x];
}
int main() {
    float host[256], *in, *out;
    for (int i = 0; i < 256; ++i) host[i] = i;
    hipMalloc(&in, sizeof host), hipMalloc(&out, sizeof host);
    hipMemcpy(in, host, sizeof host, hipMemcpyHostToDevice);
    for (int i = 0; i < 2; ++i) reverse<<<1, 256>>>(in, out);
    hipMemcpy(host, out, sizeof host, hipMemcpyDeviceToHost);
    std::printf("%g\\n", host[0]);
}
"""


@pytest.mark.parametrize("target", ["gfx942", "gfx90a", "gfx950"])
def test_a_program_runs_as_it_is(compiled, ended, target):
    assert ended(compiled("vector_add.hip", "gfx942", "gfx90a", "gfx950"), target=target).out == "right\n"


def test_the_command(compiled):
    """Options after the program are the program's; its exit status is the command's."""
    program = compiled(START + 'int main(int n, char **a) { std::printf("%d %s\\n", n, a[1]); return 7; }', "gfx90a")
    command = [sys.executable, "-m", "tkgen", "emulate", str(program), "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "2 --help\n")


def test_the_gpu_is_what_the_program_is_compiled_for(compiled, ended):
    text = "int main() { hipDeviceProp_t p; hipGetDeviceProperties(&p, 0); std::puts(p.gcnArchName); }"
    program = compiled(START + "__global__ void f() {}\n" + text, "gfx950")
    assert ended(program).out == "gfx950:sramecc+:xnack-\n"
    assert ended(program, target="gfx90a").out == "gfx90a:sramecc+:xnack-\n"


def test_code_for_another_gpu_is_refused(compiled, ended):
    program = compiled(
        START + "__global__ void f() {}\nint main() { f<<<1, 1>>>(); std::puts(hipGetErrorName(hipGetLastError())); }",
        "gfx950",
    )
    got = ended(program, target="gfx90a")
    assert got.out == "hipErrorNoBinaryForGpu\n"
    assert "has no code for gfx90a; it has code for gfx950" in got.err


def test_what_is_not_there_is_named(compiled, ended):
    program = compiled(START + 'int main() { hipGraph_t g; hipGraphCreate(&g, 0); std::puts("went on"); }', "gfx942")
    got = ended(program)
    assert (got.status, got.out, got.err) == (3, "", "tkgen emulate: not there: hipGraphCreate\n")


@pytest.mark.parametrize("size, access", [("200", "past its end"), ("256", "after it was freed")])
def test_a_wrong_access_ends_the_program(compiled, ended, size, access):
    text = f"""
__global__ void fill(float *out) {{ out[threadIdx.x] = 1; }}
int main() {{
    float *p;
    hipMalloc(&p, {size} * sizeof(float));
    if ({int("freed" in access)}) hipFree(p);
    fill<<<1, 256>>>(p);
    std::puts("went on");
}}"""
    got = ended(compiled(START + text, "gfx942"))
    assert (got.status, got.out) == (1, "") and "global-out-of-bounds: lane" in got.err


def test_the_referee_watches_every_launch(compiled, ended):
    """Findings are shown in the program's own lines, once for all launches; a barrier ends the race."""
    reports = []
    for barrier in (";", "__syncthreads()"):
        found = []
        program = compiled(START + RACING.replace("BARRIER", barrier), "gfx942")
        referee = Refereed(str(program), emulated(), found.extend, schedules=3)
        got = ended(program, launcher=referee)
        assert referee.launches == 2 and got.status == 0
        reports.append(([d.code for d in found], [d.primary.span.text for d in found], got.out))
    (codes, lines, _), clean = reports
    assert codes == ["E701"] and lines == ["tile[threadIdx.x] = in[threadIdx.x];"]
    assert clean == ([], [], "255\n")
