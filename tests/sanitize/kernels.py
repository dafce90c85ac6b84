"""A tiled GEMM over the embedded headers, a macro for each mistake: C = A Bt, 64 x 64 blocks, 4 waves, K-step 64."""

from __future__ import annotations

GEMM = """\
#include "kittens.cuh"
#include "pyutils/pyutils.cuh"
using namespace kittens;

struct operands {
    gl<bf16, -1, -1, -1, -1> left, right;
    gl<float, 1, 1, -1, -1> product;
};
#ifndef GROUP
#define GROUP 4
#endif

__device__ void bring(st_bf<64, 64> &tile, const gl<bf16, -1, -1, -1, -1> &from, int row, int step) {
    group<GROUP>::load(tile, from, {0, 0, row, step});
}

__global__ __launch_bounds__(256, 1) void gemm(const operands g) {
    extern __shared__ alignment_dummy memory[];
    shared_allocator pool((int *)&memory[0]);
    st_bf<64, 64> &left = pool.allocate<st_bf<64, 64>>(), &right = pool.allocate<st_bf<64, 64>>();
    const int row = warpid() / 2, col = warpid() % 2;
    rt_fl<32, 32, ducks::rt_layout::col> sum;
    zero(sum);
    for (int k = 0; k < g.left.cols() / 64; ++k) {
        bring(left, g.left, blockIdx.y, k);
        bring(right, g.right, blockIdx.x, k);
        __syncthreads();
        rt_bf<32, 64> a, b;
        load(a, subtile_inplace<32, 64>(left, {row, 0}));
        load(b, subtile_inplace<32, 64>(right, {col, 0}));
        mma_ABt(sum, a, b, sum);
#ifndef RACE
        __syncthreads();
#endif
    }
    store(g.product, sum, {0, 0, int(blockIdx.y) * 2 + row, int(blockIdx.x) * 2 + col});
}

void dispatch(operands g) {
    hipFuncSetAttribute((void *)gemm, hipFuncAttributeMaxDynamicSharedMemorySize, 16384);
    gemm<<<dim3(2, 2), dim3(256), 16384>>>(g);
    hipDeviceSynchronize();
}

PYBIND11_MODULE(tests, m) {
    m.doc() = "tests";
    py::bind_kernel<gemm>(m, "gemm", &operands::left, &operands::right, &operands::product);
    py::bind_function<dispatch>(m, "dispatch", &operands::left, &operands::right, &operands::product);
}
"""
ARGUMENT = "{gl(A:bf16[128,192]=randn:in), gl(B:bf16[128,192]=randn:in), gl(C:f32[128,128]=nan:out, rc)}"
LAUNCH = ["--grid", "2,2", "--block", "256", "--lds", "16384"]
