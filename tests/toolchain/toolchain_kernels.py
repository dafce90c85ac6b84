"""Small kernels that need no header."""

KERNEL = """\
typedef short short4v __attribute__((ext_vector_type(4)));
typedef float float4v __attribute__((ext_vector_type(4)));
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(1, 256)))
tiny(const short4v *a, const short4v *b, float4v *c, int n) {
  __attribute__((shared)) static short4v tile[64];
  float4v sum = {0, 0, 0, 0};
  int lane = __builtin_amdgcn_workitem_id_x();
  for (int i = 0; i < n; ++i) {
    tile[lane] = b[i * 64 + lane];
    __builtin_amdgcn_s_barrier();
    sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a[i * 64 + lane], tile[lane ^ 1], sum, 0, 0, 0);
    __builtin_amdgcn_s_barrier();
  }
  c[lane] = sum;
}
"""

# 20 accumulators of 16 registers: more than 256, so AGPRs are used where 256 threads are allowed, and with 1024 threads
# (128 registers a lane) registers spill.
MANY_REGISTERS = """\
typedef short short4v __attribute__((ext_vector_type(4)));
typedef float float16v __attribute__((ext_vector_type(16)));
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(1, THREADS)))
many(const short4v *a, float16v *c, int n) {
  float16v sum[20];
  for (int j = 0; j < 20; ++j) sum[j] = c[j * 64 + __builtin_amdgcn_workitem_id_x()];
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 20; ++j) sum[j] = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a[i], a[i + j], sum[j], 0, 0, 0);
  for (int j = 0; j < 20; ++j) c[j * 64 + __builtin_amdgcn_workitem_id_x()] = sum[j];
}
"""
