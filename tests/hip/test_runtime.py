"""Our libamdhip64: programs find it, run on it, and end with a reason where it does not have what they ask for."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tkgen.emulate.program import emulated
from tkgen.predict.launches import Times
from tkgen.sanitize.program import Refereed
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler

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
    program = compiled(
        START + 'int main() { hipArray_t a; hipMallocArray(&a, nullptr, 1, 1); std::puts("went on"); }', "gfx942"
    )
    got = ended(program)
    assert (got.status, got.out, got.err) == (3, "", "tkgen emulate: not there: hipMallocArray\n")


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


def test_the_programs_of_the_page(compiled):
    """The program of `docs/hip.md`, and the same without its barrier, print what the page shows."""
    page = (Path(__file__).parents[2] / "docs/hip.md").read_text(encoding="utf-8")
    text = page.split('```cpp title="reverse.hip"\n')[1].split("```")[0]
    barrier = "    __syncthreads();\n"
    assert text.count(barrier) == 1
    programs = {"reverse": compiled(text, "gfx942"), "racing": compiled(text.replace(barrier, ""), "gfx942")}
    for option, name in (("", "reverse"), ("", "racing"), ("--sanitize ", "racing")):
        shown = page.split(f"$ tkgen emulate {option}-- ./{name}\n")[1].split("```")[0].split("$ ")[0]
        command = [sys.executable, "-m", "tkgen", "emulate", *option.split(), "--", str(programs[name])]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == bool(option), done
        printed = done.stderr if option else done.stdout
        assert printed.replace(programs[name].name, name).startswith(shown), done


def test_kernels_print(compiled, ended):
    """Values, strings and long texts come through the host, in order with what the host prints."""
    line = "block {} lane {:2d}: {:8.3f} ms,    ab|cd   |, 1099511627776, x%"
    lanes = [line.format(block, lane, lane / 8) for block in (0, 1) for lane in (0, 21, 42, 63)]
    song = (
        "a text that is longer than the fifty-six bytes which one packet of a lane takes at a time:    -42 and 1.23e+04"
    )
    assert ended(compiled("printing.hip", "gfx942")).out.splitlines() == ["before", *lanes, song, "after"]


def test_an_assertion_ends_the_program(compiled, ended):
    text = '#include <cassert>\n__global__ void f(int n) { assert(n == 2 && "two"); }\n'
    got = ended(compiled(START + text + 'int main() { f<<<1, 1>>>(3); std::puts("went on"); }', "gfx942"))
    assert (
        got.status == 1 and 'Device-side assertion `n == 2 && "two"\' failed.' in got.out and "went on" not in got.out
    )


KERNELS = """
extern "C" __attribute__((device)) int calls = 5;
extern "C" __attribute__((global)) void scale(float *data, short by, double plus) {
    const unsigned i = __builtin_amdgcn_workitem_id_x() + 64 * __builtin_amdgcn_workgroup_id_x();
    data[i] = data[i] * by + plus;
    if (i == 0) ++calls;
}
"""

LOADING = """#include <hip/hip_runtime_api.h>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>
int main(int, char **words) {
    hipModule_t file, data;
    hipFunction_t scale, same, none;
    std::ifstream stream(words[1], std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
    std::printf("%s\\n", hipGetErrorName(hipModuleLoad(&file, "nothing")));
    std::printf("%s\\n", hipGetErrorName(hipModuleLoad(&file, words[1])));
    std::printf("%s\\n", hipGetErrorName(hipModuleLoadData(&data, bytes.data())));
    std::printf("%s\\n", hipGetErrorName(hipModuleGetFunction(&none, file, "scales")));
    hipModuleGetFunction(&scale, file, "scale"), hipModuleGetFunction(&same, data, "scale");
    float *p, host[128];
    hipMalloc((void **)&p, sizeof host);
    for (int i = 0; i < 128; ++i) host[i] = i;
    hipMemcpy(p, host, sizeof host, hipMemcpyHostToDevice);
    short by = 3;
    double plus = 0.5;
    void *arguments[] = {&p, &by, &plus};
    hipModuleLaunchKernel(scale, 2, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr);
    struct { float *p; short by; double plus; } packed{p, -1, 1};
    size_t size = sizeof packed;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed,
                     HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
    hipModuleLaunchKernel(same, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra);
    hipMemcpy(host, p, sizeof host, hipMemcpyDeviceToHost);
    hipDeviceptr_t address;
    int calls[2];
    hipModule_t modules[] = {file, data};
    for (int i = 0; i < 2; ++i)
        hipModuleGetGlobal(&address, &size, modules[i], "calls"), hipMemcpyDtoH(calls + i, address, size);
    std::printf("%g %g %d %d %zu\\n", host[10], host[100], calls[0], calls[1], size);
}
"""


@pytest.mark.parametrize("form", ["--no-gpu-bundle-output", "--gpu-bundle-output", "--offload-compress"])
def test_modules(compiled, ended, tmp_path, form):
    """A code object, a bundle and a compressed bundle; arguments one by one and as a buffer; variables."""
    (tmp_path / "kernels.hip").write_text(KERNELS)
    clang = find_compiler(load_target("gfx942")).command
    command = [
        *clang,
        "-x",
        "hip",
        "--cuda-device-only",
        "-nogpuinc",
        "-nogpulib",
        "--offload-arch=gfx942",
        "-O1",
        form,
    ]
    done = subprocess.run([*command, "kernels.hip", "-o", "kernels"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    got = ended(compiled(LOADING), str(tmp_path / "kernels"), target="gfx942")
    names = ["hipErrorFileNotFound", "hipSuccess", "hipSuccess", "hipErrorNotFound"]
    assert got.out.splitlines() == [*names, "-29.5 300.5 6 6 4"], got


LEAVING = """#include <hip/hip_cooperative_groups.h>
__global__ void f(int *out, int stays) {
    if (blockIdx.x >= stays) return;
    cooperative_groups::this_grid().sync();
    out[blockIdx.x] = 1;
}
int main(int count, char **words) {
    int *out, stays = std::atoi(words[1]), blocks = std::atoi(words[2]);
    hipMalloc(&out, 1 << 20);
    void *arguments[] = {&out, &stays};
    hipError_t status = hipLaunchCooperativeKernel((void *)f, dim3(blocks), dim3(64), arguments, 0, 0);
    std::puts(hipGetErrorName(status));
}
"""


def test_blocks_of_a_cooperative_launch(compiled, ended):
    """All come to a barrier of the grid, or the program ends; more than the GPU holds at once are refused."""
    program = compiled(START + "#include <cstdlib>\n" + LEAVING, "gfx942")
    assert ended(program, "3", "3").out == "hipSuccess\n"
    got = ended(program, "2", "3")
    assert (got.status, got.out) == (1, "") and "a barrier of the grid for blocks that never come" in got.err
    assert ended(program, "1", "100000").out == "hipErrorCooperativeLaunchTooLarge\n"


TIMED = """
__global__ void work(float *out, int n) {
    float x = threadIdx.x;
    for (int i = 0; i < n; ++i) x = x * 0.5f + 1;
    out[threadIdx.x] = x;
}
int main() {
    float *p, host[64], ms[4];
    hipEvent_t at[5];
    for (auto &event : at) hipEventCreate(&event);
    hipMalloc(&p, sizeof host);
    hipEventRecord(at[0]);
    work<<<1, 64>>>(p, 10);
    hipEventRecord(at[1]);
    for (int i = 0; i < 2; ++i) work<<<1, 64>>>(p, 10);
    hipEventRecord(at[2]);
    work<<<1, 64>>>(p, 1000);
    hipEventRecord(at[3]);
    hipMemcpy(host, p, sizeof host, hipMemcpyDeviceToHost);
    hipEventRecord(at[4]);
    for (int i = 0; i < 4; ++i) hipEventElapsedTime(ms + i, at[i], at[i + 1]);
    std::printf("%g %g %g %g\\n", ms[0], ms[1], ms[2], ms[3]);
}
"""


def test_events_have_predicted_times(compiled, ended):
    """Those of the launches between them; each is the same every time, and copies take none."""
    program = compiled(START + TIMED, "gfx942", "gfx90a")
    got = ended(program, target="gfx942", launcher=emulated(timer=Times()))
    one, two, longer, copy = map(float, got.out.split())
    assert got.err.count("times of events are predicted") == 1
    launch = load_target("gfx942").timing.launch_us / 1e3
    cycles = load_target("gfx942").product.clock_mhz * 1e3  # a millisecond
    assert one > launch and two == pytest.approx(2 * one, rel=1e-4) and copy == 0
    assert longer - one > 990 * 4 / cycles  # one vector instruction an iteration, at least
    got = ended(program, target="gfx90a", launcher=emulated(timer=Times()))
    assert (got.status, got.out) == (1, "") and "its time cannot be predicted, leave out --times" in got.err


LARGE = """
__global__ void mark(float *p, size_t n) { p[threadIdx.x * (n / 64)] = threadIdx.x; }
int main() {
    const size_t n = size_t(35) << 30;
    float *p, last = 0;
    hipError_t status = hipMalloc(&p, n * sizeof(float));
    mark<<<1, 64>>>(p, n);
    hipMemcpy(&last, p + 63 * (n / 64), sizeof last, hipMemcpyDeviceToHost);
    std::printf("%d %g\\n", status, last);
}
"""


def test_memory_that_nobody_touches_costs_nothing(compiled, ended):
    """140 GiB of a GPU of 192: pages that are written alone are kept, restored and watched."""
    found: list = []
    program = compiled(START + LARGE, "gfx942")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got = ended(program, launcher=Refereed(str(program), emulated(), found.extend, schedules=2))
    assert (got.status, got.out, found) == (0, "0 63\n", [])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
