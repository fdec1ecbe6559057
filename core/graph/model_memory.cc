// persistent_block_ and step_block_ own the memory, unless the memory of the
// caller is used. Every other pointer here and in NodeSpans points into them.
// Parts of a block are poisoned while it is in use; Release... unpoisons it
// before it is returned. An open loader writes to step_.x and step_.y. While
// lease_ lives the step's block is neither moved nor freed. The loader holds
// step_block_ too, since it may outlive the model.

#include "model_memory.h"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstring>
#include <utility>

#include "../base/check.h"
#include "../base/large_pages.h"
#include "../base/poison.h"

namespace ringlet {

ModelMemory::~ModelMemory() {
  ReleaseStep();
  ReleasePersistent();
}

// Aligned memory from the heap; null if there is none.
ModelMemory::Block ModelMemory::AllocateBlock(uint64_t bytes) {
  if (bytes > PTRDIFF_MAX) return nullptr;
  const size_t size = std::max(static_cast<size_t>(bytes), Arena::kAlignment);
  void* const block = std::aligned_alloc(Arena::kAlignment, size);
  // A step passes over all its weights and activations, so with pages of 4 KiB
  // the processor translates thousands of addresses in each step.
  AdviseLargePages(block, size);
  return Block(block);
}

Status ModelMemory::CheckLimit(const Options& options, uint64_t bytes,
                               const char* subject) const {
  if (options.memory_bytes == 0 && options.memory == nullptr) return Status();
  if (bytes <= options.memory_bytes) return Status();
  return ResourceExhausted("model '%s': %s take %" PRIu64
                           " bytes, but only %zu were given; give more "
                           "memory, a smaller batch or fewer units",
                           graph_.name().c_str(), subject, bytes,
                           options.memory_bytes);
}

// --- the persistent block --------------------------------------------------

PersistentSpans ModelMemory::PlacePersistent(const Options& options,
                                             Arena* arena) const {
  PersistentSpans spans;
  const auto n = static_cast<uint64_t>(graph_.num_trained());
  const uint64_t summed = n + static_cast<uint64_t>(graph_.num_changes());
  const auto weights = static_cast<uint64_t>(graph_.num_weights());
  spans.weights = arena->Allocate<float>(weights);
  spans.gradients = arena->Allocate<float>(summed);
  if (spans.gradients != nullptr)
    spans.layer_state_changes = spans.gradients + n;
  for (int s = 0; s < options.num_slots; ++s) {
    spans.slots[s] = arena->Allocate<float>(n);
  }
  if (options.sums) spans.sums = arena->Allocate<float>(summed);
  if (options.local_replicas > 0) {
    spans.round_weights = arena->Allocate<float>(weights);
    spans.outer_momentum = arena->Allocate<float>(n);
    const auto others = static_cast<uint64_t>(options.local_replicas - 1);
    spans.contributions = arena->Allocate<float>(others * summed);
    const auto all = static_cast<uint64_t>(options.all_replicas);
    if (options.errors) spans.errors = arena->Allocate<float>(all * n);
    if (options.starts) {
      spans.pending = arena->Allocate<float>(summed);
      spans.starts = arena->Allocate<float>(all * weights);
    }
  }
  if (!options.exact) return spans;
  spans.scales = arena->Allocate<uint8_t>(
      static_cast<uint64_t>(MakeGridLayout(graph_).blocks()));
  return spans;
}

Status ModelMemory::AllocatePersistent(const Options& options) {
  Arena counting;
  PlacePersistent(options, &counting);
  const uint64_t bytes = counting.used();
  RINGLET_RETURN_IF_ERROR(
      CheckLimit(options, bytes, "weights, gradients and slots"));
  Block block;
  if (options.memory == nullptr) {
    block = AllocateBlock(bytes);
    if (block == nullptr) {
      return ResourceExhausted("model '%s': no memory for %" PRIu64
                               " bytes of weights, gradients and optimizer "
                               "slots",
                               graph_.name().c_str(), bytes);
    }
  }
  ReleaseStep();
  ReleasePersistent();
  Arena arena(options.memory != nullptr ? options.memory : block.get(),
              static_cast<size_t>(bytes));
  const PersistentSpans placed = PlacePersistent(options, &arena);
  if (persistent_.weights != nullptr) {
    // The old and the new block may overlap.
    std::memmove(placed.weights, persistent_.weights,
                 static_cast<size_t>(graph_.num_weights()) * sizeof(float));
  }
  if (placed.outer_momentum != nullptr) {
    std::fill_n(placed.outer_momentum, graph_.num_trained(), 0.0f);
  }
  if (options.exact) {
    std::fill_n(placed.scales, MakeGridLayout(graph_).blocks(), kFinestScale);
  }
  options_ = options;
  training_ = false;
  persistent_ = placed;
  persistent_bytes_ = bytes;
  persistent_block_ = std::move(block);
  ResetSlots();
  BindPersistent();
  return Status();
}

void ModelMemory::ResetSlots() const {
  for (int s = 0; s < options_.num_slots; ++s) {
    std::fill_n(persistent_.slots[s], graph_.num_trained(),
                s == 0 ? options_.first_slot : 0.0f);
  }
}

void ModelMemory::BindPersistent() {
  nodes_.resize(graph_.nodes().size());
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    NodeSpans& spans = nodes_[i];
    spans.weights.clear();
    spans.d_weights.clear();
    spans.layer_state_changes.clear();
    for (int v = 0; v < node.num_variables; ++v) {
      const Variable& variable = graph_.variables()[node.first_variable + v];
      spans.weights.push_back(persistent_.weights + variable.offset);
      spans.d_weights.push_back(
          variable.trained() ? persistent_.gradients + variable.gradient_offset
                             : nullptr);
      spans.layer_state_changes.push_back(
          variable.change_offset >= 0
              ? persistent_.layer_state_changes + variable.change_offset
              : nullptr);
    }
  }
}

