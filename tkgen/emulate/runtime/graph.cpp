// See graph.h. A graph executes its nodes one after another, in an order that its dependencies allow.
#include <algorithm>
#include <set>

#include "graph.h"

typedef ihipGraph* hipGraph_t;
typedef hipGraphNode* hipGraphNode_t;

struct hipGraphExec {
  std::unique_ptr<ihipGraph> graph;
  std::vector<hipGraphNode*> order;
};
typedef hipGraphExec* hipGraphExec_t;

struct hipKernelNodeParams {
  dim3 block;
  void** extra;
  void* function;
  dim3 grid;
  void** arguments;
  unsigned lds;
};

struct hipMemsetParams {
  void* target;
  unsigned element_size;
  size_t height, pitch;
  unsigned value;
  size_t width;
};

struct hipHostNodeParams {
  void (*call)(void*);
  void* data;
};

bool before_6();
hipError_t kernel_work(const void* function, dim3 grid, dim3 block, size_t lds, void** arguments, void** extra,
                       std::function<hipError_t()>* work);
HIP_API hipError_t hipMemcpy(void*, const void*, size_t, hipMemcpyKind);
HIP_API hipError_t hipMemcpy3D(const hipMemcpy3DParms*);
HIP_API hipError_t hipMemset2D(void*, size_t, int, size_t, size_t);
HIP_API hipError_t hipMemsetD16(void*, unsigned short, size_t);
HIP_API hipError_t hipMemsetD32(void*, int, size_t);
HIP_API hipError_t hipMemcpyToSymbol(const void*, const void*, size_t, size_t, hipMemcpyKind);
HIP_API hipError_t hipMemcpyFromSymbol(void*, const void*, size_t, size_t, hipMemcpyKind);
HIP_API hipError_t hipEventRecord(hipEvent_t, hipStream_t);

