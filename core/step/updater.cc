// Update may be called while gradients of other weights are computed. It
// divides its range among the pool's threads. So UpdatePart accesses its own
// range only. Accumulated gradients are in the optimizer's last slot, which is
// saved as any other. Clipping needs the whole gradient. In a step that
// updates, Clip has already added the regularizers' gradients and taken the
// mean, so UpdatePart does neither.

#include "updater.h"

#include <algorithm>
#include <cinttypes>
#include <string>

#include "../base/decimal.h"
#include "../base/state_names.h"
#include "../exchange/exact_exchange.h"
#include "../layers/constraints.h"
#include "../layers/initializers.h"

namespace ringlet {

void Updater::Reset() {
  iterations_ = round_begin_ = 0;
  learning_rate_ = -1;
}

float Updater::LearningRate() const {
  if (learning_rate_ >= 0) return learning_rate_;
  const Optimizer& optimizer = config_.optimizer;
  return optimizer.learning_rate.At(optimizer.Updates(iterations_));
}

double Updater::Penalty() const {
  double penalty = 0;
  for (const Variable& v : graph_.variables()) {
    if (v.regularizer.empty() || !v.trained()) continue;  // Keras 3 does so too
    penalty += RegularizationPenalty(v.regularizer, v.size(),
                                     memory_.persistent().weights + v.offset);
  }
  return penalty;
}

void Updater::Begin() {
  const Optimizer& optimizer = config_.optimizer;
  const int64_t updates = optimizer.Updates(iterations_ - round_begin_);
  updates_ = optimizer.Updates(iterations_ - round_begin_ + 1) > updates;
  scalars_ = PrepareStep(optimizer, LearningRate(), updates);
}

// Returns the sums of gradients from weight `from` on; null if every step
// updates.
float* Updater::SumsOfGradients(int64_t from) const {
  const Optimizer& optimizer = config_.optimizer;
  if (!optimizer.accumulates()) return nullptr;
  return memory_.persistent().slots[optimizer.num_slots() - 1] + from;
}

// Returns the averages from weight `from` on. Call it only if weights are
// averaged.
float* Updater::AverageOf(int64_t from) const {
  const Optimizer& optimizer = config_.optimizer;
  const int slot_from_end = optimizer.accumulates() ? 2 : 1;
  return memory_.persistent().slots[optimizer.num_slots() - slot_from_end] +
         from;
}

// Averages after every step, also after a step that only adds gradients, and
// takes the weights themselves until the first update, as Keras does.
void Updater::Average(int64_t n, float* weights, float* average) const {
  const Optimizer& optimizer = config_.optimizer;
  const int64_t updates = optimizer.Updates(iterations_);
  const auto rest = static_cast<float>(
      1 - Decimal(updates == 0 ? 0 : optimizer.ema_momentum));
  const int every = optimizer.ema_overwrite_frequency;
  const bool overwrites = every != 0 && (updates + 1) % every == 0;
  for (int64_t i = 0; i < n; ++i) {
    average[i] =
        rest == 1 ? weights[i] : average[i] + (weights[i] - average[i]) * rest;
  }
  if (overwrites) std::copy_n(average, n, weights);
}

void Updater::UseAveragedWeights() {
  if (!config_.optimizer.use_ema || iterations_ == 0) return;
  for (const Variable& v : graph_.variables()) {
    if (!v.trained()) continue;
    std::copy_n(AverageOf(v.gradient_offset), v.size(),
                memory_.persistent().weights + v.offset);
  }
}

// [from, to) is a range of one variable in the gradient span.
void Updater::UpdatePart(const Variable& v, int64_t from, int64_t to,
                         const float* gradients) {
  UpdateWeights(v, from, to, gradients);
  if (!config_.optimizer.use_ema) return;
  float* const weights =
      memory_.persistent().weights + v.offset + (from - v.gradient_offset);
  Average(to - from, weights, AverageOf(from));
}

void Updater::UpdateWeights(const Variable& v, int64_t from, int64_t to,
                            const float* gradients) {
  const Optimizer& optimizer = config_.optimizer;
  const PersistentSpans& spans = memory_.persistent();
  float* const weights = spans.weights + v.offset + (from - v.gradient_offset);
  float* const sums = SumsOfGradients(from);
  const bool clipped = optimizer.clips() && updates_;
  Regularizer regularizer = clipped ? Regularizer() : v.regularizer;
  if (sums != nullptr) {
    if (!clipped) {
      const int steps = optimizer.gradient_accumulation_steps;
      AccumulateGradients(regularizer, to - from, weights, gradients,
                          updates_ ? static_cast<float>(steps) : 1, sums);
    }
    if (!updates_) return;
    gradients = sums;
    regularizer = Regularizer();
  }
  float* slots[8] = {};
  for (int s = 0; s < optimizer.num_slots(); ++s) {
    slots[s] = spans.slots[s] + from;
  }
  UpdateRange(
      {optimizer, scalars_, regularizer, to - from, weights, gradients, slots});
  if (sums != nullptr) std::fill_n(sums, to - from, 0.0f);
}

void Updater::Update(int64_t begin, int64_t end, const float* gradients) {
  if (begin >= end) return;
  const int64_t started_at = timer_.Now();
  ThreadPool* const pool = config_.pool.get();
  pool->Run([&](int t) {
    const Range part = Split(end - begin, pool->threads(), t, 1024);
    for (const Variable& v : graph_.variables()) {
      if (!v.trained()) continue;
      const int64_t from = std::max(begin + part.begin, v.gradient_offset);
      const int64_t to =
          std::min(begin + part.end, v.gradient_offset + v.size());
      if (from >= to) continue;
      UpdatePart(v, from, to, gradients + (from - begin));
    }
  });
  timer_.Report("optimizer", "step", started_at);
}

bool Updater::KeepsWithoutGradient(const Variable& v) const {
  const Optimizer& optimizer = config_.optimizer;
  return optimizer.kind == Optimizer::Kind::kSgd && optimizer.momentum == 0 &&
         optimizer.weight_decay == 0 && !optimizer.accumulates() &&
         !optimizer.use_ema && v.regularizer.empty();
}

void Updater::UpdateRows(const Variable& v, const GradientRows& rows) {
  const int64_t started_at = timer_.Now();
  ThreadPool* const pool = config_.pool.get();
  pool->Run([&](int t) {
    const Range part = Split(rows.count, pool->threads(), t, 1);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t at = rows.rows[i] * rows.width;
      UpdatePart(v, v.gradient_offset + at, v.gradient_offset + at + rows.width,
                 rows.gradients + at);
    }
  });
  timer_.Report("optimizer", "step", started_at);
}

