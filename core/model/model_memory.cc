#include <algorithm>
#include <cinttypes>
#include <cstdint>

#include "../base/check.h"
#include "../base/poison.h"
#include "model_impl.h"

namespace ringlet {

// Aligned memory from the heap; null where there is none.
Model::Impl::Block Model::Impl::AllocateBlock(size_t bytes) {
  return Block(std::aligned_alloc(Arena::kAlignment,
                                  std::max(bytes, Arena::kAlignment)));
}

Model::Impl::KeptMemory Model::Impl::PlaceKept(Arena* arena) const {
  KeptMemory kept;
  const size_t n = static_cast<size_t>(num_weights);
  kept.weights = arena->Allocate<float>(n);
  kept.gradients = arena->Allocate<float>(n);
  for (int s = 0; s < optimizer.num_slots(); ++s) {
    kept.slots[s] = arena->Allocate<float>(n);
  }
  return kept;
}

size_t Model::Impl::LabelBytes() const {
  return sizeof(float) * static_cast<size_t>(loss.targets(nodes.back().output));
}

// The node that writes the gradient of `root` over its output; -1: none.
int Model::Impl::ReplacedBy(int root) const {
  const Node& made = nodes[root];
  if (made.op == nullptr || !made.needs_gradient || made.root != root ||
      nodes.back().root == root) {
    return -1;
  }
  const Activation activation = made.op->fused_activation();
  if (activation == kSoftmax) return -1;
  if (activation == kLinear && made.op->keeps_output()) return -1;
  int taker = -1;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].op == nullptr || nodes[i].op->is_view()) continue;
    for (int input : nodes[i].inputs) {
      if (nodes[input].root != root) continue;
      if (taker >= 0) return -1;
      taker = static_cast<int>(i);
    }
  }
  return taker >= 0 && nodes[taker].op->replaces_input() ? taker : -1;
}

size_t Model::Impl::OutputBytes(int node, int64_t batch) const {
  return static_cast<size_t>(batch * nodes[node].output.elements()) *
         sizeof(float);
}

// Of a step of n nodes, time runs 0..n-1 through the forward pass, n at the
// loss, and 2n - i at the backward pass of node i.

// When the output of each root is read last.
std::vector<int> Model::Impl::LastReads(bool training) const {
  const int n = static_cast<int>(nodes.size());
  std::vector<int> last_read(n, 0);
  for (int i = 0; i < n; ++i) {
    const Node& node = nodes[i];
    last_read[node.root] = std::max(last_read[node.root], i);
    if (node.op == nullptr || node.op->is_view()) continue;
    const bool backward = training && node.needs_gradient;
    for (int input : node.inputs) {
      int& last = last_read[nodes[input].root];
      last = std::max(last, i);
      if (backward && node.op->keeps_input()) last = std::max(last, 2 * n - i);
    }
    if (backward && node.op->keeps_output()) {
      last_read[i] = std::max(last_read[i], 2 * n - i);
    }
  }
  for (int i = 0; i < n && training; ++i) {
    if (nodes[i].replaced_by >= 0) last_read[i] = 2 * n - i;
  }
  last_read[nodes[n - 1].root] = 2 * n + 1;  // by the caller, after the step
  return last_read;
}

void Model::Impl::PlanForward(int64_t batch, bool training, LifetimePlan* plan,
                              std::vector<NodeMemory>* memory) const {
  const int n = static_cast<int>(nodes.size());
  memory->assign(n, NodeMemory());
  const std::vector<int> last_read = LastReads(training);
  for (int i = 0; i < n; ++i) {
    const Node& node = nodes[i];
    if (node.op == nullptr || node.root != i) continue;
    NodeMemory& m = (*memory)[i];
    m.y = plan->Add(OutputBytes(i, batch), i, last_read[i]);
    const size_t scratch = node.op->forward_scratch(batch, options.threads);
    if (scratch > 0) {
      m.forward_scratch = plan->Add(scratch * sizeof(float), i, i);
    }
  }
}