namespace {

using Nodes = std::set<hipGraphNode*>;

/// A capture under way: the stream that began it, and for each stream in it the nodes that its next one comes after.
struct Capture {
  hipStream_t origin;
  int mode;
  uint64_t number;
  std::unique_ptr<ihipGraph> graph;
  std::map<hipStream_t, Nodes> last;
  std::map<hipEvent_t, Nodes> events;
  bool invalid = false;
};

std::list<Capture>& captures() {
  static auto* const all = new std::list<Capture>;
  return *all;
}

Capture* of(hipStream_t stream) {
  for (Capture& each : captures())
    if (each.last.count(stream)) return &each;
  return nullptr;
}

bool legacy(hipStream_t stream) { return uintptr_t(stream) <= 1; }

hipGraphNode* add(ihipGraph& graph, int type, std::function<hipError_t()> work, std::vector<hipGraphNode*> before = {}) {
  graph.nodes.push_back(std::make_unique<hipGraphNode>(hipGraphNode{&graph, type, std::move(work), std::move(before), nullptr}));
  return graph.nodes.back().get();
}

hipError_t added(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count, int type,
                 std::function<hipError_t()> work) {
  NEED(made && graph && (before || !count), hipErrorInvalidValue);
  for (size_t i = 0; i < count; ++i) NEED(before[i] && before[i]->graph == graph, hipErrorInvalidValue);
  *made = add(*graph, type, std::move(work), {before, before + count});
  return hipSuccess;
}

/// Nodes in an order that their dependencies allow; fewer than there are where those go round in a circle.
std::vector<hipGraphNode*> ordered(const ihipGraph& graph) {
  std::vector<hipGraphNode*> found;
  Nodes done;
  for (bool more = true; more;) {
    more = false;
    for (const auto& node : graph.nodes) {
      if (done.count(node.get())) continue;
      if (!std::all_of(node->before.begin(), node->before.end(), [&](auto* each) { return done.count(each); })) continue;
      found.push_back(node.get());
      done.insert(node.get());
      more = true;
    }
  }
  return found;
}

std::unique_ptr<ihipGraph> cloned(const ihipGraph& graph) {
  auto made = std::make_unique<ihipGraph>();
  std::map<const hipGraphNode*, hipGraphNode*> copies;
  for (const auto& node : graph.nodes) {
    hipGraphNode* copy = copies[node.get()] = add(*made, node->type, node->work, node->before);
    copy->origin = node.get();
    if (node->child) copy->child = cloned(*node->child);
  }
  for (const auto& node : made->nodes)
    for (hipGraphNode*& each : node->before) each = copies.at(each);
  return made;
}

thread_local int executing = 0;  // graphs: what their nodes do is no call of the program's

struct Executing {
  Executing() { ++executing; }
  ~Executing() { --executing; }
};

hipError_t executed(const std::vector<hipGraphNode*>& order) {
  const Executing guard;
  for (hipGraphNode* node : order) {
    if (node->child) TRY(executed(ordered(*node->child)));
    else if (node->work) TRY(node->work());
  }
  return hipSuccess;
}

hipGraphNode* of_origin(hipGraphExec_t exec, hipGraphNode_t node) {
  for (hipGraphNode* each : exec->order)
    if (each->origin == node) return each;
  return nullptr;
}

/// Gives the node of a graph, or of an executable one, other work of the same type.
hipError_t changed(hipGraphExec_t exec, hipGraphNode_t node, NodeType type, std::function<hipError_t()> work) {
  NEED(node, hipErrorInvalidValue);
  hipGraphNode* found = exec ? of_origin(exec, node) : node;
  NEED(found && found->type == type, hipErrorInvalidValue);
  found->work = std::move(work);
  return hipSuccess;
}

std::function<hipError_t()> filling(const hipMemsetParams& what) {
  return [what]() -> hipError_t {
    const size_t row = what.height == 1 ? what.width * what.element_size : what.pitch;
    for (size_t i = 0; i < what.height; ++i) {
      void* target = static_cast<char*>(what.target) + i * row;
      if (what.element_size == 1) TRY(hipMemset2D(target, what.width, int(what.value), what.width, 1));
      else if (what.element_size == 2) TRY(hipMemsetD16(target, uint16_t(what.value), what.width));
      else TRY(hipMemsetD32(target, int(what.value), what.width));
    }
    return hipSuccess;
  };
}

std::function<hipError_t()> calling(const hipHostNodeParams& what) {
  return [what] {
    what.call(what.data);
    return hipSuccess;
  };
}

hipError_t listed(const std::vector<hipGraphNode*>& found, hipGraphNode_t* nodes, size_t* count) {
  NEED(count, hipErrorInvalidValue);
  if (nodes) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = i < found.size() ? found[i] : nullptr;
    *count = std::min(*count, found.size());
  } else {
    *count = found.size();
  }
  return hipSuccess;
}

}  // namespace

hipError_t in_order(hipStream_t stream, NodeType type, std::function<hipError_t()> work) {
  LOCKED;
  Capture* capture = executing ? nullptr : of(stream);
  if (!capture) {
    if (!executing && legacy(stream))  // it would have to wait for streams that capture
      for (Capture& each : captures())
        if (each.mode != 2) {
          each.invalid = true;
          return hipErrorStreamCaptureImplicit;
        }
    return work();
  }
  if (capture->invalid) return hipErrorStreamCaptureInvalidated;
  Nodes& last = capture->last[stream];
  last = {add(*capture->graph, type, std::move(work), {last.begin(), last.end()})};
  return hipSuccess;
}

void never_captured(hipStream_t stream, const char* name) {
  LOCKED;
  if (of(stream)) refuse(std::string(name) + " on a stream that captures");
}

bool records(hipEvent_t event, hipStream_t stream) {
  for (Capture& each : captures()) each.events.erase(event);
  Capture* capture = of(stream);
  if (capture) capture->events[event] = capture->last[stream];
  return capture;
}

bool waits(hipStream_t stream, hipEvent_t event) {
  for (Capture& each : captures()) {
    auto found = each.events.find(event);
    if (found == each.events.end()) continue;
    each.last[stream].insert(found->second.begin(), found->second.end());  // the stream joins the capture
    return true;
  }
  return false;
}

