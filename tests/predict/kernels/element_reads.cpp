// A bf16 GEMM, C = A B, as a first hand-written kernel does it: 4 waves on a 64 x 64 block, 16 x 16 subtiles read from LDS for
// every multiply that needs them, B element by element through generic pointers, every read waited for, and one barrier per
// K-step (which leaves a race: it is here for its timing). Freestanding. -DSIZE=M=N=K, -DSTEP=64 or 16.
typedef short bf16x4 __attribute__((ext_vector_type(4)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
typedef int i32x2 __attribute__((ext_vector_type(2)));

constexpr int BLOCK = 64, THREADS = 256;
extern __attribute__((shared)) char lds[];
using Lds = __attribute__((address_space(3))) char;

// Element (row, col) of a tile `cols` wide, in 8-byte units that are permuted by row.
template <int cols> static __attribute__((device)) inline int place(int row, int col) {
  constexpr int units = cols / 4;
  return row * cols * 2 + (((col / 4) ^ (row % units)) * 8) + col % 4 * 2;
}

// Fill a tile from global memory: the loads, then the waiting, then the writes.
template <int rows, int cols> static __attribute__((device)) inline void load(Lds *to, const short *from, int thread) {
  constexpr int chunks = rows * cols / 8, turns = chunks < THREADS ? 1 : chunks / THREADS;
  i32x4 data[turns];
  if (chunks < THREADS && thread >= chunks) return;
#pragma unroll
  for (int i = 0; i < turns; i++) {
    int c = thread + i * THREADS, row = c / (cols / 8), col = c % (cols / 8) * 8;
    data[i] = *(const i32x4 *)(from + (long)row * SIZE + col);
  }
#pragma unroll
  for (int i = 0; i < turns; i++) {
    int c = thread + i * THREADS, row = c / (cols / 8), col = c % (cols / 8) * 8;
    *(__attribute__((address_space(3))) i32x2 *)(to + place<cols>(row, col)) = i32x2{data[i].x, data[i].y};
    *(__attribute__((address_space(3))) i32x2 *)(to + place<cols>(row, col + 4)) = i32x2{data[i].z, data[i].w};
  }
  asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory");
}

extern "C" __attribute__((global, amdgpu_flat_work_group_size(THREADS, THREADS)))
void element_reads(const short *a, const short *b, float *c) {
  int thread = __builtin_amdgcn_workitem_id_x(), lane = thread % 64, wave = thread / 64;
  int row = __builtin_amdgcn_workgroup_id_x() / (SIZE / BLOCK), col = __builtin_amdgcn_workgroup_id_x() % (SIZE / BLOCK);
  Lds *as = (Lds *)lds, *bs = (Lds *)lds + BLOCK * STEP * 2;
  char *generic = (char *)bs;
  asm volatile("" : "+v"(generic));  // nothing is known of where it points: flat accesses
  f32x4 sum[4] = {};
  for (int k = 0; k < SIZE / STEP; k++) {
    load<BLOCK, STEP>(as, a + (long)row * BLOCK * SIZE + k * STEP, thread);
    load<STEP, BLOCK>(bs, b + (long)k * STEP * SIZE + col * BLOCK, thread);
    __builtin_amdgcn_s_barrier();
    for (int i = 0; i < 4; i++) {
      int top = (i / 2 * 2 + wave / 2) * 16, left = (i % 2 * 2 + wave % 2) * 16;
      for (int j = 0; j < STEP / 16; j++) {
        auto *from = as + place<STEP>(top + lane % 16, j * 16 + lane / 16 * 4);
        bf16x4 left_side = *(__attribute__((address_space(3))) bf16x4 *)from, right_side;
        asm volatile("s_waitcnt lgkmcnt(0)" : "+v"(left_side)::"memory");
        for (int e = 0; e < 4; e++)
          right_side[e] = *(short *)(generic + place<BLOCK>(j * 16 + lane / 16 * 4 + e, left + lane % 16));
        sum[i] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(left_side, right_side, sum[i], 0, 0, 0);
      }
    }
  }
  for (int i = 0; i < 4; i++) {
    int top = (i / 2 * 2 + wave / 2) * 16, left = (i % 2 * 2 + wave % 2) * 16;
    for (int e = 0; e < 4; e++)
      c[(long)(row * BLOCK + top + lane / 16 * 4 + e) * SIZE + col * BLOCK + left + lane % 16] = sum[i][e];
  }
}