void Model::Impl::PlanBackward(int64_t batch, LifetimePlan* plan,
                               std::vector<NodeMemory>* memory) const {
  const int n = static_cast<int>(nodes.size());
  const int never = 2 * n + 1;
  std::vector<int> first_written(n, never);  // each root's gradient
  first_written[nodes[n - 1].root] = n;
  for (int i = n - 1; i >= 0; --i) {
    const Node& node = nodes[i];
    const int now = 2 * n - i;
    NodeMemory& m = (*memory)[i];
    m.extra_dx.assign(node.inputs.size(), -1);
    if (node.op == nullptr || node.op->is_view() || !node.needs_gradient) {
      continue;
    }
    const size_t scratch = node.op->backward_scratch(batch, options.threads);
    if (scratch > 0) {
      m.backward_scratch = plan->Add(scratch * sizeof(float), now, now);
    }
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const int root = nodes[node.inputs[k]].root;
      if (!nodes[root].needs_gradient) continue;
      if (first_written[root] == never) {
        first_written[root] = now;
      } else {
        m.extra_dx[k] = plan->Add(OutputBytes(root, batch), now, now);
      }
    }
  }
  for (int i = 0; i < n; ++i) {
    const Node& node = nodes[i];
    if (node.op == nullptr || node.root != i || !node.needs_gradient) continue;
    if (node.replaced_by >= 0) {
      (*memory)[i].dy = (*memory)[i].y;
      continue;
    }
    // A node that nobody takes gets a gradient of zero.
    const int first = std::min(first_written[i], 2 * n - i);
    (*memory)[i].dy = plan->Add(OutputBytes(i, batch), first, 2 * n - i);
  }
}

Model::Impl::StepMemory Model::Impl::PlaceStep(
    Arena* arena, int64_t batch, bool training, LifetimePlan* plan,
    std::vector<NodeMemory>* memory) const {
  StepMemory step;
  const size_t examples = static_cast<size_t>(batch);
  for (int slot = 0; slot < 2; ++slot) {
    step.x[slot] = arena->Allocate<float>(
        examples * static_cast<size_t>(nodes[0].output.elements()));
    step.y[slot] = arena->Allocate<unsigned char>(examples * LabelBytes());
  }
  step.per_example = arena->Allocate<float>(examples);
  PlanForward(batch, training, plan, memory);
  if (training) PlanBackward(batch, plan, memory);
  step.planned_bytes = plan->Place();
  step.planned = arena->Allocate<unsigned char>(step.planned_bytes);
  return step;
}

size_t Model::Impl::StepBytes(int64_t batch, bool training) const {
  LifetimePlan plan;
  std::vector<NodeMemory> memory;
  Arena counting;
  PlaceStep(&counting, batch, training, &plan, &memory);
  return counting.used();
}

Status Model::Impl::CheckLimit(size_t bytes, const char* what) const {
  if (options.memory_bytes == 0 && options.memory == nullptr) return Status();
  if (bytes <= options.memory_bytes) return Status();
  return ResourceExhausted(
      "model '%s': %s take %zu bytes, but only %zu were given; give more "
      "memory, a smaller batch or fewer units",
      name.c_str(), what, bytes, options.memory_bytes);
}

// What a loader reads into must stay where it is.
Status Model::Impl::CheckNotLent(const char* call) const {
  if (lease.expired()) return Status();
  return InvalidArgument(
      "model '%s': %s while a loader is open on the model's memory; close the "
      "loader first",
      name.c_str(), call);
}

// Where buffers fall depends on how their sizes compare, so a step of some more
// examples, or one with training, may take less. What suffices for the larger
// one suffices here: it becomes what is asked for, where just that fits.
Status Model::Impl::FitLimit(int64_t* batch, bool* training) const {
  const size_t asked = StepBytes(*batch, *training);
  const Status fits =
      CheckLimit(kept_bytes + asked, *training ? "training" : "evaluation");
  const bool hopeless = options.memory_bytes < kept_bytes + asked / 2;
  if (fits.ok() || hopeless) return fits;
  const int64_t most = *batch + std::min<int64_t>(*batch, 1000);
  for (int64_t larger = *batch; larger <= most; ++larger) {
    for (const bool trains : {*training, true}) {
      if (!CheckLimit(kept_bytes + StepBytes(larger, trains), "").ok()) {
        continue;
      }
      *batch = larger;
      *training = trains;
      return Status();
    }
  }
  return fits;
}

