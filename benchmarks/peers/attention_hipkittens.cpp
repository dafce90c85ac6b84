// Forward attention for gfx950: eight waves of 32 queries; K and V in two buffers of LDS.
#include "kittens.cuh"
using namespace kittens;

constexpr int WAVES = 8, QUERIES = 32, KEYS = 64, D = 128;
using G = group<WAVES>;
using tensor = gl<bf16, -1, -1, -1, -1>;  // [batch, heads, length, D]
using scores = rt_fl<KEYS, QUERIES, col_l, rt_32x32_s>;
using outputs = rt_fl<D, QUERIES, col_l, rt_32x32_s>;

struct globals { tensor Q, K, V, O; float scale; };

__global__ __launch_bounds__(WAVES * WARP_THREADS, 2) void attend(const globals g) {
    extern __shared__ alignment_dummy lds[];
    shared_allocator al((int *)&lds[0]);
    auto &K_s = al.allocate<st_bf<KEYS, D, st_32x16_s>, 2>();
    auto &V_s = al.allocate<st_bf<KEYS, D, st_8x32_s>, 2>();
    const int b = blockIdx.z, h = blockIdx.y, wave = blockIdx.x * WAVES + warpid();
    const int steps = g.K.rows() / KEYS;

    rt_bf<QUERIES, D, row_l, rt_32x16_s> q;
    rt_bf<KEYS, D, row_l, rt_32x16_s> k;
    rt_bf<KEYS, D, col_l, rt_16x32_4_s> v;
    rt_bf<KEYS, QUERIES, col_l, rt_32x32_s> p_bf;
    scores s;
    outputs o;
    scores::row_vec m, n, l, r;
    load<2>(q, g.Q, {b, h, wave, 0});
    zero(o), zero(l), neg_infty(m);
    G::load<2, false>(K_s[0], g.K, {b, h, 0, 0});
    G::load<2, false>(V_s[0], g.V, {b, h, 0, 0});
    for (int j = 0; j < steps; ++j) {
        asm volatile("s_waitcnt vmcnt(0)");
        __builtin_amdgcn_s_barrier();  // tile j is in LDS, tile j - 1 is read
        if (j + 1 < steps) {
            G::load<2, false>(K_s[(j + 1) % 2], g.K, {b, h, j + 1, 0});
            G::load<2, false>(V_s[(j + 1) % 2], g.V, {b, h, j + 1, 0});
        }
        load(k, K_s[j % 2]);
        load(v, V_s[j % 2]);
        asm volatile("s_waitcnt lgkmcnt(0)");
        __builtin_amdgcn_sched_barrier(0);
        zero(s);
        mma_ABt(s, k, q, s);  // transposed: keys x queries
        mul(s, s, g.scale);
        col_max(n, s, m);
        sub(r, m, n), exp2(r, r);
        sub_col(s, s, n), exp2(s, s);
        mul(l, l, r), col_sum(l, s, l);
        mul_col(o, o, r);
        copy(p_bf, s);
        __builtin_amdgcn_sched_barrier(0);
        asm volatile("s_nop 1");  // the conversion is inline assembly: the compiler adds no wait states
        __builtin_amdgcn_sched_barrier(0);
        mma_AtB(o, v, reinterpret_cast<rt_bf<KEYS, QUERIES, col_l, rt_16x32_4_s> &>(p_bf), o);
        copy(m, n);
    }
    div_col(o, o, l);
    rt_fl<QUERIES, D, row_l, rt_32x32_s> out;
    transpose(out, o);
    store<2>(g.O, out, {b, h, wave, 0});
}
