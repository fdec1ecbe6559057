// Layers over steps in any geometry: lengths, batches, threads and workers. The
// bits of a training follow from its examples and replicas alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../../support/draw.h"
#include "../../support/expect_ok.h"
#include "../../support/op_runner.h"
#include "../../support/random_cases.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "ringlet/dataset.h"

namespace ringlet {
namespace {

constexpr int kReplicas = 3;
constexpr int64_t kRows = 7;  // rows of an Embedding
constexpr int64_t kClasses = 3;

struct StepsCase {
  enum class Kind {
    kRecurrent,
    kBidirectional,
    kAttention,
    kTransposed,
    kRows
  };
  explicit StepsCase(uint64_t seed);

  std::string Describe() const {
    return std::string(ClassName(layer)) + " of " + std::to_string(units) +
           " over " + std::to_string(length) + " x " +
           std::to_string(features) + ", batch " + std::to_string(batch) +
           ", examples " + std::to_string(examples) +
           (windows ? ", windows" : "") + (masked ? ", masked" : "") +
           ", threads " + std::to_string(threads) + ", workers " +
           std::to_string(workers);
  }

  Kind kind = Kind::kRecurrent;
  Layer layer;
  int64_t units, length, features, batch, examples, later_batch;
  bool windows, flattens, masked = false;
  int threads, workers;
};

Layer DrawRecurrent(Draw* draw, int64_t units) {
  const Layer layers[] = {SimpleRNN(units), LSTM(units), GRU(units),
                          GRU(units).ResetAfter(false)};
  Layer layer = layers[draw->From(0, 3)];
  layer.ReturnSequences(draw->From(0, 1) == 1);
  if (draw->From(0, 3) == 0) layer.Dropout(0.25f).RecurrentDropout(0.2f);
  return layer;
}

StepsCase::StepsCase(uint64_t seed) {
  Draw draw(seed);
  kind = static_cast<Kind>(draw.From(0, 4));
  units = draw.From(1, 12);
  length = draw.From(1, draw.From(0, 2) == 0 ? 200 : 12);
  features = draw.From(1, 6);
  const int64_t batches[] = {1, 2, 7, 32, 100};
  batch = batches[draw.From(0, 4)];
  examples = draw.From(1, std::min<int64_t>(3 * batch + 1, 70));
  later_batch = draw.From(1, 2 * batch);
  windows = kind != Kind::kRows && draw.From(0, 2) == 0;
  flattens = draw.From(0, 1) == 1;
  threads = static_cast<int>(draw.From(1, 3));
  workers = static_cast<int>(draw.From(1, kReplicas));
  switch (kind) {
    case Kind::kRecurrent:
      layer = DrawRecurrent(&draw, units).GoBackwards(draw.From(0, 1) == 1);
      break;
    case Kind::kBidirectional:
      layer = Bidirectional(DrawRecurrent(&draw, units),
                            draw.From(0, 1) == 1 ? kMergeConcat : kMergeMul);
      break;
    case Kind::kAttention:
      layer = MultiHeadAttention(draw.From(1, 3), draw.From(1, 5))
                  .UseCausalMask(draw.From(0, 1) == 1);
      break;
    case Kind::kTransposed:
      layer = Conv1DTranspose(units, draw.From(1, 4))
                  .Strides(draw.From(1, 3))
                  .Padding(draw.From(0, 1) == 1 ? kSame : kValid);
      break;
    default:
      layer = Embedding(kRows, units);
  }
  masked = kind != Kind::kAttention && draw.From(0, 1) == 1;
  if (kind == Kind::kRows) layer.MaskZero(masked);
}

class Examples {
 public:
  explicit Examples(const StepsCase& c)
      : case_(c), rows_(c.windows ? c.examples + c.length - 1 : c.examples) {
    const int64_t width =
        c.windows ? c.features : c.length * std::max<int64_t>(c.features, 1);
    x_ = RandomFloats(static_cast<size_t>(rows_ * width), 31);
    if (c.kind == StepsCase::Kind::kRows) {
      for (float& v : x_) v = std::floor((v + 1) / 2 * kRows);
    } else if (c.masked) {
      for (size_t i = 0; i < x_.size(); ++i) {
        if (i / static_cast<size_t>(c.features) * 7 % 5 < 2) x_[i] = 0;
      }
    }
    for (int64_t i = 0; i < rows_; ++i) {
      y_.push_back(static_cast<int32_t>(i * 7 % kClasses));
    }
  }
  Dataset All() const {
    const bool rows = case_.kind == StepsCase::Kind::kRows;
    const Shape shape = case_.windows ? Shape{case_.features}
                        : rows        ? Shape{case_.length}
                                      : Shape{case_.length, case_.features};
    const Dataset data(MemorySource({DType::kFloat32, shape}, x_.data(),
                                    {DType::kInt32, {}}, y_.data(), rows_));
    if (!case_.windows) return data;
    TimeseriesOptions options;
    options.sequence_length = case_.length;
    return TimeseriesDatasetFromArray(data, options);
  }

