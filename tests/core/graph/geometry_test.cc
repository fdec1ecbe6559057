// Every shape of a batch: the memory planned for the largest batch suffices for
// all, and no number depends on the size of the memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../../support/copy_state.h"
#include "../../support/expect_ok.h"
#include "../../support/naive_layers.h"
#include "../../support/op_runner.h"
#include "../../support/random_cases.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/data/dataset_parts.h"
#include "core/layers/layer_kind.h"
#include "core/objective/batch_loss.h"
#include "ringlet/compute.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// Draws numbers one after another.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed, 11) {}
  // From `low` to `high`, both included.
  int64_t In(int64_t low, int64_t high) {
    const auto range = static_cast<uint64_t>(high - low + 1);
    return low + static_cast<int64_t>(random_.At(next_++)[0] % range);
  }
  bool Coin() { return In(0, 1) == 1; }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[In(0, static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  const Philox random_;
  uint64_t next_ = 0;
};

// --- ops ------------------------------------------------------------------

struct OpCase {
  Layer layer;
  std::vector<Shape> inputs;
};

Activation DrawActivation(Draw* draw) {
  if (draw->Coin()) {
    return draw->Of({kLinear, kRelu, kSigmoid, kTanh, kSoftmax});
  }
  return draw->Of({kRelu6, kElu, kSelu, kLeakyRelu, kHardSigmoid, kSoftsign,
                   kSoftplus, kLogSoftmax, kGelu, kSilu, kHardSilu, kMish,
                   kHardSigmoidKeras2});
}

OpCase DrawDense(Draw* draw) {
  OpCase c{Dense(draw->In(1, 130), DrawActivation(draw)),
           {{draw->Coin() ? draw->In(1, 200) : draw->In(700, 2000)}}};
  if (draw->In(0, 3) == 0) c.inputs[0] = {draw->In(1, 9), draw->In(1, 60)};
  c.layer.UseBias(draw->Coin());
  return c;
}

Shape DrawImage(Draw* draw) {
  return {draw->In(1, 12), draw->In(1, 12), draw->In(1, 5)};
}

Layer DrawWindow(Layer layer, const Shape& image, Draw* draw) {
  const bool same = draw->Coin();
  for (int axis = 0; axis < 2; ++axis) {
    layer.window[axis] =
        draw->In(1, same ? 4 : std::min<int64_t>(4, image[axis]));
  }
  layer.Strides(draw->In(1, 3), draw->In(1, 3));
  return layer.Padding(same ? kSame : kValid);
}

OpCase DrawOp(Draw* draw) {
  const Shape image = DrawImage(draw);
  const Activation activation = draw->Of({kLinear, kRelu, kTanh, kSoftmax});
  switch (draw->In(0, 13)) {
    case 0:
    case 1:
      return DrawDense(draw);
    case 10:
      return {DrawWindow(DepthwiseConv2D(3, activation)
                             .DepthMultiplier(draw->In(1, 3))
                             .UseBias(draw->Coin()),
                         image, draw),
              {image}};
    case 11:
      return {DrawWindow(
                  SeparableConv2D(draw->Of<int64_t>({1, 3, 16}), 3, activation)
                      .UseBias(draw->Coin()),
                  image, draw),
              {image}};
    case 12:
      return {GlobalMaxPooling2D().KeepDims(draw->Coin()), {image}};
    case 13:
      return {draw->Of({ZeroPadding2D(1, 0, 2, 1), UpSampling2D(2, 3),
                        Permute({3, 1, 2})}),
              {image}};
    case 2: {  // some of them large enough for several groups of images
      const Shape x = draw->Coin() ? image
                                   : Shape{draw->In(20, 40), draw->In(20, 40),
                                           draw->In(1, 2)};
      Layer layer =
          Conv2D(draw->Of<int64_t>({1, 3, 8, 16, 32}), 3, DrawActivation(draw));
      layer.UseBias(draw->Coin());
      return {DrawWindow(layer, x, draw), {x}};
    }
    case 3:
      return {DrawWindow(MaxPooling2D(2), image, draw), {image}};
    case 4:
      return {DrawWindow(AveragePooling2D(2), image, draw), {image}};
    case 5:
      if (draw->Coin()) {
        return {draw->Of({PReLU(), PReLU({1, 2}), PReLU({2}), Softmax({1}),
                          Softmax({2}), ReLU(1.5f)}),
                {image}};
      }
      return {ActivationLayer(DrawActivation(draw)), {image}};
    case 6:
      if (draw->Coin()) {
        return {draw->Of({SpatialDropout2D(0.4f), GaussianNoise(0.5f),
                          GaussianDropout(0.3f), AlphaDropout(0.2f)}),
                {image}};
      }
      return {Dropout(draw->Of({0.0f, 0.3f, 0.9f})), {image}};
    case 7:
      return {GlobalAveragePooling2D().KeepDims(draw->Coin()), {image}};
    case 8:
      return {Add(), std::vector<Shape>(draw->In(2, 4), image)};
    default: {
      std::vector<Shape> inputs(draw->In(2, 4), image);
      for (Shape& shape : inputs) shape[2] = draw->In(1, 5);
      return {Concatenate(), inputs};
    }
  }
}

std::string Describe(const OpCase& c, int64_t planned, int threads) {
  std::string s = std::string(ClassName(c.layer)) + " of " +
                  std::to_string(c.layer.units) + " over";
  for (const Shape& shape : c.inputs) s += " " + shape.ToString();
  return s + ", planned for " + std::to_string(planned) + " on " +
         std::to_string(threads) + " threads";
}

bool SameBits(const Floats& a, const Floats& b) {
  if (a.empty() || a.size() != b.size()) return a.size() == b.size();
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Batch r gives the same bits in memory for `planned` examples as in memory for
// r. Memory of other examples is not touched.
void ExpectTheSameOf(const OpCase& c, int64_t r, int64_t planned, int threads,
                     bool sink_consumes) {
  OpRunner runner(c.layer, c.inputs);
  ASSERT_OK(runner.status());
  runner.sink_consumes = sink_consumes;
  std::vector<Floats> x;
  for (const Shape& shape : c.inputs) {
    x.push_back(
        RandomFloats(static_cast<size_t>(r * shape.elements()), 40 + x.size()));
  }
  const auto weights = runner.RandomWeights(3);
  const Floats dy = RandomFloats(
      static_cast<size_t>(r * runner.op().output().elements()), 50);
  const OpRun exact = runner.Run(r, x, weights, dy, threads);
  const OpRun roomy = runner.Run(r, x, weights, dy, threads, planned);
  EXPECT_TRUE(SameBits(exact.y, roomy.y)) << "batch " << r;
  EXPECT_TRUE(SameBits(exact.taken, roomy.taken)) << "batch " << r;
  EXPECT_EQ(exact.ready, roomy.ready);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(SameBits(exact.dx[i], roomy.dx[i])) << "batch " << r;
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_TRUE(SameBits(exact.d_weights[i], roomy.d_weights[i]))
        << "batch " << r;
  }
}

void ExpectScratchGrows(const Op& op, int64_t planned, int threads) {
  for (int64_t r = 1; r < planned; ++r) {
    ASSERT_LE(op.forward_scratch(r, threads),
              op.forward_scratch(r + 1, threads))
        << "batch " << r;
    ASSERT_LE(op.backward_scratch(r, threads),
              op.backward_scratch(r + 1, threads))
        << "batch " << r;
    ASSERT_LE(op.backward_scratch(r, threads),
              op.backward_scratch(r, threads + 1));
  }
}

TEST(GeometryTest, Ops_MemoryPlannedForMore_GiveTheSameBits) {
  Draw draw(1);
  for (int round = 0; round < 250; ++round) {
    const OpCase c = DrawOp(&draw);
    const int threads = static_cast<int>(draw.In(1, 3));
    const bool wide = c.layer.kind == Layer::Kind::kDense;
    const int64_t planned = draw.In(1, wide ? 300 : 12);
    SCOPED_TRACE(Describe(c, planned, threads));
    const OpRunner runner(c.layer, c.inputs);
    ASSERT_OK(runner.status());
    ExpectScratchGrows(runner.op(), planned, threads);
    for (const int64_t r :
         {int64_t{1}, draw.In(1, planned), draw.In(1, planned), planned}) {
      ExpectTheSameOf(c, r, planned, threads, draw.Coin());
    }
    if (HasFailure()) return;
  }
}

// The blocks of Dense at each of their sizes, to the float.
TEST(GeometryTest, Dense_AnyBatch_PlansForTheWorstAndNotMore) {
  for (const int threads : {1, 2}) {
    const auto chosen = [&](int64_t units, int64_t batch) {
      return OpRunner(Dense(units), {{784}})
          .op()
          .backward_scratch(batch, threads);
    };
    const auto scratch_of = [&](int64_t rows, int64_t units, int64_t grains) {
      return static_cast<size_t>(grains * 96 * threads * (rows + units));
    };
    // W has 8 grains of 96 rows up to 64 examples, 4 at 128 and 5 at 102. The
    // gradient of x takes at most 128 rows at a time.
    EXPECT_EQ(chosen(10, 64), scratch_of(64, 10, 8));
    EXPECT_EQ(chosen(10, 128),
              std::max({scratch_of(64, 10, 8), scratch_of(102, 10, 5),
                        scratch_of(128, 10, 4)}));
    EXPECT_EQ(chosen(10, 1000), chosen(10, 128));
    // Many units leave fewer rows.
    EXPECT_EQ(chosen(128, 64), scratch_of(64, 128, 4));
    EXPECT_EQ(chosen(128, 1000), scratch_of(128, 128, 4));
    EXPECT_EQ(chosen(640, 512), scratch_of(128, 640, 1));
  }
}

// --- Fit ------------------------------------------------------------------

constexpr int64_t kOutputs = 3;

// A model, and how Fit trains it.
struct FitCase {
  enum class Kind { kDense, kConv, kGraph, kWide };
  Kind kind = Kind::kDense;
  Shape input;
  int64_t hidden = 1;
  Activation activation = kLinear;
  float dropout = 0;
  bool regularized = false;
  int64_t frozen = 0;  // bit i: node i is not trained
  Loss loss;
  Optimizer optimizer;
  int64_t batch = 1, examples = 1;
  int64_t validation_batch = 1, validation_examples = 0;  // 0: none
  bool split = false;       // the validation examples are the end of `examples`
  int64_t later_batch = 1;  // the batch of Evaluate and Predict
  int64_t reserve = 0;      // the batch of a Reserve before Fit; 0: none
  int64_t epochs = 1;
  // In the order of the examples; shuffled; shuffled, batches across the border
  // of two passes; shuffled, every worker all of them.
  enum class Order { kPlain, kShuffled, kRepeated, kOwn };
  Order order = Order::kPlain;
  int64_t steps_per_epoch = 0;  // kRepeated
  bool prefetch = false, drop_remainder = false;
  int threads = 1, workers = 1;

  int64_t train_examples() const {
    return split ? examples - validation_examples : examples;
  }
  int64_t all_examples() const {
    return train_examples() + validation_examples;
  }
  std::string Describe() const {
    std::string s = "kind " + std::to_string(static_cast<int>(kind)) + " " +
                    input.ToString() + ", hidden " + std::to_string(hidden) +
                    ", " + loss.name() + ", " + optimizer.name();
    const std::pair<const char*, int64_t> numbers[] = {
        {"activation", activation},
        {"frozen", frozen},
        {"batch", batch},
        {"examples", train_examples()},
        {"validation batch", validation_batch},
        {"validation examples", validation_examples},
        {"later batch", later_batch},
        {"reserve", reserve},
        {"epochs", epochs},
        {"accumulation", optimizer.gradient_accumulation_steps},
        {"drop_remainder", drop_remainder},
        {"order", static_cast<int64_t>(order)},
        {"steps per epoch", steps_per_epoch},
        {"threads", threads},
        {"workers", workers}};
    for (const auto& n : numbers) {
      s += std::string(", ") + n.first + " " + std::to_string(n.second);
    }
    return s;
  }
};

Optimizer DrawOptimizer(Draw* draw) {
  Optimizer optimizer = draw->Of(
      {SGD(0.05f), SGD(0.05f, 0.9f, /*nesterov=*/true), Adam(0.005f),
       AdamW(0.005f), RMSprop(0.002f, 0.9f, 0.5f, 1e-5f, /*centered=*/true)});
  switch (draw->In(0, 5)) {
    case 0:
      optimizer.ClipNorm(0.5f);
      break;
    case 1:
      optimizer.GlobalClipNorm(0.5f);
      break;
    default:
      break;
  }
  if (draw->In(0, 4) == 0) {
    optimizer.GradientAccumulationSteps(static_cast<int>(draw->In(2, 4)));
  }
  return optimizer;
}

FitCase DrawFit(Draw* draw) {
  FitCase c;
  using Kind = FitCase::Kind;
  const int64_t kind = draw->In(0, 19);
  c.kind = kind < 9    ? Kind::kDense
           : kind < 13 ? Kind::kConv
           : kind < 16 ? Kind::kGraph
                       : Kind::kWide;
  c.hidden = draw->In(1, 40);
  c.batch = draw->In(1, 40);
  if (c.kind == Kind::kWide) {
    c.input = {draw->In(784, 2000)};
    c.hidden = draw->In(10, 130);
    c.batch = draw->Of<int64_t>({1, 7, 32, 64, 96, 100, 128, 256, 500});
  } else if (c.kind == Kind::kConv) {
    c.input = {draw->In(4, 9), draw->In(4, 9), draw->In(1, 3)};
    c.hidden = draw->In(1, 9);
  } else {
    c.input = {draw->In(1, 30)};
  }
  c.activation = draw->Of({kLinear, kRelu, kSigmoid, kTanh, kRelu6, kElu,
                           kLeakyRelu, kSoftplus, kGelu, kSilu, kMish});
  c.dropout = draw->In(0, 3) == 0 ? 0.3f : 0;
  c.regularized = draw->In(0, 3) == 0;
  c.loss = draw->Of({SparseCategoricalCrossentropy(),
                     SparseCategoricalCrossentropy(kFromLogits),
                     CategoricalCrossentropy(),
                     CategoricalCrossentropy(kFromLogits, 0.1f),
                     BinaryCrossentropy(), BinaryCrossentropy(kFromLogits),
                     MeanSquaredError(), MeanAbsoluteError(), Huber(0.5f)});
  c.optimizer = DrawOptimizer(draw);
  // From less than a batch to several batches and a short batch.
  c.examples = draw->In(1, 3 * c.batch + 1);
  if (c.kind == Kind::kWide) {
    c.examples = std::min<int64_t>(c.examples, 600);
  }
  c.validation_batch =
      draw->In(0, 2) == 0 ? c.batch : draw->In(1, 2 * c.batch + 1);
  switch (draw->In(0, 2)) {
    case 0:
      c.validation_examples = draw->In(1, 2 * c.batch);
      break;
    case 1:
      c.validation_examples = c.examples / 5;
      c.split = c.validation_examples > 0;
      break;
    default:
      break;
  }
  c.later_batch = draw->In(1, 3 * c.batch);
  if (draw->Coin()) c.reserve = draw->In(1, 3 * c.batch);
  c.epochs = c.kind == Kind::kWide ? 1 : draw->In(1, 2);
  c.prefetch = draw->Coin();
  c.drop_remainder = draw->In(0, 4) == 0 && c.train_examples() >= c.batch;
  if (draw->In(0, 2) == 0) {
    using Order = FitCase::Order;
    c.order = draw->Of({Order::kShuffled, Order::kRepeated, Order::kOwn});
    if (c.order == Order::kRepeated) c.steps_per_epoch = draw->In(1, 5);
  }
  c.threads = static_cast<int>(draw->In(1, 3));
  c.workers = static_cast<int>(draw->In(1, 3));
  if (draw->In(0, 2) == 0) c.frozen = draw->In(0, 255);
  return c;
}

// The examples of a case, with the examples of the validation last.
struct Examples {
  explicit Examples(const FitCase& c) : fit(c) {
    const auto n = static_cast<size_t>(c.all_examples());
    x = RandomFloats(n * static_cast<size_t>(c.input.elements()), 21);
    targets = RandomFloats(n * kOutputs, 22);
    for (size_t i = 0; i < n; ++i) {
      classes.push_back(static_cast<int32_t>((i * 7 + i / 3) % kOutputs));
      if (c.loss.kind != Loss::Kind::kCategoricalCrossentropy &&
          c.loss.kind != Loss::Kind::kBinaryCrossentropy) {
        continue;
      }
      for (int64_t k = 0; k < kOutputs; ++k) {
        targets[i * kOutputs + k] = k == classes[i] ? 1 : 0;
      }
    }
  }
  Dataset Part(int64_t first, int64_t count) const {
    const bool sparse = fit.loss.takes_classes();
    const ExampleSpec y = sparse ? ExampleSpec{DType::kInt32, {}}
                                 : ExampleSpec{DType::kFloat32, {kOutputs}};
    return Dataset(MemorySource({DType::kFloat32, fit.input}, x.data(), y,
                                sparse
                                    ? static_cast<const void*>(classes.data())
                                    : targets.data(),
                                fit.all_examples()))
        .Skip(first)
        .Take(count);
  }
  Dataset Train() const {
    Dataset data = Part(0, fit.train_examples());
    if (fit.order != FitCase::Order::kPlain) data = data.Shuffle(5);
    if (fit.order == FitCase::Order::kRepeated) data = data.Repeat();
    if (fit.order == FitCase::Order::kOwn) {
      data = data.AutoShard(AutoShardPolicy::kOff);
    }
    return data.Batch(fit.batch, fit.drop_remainder);
  }
  Dataset Validation() const {
    return Part(fit.train_examples(), fit.validation_examples)
        .Batch(fit.validation_batch);
  }
  Dataset All() const {
    return Part(0, fit.all_examples()).Batch(fit.later_batch);
  }

  const FitCase& fit;
  Floats x, targets;
  std::vector<int32_t> classes;
};

Activation HeadOf(const Loss& loss) {
  if (loss.from_logits) return kLinear;
  switch (loss.kind) {
    case Loss::Kind::kSparseCategoricalCrossentropy:
    case Loss::Kind::kCategoricalCrossentropy:
      return kSoftmax;
    case Loss::Kind::kBinaryCrossentropy:
      return kSigmoid;
    default:
      return kTanh;
  }
}

std::unique_ptr<Model> MakeModel(const FitCase& c, Collective* collective) {
  const Layer head = Dense(kOutputs, HeadOf(c.loss));
  Layer hidden = Dense(c.hidden, c.activation);
  if (c.regularized) hidden.KernelRegularizer(L2(0.01f));
  auto model = std::make_unique<Functional>();
  int x = model->Add(Input(c.input));
  switch (c.kind) {
    case FitCase::Kind::kConv:
      x = model->Add(Conv2D(c.hidden, 3, c.activation), {x});
      x = model->Add(c.hidden % 2 == 0 ? MaxPooling2D(2) : AveragePooling2D(2),
                     {x});
      x = model->Add(Flatten(), {x});
      break;
    case FitCase::Kind::kGraph: {
      const int a = model->Add(hidden, {x});
      const int b = model->Add(Dense(c.hidden, kTanh), {a});
      x = model->Add(Concatenate(), {model->Add(Add(), {a, b}), x});
      break;
    }
    default:
      x = model->Add(hidden, {x});
  }
  if (c.dropout > 0) x = model->Add(Dropout(c.dropout), {x});
  if (c.kind == FitCase::Kind::kWide) {
    x = model->Add(Dense(c.hidden, c.activation), {x});
  }
  model->Add(head, {x});
  for (int i = 0; i < model->num_nodes(); ++i) {
    const bool trains = (c.frozen >> i & 1) == 0;
    EXPECT_OK(model->SetTrainable(model->layer(i).name, trains));
  }
  CompileOptions options;
  options.collective = collective;
  options.threads = c.threads;
  model->Compile(c.optimizer, c.loss, {}, options);
  EXPECT_OK(model->status());
  return model;
}

// The reference: every step by a new model, with memory for just its examples,
// on copies of them. Nothing of one step's shape can reach another's.
class Stepwise {
 public:
  Stepwise(const FitCase& c, const Examples& examples, Collective* collective)
      : case_(c),
        examples_(examples),
        collective_(collective),
        model_(MakeModel(c, collective)) {}

  Model* model() { return model_.get(); }

  // The epochs' losses, and the losses of the validation.
  void Fit(std::vector<double>* losses, std::vector<double>* validation) {
    DataPosition at;
    for (int64_t epoch = 0; epoch < case_.epochs; ++epoch) {
      trained_ = MetricState();
      const int64_t end = case_.drop_remainder ? case_.train_examples() /
                                                     case_.batch * case_.batch
                                               : case_.train_examples();
      if (case_.order == FitCase::Order::kPlain) {
        Pass(0, end, case_.batch, /*training=*/true, nullptr);
      } else {
        PassInOrder(examples_.Train(), &at);
      }
      losses->push_back(trained_.Result());
      if (case_.validation_examples == 0) continue;
      tested_ = {MetricState()};
      Pass(case_.train_examples(), case_.all_examples(), case_.validation_batch,
           /*training=*/false, nullptr);
      validation->push_back(TotalLoss());
    }
  }
  double Evaluate() {
    tested_ = {MetricState()};
    Pass(0, case_.all_examples(), case_.later_batch, /*training=*/false,
         nullptr);
    return TotalLoss();
  }
  // Only this rank's examples are filled in; the other ranks' are NaN.
  Floats Predict() {
    Floats outputs(static_cast<size_t>(case_.all_examples() * kOutputs), NAN);
    Pass(0, case_.all_examples(), case_.later_batch, /*training=*/false,
         &outputs);
    return outputs;
  }

 private:
  // Batches of examples [begin, end), each cut into a piece for every rank.
  void Pass(int64_t begin, int64_t end, int64_t size, bool training,
            Floats* outputs) {
    const int world = model_->collective()->size();
    const int rank = model_->collective()->rank();
    for (int64_t at = begin; at < end; at += size) {
      const int64_t global = std::min(size, end - at);
      const int64_t piece = (global + world - 1) / world;
      const int64_t first = std::min(global, piece * rank);
      const int64_t count = std::min(piece, global - first);
      std::vector<int64_t> numbers(static_cast<size_t>(count));
      std::iota(numbers.begin(), numbers.end(), at + first);
      Renew(count, training);
      Step(numbers, global, training, outputs);
    }
  }

  // Trains an epoch in the dataset's order from *at on.
  void PassInOrder(const Dataset& dataset, DataPosition* at) {
    const int world = model_->collective()->size();
    const int rank = model_->collective()->rank();
    const int64_t steps = case_.steps_per_epoch > 0 ? case_.steps_per_epoch
                                                    : dataset.steps(world);
    for (int64_t step = 0; step < steps; ++step) {
      const BatchPlan plan = dataset.parts().Plan(*at, rank, world);
      std::vector<int64_t> numbers;
      for (int64_t k = 0; k < plan.count; ++k) {
        numbers.push_back(
            dataset.parts().ExampleAt(*at, plan.first + k, rank, world));
      }
      Renew(plan.count, /*training=*/true);
      Step(numbers, plan.global_count, /*training=*/true, nullptr);
      *at = plan.next;
    }
  }

  void Renew(int64_t count, bool training) {
    auto next = MakeModel(case_, collective_);
    ASSERT_OK(next->Reserve(std::max<int64_t>(count, 1), training));
    CopyState(model_->weights_state(), next->weights_state());
    CopyState(model_->optimizer_state(), next->optimizer_state());
    model_ = std::move(next);
  }

  void Step(const std::vector<int64_t>& numbers, int64_t global, bool training,
            Floats* outputs) {
    const auto count = static_cast<int64_t>(numbers.size());
    const int64_t width = case_.input.elements();
    Floats x, targets;
    std::vector<int32_t> classes;
    for (const int64_t e : numbers) {
      const auto from = examples_.x.begin() + e * width;
      x.insert(x.end(), from, from + width);
      const auto target = examples_.targets.begin() + e * kOutputs;
      targets.insert(targets.end(), target, target + kOutputs);
      classes.push_back(examples_.classes[e]);
    }
    ringlet::Batch batch;
    batch.count = count;
    batch.global_count = global;
    batch.x = x.data();
    batch.y = case_.loss.takes_classes()
                  ? static_cast<const void*>(classes.data())
                  : targets.data();
    Status s;
    if (outputs != nullptr) {
      s = model_->Forward(batch.x, count, /*training=*/false);
      if (count > 0) {
        std::copy_n(model_->output(), count * kOutputs,
                    outputs->begin() + numbers[0] * kOutputs);
      }
    } else {
      s = training ? model_->TrainStep(batch) : model_->TestStep(batch);
    }
    ASSERT_OK(s);
    if (training) {
      trained_ += model_->step_metrics()[0];
    } else if (outputs == nullptr) {
      AddMetrics(model_->rank_metrics(), &tested_);
    }
  }

  double TotalLoss() {
    EXPECT_OK(SumOverRanks(model_->collective(), &tested_));
    return tested_[0].Result();
  }

  const FitCase& case_;
  const Examples& examples_;
  Collective* const collective_;
  std::unique_ptr<Model> model_;
  MetricState trained_;  // the loss of this epoch's steps, of all ranks
  std::vector<MetricState> tested_;  // an evaluation's metrics, of this rank
};

void ExpectSameWeights(Model* actual, Model* expected) {
  EXPECT_EQ(actual->iterations(), expected->iterations());
  EXPECT_EQ(std::memcmp(actual->weights(), expected->weights(),
                        actual->num_weights() * sizeof(float)),
            0);
}

// Two fits of one model, with an evaluation and a prediction between them.
void ExpectAsStepwise(const FitCase& c, const Examples& examples,
                      Collective* collective) {
  const auto model = MakeModel(c, collective);
  Stepwise reference(c, examples, collective);
  if (c.reserve > 0) {
    ASSERT_OK(model->Reserve(c.reserve, c.reserve % 2 == 0));
  }
  for (int round = 0; round < 2; ++round) {
    FitOptions options = Quiet(c.epochs);
    options.prefetch = c.prefetch;
    options.steps_per_epoch = c.steps_per_epoch;
    if (c.validation_examples > 0) {
      options.validation_data = examples.Validation();
    }
    const auto history = model->Fit(examples.Train(), options);
    ASSERT_OK(history.status());
    std::vector<double> losses, validation;
    reference.Fit(&losses, &validation);
    EXPECT_EQ(history.value().Values("loss"), losses);
    if (c.validation_examples > 0) {
      EXPECT_EQ(history.value().Values("val_loss"), validation);
    }
    ExpectSameWeights(model.get(), reference.model());
    if (round == 1) return;
    EvaluateOptions quiet;
    quiet.verbose = Verbose::kSilent;
    const auto logs = model->Evaluate(examples.All(), quiet);
    ASSERT_OK(logs.status());
    EXPECT_EQ(*logs.value().Find("loss"), reference.Evaluate());
    const auto outputs = model->Predict(examples.All());
    ASSERT_OK(outputs.status());
    const Floats mine = reference.Predict();
    ASSERT_EQ(outputs.value().size(), mine.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      if (!std::isnan(mine[i])) {
        ASSERT_EQ(outputs.value()[i], mine[i]);
      }
    }
  }
}

TEST(GeometryTest, Fit_AnyShape_EqualsStepsOneByOne) {
  RandomCases cases("RINGLET_FIT", {}, /*part=*/1, /*share=*/2);
  while (!HasFailure() && cases.Next()) {
    const uint64_t i = cases.number();
    Draw draw(i);
    const FitCase c = DrawFit(&draw);
    SCOPED_TRACE(cases.command() + ": " + c.Describe());
    const Examples examples(c);
    if (c.workers == 1) {
      ExpectAsStepwise(c, examples, nullptr);
      continue;
    }
    RunRanks(c.workers, [&](Collective* collective) {
      SCOPED_TRACE("case " + std::to_string(i) + ", rank " +
                   std::to_string(collective->rank()) + ": " + c.Describe());
      ExpectAsStepwise(c, examples, collective);
    });
  }
}

// --- against double precision ---------------------------------------------

// A hidden layer and an output layer under softmax cross-entropy and SGD, by
// the definitions.
class DoubleNet {
 public:
  DoubleNet(const FitCase& c, const Examples& examples, const Floats& weights)
      : case_(c), examples_(examples), w_(weights.begin(), weights.end()) {}

  const std::vector<double>& weights() const { return w_; }

  // The sum of the losses of examples [first, end); the gradient of that is
  // added to `gradient` unless it is null.
  double LossOf(int64_t first, int64_t end,
                std::vector<double>* gradient) const {
    const int64_t n = case_.input.elements(), h = case_.hidden;
    const double* const b1 = w_.data() + n * h;
    const double* const w2 = b1 + h;
    const double* const b2 = w2 + h * kOutputs;
    std::vector<double> before(h), hidden(h), d_hidden(h), p(kOutputs);
    double loss = 0;
    for (int64_t e = first; e < end; ++e) {
      const float* const x = examples_.x.data() + e * n;
      std::copy_n(b1, h, hidden.begin());
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < h; ++j) hidden[j] += x[i] * w_[i * h + j];
      }
      before = hidden;
      for (double& v : hidden) v = naive::Activate(case_.activation, v);
      std::copy_n(b2, kOutputs, p.begin());
      for (int64_t j = 0; j < h; ++j) {
        for (int64_t k = 0; k < kOutputs; ++k) {
          p[k] += hidden[j] * w2[j * kOutputs + k];
        }
      }
      const double largest = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (const double z : p) sum += std::exp(z - largest);
      const int32_t label = examples_.classes[e];
      loss += largest - p[label] + std::log(sum);
      if (gradient == nullptr) continue;
      for (double& z : p) z = std::exp(z - largest) / sum;
      p[label] -= 1;
      double* const g = gradient->data();
      for (int64_t j = 0; j < h; ++j) {
        d_hidden[j] = 0;
        for (int64_t k = 0; k < kOutputs; ++k) {
          d_hidden[j] += p[k] * w2[j * kOutputs + k];
          g[(w2 - w_.data()) + j * kOutputs + k] += hidden[j] * p[k];
        }
        d_hidden[j] *= naive::Slope(case_.activation, before[j]);
        g[n * h + j] += d_hidden[j];
      }
      for (int64_t k = 0; k < kOutputs; ++k) g[(b2 - w_.data()) + k] += p[k];
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < h; ++j) g[i * h + j] += x[i] * d_hidden[j];
      }
    }
    return loss;
  }

  // The mean loss of an epoch's examples, each before its batch's update.
  double Train(double learning_rate) {
    const int64_t n = case_.train_examples();
    double loss = 0;
    for (int64_t at = 0; at < n; at += case_.batch) {
      const int64_t end = std::min(n, at + case_.batch);
      std::vector<double> gradient(w_.size());
      loss += LossOf(at, end, &gradient);
      const double scale = learning_rate / static_cast<double>(end - at);
      for (size_t i = 0; i < w_.size(); ++i) w_[i] -= scale * gradient[i];
    }
    return loss / static_cast<double>(n);
  }

 private:
  const FitCase& case_;
  const Examples& examples_;
  std::vector<double> w_;
};

