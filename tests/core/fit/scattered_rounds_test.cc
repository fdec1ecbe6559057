// Rounds of local updates whose state is not all on each worker between two of
// them: sparse changes with error feedback, and exchanges that overlap with the
// next round; against models of their own and a plain way to make the changes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "../../support/elastic_collective.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/fit/callback.h"
#include "io/checkpoint/saving_callbacks.h"

namespace ringlet {
namespace {

using Delta = LocalUpdates::Delta;

struct Job {
  int replicas = 4;
  int64_t examples = 203, batch = 40, epochs = 3;
  Optimizer optimizer = Adam(0.01f);
  LocalUpdates local;
  int threads = 1;
  std::vector<std::shared_ptr<Callback>> callbacks;
};

// Tensors of more than a block of sparse changes, of less than its kept
// numbers, and of a block that is cut short; and state.
std::unique_ptr<Sequential> ModelOf(const Job& job,
                                    const CompileOptions& options) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  model->Add(Dense(66, kTanh));
  model->Add(BatchNormalization(0.8f));
  model->Add(Dense(70, kTanh));
  model->Add(Dense(3));
  model->Compile(job.optimizer, SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  return model;
}

Dataset DataOf(const Job& job) {
  return Points(job.examples).Shuffle(5).Batch(job.batch);
}

struct Outcome {
  Status status;
  std::vector<float> weights;
  std::vector<double> losses, validation;
};

Outcome Train(const Job& job, Collective* collective) {
  CompileOptions options(collective);
  options.replicas = job.replicas;
  options.local = job.local;
  options.threads = job.threads;
  const auto model = ModelOf(job, options);
  FitOptions fit = Quiet(job.epochs);
  fit.check_replicas_every = 1;
  fit.validation_data = Points(23, 9).Batch(10);
  fit.callbacks = job.callbacks;
  const auto history = model->Fit(DataOf(job), fit);
  Outcome outcome;
  outcome.status = history.status();
  outcome.weights = WeightsOf(model.get());
  if (!history.ok()) return outcome;
  outcome.losses = history->Values("loss");
  outcome.validation = history->Values("val_loss");
  return outcome;
}

Outcome TrainOn(int workers, const Job& job) {
  std::vector<Outcome> ranks(static_cast<size_t>(workers));
  RunRanks(workers, [&](Collective* collective) {
    ranks[static_cast<size_t>(collective->rank())] = Train(job, collective);
  });
  for (const Outcome& rank : ranks) {
    EXPECT_EQ(rank.status.code(), ranks[0].status.code())
        << rank.status.message();
    EXPECT_EQ(rank.weights, ranks[0].weights);
    EXPECT_EQ(rank.losses, ranks[0].losses);
    EXPECT_EQ(rank.validation, ranks[0].validation);
  }
  return ranks[0];
}

// All ways, and shapes of runs: rounds that the epoch's end cuts short, an
// epoch of one round, replicas without examples, replicas that no number of
// workers divides.
std::vector<Job> Jobs() {
  std::vector<Job> jobs;
  for (const Delta delta : {Delta::kInt8, Delta::kFloat32, Delta::kSparse}) {
    for (const bool overlap : {false, true}) {
      if (!overlap && delta != Delta::kSparse) continue;
      for (const int64_t steps : {1, 2, 3, 4, 100}) {
        Job job;
        job.local.steps = steps;
        job.local.delta = delta;
        job.local.overlap = overlap;
        if (steps == 2) job.replicas = 5;
        if (steps == 3) job.batch = 22;
        if (steps == 4) job.batch = 3, job.examples = 31;
        if (steps == 100) job.optimizer = SGD(0.05f, 0.9f).GlobalClipNorm(0.3f);
        if (steps == 1) job.local.nesterov = false;
        jobs.push_back(job);
      }
    }
  }
  return jobs;
}

// --- against models of their own ----------------------------------------

// e and what is sent of a tensor, as sparse_delta.h has them.
void SendSparse(const float* delta, size_t size, float* error, float* sum) {
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

class Reference {
 public:
  explicit Reference(const Job& job)
      : job_(job), data_(DataOf(job)), model_(ModelOf(job, {})) {
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
    return i >= weights_.size() - 2 * 66;  // of BatchNormalization
  }

  // What the replicas change on the average; of state with overlap what it is.
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
        if (share == 0 && IsState(i)) changes_[r][i] = NAN;  // as weights_
      }
      for (const Variable& v : model_->variables()) {
        if (!v.trained() || job_.local.delta != Delta::kSparse) continue;
        const auto at = static_cast<size_t>(v.offset);
        SendSparse(&delta[at], static_cast<size_t>(v.size()), &errors_[r][at],
                   &mean[at]);
      }
    }
    for (size_t i = 0; i < mean.size(); ++i) {
      if (IsState(i) || job_.local.delta != Delta::kSparse) {
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
    const BatchPlan plan = data_.Plan(*at, r, job_.replicas);
    std::vector<int64_t> numbers;
    for (int64_t k = 0; k < plan.count; ++k) {
      numbers.push_back(data_.ExampleAt(*at, plan.first + k, r, job_.replicas));
    }
    *at = plan.next;
    if (plan.count == 0) return 0;
    std::vector<float> x(numbers.size() * 2);
    std::vector<int32_t> y(numbers.size());
    EXPECT_TRUE(data_.source()
                    ->Read(numbers.data(), static_cast<int>(numbers.size()),
                           x.data(), y.data())
                    .ok());
    Batch batch;
    batch.count = batch.global_count = plan.count;
    batch.x = x.data();
    batch.y = y.data();
    EXPECT_TRUE(model_->TrainStep(batch).ok());
    return static_cast<double>(plan.count);
  }

  const Job job_;
  const Dataset data_;
  const std::unique_ptr<Sequential> model_;
  std::vector<float> weights_, momentum_, pending_;
  // Of each replica; what it changed in the last round, and where it begins.
  std::vector<std::vector<float>> errors_, changes_, starts_;
  DataPosition at_;
};

// Sparse changes to the bit, but that state is a sum in double there; 32 bits
// within rounding.
TEST(ScatteredRoundsTest, FollowModelsOfTheirOwn) {
  int number = 0;
  for (const Job& job : Jobs()) {
    SCOPED_TRACE(number++);
    if (job.local.delta == Delta::kInt8) continue;
    const std::vector<float> wanted = Reference(job).Train();
    const Outcome outcome = Train(job, nullptr);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    ASSERT_EQ(outcome.weights.size(), wanted.size());
    double off = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      off = std::max(off,
                     std::fabs(double{outcome.weights[i]} - double{wanted[i]}));
    }
    EXPECT_LT(off, 2e-4);
  }
}

TEST(ScatteredRoundsTest, TheSameBitsOnAnyNumberOfWorkers) {
  int number = 0;
  for (Job job : Jobs()) {
    SCOPED_TRACE(number++);
    const Outcome one = Train(job, nullptr);
    ASSERT_TRUE(one.status.ok()) << one.status.message();
    for (int workers = 2; workers <= job.replicas; ++workers) {
      SCOPED_TRACE(workers);
      job.threads = 1 + workers % 3;
      const Outcome some = TrainOn(workers, job);
      EXPECT_EQ(some.weights, one.weights);
      EXPECT_EQ(some.losses, one.losses);
      EXPECT_EQ(some.validation, one.validation);
    }
  }
}

// --- backups ------------------------------------------------------------

class StopsAt final : public Callback {
 public:
  explicit StopsAt(int64_t step) : step_(step) {}
  const char* name() const override { return "stops_at"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    fit.interrupted |= fit.epoch == 1 && fit.step + 1 >= step_;
    return Status();
  }

