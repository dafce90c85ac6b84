// C = A B^T and C = A B, bf16: 128x128 per block, K-steps of 64, 4 waves, two LDS buffers filled one step ahead.
// Compiled for 8192^3 to look at the machine code, and with SIZE_M/N/K for the emulator.
#include "kittens.cuh"
using namespace kittens;

#ifndef SIZE_M
#define SIZE_M 8192
#define SIZE_N 8192
#define SIZE_K 8192
#endif

namespace gemm {

constexpr int BLOCK = 128, STEP = 64, STEPS = SIZE_K / STEP, THREADS = 4 * WARP_THREADS;
using G = group<4>;
using ducks::rt_layout::col;

struct globals_ABt {
    gl<bf16, 1, 1, SIZE_M, SIZE_K> a;
    gl<bf16, 1, 1, SIZE_N, SIZE_K> b;
    gl<float, 1, 1, SIZE_M, SIZE_N> c;
};

struct globals_AB {
    gl<bf16, 1, 1, SIZE_M, SIZE_K> a;
    gl<bf16, 1, 1, SIZE_K, SIZE_N> b;
    gl<float, 1, 1, SIZE_M, SIZE_N> c;
};

} // namespace gemm

extern "C" __global__ __launch_bounds__(gemm::THREADS, 1) void gemm_ABt(const gemm::globals_ABt g) {
    using namespace gemm;
    extern __shared__ alignment_dummy __shm[];
    shared_allocator al((int *)&__shm[0]);
    auto &As = al.allocate<st_bf<BLOCK, STEP>, 2>();
    auto &Bs = al.allocate<st_bf<BLOCK, STEP>, 2>();
    rt_bf<64, STEP> a, b;
    rt_fl<64, 64, col> c;
    zero(c);
    const int row = blockIdx.y, column = blockIdx.x, wave_row = warpid() / 2, wave_column = warpid() % 2;

    G::load(As[0], g.a, {0, 0, row, 0});
    G::load(Bs[0], g.b, {0, 0, column, 0});
    __syncthreads();
    for (int k = 0; k < STEPS - 1; k++) {
        G::load(As[(k + 1) % 2], g.a, {0, 0, row, k + 1});
        G::load(Bs[(k + 1) % 2], g.b, {0, 0, column, k + 1});
        load(a, subtile_inplace<64, STEP>(As[k % 2], {wave_row, 0}));
        load(b, subtile_inplace<64, STEP>(Bs[k % 2], {wave_column, 0}));
        mma_ABt(c, a, b, c);
        __syncthreads();
    }
    load(a, subtile_inplace<64, STEP>(As[(STEPS - 1) % 2], {wave_row, 0}));
    load(b, subtile_inplace<64, STEP>(Bs[(STEPS - 1) % 2], {wave_column, 0}));
    mma_ABt(c, a, b, c);
    store(g.c, c, {0, 0, 2 * row + wave_row, 2 * column + wave_column});
}

extern "C" __global__ __launch_bounds__(gemm::THREADS, 1) void gemm_AB(const gemm::globals_AB g) {
    using namespace gemm;
    extern __shared__ alignment_dummy __shm[];
    shared_allocator al((int *)&__shm[0]);
    auto &As = al.allocate<st_bf<BLOCK, STEP>, 2>();
    auto &Bs = al.allocate<st_bf<STEP, BLOCK>, 2>();
    rt_bf<64, STEP> a;
    rt_bf<STEP, 64, col> b;
    rt_fl<64, 64, col> c;
    zero(c);
    const int row = blockIdx.y, column = blockIdx.x, wave_row = warpid() / 2, wave_column = warpid() % 2;

    G::load(As[0], g.a, {0, 0, row, 0});
    G::load(Bs[0], g.b, {0, 0, 0, column});
    __syncthreads();
    for (int k = 0; k < STEPS - 1; k++) {
        G::load(As[(k + 1) % 2], g.a, {0, 0, row, k + 1});
        G::load(Bs[(k + 1) % 2], g.b, {0, 0, k + 1, column});
        load(a, subtile_inplace<64, STEP>(As[k % 2], {wave_row, 0}));
        load(b, subtile_inplace<STEP, 64>(Bs[k % 2], {0, wave_column}));
        mma_AB(c, a, b, c);
        __syncthreads();
    }
    load(a, subtile_inplace<64, STEP>(As[(STEPS - 1) % 2], {wave_row, 0}));
    load(b, subtile_inplace<STEP, 64>(Bs[(STEPS - 1) % 2], {0, wave_column}));
    mma_AB(c, a, b, c);
    store(g.c, c, {0, 0, 2 * row + wave_row, 2 * column + wave_column});
}
