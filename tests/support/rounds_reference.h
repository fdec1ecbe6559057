// The reference implementation of rounds of local updates. One model computes
// all replicas in turn. Changes are added in double, or as sparse_delta.h
// specifies.

#ifndef RINGLET_TESTS_SUPPORT_ROUNDS_REFERENCE_H_
#define RINGLET_TESTS_SUPPORT_ROUNDS_REFERENCE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "replica_step.h"
#include "ringlet/custom_layer.h"
#include "ringlet/fit.h"
#include "tiny_model.h"

namespace ringlet {

struct RoundsJob {
  int replicas = 4;
  int64_t examples = 203, batch = 40, epochs = 3;
  Optimizer optimizer = Adam(0.01f);
  LocalUpdates local;
  int threads = 1;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::string name;  // the name in messages
};

// y = x * factor. The factor is a variable without dimensions.
class FactorLayer final : public CustomLayer {
 public:
  const char* class_name() const override { return "Factor"; }
  Status Build(const std::vector<Shape>&, LayerPlan* plan) const override {
    plan->weights = {{"factor", Shape(), Constant(1.5f), {}}};
    plan->backward_reads_output = false;
    return Status();
  }
  Status Forward(const LayerCall& call) const override {
    for (int64_t i = 0; i < call.batch * call.output->elements(); ++i) {
      call.y[i] = call.x[0][i] * call.weights[0][0];
    }
    return Status();
  }
  Status Backward(const LayerCall& call) const override {
    for (int64_t i = 0; i < call.batch * call.output->elements(); ++i) {
      call.d_weights[0][0] += call.dy[i] * call.x[0][i];
      call.dx[0][i] = call.dy[i] * call.weights[0][0];
    }
    return Status();
  }
};

// The tensors cover the cases of sparse changes: longer than a block, shorter
// than the kept numbers, a last block that is shorter, and no dimensions. There
// is also state that is not trained.
inline std::unique_ptr<Sequential> MakeModel(const RoundsJob& job,
                                             const CompileOptions& options) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  model->Add(Dense(66, kTanh));
  model->Add(BatchNormalization(0.8f));
  model->Add(Dense(70, kTanh));
  model->Add(Custom(std::make_shared<FactorLayer>()));
  model->Add(Dense(3));
  model->Compile(job.optimizer, SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  return model;
}

inline Dataset MakeData(const RoundsJob& job) {
  return Points(job.examples).Shuffle(5).Batch(job.batch);
}

// Adds to `sum` the part of a tensor's change `delta` that sparse_delta.h
// sends, and keeps the rest in `error`.
inline void SendSparse(const float* delta, size_t size, float* error,
                       float* sum) {
  for (size_t at = 0; at < size; at += 4096) {
    const size_t n = std::min<size_t>(4096, size - at);
    float* const e = error + at;
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    float greatest = 0;
    for (size_t i = 0; i < n; ++i) {
      const float kept = 0.95f * e[i];
      e[i] = kept + delta[at + i];
      greatest = std::max(greatest, std::fabs(e[i]));
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::fabs(e[a]) > std::fabs(e[b]);
    });
    if (greatest == 0) continue;
    const float unit = std::ldexp(1.0f, std::ilogb(greatest) - 2);
    for (size_t k = 0; k < std::min<size_t>(n, 64); ++k) {
      const size_t i = order[k];
      const float q = std::nearbyint(e[i] / unit);
      const float value = std::min(7.0f, std::max(-7.0f, q)) * unit;
      sum[at + i] += value;
      e[i] -= value;
    }
  }
}

class RoundsReference {
 public:
  explicit RoundsReference(const RoundsJob& job)
      : job_(job), data_(MakeData(job)), model_(MakeModel(job, {})) {
    weights_ = WeightsOf(model_.get());
    momentum_.assign(weights_.size(), 0);
    errors_.assign(static_cast<size_t>(job.replicas),
                   std::vector<float>(weights_.size(), 0));
    starts_.assign(static_cast<size_t>(job.replicas), weights_);
  }

