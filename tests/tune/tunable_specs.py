"""The spec that the tests tune."""

SMALL = """# A small kernel to tune.
# It has four settings that are legal and two that are not.
# expect waves 1, barriers/step 9, vgpr <= 7, lds 1
kernel small
  dims M = 256, N = 256, K = 256
  param ROWS = 32, BUFFERS = 1, DOUBLE = 2 * ROWS
  tune ROWS in 32, 64,  # 96 does not divide 256
    96
  tune BUFFERS in 1, 2
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]

  block ROWS x 32 step 32
  waves 1 x 1
  shared A, B buffers BUFFERS
  accumulate C : f32 tile 32 x 32
  store C
"""