hipError_t synchronized(hipStream_t stream, bool all) {
  LOCKED;
  if (executing) return hipSuccess;
  for (Capture& each : captures())
    if (each.last.count(stream) || (all && each.mode != 2)) {
      each.invalid = true;
      return hipErrorStreamCaptureUnsupported;
    }
  return hipSuccess;
}

void forget(hipEvent_t event) {
  LOCKED;
  for (Capture& each : captures()) each.events.erase(event);
}

// ---------------------------------------------------------------- captures

HIP_API hipError_t hipStreamBeginCapture(hipStream_t stream, int mode) {
  LOCKED;
  static uint64_t number = 0;
  NEED(!legacy(stream), hipErrorStreamCaptureUnsupported);
  NEED(mode >= 0 && mode <= 2, hipErrorInvalidValue);
  NEED(!of(stream), hipErrorIllegalState);
  Runtime::get().device();
  captures().push_back({stream, mode, ++number, std::make_unique<ihipGraph>(), {{stream, {}}}, {}});
  return hipSuccess;
}

HIP_API hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* made) {
  LOCKED;
  NEED(made, hipErrorInvalidValue);
  *made = nullptr;
  Capture* capture = of(stream);
  NEED(capture, hipErrorIllegalState);
  NEED(capture->origin == stream, hipErrorStreamCaptureUnmatched);
  Nodes ends;
  for (const auto& node : capture->graph->nodes) ends.insert(node.get());
  for (const auto& node : capture->graph->nodes)
    for (hipGraphNode* each : node->before) ends.erase(each);
  const Nodes last = capture->last[stream];
  const bool joined = std::includes(last.begin(), last.end(), ends.begin(), ends.end());
  const bool valid = !capture->invalid;
  if (joined && valid) *made = capture->graph.release();
  captures().remove_if([&](const Capture& each) { return &each == capture; });
  NEED(valid, hipErrorStreamCaptureInvalidated);
  NEED(joined, hipErrorStreamCaptureUnjoined);
  return hipSuccess;
}

HIP_API hipError_t hipStreamIsCapturing(hipStream_t stream, int* status) {
  LOCKED;
  NEED(status, hipErrorInvalidValue);
  const Capture* capture = of(stream);
  *status = !capture ? 0 : capture->invalid ? 2 : 1;
  return hipSuccess;
}

HIP_API hipError_t hipStreamGetCaptureInfo(hipStream_t stream, int* status, unsigned long long* number) {
  LOCKED;
  TRY(hipStreamIsCapturing(stream, status));
  if (number && *status == 1) *number = of(stream)->number;
  return hipSuccess;
}

HIP_API hipError_t hipThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int current = 0;
  NEED(mode && *mode >= 0 && *mode <= 2, hipErrorInvalidValue);
  std::swap(*mode, current);
  return hipSuccess;
}

// ---------------------------------------------------------------- graphs

HIP_API hipError_t hipGraphCreate(hipGraph_t* graph, unsigned flags) {
  NEED(graph && !flags, hipErrorInvalidValue);
  *graph = new ihipGraph;
  return hipSuccess;
}
HIP_API hipError_t hipGraphDestroy(hipGraph_t graph) {
  NEED(graph, hipErrorInvalidValue);
  delete graph;
  return hipSuccess;
}
HIP_API hipError_t hipGraphClone(hipGraph_t* made, hipGraph_t graph) {
  NEED(made && graph, hipErrorInvalidValue);
  *made = cloned(*graph).release();
  return hipSuccess;
}