// Clips the gradient of the whole loss, with penalties, as Keras does.
void Updater::Clip() {
  const Optimizer& optimizer = config_.optimizer;
  const PersistentSpans& spans = memory_.persistent();
  clip_spans_.clear();
  for (const Variable& v : graph_.variables()) {
    if (!v.trained()) continue;
    const float* const weights = spans.weights + v.offset;
    float* gradient = spans.gradients + v.gradient_offset;
    if (float* const sums = SumsOfGradients(v.gradient_offset);
        sums != nullptr) {
      const int steps = optimizer.gradient_accumulation_steps;
      AccumulateGradients(v.regularizer, v.size(), weights, gradient,
                          static_cast<float>(steps), sums);
      gradient = sums;
    } else {
      AddRegularizationGradient(v.regularizer, v.size(), weights, gradient);
    }
    clip_spans_.push_back({gradient, v.size()});
  }
  ClipGradients(optimizer, clip_spans_.data(), clip_spans_.size());
}

void Updater::UpdateAll() {
  if (config_.optimizer.clips() && updates_) Clip();
  Update(0, graph_.num_trained(), memory_.persistent().gradients);
}

void Updater::ApplyConstraints() {
  for (const Variable& v : graph_.variables()) {
    if (!v.trained()) continue;
    Constrain(v.constraint, v.shape, config_.pool.get(),
              memory_.persistent().weights + v.offset);
  }
}

// A change of zero keeps the bits of the state. It comes from a replica without
// examples, or a frozen layer.
void Updater::ApplyLayerStateChanges(int replicas) {
  const PersistentSpans& spans = memory_.persistent();
  for (const Variable& v : graph_.variables()) {
    if (v.change_offset < 0) continue;
    const float* const changes = spans.layer_state_changes + v.change_offset;
    float* const state = spans.weights + v.offset;
    for (int64_t i = 0; i < v.size(); ++i) {
      state[i] += changes[i] / static_cast<float>(replicas);
    }
  }
}

std::vector<std::pair<std::string, float*>> Updater::Slots() const {
  const PersistentSpans& spans = memory_.persistent();
  if (config_.local()) return {{kOuterSlot, spans.outer_momentum}};
  std::vector<std::pair<std::string, float*>> slots;
  slots.reserve(static_cast<size_t>(config_.optimizer.num_slots()));
  for (int s = 0; s < config_.optimizer.num_slots(); ++s) {
    slots.emplace_back(config_.optimizer.slot_name(s), spans.slots[s]);
  }
  return slots;
}

void Updater::AppendState(std::vector<StateSpan>* spans) {
  const Optimizer& optimizer = config_.optimizer;
  for (const auto& [name, slot] : Slots()) {
    const std::string prefix = std::string(kOptimizerPrefix) + name + "/";
    for (const Variable& v : graph_.variables()) {
      if (!v.trained()) continue;
      spans->push_back({prefix + v.path, DType::kFloat32, v.shape,
                        slot + v.gradient_offset});
    }
  }
  spans->push_back({"optimizer/iterations", DType::kInt64, {}, &iterations_});
  spans->push_back({kLearningRateName, DType::kFloat32, {}, &learning_rate_});
  if (memory_.persistent().scales != nullptr) {
    spans->push_back({kScalesName, DType::kUint8,
                      Shape{MakeGridLayout(graph_).blocks()},
                      memory_.persistent().scales,
                      /*optional=*/true});
  }
  if (!optimizer.accumulates()) return;
  saved_accumulation_ = optimizer.gradient_accumulation_steps;
  spans->push_back({"optimizer/gradient_accumulation_steps",
                    DType::kInt64,
                    {},
                    &saved_accumulation_});
}

Status Updater::StateLoaded() {
  if (iterations_ < 0) {
    return Corruption("optimizer/iterations is %" PRId64
                      "; it must not be negative",
                      iterations_);
  }
  const uint8_t* const scales = memory_.persistent().scales;
  const int64_t blocks =
      scales == nullptr ? 0 : MakeGridLayout(graph_).blocks();
  for (int64_t b = 0; b < blocks; ++b) {
    if (scales[b] <= kCoarsestScale) continue;
    return Corruption("%s has the value %d; the greatest valid one is %d",
                      kScalesName, scales[b], kCoarsestScale);
  }
  // The sums of gradients and the meaning of iterations depend on this number.
  const int steps = config_.optimizer.gradient_accumulation_steps;
  if (config_.optimizer.accumulates() && saved_accumulation_ != steps) {
    return InvalidArgument(
        "the optimizer's state was saved with gradient_accumulation_steps "
        "%" PRId64 ", and this model has %d; continue with %" PRId64,
        saved_accumulation_, steps, saved_accumulation_);
  }
  return Status();
}

}  // namespace ringlet