void ExpectAsInDouble(const FitCase& c, const Examples& examples,
                      Collective* collective) {
  constexpr float kRate = 0.05f;
  const auto model = MakeModel(c, collective);
  DoubleNet reference(c, examples, WeightsOf(model.get()));
  FitOptions options = Quiet(c.epochs);
  if (c.validation_examples > 0) {
    options.validation_data = examples.Validation();
  }
  const auto history = model->Fit(examples.Train(), options);
  ASSERT_OK(history.status());
  for (int64_t epoch = 0; epoch < c.epochs; ++epoch) {
    const double loss = reference.Train(kRate);
    EXPECT_NEAR(history.value().Values("loss")[epoch], loss, 1e-5 * loss);
    if (c.validation_examples == 0) continue;
    const double validation =
        reference.LossOf(c.train_examples(), c.all_examples(), nullptr) /
        static_cast<double>(c.validation_examples);
    EXPECT_NEAR(history.value().Values("val_loss")[epoch], validation,
                1e-5 * validation);
  }
  for (size_t i = 0; i < reference.weights().size(); ++i) {
    ASSERT_NEAR(model->weights()[i], reference.weights()[i], 2e-6) << i;
  }
}

TEST(GeometryTest, Fit_AnyBatchAndValidation_FollowsDoublePrecision) {
  Draw draw(3);
  const auto run = [&](FitCase c) {
    c.kind = FitCase::Kind::kDense;
    c.loss = SparseCategoricalCrossentropy(kFromLogits);
    c.optimizer = SGD(0.05f);
    c.dropout = 0;
    c.regularized = c.drop_remainder = false;
    c.order = FitCase::Order::kPlain;
    c.steps_per_epoch = 0;
    SCOPED_TRACE(c.Describe());
    const Examples examples(c);
    if (c.workers == 1) return ExpectAsInDouble(c, examples, nullptr);
    RunRanks(c.workers, [&](Collective* collective) {
      ExpectAsInDouble(c, examples, collective);
    });
  };
  // Every batch size of the training with every batch size of the validation,
  // each with a short last batch.
  for (const int64_t batch : {1, 7, 32, 64, 96, 100, 128, 500, 1000}) {
    for (const int64_t validation :
         {batch, int64_t{1}, int64_t{64}, int64_t{256}, int64_t{1000}}) {
      FitCase c;
      c.input = {784};
      c.hidden = 16;
      c.activation = kTanh;
      c.batch = batch;
      c.validation_batch = validation;
      c.examples = 170 + (batch < 100 ? 0 : 30);
      c.validation_examples = 70;
      c.workers = static_cast<int>(draw.In(1, 2));
      c.threads = static_cast<int>(draw.In(1, 2));
      run(c);
      if (HasFailure()) return;
    }
  }
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    FitCase c = DrawFit(&draw);
    while (c.kind != FitCase::Kind::kDense) c = DrawFit(&draw);
    c.frozen = 0;
    run(c);
  }
}

