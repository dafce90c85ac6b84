// The four multiplies of each wave for a 64 x 64 x 16 step, and nothing of a product else: operands are whatever the registers
// hold. -DBOTTLENECK=0 puts 48 vector instructions between them, 1 lets two waves multiply while the other two wait for them.
// Freestanding. -DSIZE=M=N=K.
typedef short bf16x4 __attribute__((ext_vector_type(4)));
typedef float f32x4 __attribute__((ext_vector_type(4)));

extern "C" __attribute__((global, amdgpu_flat_work_group_size(256, 256)))
void bottleneck(const short *a, const short *b, float *c) {
  int thread = __builtin_amdgcn_workitem_id_x(), wave = __builtin_amdgcn_readfirstlane(thread / 64);
  bf16x4 left = {}, right = {};
  f32x4 sum[4] = {};
  int other = thread;
  constexpr int steps = BOTTLENECK == 1 ? 8 : 1;  // of multiplies in a row
  for (int k = 0; k < SIZE / 16 / steps; k++) {
    if (BOTTLENECK == 1 && wave >= 2) __builtin_amdgcn_s_barrier();
#pragma unroll
    for (int i = 0; i < 4 * steps; i++) {
      sum[i % 4] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(left, right, sum[i % 4], 0, 0, 0);
      for (int n = 0; BOTTLENECK == 0 && n < 12; n++) asm volatile("v_add_u32 %0, 1, %0" : "+v"(other));
    }
    if (BOTTLENECK == 1 && wave < 2) __builtin_amdgcn_s_barrier();
    if (BOTTLENECK == 1) __builtin_amdgcn_s_barrier();
  }
  c[thread] = sum[0][0] + sum[1][1] + sum[2][2] + sum[3][3] + other;
}
