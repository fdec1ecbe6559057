// A buffer is added for each home of StepValues, and for the scratch of each
// pass, with its first and last time in the schedule. LifetimePlan gives the
// places. A new use of a value needs its time in StepValues: after the last
// known use another buffer may have the same memory.

#include "step_plan.h"

#include <algorithm>
#include <cinttypes>
#include <iterator>

#include "../layers/layer_table.h"

namespace ringlet {

StepPlan::Forced StepPlan::forced_;

StepPlan::StepPlan(const Graph& graph, const Options& options)
    : StepPlan(graph, options, ChooseForStep(graph, options)) {}

StepPlan::StepPlan(const Graph& graph, const Options& options,
                   const Choice& choice)
    : graph_(graph),
      options_(options),
      schedule_(graph, choice.kept),
      parts_(choice.parts),
      nodes_(graph.size()) {
  AddValues(
      StepValues(graph, schedule_, options.training, choice.in_place, parts_));
  AddScratch();
  bytes_ = buffers_.Place();
}

uint64_t StepPlan::SharedFloats(const Graph& graph, int i) {
  const GraphNode& node = graph.node(i);
  const bool last = graph.layers()[node.layer_index].last_node == i;
  if (last || !graph.SharesTrained(i)) return 0;
  int64_t floats = 0;
  for (int v = 0; v < node.num_variables; ++v) {
    const Variable& variable = graph.variables()[node.first_variable + v];
    if (variable.trained()) floats += variable.size();
  }
  return static_cast<uint64_t>(floats);
}

uint64_t StepPlan::BytesOf(const StepValue& value) const {
  return static_cast<uint64_t>(ExamplesOf(value) *
                               graph_.node(value.node).floats()) *
         (value.packed ? sizeof(uint16_t) : sizeof(float));
}

// Adds a buffer for each home, and its uses in order.
void StepPlan::AddValues(const StepValues& values) {
  const std::vector<StepValue>& all = values.all();
  std::vector<int> first(all.size(), schedule_.after()), last(all.size(), -1);
  for (const StepValue& v : all) {
    if (v.first < 0) continue;
    first[v.home] = std::min(first[v.home], v.first);
    last[v.home] = std::max(last[v.home], v.last);
  }
  std::vector<int> buffer(all.size(), -1);
  for (size_t i = 0; i < all.size(); ++i) {
    const uint64_t bytes = BytesOf(all[i]);
    // The inputs are in the caller's memory.
    if (last[i] < 0 || all[i].node < graph_.num_inputs() || bytes == 0) {
      continue;
    }
    buffer[i] = buffers_.Add(bytes, first[i], last[i]);
  }
  for (const StepValue& v : all) {
    if (v.first < 0 || buffer[v.home] < 0) continue;
    const UseKind kind = v.gradient ? UseKind::kGradient
                         : v.packed ? UseKind::kPacked
                                    : UseKind::kOutput;
    uses_.push_back(
        {buffer[v.home], kind, v.node, v.first, v.last, ExamplesOf(v)});
  }
  const auto buffer_of = [&](int value) {
    return value < 0 || all[value].first < 0 ? -1 : buffer[all[value].home];
  };
  for (int i = 0; i < graph_.size(); ++i) {
    nodes_[i].y = buffer_of(values.output(i));
    nodes_[i].in_parts = all[values.output(i)].in_parts;
    const StepValues::Reads& reads = values.reads(i);
    nodes_[i].y_for_backward = buffer_of(reads.y_for_backward);
    for (const int x : reads.x_for_backward) {
      nodes_[i].x_for_backward.push_back(buffer_of(x));
    }
    for (const int x : reads.x_for_recompute) {
      nodes_[i].x_for_recompute.push_back(buffer_of(x));
    }
    nodes_[i].packed = buffer_of(values.packed(i));
    nodes_[i].dy = buffer_of(values.gradient(i));
    for (size_t k = 0; k < graph_.node(i).inputs.size(); ++k) {
      nodes_[i].extra_dx.push_back(buffer_of(values.extra(i, k)));
    }
  }
  for (size_t k = 0; k < schedule_.passes().size(); ++k) {
    pass_outputs_.push_back(buffer_of(values.pass_output(k)));
  }
}

int StepPlan::AddScratch(UseKind kind, int node, uint64_t floats, int first,
                         int last, int64_t examples) {
  if (floats == 0 || first < 0) return -1;
  const int buffer = buffers_.Add(floats * sizeof(float), first, last);
  uses_.push_back({buffer, kind, node, first, last, examples});
  return buffer;
}

void StepPlan::AddScratch() {
  const int64_t batch = options_.batch;
  const int threads = options_.threads;
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    if (node.op == nullptr || node.root != i) continue;
    const int now = schedule_.forward(i);
    const int64_t examples = parts_.Has(i) ? parts_.examples : batch;
    nodes_[i].forward_scratch = AddScratch(
        UseKind::kForwardScratch, i,
        node.op->forward_scratch(examples, threads), now, now, examples);
    if (!options_.training) continue;
    const int last_read =
        std::max({now, schedule_.recompute_time(i), schedule_.backward(i)});
    const int64_t saved = last_read > now ? batch : examples;
    nodes_[i].saved =
        AddScratch(UseKind::kSaved, i, node.op->saved_floats(saved), now,
                   last_read, saved);
    nodes_[i].recompute_scratch = AddScratch(
        UseKind::kForwardScratch, i, node.op->forward_scratch(batch, threads),
        schedule_.recompute_time(i));
    nodes_[i].backward_scratch = AddScratch(
        UseKind::kBackwardScratch, i, node.op->backward_scratch(batch, threads),
        schedule_.backward(i));
    nodes_[i].d_weights =
        AddScratch(UseKind::kSharedGradient, i, SharedFloats(graph_, i),
                   schedule_.backward(i));
  }
}

