// See grid.h for the rule.
#include "grid.h"

#include "referee.h"

namespace {

// Every block that is left waits for waves that never arrive.
void report_deadlock(const std::vector<Engine*>& engines) {
  for (Engine* engine : engines)
    for (const auto& w : engine->waves) {
      if (w->state != Wave::GRID) continue;
      TkParty a = party(*w);
      a.index -= 2;  // ds_gws_barrier itself
      if (TkFinding* f = engine->report(DEADLOCK, *w, a)) f->fatal = 1;
      engine->stopped = true;
      return;
    }
}

void gws_barrier(Wave& w, const Op& op) {
  if (!w.engine->grid) return w.engine->fatal(UNSUPPORTED, w);  // nobody set the resource up
  const uint64_t lanes = w.exec();
  const int first = lanes ? __builtin_ctzll(lanes) : 0;
  w.engine->grid->arrive(w, (uint32_t(op.offset) + (w.s[M0] >> 16 & 63)) & 63, w.v[op.src[0] - 256][first]);
}

const Info TABLE[] = {{"ds_gws_barrier", gws_barrier, 0, {1, 0, 0}, 0}};

}  // namespace

Table grid_table() { return {TABLE, sizeof TABLE / sizeof *TABLE}; }

void TkGrid::arrive(Wave& w, unsigned resource, uint32_t others) {
  Resource& r = resources[resource];
  if (w.engine->referee) join(r.released, w.engine->referee->order.give(w, OF_ALL));
  w.state = Wave::GRID;
  r.waiting.push_back(&w);
  if (r.waiting.size() <= others) return;
  for (Wave* each : r.waiting) {
    each->state = Wave::RUNNING;
    if (each->engine->referee) each->engine->referee->order.take(*each, r.released);
  }
  r.waiting.clear();
  r.released.clear();
}

int run_together(const std::vector<Engine*>& engines, const uint64_t* blocks) {
  TkGrid grid;
  std::vector<Engine*> left = engines;
  for (size_t i = 0; i < engines.size(); ++i) {
    engines[i]->grid = &grid;
    engines[i]->begin_block(blocks[i]);
  }
  while (!left.empty()) {
    bool moved = false;
    std::vector<Engine*> next;
    for (Engine* engine : left) {
      const uint64_t before = engine->executed();
      const bool ended = engine->advance(GRID_SLICE);
      if (engine->stopped) return 1;
      moved |= ended || engine->executed() != before;
      if (ended) engine->end_block();
      else next.push_back(engine);
    }
    if (!moved) {
      report_deadlock(next);
      return 1;
    }
    left.swap(next);
  }
  return 0;
}