void ModelMemory::ReleasePersistent() {
  if (persistent_.weights != nullptr)
    Unpoison(persistent_.weights, persistent_bytes_);
}

// --- the step's block -----------------------------------------------------

StepSpans ModelMemory::PlaceStep(int64_t batch, const StepPlan& plan,
                                 Arena* arena) const {
  StepSpans step;
  const auto examples = static_cast<uint64_t>(batch);
  const auto inputs = static_cast<uint64_t>(graph_.input_elements());
  step.x = arena->Allocate<float>(examples * inputs);
  step.y = arena->Allocate<unsigned char>(examples * options_.label_bytes);
  step.per_example = arena->Allocate<float>(examples);
  step.planned = arena->Allocate<unsigned char>(plan.bytes());
  return step;
}

uint64_t ModelMemory::StepBytes(int64_t batch, const StepPlan& plan) const {
  Arena counting;
  PlaceStep(batch, plan, &counting);
  return counting.used();
}

// Computes the size for a few examples, to see if the sizes of a batch
// overflow.
Status ModelMemory::CheckCountable(int64_t batch, bool training) const {
  constexpr int64_t kSome = 64;
  if (batch < kSome ||
      batch / kSome <
          INT64_MAX / static_cast<int64_t>(StepBytes(kSome, training))) {
    return Status();
  }
  return ResourceExhausted(
      "model '%s': no memory holds a step of batch "
      "%" PRId64 "; use a smaller batch",
      graph_.name().c_str(), batch);
}

// The placement of buffers depends on their relative sizes, so a step with more
// examples, or with training, may need less memory. Memory for a larger step
// suffices for a smaller one. If only a larger step fits, *batch and *training
// become the values of the larger step. The bytes that live at one time grow
// with the batch, except for the choice of recomputed outputs. If they are well
// above the limit, no larger batch fits.
Status ModelMemory::FitLimit(int64_t* batch, bool* training) const {
  const uint64_t step_bytes = StepBytes(*batch, *training);
  const Status fits = CheckLimit(options_, persistent_bytes_ + step_bytes,
                                 *training ? "training" : "evaluation");
  if (fits.ok()) return fits;
  const int64_t max_batch = *batch + std::min<int64_t>(*batch, 1000);
  bool hopeless = false;
  for (int64_t larger = *batch; larger <= max_batch && !hopeless; ++larger) {
    hopeless = true;
    for (const bool trains : {*training, true}) {
      const StepPlan plan = MakeStepPlan(larger, trains);
      const uint64_t bytes = persistent_bytes_ + StepBytes(larger, plan);
      if (CheckLimit(options_, bytes, "").ok()) {
        *batch = larger;
        *training = trains;
        return Status();
      }
      const uint64_t peak_bytes =
          bytes - (plan.bytes() - plan.buffers().Peak());
      hopeless &= peak_bytes - peak_bytes / 32 > options_.memory_bytes;
      if (*training) break;
    }
  }
  return fits;
}

Status ModelMemory::AllocateStep(uint64_t bytes, const StepPlan& plan,
                                 void** place) {
  if (options_.memory != nullptr) {
    *place = static_cast<unsigned char*>(options_.memory) +
             static_cast<size_t>(persistent_bytes_);
    return Status();
  }
  step_block_ = AllocateBlock(bytes);
  *place = step_block_.get();
  return step_block_ != nullptr ? Status() : plan.MakeMemoryError(bytes);
}

