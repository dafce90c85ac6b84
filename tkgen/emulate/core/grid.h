// Blocks of a cooperative launch, which may wait for one another: all of them are under way at once, on one thread, each for a
// slice of instructions in turn.
//
// ROCm's device libraries have two forms of grid.sync() (ockl/src/cg.cl). One adds to a counter in memory and polls it, which
// needs nothing but that the other blocks go on. The other is `ds_gws_barrier`, on one of 64 resources of global wave sync: each
// wave that arrives waits until as many are there as its operand says, plus one ("Global Wave Sync", CDNA3 ISA, DS_GWS_BARRIER).
// To the referee the arrival is a release and what follows an acquire (flags.h). An acquire on hardware would need buffer_inv,
// too, which the device libraries of ROCm 5 leave out; their fence stands before the barrier.
#pragma once
#include "flags.h"

struct TkGrid {
  struct Resource {
    std::vector<Wave*> waiting;
    Clock released;
  };
  Resource resources[64];

  // A wave waits at a resource for `others` waves more; the last one to arrive lets all of them run.
  void arrive(Wave& w, unsigned resource, uint32_t others);
};

constexpr uint64_t GRID_SLICE = 2048;  // instructions of a block before it is the next one's turn

// Runs blocks, one of each engine, until all have ended; returns 0, or 1 where a fatal finding stopped one.
int run_together(const std::vector<Engine*>& engines, const uint64_t* blocks);