 private:
  const StepsCase& case_;
  const int64_t rows_;
  Floats x_;
  std::vector<int32_t> y_;
};

std::unique_ptr<Functional> MakeModel(const StepsCase& c,
                                      const CompileOptions& options) {
  auto model = std::make_unique<Functional>();
  const bool rows = c.kind == StepsCase::Kind::kRows;
  int x =
      model->Add(Input(rows ? Shape{c.length} : Shape{c.length, c.features}));
  if (c.kind == StepsCase::Kind::kAttention) {
    const int place = model->Add(PositionEmbedding(c.length + 1), {x});
    x = model->Add(Add(), {x, place});
    x = model->Add(c.layer, {x, x});
  } else {
    if (c.masked && !rows) x = model->Add(Masking(), {x});
    x = model->Add(c.layer, {x});
  }
  if (model->output_shape(x).rank() == 2) {
    x = model->Add(c.flattens ? Flatten() : GlobalAveragePooling1D(), {x});
  }
  model->Add(Dense(kClasses), {x});
  model->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits), {},
                 options);
  EXPECT_OK(model->status());
  return model;
}

struct Trained {
  Floats weights, predictions;
  std::vector<double> losses;
};

// Two fits, and a prediction after each.
Trained Train(const StepsCase& c, const Examples& examples, int threads,
              Collective* collective) {
  Trained trained;
  CompileOptions options = ExactSums(collective, kReplicas);
  options.threads = threads;
  const auto model = MakeModel(c, options);
  for (uint64_t fit = 0; fit < 2; ++fit) {
    const auto history =
        model->Fit(examples.All().Shuffle(3 + fit).Batch(c.batch), Quiet(1));
    EXPECT_OK(history.status());
    const auto predicted = model->Predict(examples.All().Batch(c.later_batch));
    EXPECT_OK(predicted.status());
    if (!history.ok() || !predicted.ok()) return trained;
    trained.losses.push_back(history->Values("loss").back());
    trained.predictions.insert(trained.predictions.end(),
                               predicted.value().begin(),
                               predicted.value().end());
  }
  trained.weights = WeightsOf(model.get());
  return trained;
}

void ExpectSame(const Trained& actual, const Trained& expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.weights, expected.weights);
  EXPECT_EQ(actual.predictions, expected.predictions);
}

TEST(StepsGeometryTest, Fit_AnyThreadsAndWorkers_HasTheResultOfOne) {
  RandomCases cases("RINGLET_STEPS");
  while (!HasFailure() && cases.Next()) {
    const StepsCase c(cases.number());
    SCOPED_TRACE(cases.command() + ": " + c.Describe());
    const Examples examples(c);
    const Trained one = Train(c, examples, 1, nullptr);
    ExpectSame(Train(c, examples, c.threads, nullptr), one);
    std::vector<Trained> ranks(static_cast<size_t>(c.workers));
    RunRanks(c.workers, [&](Collective* collective) {
      ranks[static_cast<size_t>(collective->rank())] =
          Train(c, examples, c.threads, collective);
    });
    for (const Trained& rank : ranks) ExpectSame(rank, one);
  }
}

}  // namespace
}  // namespace ringlet
