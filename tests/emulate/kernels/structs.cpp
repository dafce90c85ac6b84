// Arguments passed by value, and what a kernel learns about its launch.
#include "device.h"

struct Inner {
  const float* data;
  int factor;
};
struct Outer {
  signed char offset;
  Inner inner;
  double scale;
  float* out;
  short shift;
};

extern "C" __global__ LAUNCH(256) void scale(Outer o) {
  o.out[thread()] = float(o.inner.data[thread()] * o.inner.factor * o.scale) + o.offset + o.shift;
}

struct Raw {
  unsigned char bytes[16];
  float* out;
};
extern "C" __global__ void copy_bytes(Raw r) { r.out[thread()] = r.bytes[thread() & 15]; }

extern "C" __global__ void ids(int* out) {
  const int tx = __builtin_amdgcn_workitem_id_x(), ty = __builtin_amdgcn_workitem_id_y(), tz = __builtin_amdgcn_workitem_id_z();
  const int bx = __builtin_amdgcn_workgroup_id_x(), by = __builtin_amdgcn_workgroup_id_y(), bz = __builtin_amdgcn_workgroup_id_z();
  auto counts = (const __attribute__((address_space(4))) unsigned*)__builtin_amdgcn_implicitarg_ptr();
  auto sizes = (const __attribute__((address_space(4))) unsigned short*)(counts + 3);
  const int block = bx + counts[0] * (by + counts[1] * bz), t = tx + sizes[0] * (ty + sizes[1] * tz);
  int* row = out + (block * sizes[0] * sizes[1] * sizes[2] + t) * 8;
  row[0] = bx; row[1] = by; row[2] = bz;
  row[3] = tx; row[4] = ty; row[5] = tz;
  row[6] = counts[0] | counts[1] << 8 | counts[2] << 16;
  row[7] = sizes[0] | sizes[1] << 8 | sizes[2] << 16;
}
