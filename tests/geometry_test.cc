// Every shape of a batch: what is planned for the largest one holds for all of
// them, and no number depends on how much memory there is.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/random.h"
#include "op_runner.h"

namespace ringlet {
namespace {

// Numbers drawn one after another.
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

OpCase DrawDense(Draw* draw) {
  OpCase c{Dense(draw->In(1, 130),
                 draw->Of({kLinear, kRelu, kSigmoid, kTanh, kSoftmax})),
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
  switch (draw->In(0, 8)) {
    case 0:
    case 1:
      return DrawDense(draw);
    case 2: {  // some of them large enough for several groups of images
      const Shape x = draw->Coin() ? image
                                   : Shape{draw->In(20, 40), draw->In(20, 40),
                                           draw->In(1, 2)};
      Layer layer = Conv2D(draw->Of<int64_t>({1, 3, 8, 16, 32}), 3,
                           draw->Of({kLinear, kRelu, kTanh, kSoftmax}));
      layer.UseBias(draw->Coin());
      return {DrawWindow(layer, x, draw), {x}};
    }
    case 3:
      return {DrawWindow(MaxPooling2D(2), image, draw), {image}};
    case 4:
      return {DrawWindow(AveragePooling2D(2), image, draw), {image}};
    case 5:
      return {ActivationLayer(
                  draw->Of({kLinear, kRelu, kSigmoid, kTanh, kSoftmax})),
              {image}};
    case 6:
      return {Dropout(draw->Of({0.0f, 0.3f, 0.9f})), {image}};
    case 7:
      return {Add(), std::vector<Shape>(draw->In(2, 4), image)};
    default: {
      std::vector<Shape> inputs(draw->In(2, 4), image);
      for (Shape& shape : inputs) shape[2] = draw->In(1, 5);
      return {Concatenate(), inputs};
    }
  }
}

std::string Describe(const OpCase& c, int64_t planned, int threads) {
  std::string s = std::string(ClassName(c.layer.kind)) + " of " +
                  std::to_string(c.layer.units) + " over";
  for (const Shape& shape : c.inputs) s += " " + shape.ToString();
  return s + ", planned for " + std::to_string(planned) + " on " +
         std::to_string(threads) + " threads";
}

bool SameBits(const Floats& a, const Floats& b) {
  if (a.empty() || a.size() != b.size()) return a.size() == b.size();
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Batch r in memory for `planned` gives the bits of r in memory for r, and
// nothing is touched that is not r's.
void ExpectTheSameOf(const OpCase& c, int64_t r, int64_t planned, int threads,
                     bool sink_takes) {
  OpRunner runner(c.layer, c.inputs);
  ASSERT_TRUE(runner.status().ok()) << runner.status().message();
  runner.sink_takes = sink_takes;
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

TEST(GeometryTest, OpsWorkInMemoryForMore) {
  Draw draw(1);
  for (int round = 0; round < 250; ++round) {
    const OpCase c = DrawOp(&draw);
    const int threads = static_cast<int>(draw.In(1, 3));
    const bool wide = c.layer.kind == Layer::Kind::kDense;
    const int64_t planned = draw.In(1, wide ? 300 : 12);
    SCOPED_TRACE(Describe(c, planned, threads));
    const OpRunner runner(c.layer, c.inputs);
    ASSERT_TRUE(runner.status().ok()) << runner.status().message();
    ExpectScratchGrows(runner.op(), planned, threads);
    for (const int64_t r :
         {int64_t{1}, draw.In(1, planned), draw.In(1, planned), planned}) {
      ExpectTheSameOf(c, r, planned, threads, draw.Coin());
    }
    if (HasFailure()) return;
  }
}

// The blocks of Dense at each of their sizes, to the float.
TEST(GeometryTest, DensePlansForTheWorstBatchAndNotForMore) {
  for (const int threads : {1, 2}) {
    for (const int64_t units : {10, 128}) {
      OpRunner runner(Dense(units), {{784}});
      const int64_t most = 16 * 48 * threads;  // rows of W at a time
      const auto takes = [&](int64_t rows, int64_t block) {
        return static_cast<size_t>(rows * units + block * (rows + units));
      };
      EXPECT_EQ(runner.op().backward_scratch(64, threads), takes(64, most));
      // 16 grains up to 64 rows, 8 at 128, 10 at 102.
      const size_t of_102 = takes(102, most / 16 * 10);
      EXPECT_EQ(runner.op().backward_scratch(128, threads),
                std::max({takes(64, most), of_102, takes(128, most / 2)}));
    }
  }
}

}  // namespace
}  // namespace ringlet