Status ModelMemory::Reserve(int64_t batch, bool training, bool* moved) {
  *moved = false;
  if (batch <= batch_ && (training_ || !training)) return Status();
  if (!lease_.expired()) {
    return InvalidArgument("model '%s': a step of %" PRId64
                           " examples%s needs more memory than the open loader "
                           "has reserved; close it first",
                           graph_.name().c_str(), batch,
                           training ? " with training" : "");
  }
  batch = std::max(batch, batch_);
  training = training || training_;
  RINGLET_RETURN_IF_ERROR(CheckCountable(batch, training));
  RINGLET_RETURN_IF_ERROR(FitLimit(&batch, &training));
  const StepPlan plan = MakeStepPlan(batch, training);
  const uint64_t bytes = StepBytes(batch, plan);
  ReleaseStep();
  *moved = true;
  void* place = nullptr;
  RINGLET_RETURN_IF_ERROR(AllocateStep(bytes, plan, &place));
  Arena arena(place, static_cast<size_t>(bytes));
  step_ = PlaceStep(batch, plan, &arena);
  step_bytes_ = bytes;
  batch_ = batch;
  training_ = training;
  schedule_ = std::make_unique<StepSchedule>(plan.schedule());
  BindStep(plan);
  CheckScratch();
  live_.Watch(graph_, plan, options_.threads, step_.planned);
  PoisonSlack();
  return Status();
}

// Writes the addresses into the nodes.
void ModelMemory::BindStep(const StepPlan& plan) {
  const auto at = [&](int buffer) {
    return buffer < 0 ? nullptr
                      : reinterpret_cast<float*>(step_.planned +
                                                 plan.buffers().offset(buffer));
  };
  // An op may compute with the address of an output that it does not read.
  const auto at_or_output = [&](int buffer, int node) {
    return at(buffer >= 0 ? buffer : plan.node(graph_.node(node).root).y);
  };
  const auto all_at = [&](const std::vector<int>& some,
                          const std::vector<int>& inputs) {
    std::vector<const float*> spans;
    for (size_t k = 0; k < inputs.size(); ++k) {
      spans.push_back(at_or_output(k < some.size() ? some[k] : -1, inputs[k]));
    }
    return spans;
  };
  pass_outputs_.clear();
  for (size_t k = 0; k < plan.schedule().passes().size(); ++k) {
    pass_outputs_.push_back(at(plan.pass_output(k)));
  }
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    const StepPlan::NodeBuffers& root = plan.node(node.root);
    const StepPlan::NodeBuffers& buffers = plan.node(i);
    NodeSpans& spans = nodes_[i];
    spans.y = at(root.y);
    spans.y_for_backward = at_or_output(buffers.y_for_backward, i);
    spans.packed = reinterpret_cast<uint16_t*>(at(buffers.packed));
    spans.dy = at(root.dy);
    spans.forward_scratch = at(buffers.forward_scratch);
    spans.recompute_scratch = at(buffers.recompute_scratch);
    spans.backward_scratch = at(buffers.backward_scratch);
    BindShared(i, at(buffers.d_weights));
    spans.saved = at(buffers.saved);
    spans.x.assign(node.inputs.size(), nullptr);
    spans.x_for_backward = all_at(buffers.x_for_backward, node.inputs);
    spans.x_for_recompute = all_at(buffers.x_for_recompute, node.inputs);
    spans.dx.assign(node.inputs.size(), nullptr);
    spans.extra_dx.assign(node.inputs.size(), nullptr);
    for (size_t k = 0; k < node.inputs.size() && training_; ++k) {
      spans.extra_dx[k] = at(buffers.extra_dx[k]);
      spans.dx[k] = spans.extra_dx[k] != nullptr ? spans.extra_dx[k]
                                                 : nodes_[node.inputs[k]].dy;
    }
  }
  MarkWhatAllPartsKeep(plan);
  first_example_ = 0;
  frozen_parts_ = plan.parts();
  all_parts_ = PartsForPrediction(graph_, batch_, options_.threads);
  BindInputs();
}

// Marks what all parts keep: what nodes in parts and others use, or the inputs,
// the outputs, and the values that share the memory of an output.
void ModelMemory::MarkWhatAllPartsKeep(const StepPlan& plan) {
  const auto keeps = [&](int root) {
    if (!plan.parts().empty()) return !plan.node(root).in_parts;
    bool found = root < graph_.num_inputs();
    for (size_t k = 0; k < graph_.outputs().size(); ++k) {
      const int output = graph_.node(graph_.outputs()[k]).root;
      const int mask = graph_.output_mask(k);
      found |= plan.node(root).y == plan.node(output).y ||
               (mask >= 0 && plan.node(root).y == plan.node(mask).y);
    }
    return found;
  };
  for (int i = 0; i < graph_.size(); ++i) {
    nodes_[i].keeps_all_parts = keeps(graph_.node(i).root);
  }
}

BatchParts ModelMemory::parts(bool training) const {
  if (!frozen_parts_.empty()) return frozen_parts_;
  BatchParts parts = all_parts_;
  if (training) parts.examples = batch_;
  return parts;
}