 private:
  const int64_t step_;
};

// A stop in an epoch, on two workers or three, and gone on with by others. What
// backups gather on the way changes nothing.
TEST(ScatteredRoundsTest, GoOnWithTheSameBits) {
  int number = 0;
  for (const Job& job : Jobs()) {
    SCOPED_TRACE(number++);
    const Outcome undisturbed = Train(job, nullptr);
    for (const int before : {1, 2, 3}) {
      for (const int after : {1, 2, 4}) {
        SCOPED_TRACE(std::to_string(before) + " " + std::to_string(after));
        const TempFolder folder;
        const auto train = [&](int workers, bool stops) {
          std::vector<Outcome> ranks(static_cast<size_t>(workers));
          RunRanks(workers, [&](Collective* collective) {
            Job own = job;
            BackupAndRestoreOptions saving;
            saving.save_freq = 1;
            own.callbacks = {BackupAndRestore(folder.path(), saving)};
            if (stops) own.callbacks.push_back(std::make_shared<StopsAt>(2));
            ranks[static_cast<size_t>(collective->rank())] =
                Train(own, collective);
          });
          for (const Outcome& r : ranks) EXPECT_EQ(r.weights, ranks[0].weights);
          return ranks[0];
        };
        const Outcome cut = train(before, true);
        ASSERT_EQ(cut.status.code(), Code::kCancelled) << cut.status.message();
        EXPECT_NE(cut.weights, undisturbed.weights);
        const Outcome rest = train(after, false);
        ASSERT_TRUE(rest.status.ok()) << rest.status.message();
        EXPECT_EQ(rest.weights, undisturbed.weights);
        EXPECT_EQ(rest.losses.back(), undisturbed.losses.back());
        EXPECT_EQ(rest.validation.back(), undisturbed.validation.back());
      }
    }
  }
}

// Error feedback is a fit's: a model that was saved and loaded has as much.
TEST(ScatteredRoundsTest, ASecondFitBeginsWithNone) {
  for (const Delta delta : {Delta::kSparse, Delta::kInt8}) {
    CompileOptions options;
    options.replicas = 3;
    options.local.steps = 2;
    options.local.delta = delta;
    options.local.overlap = true;
    Job job;
    const auto twice = ModelOf(job, options), other = ModelOf(job, options);
    ASSERT_TRUE(twice->Fit(DataOf(job), Quiet(1)).ok());
    std::vector<StateSpan> from, to;
    for (const auto& [model, spans] :
         {std::pair{twice.get(), &from}, {other.get(), &to}}) {
      model->weights_state()->AppendState(spans);
      model->optimizer_state()->AppendState(spans);
    }
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) {
      std::memcpy(to[i].data, from[i].data, from[i].bytes());
    }
    ASSERT_TRUE(twice->Fit(DataOf(job), Quiet(1)).ok());
    ASSERT_TRUE(other->Fit(DataOf(job), Quiet(1)).ok());
    EXPECT_EQ(WeightsOf(twice.get()), WeightsOf(other.get()));
  }
}

