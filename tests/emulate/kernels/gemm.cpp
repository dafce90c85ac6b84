// C = A B^T, one TILE x TILE tile (64 unless given) per block, four waves as 2 x 2, one LDS buffer. Each macro takes something away that the
// kernel needs: SECOND_BARRIER, ALL_WAVES_LOAD, WHOLE_COLLECTIVE, ONE_OWNER, ZERO, SAME_BARRIERS, OWN_TILE.
#include "device.h"
#ifndef SECOND_BARRIER
#define SECOND_BARRIER 1
#endif
#ifndef ALL_WAVES_LOAD
#define ALL_WAVES_LOAD 1
#endif
#ifndef WHOLE_COLLECTIVE
#define WHOLE_COLLECTIVE 1
#endif
#ifndef ONE_OWNER
#define ONE_OWNER 1
#endif
#ifndef TILE
#define TILE 64
#endif
#ifndef ZERO
#define ZERO 1
#endif
#ifndef OWN_TILE
#define OWN_TILE 1
#endif
#ifndef SAME_BARRIERS
#define SAME_BARRIERS 1
#endif

extern "C" __global__ LAUNCH(256) void gemm(const short* A, const short* B, float* C, int N, int K) {
  __shared__ static short As[TILE * PITCH], Bs[TILE * PITCH];
  const int row0 = __builtin_amdgcn_workgroup_id_y() * TILE;
  const int column0 = OWN_TILE ? __builtin_amdgcn_workgroup_id_x() * TILE : 0;
  constexpr int HALF = TILE / 2, N_FRAGMENTS = HALF / 16;
  const int r = wave() / 2 * HALF, c = ONE_OWNER ? wave() % 2 * HALF : 0;
  constexpr int group = WHOLE_COLLECTIVE ? 256 : 512;  // a collective of eight waves, of which only four exist
  float4v acc[N_FRAGMENTS][N_FRAGMENTS];
  for (int i = 0; i < N_FRAGMENTS; ++i)
    for (int j = 0; j < N_FRAGMENTS; ++j)
      if (ZERO || i) acc[i][j] = float4v{};
  for (int k = 0; k < K; k += STEP) {
    if (ALL_WAVES_LOAD || wave() == 0) {
      load_tile(As, A + (long)row0 * K + k, K, TILE, thread(), group);
      load_tile(Bs, B + (long)column0 * K + k, K, TILE, thread(), group);
    }
    barrier();
    for (int kk = 0; kk < STEP; kk += 16)
      for (int i = 0; i < N_FRAGMENTS; ++i)
        for (int j = 0; j < N_FRAGMENTS; ++j)
          acc[i][j] = mma(fragment(As, r + 16 * i, kk), fragment(Bs, c + 16 * j, kk), acc[i][j]);
    if (SECOND_BARRIER) barrier();
  }
  if (!SAME_BARRIERS && wave() == 3) barrier();
  for (int i = 0; i < N_FRAGMENTS; ++i)
    for (int j = 0; j < N_FRAGMENTS; ++j) store_fragment(C, N, row0 + r + 16 * i, column0 + c + 16 * j, acc[i][j]);
}