  std::vector<float> Train() {
    const int64_t steps = data_.steps(job_.replicas);
    for (int64_t epoch = 0; epoch < job_.epochs; ++epoch) {
      for (int64_t s = 0; s < steps; s += job_.local.steps) {
        const std::vector<float> change =
            Round(std::min(job_.local.steps, steps - s));
        if (!job_.local.overlap) {
          Apply(change, &weights_, &momentum_);
        } else {
          if (!pending_.empty()) Apply(pending_, &weights_, &momentum_);
          pending_ = change;
          for (size_t r = 0; r < starts_.size(); ++r) {
            starts_[r] = weights_;
            std::vector<float> momentum = momentum_;
            Apply(changes_[r], &starts_[r], &momentum);
            for (size_t i = 0; i < weights_.size(); ++i) {
              if (std::isnan(starts_[r][i])) starts_[r][i] = weights_[i];
            }
          }
          continue;
        }
        for (auto& start : starts_) start = weights_;
      }
      if (!pending_.empty()) Apply(pending_, &weights_, &momentum_);
      pending_.clear();
      for (auto& start : starts_) start = weights_;
    }
    return weights_;
  }

 private:
  bool IsState(size_t i) const {
    return i >= weights_.size() - 2 * 66;  // the moving statistics of
                                           // BatchNormalization
  }

  // Trains a round. Returns the average change of the replicas; for state with
  // overlap, its average value.
  std::vector<float> Round(int64_t steps) {
    std::vector<std::vector<float>> ends;
    std::vector<double> examples;
    DataPosition end;
    for (int r = 0; r < job_.replicas; ++r) {
      const std::vector<float>& start = starts_[static_cast<size_t>(r)];
      std::copy(start.begin(), start.end(), model_->weights());
      model_->Compile(job_.optimizer,
                      SparseCategoricalCrossentropy(kFromLogits), {});
      end = at_;
      examples.push_back(0);
      for (int64_t s = 0; s < steps; ++s) examples.back() += Step(r, &end);
      ends.push_back(WeightsOf(model_.get()));
    }
    at_ = end;
    const double all = std::accumulate(examples.begin(), examples.end(), 0.0);
    std::vector<float> mean(weights_.size(), 0);
    std::vector<double> precise(weights_.size(), 0);
    changes_.clear();
    for (size_t r = 0; r < ends.size(); ++r) {
      const auto share = static_cast<float>(examples[r] / all);
      std::vector<float> delta(weights_.size());
      for (size_t i = 0; i < delta.size(); ++i) {
        const bool whole = job_.local.overlap && IsState(i);
        delta[i] = ((whole ? 0 : starts_[r][i]) - ends[r][i]) * share;
        if (whole) delta[i] = -delta[i];
        precise[i] += double{delta[i]};
      }
      changes_.push_back(delta);
      for (size_t i = 0; i < delta.size(); ++i) {
        if (share > 0) changes_[r][i] /= share;
        // Apply takes weights_
        if (share == 0 && IsState(i)) changes_[r][i] = NAN;
      }
      for (const Variable& v : model_->variables()) {
        if (!v.trained() || job_.local.delta != LocalUpdates::Delta::kSparse)
          continue;
        const auto at = static_cast<size_t>(v.offset);
        SendSparse(&delta[at], static_cast<size_t>(v.size()), &errors_[r][at],
                   &mean[at]);
      }
    }
    for (size_t i = 0; i < mean.size(); ++i) {
      if (IsState(i) || job_.local.delta != LocalUpdates::Delta::kSparse) {
        mean[i] = static_cast<float>(precise[i]);
      }
    }
    return mean;
  }

  void Apply(const std::vector<float>& change, std::vector<float>* weights,
             std::vector<float>* momentum) const {
    const LocalUpdates& local = job_.local;
    for (size_t i = 0; i < change.size(); ++i) {
      float& w = (*weights)[i];
      if (IsState(i)) {
        w = local.overlap ? change[i] : w - change[i];
        continue;
      }
      float& m = (*momentum)[i];
      m = local.momentum * m + change[i];
      const float by = local.nesterov ? change[i] + local.momentum * m : m;
      w -= local.learning_rate * by;
    }
  }

  double Step(int r, DataPosition* at) {
    return TrainPart(model_.get(), data_, r, job_.replicas, at);
  }

  const RoundsJob job_;
  const Dataset data_;
  const std::unique_ptr<Sequential> model_;
  std::vector<float> weights_, momentum_, pending_;
  // By replica: the sparse errors, the change in the last round, the weights at
  // the next round's start.
  std::vector<std::vector<float>> errors_, changes_, starts_;
  DataPosition at_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_ROUNDS_REFERENCE_H_