HIP_API hipError_t hipGraphAddKernelNode(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count,
                                         const hipKernelNodeParams* what) {
  LOCKED;
  NEED(what, hipErrorInvalidValue);
  std::function<hipError_t()> work;
  TRY(kernel_work(what->function, what->grid, what->block, what->lds, what->arguments, what->extra, &work));
  return added(made, graph, before, count, KERNEL, std::move(work));
}
HIP_API hipError_t hipGraphAddMemcpyNode(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count,
                                         const hipMemcpy3DParms* what) {
  NEED(what, hipErrorInvalidValue);
  return added(made, graph, before, count, MEMCPY, [copy = *what] { return hipMemcpy3D(&copy); });
}
HIP_API hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count,
                                           void* target, const void* source, size_t size, hipMemcpyKind kind) {
  return added(made, graph, before, count, MEMCPY, [=] { return hipMemcpy(target, source, size, kind); });
}
HIP_API hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count,
                                                 const void* symbol, const void* source, size_t size, size_t offset,
                                                 hipMemcpyKind kind) {
  return added(made, graph, before, count, MEMCPY, [=] { return hipMemcpyToSymbol(symbol, source, size, offset, kind); });
}
HIP_API hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before,
                                                   size_t count, void* target, const void* symbol, size_t size, size_t offset,
                                                   hipMemcpyKind kind) {
  return added(made, graph, before, count, MEMCPY, [=] { return hipMemcpyFromSymbol(target, symbol, size, offset, kind); });
}
HIP_API hipError_t hipGraphAddMemsetNode(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count,
                                         const hipMemsetParams* what) {
  NEED(what && (what->element_size == 1 || what->element_size == 2 || what->element_size == 4), hipErrorInvalidValue);
  return added(made, graph, before, count, MEMSET, filling(*what));
}
HIP_API hipError_t hipGraphAddHostNode(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count,
                                       const hipHostNodeParams* what) {
  NEED(what && what->call, hipErrorInvalidValue);
  return added(made, graph, before, count, HOST, calling(*what));
}
HIP_API hipError_t hipGraphAddEmptyNode(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count) {
  return added(made, graph, before, count, EMPTY, {});
}
HIP_API hipError_t hipGraphAddChildGraphNode(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count,
                                             hipGraph_t child) {
  NEED(child, hipErrorInvalidValue);
  TRY(added(made, graph, before, count, GRAPH, {}));
  (*made)->child = cloned(*child);
  return hipSuccess;
}
HIP_API hipError_t hipGraphAddEventRecordNode(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count,
                                              hipEvent_t event) {
  NEED(event, hipErrorInvalidValue);
  return added(made, graph, before, count, RECORD, [=] { return hipEventRecord(event, nullptr); });
}
HIP_API hipError_t hipGraphAddEventWaitNode(hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* before, size_t count,
                                            hipEvent_t event) {
  NEED(event, hipErrorInvalidValue);
  return added(made, graph, before, count, WAIT, {});  // all work before the launch is complete
}

HIP_API hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to, size_t count) {
  NEED(graph && ((from && to) || !count), hipErrorInvalidValue);
  for (size_t i = 0; i < count; ++i) {
    NEED(from[i] && to[i] && from[i] != to[i] && from[i]->graph == graph && to[i]->graph == graph, hipErrorInvalidValue);
    to[i]->before.push_back(from[i]);
  }
  return hipSuccess;
}
HIP_API hipError_t hipGraphDestroyNode(hipGraphNode_t node) {
  NEED(node, hipErrorInvalidValue);
  ihipGraph* graph = node->graph;
  for (const auto& each : graph->nodes)
    each->before.erase(std::remove(each->before.begin(), each->before.end(), node), each->before.end());
  graph->nodes.remove_if([&](const auto& each) { return each.get() == node; });
  return hipSuccess;
}
HIP_API hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  NEED(graph, hipErrorInvalidValue);
  std::vector<hipGraphNode*> found;
  for (const auto& each : graph->nodes) found.push_back(each.get());
  return listed(found, nodes, count);
}
HIP_API hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  NEED(graph, hipErrorInvalidValue);
  std::vector<hipGraphNode*> found;
  for (const auto& each : graph->nodes)
    if (each->before.empty()) found.push_back(each.get());
  return listed(found, nodes, count);
}
HIP_API hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t* nodes, size_t* count) {
  NEED(node, hipErrorInvalidValue);
  return listed(node->before, nodes, count);
}
HIP_API hipError_t hipGraphNodeGetType(hipGraphNode_t node, int* type) {
  NEED(node && type, hipErrorInvalidValue);
  *type = node->type + before_6();  // HIP 5 counts from 1
  return hipSuccess;
}