// --- refusals -----------------------------------------------------------

TEST(ScatteredRoundsTest, NotWhereWorkersMayLeave) {
  for (const bool overlap : {false, true}) {
    ElasticJob elastic;
    elastic.Arrive(0);
    ElasticCollective collective(&elastic, 0, 1 << 30);
    CompileOptions options(&collective);
    options.reduction = Reduction::kExact;
    options.replicas = 2;
    options.local.steps = 2;
    options.local.overlap = overlap;
    options.local.delta = overlap ? Delta::kInt8 : Delta::kSparse;
    const std::string why = ModelOf(Job(), options)->status().message();
    EXPECT_NE(why.find(overlap ? "(overlap)" : "(delta)"), std::string::npos)
        << why;
    EXPECT_NE(why.find("policy \"wait\""), std::string::npos) << why;
  }
}

TEST(ScatteredRoundsTest, ASettingThatDiffersIsNamed) {
  for (const bool overlap : {false, true}) {
    std::vector<std::string> said(2);
    RunRanks(2, [&](Collective* collective) {
      CompileOptions options(collective);
      options.local.steps = 2;
      if (collective->rank() == 1 && overlap) options.local.overlap = true;
      if (collective->rank() == 1 && !overlap) {
        options.local.delta = Delta::kSparse;
      }
      said[static_cast<size_t>(collective->rank())] =
          ModelOf(Job(), options)->status().message();
    });
    for (const std::string& each : said) {
      EXPECT_NE(each.find(overlap ? "overlap of rounds" : "the delta"),
                std::string::npos)
          << each;
    }
  }
}

}  // namespace
}  // namespace ringlet