Status Model::Impl::Reserve(int64_t batch, bool training) {
  if (batch <= step_batch && (step_training || !training)) return Status();
  if (!lease.expired()) {
    return InvalidArgument("model '%s': a step of %" PRId64
                           " examples%s needs more memory than "
                           "the open loader has seen to; close it first",
                           name.c_str(), batch,
                           training ? " with training" : "");
  }
  batch = std::max(batch, step_batch);
  training = training || step_training;
  // What some examples take says whether the sizes of a batch can be counted.
  constexpr int64_t kSome = 64;
  if (batch >= kSome &&
      batch / kSome >=
          static_cast<int64_t>(PTRDIFF_MAX / StepBytes(kSome, training))) {
    return ResourceExhausted(
        "model '%s': no memory holds a step of batch "
        "%" PRId64 "; use a smaller batch",
        name.c_str(), batch);
  }
  RINGLET_RETURN_IF_ERROR(FitLimit(&batch, &training));
  const size_t bytes = StepBytes(batch, training);
  ReleaseStep();
  void* place = nullptr;
  if (options.memory != nullptr) {
    place = static_cast<unsigned char*>(options.memory) + kept_bytes;
  } else {
    step_block = AllocateBlock(bytes);
    place = step_block.get();
    if (place == nullptr) {
      return ResourceExhausted(
          "model '%s': no memory for the %zu bytes of a step of batch %" PRId64
          "; use a smaller batch",
          name.c_str(), bytes, batch);
    }
  }
  Arena arena(place, bytes);
  LifetimePlan plan;
  std::vector<NodeMemory> memory;
  step = PlaceStep(&arena, batch, training, &plan, &memory);
  step_bytes = bytes;
  step_batch = batch;
  step_training = training;
  Bind(plan, memory);
  CheckScratch();
  Watch(plan, memory);
  return Status();
}

// What was planned for the largest batch suffices for smaller ones.
void Model::Impl::CheckScratch() const {
  const int threads = options.threads;
  for (const Node& node : nodes) {
    if (node.op == nullptr) continue;
    const size_t forward = node.op->forward_scratch(step_batch, threads);
    const size_t backward = node.op->backward_scratch(step_batch, threads);
    for (int64_t r = step_batch - 1; r > 0; r -= 1 + r / 4) {
      RINGLET_CHECK(node.op->forward_scratch(r, threads) <= forward);
      RINGLET_CHECK(node.op->backward_scratch(r, threads) <= backward);
    }
  }
}

// --- what AddressSanitizer is told ----------------------------------------

void Model::Impl::Watch(const LifetimePlan& plan,
                        const std::vector<NodeMemory>& memory) {
  if (!kPoisons) return;
  using What = Watched::What;
  const auto add = [&](int buffer, What what, int node) {
    if (buffer < 0) return;
    watched.push_back(
        {reinterpret_cast<const float*>(step.planned + plan.offset(buffer)),
         what, node, plan.first(buffer), plan.last(buffer)});
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int node = static_cast<int>(i);
    const NodeMemory& m = memory[i];
    add(m.y, What::kOutput, node);
    if (m.dy != m.y) add(m.dy, What::kOutput, node);
    add(m.forward_scratch, What::kForwardScratch, node);
    add(m.backward_scratch, What::kBackwardScratch, node);
    for (size_t k = 0; k < m.extra_dx.size(); ++k) {
      add(m.extra_dx[k], What::kOutput, nodes[i].inputs[k]);
    }
  }
  Poison(step.planned, step.planned_bytes);
  PoisonSlack();
}

// Of this step's examples, though there may be room for more.
size_t Model::Impl::WatchedBytes(const Watched& buffer) const {
  const Op* const op = nodes[buffer.node].op.get();
  switch (buffer.what) {
    case Watched::What::kOutput:
      return OutputBytes(buffer.node, count);
    case Watched::What::kForwardScratch:
      return op->forward_scratch(count, options.threads) * sizeof(float);
    case Watched::What::kBackwardScratch:
      return op->backward_scratch(count, options.threads) * sizeof(float);
  }
  return 0;
}

// From now on only the planned buffers that live at `time` may be touched (see
// LastReads for what time is), as far as this step's examples reach.
void Model::Impl::ShowOnly(int time) const {
  if (!kPoisons || count == 0) return;
  Poison(step.planned, step.planned_bytes);
  for (const Watched& buffer : watched) {
    if (time < buffer.first || time > buffer.last) continue;
    Unpoison(buffer.at, WatchedBytes(buffer));
  }
}