HIP_API hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t* wrong, char* log, size_t size) {
  NEED(exec && graph, hipErrorInvalidValue);
  auto made = std::make_unique<hipGraphExec>();
  made->graph = cloned(*graph);
  made->order = ordered(*made->graph);
  if (wrong) *wrong = nullptr;
  if (log && size) *log = '\0';
  NEED(made->order.size() == made->graph->nodes.size(), hipErrorInvalidValue);  // a circle
  *exec = made.release();
  return hipSuccess;
}
HIP_API hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph, unsigned long long) {
  return hipGraphInstantiate(exec, graph, nullptr, nullptr, 0);
}
HIP_API hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  NEED(exec, hipErrorInvalidValue);
  delete exec;
  return hipSuccess;
}
HIP_API hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t) { return failed(exec ? hipSuccess : hipErrorInvalidValue); }
HIP_API hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  LOCKED;
  NEED(exec, hipErrorInvalidValue);
  never_captured(stream, "hipGraphLaunch");
  return in_order(stream, GRAPH, [=] { return executed(exec->order); });
}

HIP_API hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* wrong, int* result) {
  NEED(exec && graph && result, hipErrorInvalidValue);
  if (wrong) *wrong = nullptr;
  auto made = cloned(*graph);
  auto order = ordered(*made);
  *result = order.size() == exec->order.size() ? 0 : 2;  // hipGraphExecUpdateErrorTopologyChanged
  for (size_t i = 0; !*result && i < order.size(); ++i)
    if (order[i]->type != exec->order[i]->type) *result = 3;  // hipGraphExecUpdateErrorNodeTypeChanged
  NEED(!*result, hipErrorGraphExecUpdateFailure);
  for (size_t i = 0; i < order.size(); ++i) order[i]->origin = exec->order[i]->origin;
  exec->graph = std::move(made), exec->order = std::move(order);
  return hipSuccess;
}

static hipError_t set_kernel(hipGraphExec_t exec, hipGraphNode_t node, const hipKernelNodeParams* what) {
  LOCKED;
  NEED(what, hipErrorInvalidValue);
  std::function<hipError_t()> work;
  TRY(kernel_work(what->function, what->grid, what->block, what->lds, what->arguments, what->extra, &work));
  return changed(exec, node, KERNEL, std::move(work));
}
HIP_API hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams* what) {
  return set_kernel(nullptr, node, what);
}
HIP_API hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipKernelNodeParams* what) {
  NEED(exec, hipErrorInvalidValue);
  return set_kernel(exec, node, what);
}
HIP_API hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void* target, const void* source, size_t size,
                                                 hipMemcpyKind kind) {
  return changed(nullptr, node, MEMCPY, [=] { return hipMemcpy(target, source, size, kind); });
}
HIP_API hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec, hipGraphNode_t node, void* target, const void* source,
                                                     size_t size, hipMemcpyKind kind) {
  NEED(exec, hipErrorInvalidValue);
  return changed(exec, node, MEMCPY, [=] { return hipMemcpy(target, source, size, kind); });
}
HIP_API hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams* what) {
  NEED(what, hipErrorInvalidValue);
  return changed(nullptr, node, MEMSET, filling(*what));
}
HIP_API hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipMemsetParams* what) {
  NEED(exec && what, hipErrorInvalidValue);
  return changed(exec, node, MEMSET, filling(*what));
}
HIP_API hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams* what) {
  NEED(what && what->call, hipErrorInvalidValue);
  return changed(nullptr, node, HOST, calling(*what));
}
HIP_API hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipHostNodeParams* what) {
  NEED(exec && what && what->call, hipErrorInvalidValue);
  return changed(exec, node, HOST, calling(*what));
}

PER_THREAD(hipStreamBeginCapture);
PER_THREAD(hipStreamEndCapture);
PER_THREAD(hipStreamIsCapturing);
PER_THREAD(hipStreamGetCaptureInfo);
PER_THREAD(hipGraphLaunch);