void ModelMemory::SetFirstExample(int64_t example) {
  const int64_t examples = example - std::exchange(first_example_, example);
  if (examples == 0) return;
  for (int i = 0; i < graph_.size(); ++i) {
    if (!nodes_[i].keeps_all_parts) continue;
    nodes_[i].y += examples * graph_.node(graph_.node(i).root).floats();
  }
  for (int i = frozen_parts_.begin; i < frozen_parts_.end; ++i) {
    if (nodes_[i].packed == nullptr) continue;
    nodes_[i].packed += examples * graph_.node(i).floats();
  }
  BindInputs();
}

void ModelMemory::BindInputs() {
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      nodes_[i].x[k] = nodes_[node.inputs[k]].y;
      if (graph_.node(node.inputs[k]).root >= graph_.num_inputs()) continue;
      nodes_[i].x_for_backward[k] = nodes_[i].x_for_recompute[k] =
          nodes_[i].x[k];
    }
  }
}

// Places the gradients of a shared layer's weights, one after another, unless
// this call writes to the gradient span itself.
void ModelMemory::BindShared(int i, float* gradients) {
  const GraphNode& node = graph_.node(i);
  for (int v = 0; gradients != nullptr && v < node.num_variables; ++v) {
    const Variable& variable = graph_.variables()[node.first_variable + v];
    if (!variable.trained()) continue;
    nodes_[i].d_weights[v] = gradients;
    gradients += variable.size();
  }
}

void ModelMemory::SetInput(const float* x, int64_t examples) {
  SetFirstExample(0);
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    if (node.root >= graph_.num_inputs()) continue;
    // An input and its views are the caller's memory; nothing writes to them.
    nodes_[i].y = node.root < i ? nodes_[node.root].y : const_cast<float*>(x);
    if (i < graph_.num_inputs() && x != nullptr) {
      x += examples * node.output.elements();
    }
  }
  BindInputs();
}

// Checks that the scratch of the largest batch suffices for smaller batches.
void ModelMemory::CheckScratch() const {
  const int threads = options_.threads;
  for (const GraphNode& node : graph_.nodes()) {
    if (node.op == nullptr) continue;
    const uint64_t forward = node.op->forward_scratch(batch_, threads);
    const uint64_t backward = node.op->backward_scratch(batch_, threads);
    const uint64_t saved = node.op->saved_floats(batch_);
    for (int64_t r = batch_ - 1; r > 0; r -= 1 + r / 4) {
      RINGLET_CHECK(node.op->forward_scratch(r, threads) <= forward);
      RINGLET_CHECK(node.op->backward_scratch(r, threads) <= backward);
      RINGLET_CHECK(node.op->saved_floats(r) <= saved);
    }
  }
}

// Poisons the gap from the end of each span to the next.
void ModelMemory::PoisonSlack() const {
  const auto poison = [](const void* span, size_t bytes) {
    if (span == nullptr) return;
    Poison(static_cast<const unsigned char*>(span) + bytes,
           Arena::RoundUp(bytes) - bytes);
  };
  const auto trained =
      static_cast<size_t>(graph_.num_trained()) * sizeof(float);
  poison(persistent_.weights,
         static_cast<size_t>(graph_.num_weights()) * sizeof(float));
  const size_t summed =
      trained + static_cast<size_t>(graph_.num_changes()) * sizeof(float);
  poison(persistent_.gradients, summed);
  poison(persistent_.sums, summed);
  poison(persistent_.outer_momentum, trained);
  for (const float* slot : persistent_.slots) poison(slot, trained);
  const auto examples = static_cast<size_t>(batch_);
  const auto inputs = static_cast<size_t>(graph_.input_elements());
  poison(step_.x, examples * inputs * sizeof(float));
  poison(step_.y, examples * options_.label_bytes);
  poison(step_.per_example, examples * sizeof(float));
}

void ModelMemory::ReleaseStep() {
  if (batch_ > 0) Unpoison(step_.x, step_bytes_);
  for (NodeSpans& node : nodes_) node.ClearStep();
  live_.Clear();
  schedule_.reset();
  step_block_.reset();
  step_ = StepSpans();
  step_bytes_ = 0;
  batch_ = 0;
}

// --- loaders --------------------------------------------------------------

std::shared_ptr<void> ModelMemory::Lend() {
  // The loader keeps the block if the model is destroyed first.
  std::shared_ptr<void> lease =
      std::make_shared<std::shared_ptr<void>>(step_block_);
  lease_ = lease;
  return lease;
}

Status ModelMemory::CheckNotLent(const char* call) const {
  if (lease_.expired()) return Status();
  return InvalidArgument(
      "model '%s': %s while a loader is open on the model's memory; close the "
      "loader first",
      graph_.name().c_str(), call);
}

}  // namespace ringlet