// From the end of each span to the next.
void Model::Impl::PoisonSlack() const {
  const auto poison = [](const void* span, size_t bytes) {
    if (span == nullptr) return;
    Poison(static_cast<const unsigned char*>(span) + bytes,
           Arena::RoundUp(bytes) - bytes);
  };
  const size_t weights = static_cast<size_t>(num_weights) * sizeof(float);
  poison(kept.weights, weights);
  poison(kept.gradients, weights);
  for (const float* slot : kept.slots) poison(slot, weights);
  const auto examples = static_cast<size_t>(step_batch);
  for (int slot = 0; slot < 2; ++slot) {
    poison(step.x[slot], OutputBytes(0, step_batch));
    poison(step.y[slot], examples * LabelBytes());
  }
  poison(step.per_example, examples * sizeof(float));
}

// The memory is nobody's, or its owner's, again.
void Model::Impl::ReleaseStep() {
  if (step_batch > 0) Unpoison(step.x[0], step_bytes);
  watched.clear();
  step_block.reset();
  step = StepMemory();
  step_batch = 0;
  have_output = have_gradient_of_loss = false;
}

void Model::Impl::ReleaseKept() {
  if (kept.weights != nullptr) Unpoison(kept.weights, kept_bytes);
}

// Writes the places into the nodes.
void Model::Impl::Bind(const LifetimePlan& plan,
                       const std::vector<NodeMemory>& memory) {
  const auto at = [&](int buffer) {
    return buffer < 0
               ? nullptr
               : reinterpret_cast<float*>(step.planned + plan.offset(buffer));
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    const NodeMemory& root = memory[node.root];
    node.y = at(root.y);
    node.dy = at(root.dy);
    node.forward_scratch = at(memory[i].forward_scratch);
    node.backward_scratch = at(memory[i].backward_scratch);
    node.x.assign(node.inputs.size(), nullptr);
    node.dx.assign(node.inputs.size(), nullptr);
    node.extra_dx.assign(node.inputs.size(), nullptr);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      node.x[k] = nodes[node.inputs[k]].y;
      if (!step_training) continue;
      node.extra_dx[k] = at(memory[i].extra_dx[k]);
      node.dx[k] = node.extra_dx[k] != nullptr ? node.extra_dx[k]
                                               : nodes[node.inputs[k]].dy;
    }
  }
}

MemoryPlan Model::PlanMemory(int64_t batch) const {
  MemoryPlan sizes;
  if (!impl_->compiled || batch < 1) return sizes;
  sizes.weights = sizes.gradients =
      Arena::RoundUp(static_cast<size_t>(num_weights()) * sizeof(float));
  sizes.slots = sizes.weights * static_cast<size_t>(optimizer().num_slots());
  RINGLET_CHECK(sizes.kept() == impl_->kept_bytes);

  LifetimePlan plan;
  std::vector<Impl::NodeMemory> memory;
  Arena counting;
  impl_->PlaceStep(&counting, batch, true, &plan, &memory);
  const auto bytes = [&plan](int buffer) {
    return buffer < 0 ? 0 : plan.bytes(buffer);
  };
  size_t losses = Arena::RoundUp(static_cast<size_t>(batch) * sizeof(float));
  for (const Impl::NodeMemory& m : memory) {
    sizes.activations += bytes(m.y);
    if (m.dy != m.y) sizes.activation_gradients += bytes(m.dy);
    for (const int dx : m.extra_dx) sizes.activation_gradients += bytes(dx);
    sizes.scratch += bytes(m.forward_scratch) + bytes(m.backward_scratch);
  }
  const size_t planned =
      sizes.activations + sizes.activation_gradients + sizes.scratch;
  const size_t placed = plan.Place();
  sizes.batches = counting.used() - losses - Arena::RoundUp(placed);
  sizes.scratch += losses;
  sizes.shared = planned - placed;
  return sizes;
}

Status Model::Reserve(int64_t batch, bool training) {
  RINGLET_RETURN_IF_ERROR(impl_->Usable());
  if (batch < 1) return InvalidArgument("a batch of %" PRId64, batch);
  return impl_->Reserve(batch, training);
}

}  // namespace ringlet
