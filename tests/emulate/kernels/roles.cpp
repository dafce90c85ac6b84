// One wave produces, one consumes, over a flag in LDS instead of a barrier. Without PUBLISH the consumer spins for ever;
// with BARRIER=1 they meet at a barrier as they should.
#include "device.h"
#ifndef PUBLISH
#define PUBLISH 0
#endif
#ifndef BARRIER
#define BARRIER 0
#endif

extern "C" __global__ LAUNCH(128) void roles(const float* in, float* out) {
  __shared__ static float tile[64];
  __shared__ static volatile int flag;
  if (thread() == 0) flag = 0;
  barrier();
  if (wave() == 0) {
    tile[lane()] = in[lane()];
    if (PUBLISH) flag = 1;
    if (!PUBLISH || BARRIER) barrier();
  } else {
    if (BARRIER) barrier();
    else while (!flag) {}
    out[lane()] = tile[lane()];
    if (!PUBLISH && !BARRIER) barrier();
  }
}