void StepPlan::AddSizesTo(MemoryPlan* sizes) const {
  std::vector<bool> seen;  // the first use of a buffer counts
  for (const Use& use : uses_) {
    const auto buffer = static_cast<size_t>(use.buffer);
    if (buffer >= seen.size()) seen.resize(buffer + 1);
    if (seen[buffer]) continue;
    seen[buffer] = true;
    const uint64_t bytes = buffers_.bytes(use.buffer);
    if (use.kind == UseKind::kPacked) {
      ++sizes->packed;
      sizes->packed_bytes += bytes;
    }
    switch (use.kind) {
      case UseKind::kOutput:
      case UseKind::kPacked:
        sizes->activations += bytes;
        break;
      case UseKind::kGradient:
        sizes->activation_gradients += bytes;
        break;
      case UseKind::kForwardScratch:
      case UseKind::kBackwardScratch:
      case UseKind::kSharedGradient:
      case UseKind::kSaved:
        sizes->scratch += bytes;
        break;
    }
  }
  for (const StepPass& pass : schedule_.passes()) {
    if (pass.kind != StepPass::Kind::kRecompute) continue;
    ++sizes->recomputed;
    sizes->recomputed_multiply_adds +=
        graph_.node(pass.node).op->multiply_adds();
  }
}

Status StepPlan::MakeMemoryError(uint64_t bytes) const {
  constexpr const char* kKindNames[] = {"the output",
                                        "the output",
                                        "the gradient",
                                        "scratch",
                                        "scratch",
                                        "gradients",
                                        "numbers for the backward pass"};
  static_assert(std::size(kKindNames) ==
                static_cast<size_t>(UseKind::kSaved) + 1);
  const char* model = graph_.name().c_str();
  if (uses_.empty()) {
    return ResourceExhausted("model '%s': no memory for the %" PRIu64
                             " bytes of a step",
                             model, bytes);
  }
  const Use& largest = *std::max_element(
      uses_.begin(), uses_.end(), [&](const Use& a, const Use& b) {
        return buffers_.bytes(a.buffer) < buffers_.bytes(b.buffer);
      });
  const Layer& layer = graph_.node(largest.node).layer;
  Options one = options_;
  one.batch = 1;
  const uint64_t bytes_of_one = StepPlan(graph_, one).bytes();
  return ResourceExhausted(
      "model '%s': no memory for the %" PRIu64
      " bytes of a step of batch %" PRId64 ", of which %" PRIu64
      " are %s of layer '%s' (%s); %s: one example takes %" PRIu64,
      model, bytes, options_.batch, buffers_.bytes(largest.buffer),
      kKindNames[static_cast<int>(largest.kind)], layer.name.c_str(),
      ClassName(layer),
      bytes_of_one < bytes / 2 ? "use a smaller batch"
                               : "no smaller batch would fit",
      bytes_of_one);
}

}  // namespace ringlet