// --- losses ---------------------------------------------------------------

// Only the existing `count` examples have losses, however many fit into the
// memory.
TEST(GeometryTest, Losses_FewerExamplesThanRoom_TouchTheirsOnly) {
  const Shape output = {kOutputs};
  for (const Loss& loss :
       {SparseCategoricalCrossentropy(),
        SparseCategoricalCrossentropy(kFromLogits), CategoricalCrossentropy(),
        CategoricalCrossentropy(kFromLogits, 0.1f), BinaryCrossentropy(),
        BinaryCrossentropy(kFromLogits), MeanSquaredError(),
        MeanAbsoluteError(), Huber(0.5f)}) {
    SCOPED_TRACE(loss.name());
    constexpr size_t kRoom = 9;
    const Floats all = RandomFloats(kRoom * kOutputs, 8);
    Floats whole_losses, whole_gradient;
    for (size_t count = kRoom; count > 0; --count) {
      Floats predictions(all.begin(), all.begin() + count * kOutputs);
      for (float& p : predictions) p = 0.5f + 0.4f * p;
      const std::vector<int32_t> classes(count, 1);
      const Floats targets(count * kOutputs, 0.25f);
      GuardedFloats losses(kRoom), gradient(kRoom * kOutputs);
      ASSERT_OK(ComputeLoss(
          loss, output, static_cast<int64_t>(count), predictions.data(),
          loss.takes_classes() ? static_cast<const void*>(classes.data())
                               : targets.data(),
          0.5f, losses.data(), gradient.data()));
      losses.ExpectUntouched(count, "losses");
      gradient.ExpectUntouched(count * kOutputs, "gradient");
      Floats values = losses.values(), slopes = gradient.values();
      values.resize(count);
      slopes.resize(count * kOutputs);
      if (count == kRoom) {
        whole_losses = values;
        whole_gradient = slopes;
      }
      // An example's numbers do not depend on those after it.
      EXPECT_TRUE(
          std::equal(values.begin(), values.end(), whole_losses.begin()));
      EXPECT_TRUE(
          std::equal(slopes.begin(), slopes.end(), whole_gradient.begin()));
    }
  }
}

}  // namespace
}  // namespace ringlet
