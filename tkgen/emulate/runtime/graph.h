// Graphs, and streams that capture calls into one instead of executing them.
#pragma once
#include <functional>
#include <list>
#include <memory>

#include "runtime.h"

struct ihipGraph;

struct hipGraphNode {
  ihipGraph* graph;
  int type;                            // hipGraphNodeType
  std::function<hipError_t()> work;    // what a launch of the graph does
  std::vector<hipGraphNode*> before;   // nodes that come first
  std::unique_ptr<ihipGraph> child;
  hipGraphNode* origin = nullptr;      // of the node of a clone
};

struct ihipGraph {
  std::list<std::unique_ptr<hipGraphNode>> nodes;
};

enum NodeType { KERNEL, MEMCPY, MEMSET, HOST, GRAPH, EMPTY, WAIT, RECORD };

/// Executes the work of a call on a stream, or, where the stream captures, adds it to its graph.
hipError_t in_order(hipStream_t stream, NodeType type, std::function<hipError_t()> work);

/// Refuses a call that a capturing stream has no node for.
void never_captured(hipStream_t stream, const char* name);

/// The host waits for a stream, or for all: an error, which ends the capture, where they capture.
hipError_t synchronized(hipStream_t stream, bool all = false);

/// An event on a stream. Return true where it is captured: then it is recorded, and waited for, in the graph alone.
bool records(hipEvent_t event, hipStream_t stream);
bool waits(hipStream_t stream, hipEvent_t event);
void forget(hipEvent_t event);
