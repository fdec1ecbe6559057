// Halves: their rounding, and jobs with gradients that travel so.

#include "net/wire/wire_dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "../../support/threads.h"
#include "../../support/tiny_model.h"
#include "core/base/byte_order.h"
#include "net/ring/ring_collective.h"
#include "net/wire/packed_floats.h"

namespace ringlet {
namespace {

constexpr WireDtype kHalves[] = {WireDtype::kBfloat16, WireDtype::kFloat16};

float Widen(WireDtype dtype, uint16_t half) {
  float value = 0;
  SwapToLittle(&half, sizeof(half), 1);
  UnpackFloats(dtype, reinterpret_cast<const uint8_t*>(&half), 1,
               reinterpret_cast<uint8_t*>(&value));
  SwapToLittle(&value, sizeof(value), 1);
  return value;
}

// Packs, and checks that the sender keeps the receiver's value.
uint16_t Round(WireDtype dtype, float value) {
  uint16_t half = 0;
  SwapToLittle(&value, sizeof(value), 1);
  PackFloats(dtype, reinterpret_cast<uint8_t*>(&value), 1,
             reinterpret_cast<uint8_t*>(&half));
  SwapToLittle(&value, sizeof(value), 1);
  SwapToLittle(&half, sizeof(half), 1);
  const float widened = Widen(dtype, half);
  EXPECT_EQ(std::memcmp(&widened, &value, sizeof(value)), 0);
  return half;
}

// The definition, digit by digit: `bits` of precision, 2^least the last place.
double Nearest(float value, int bits, int least) {
  if (value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1, std::max(exponent - bits, least));
  return std::nearbyint(value / unit) * unit;  // ties to even
}

TEST(WireDtypeTest, Widen_EveryHalf_RoundsBackToItself) {
  for (const WireDtype dtype : kHalves) {
    for (int half = 0; half < 65536; ++half) {
      const float value = Widen(dtype, static_cast<uint16_t>(half));
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(Widen(dtype, Round(dtype, value))));
      } else {
        ASSERT_EQ(Round(dtype, value), half) << value;
      }
    }
  }
}

TEST(WireDtypeTest, Round_AnyFiniteFloat_IsToNearestEven) {
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) {
    uint32_t bits = random();
    if (i % 3 == 0) bits &= 0xffffe000;  // near a tie
    if (i % 3 == 1) bits = bits % (48u << 23) + (90u << 23) + (bits << 31);
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isnan(value) || std::isinf(value)) continue;
    const double brain = Nearest(value, 8, -133);
    if (std::abs(brain) <= std::numeric_limits<float>::max()) {
      ASSERT_EQ(Widen(WireDtype::kBfloat16, Round(WireDtype::kBfloat16, value)),
                brain)
          << value;
    }
    const double half = Nearest(value, 11, -24);
    ASSERT_EQ(Widen(WireDtype::kFloat16, Round(WireDtype::kFloat16, value)),
              std::abs(half) < 65536 ? half : half * INFINITY)
        << value;
  }
}

TEST(WireDtypeTest, Round_InfinityAndNan_StayWhatTheyAre) {
  for (const WireDtype dtype : kHalves) {
    for (const float value : {INFINITY, -INFINITY}) {
      EXPECT_EQ(Widen(dtype, Round(dtype, value)), value);
    }
    for (uint32_t bits : {0x7f800001u, 0xffffffffu, 0x7fc00000u}) {
      float nan;
      std::memcpy(&nan, &bits, sizeof(nan));
      EXPECT_TRUE(std::isnan(Widen(dtype, Round(dtype, nan))));
    }
    EXPECT_TRUE(std::signbit(Widen(dtype, Round(dtype, -0.0f))));
  }
}

TEST(WireDtypeTest, Names_EveryDtype_EqualNumpy) {
  for (const WireDtype dtype :
       {WireDtype::kFloat32, WireDtype::kBfloat16, WireDtype::kFloat16}) {
    WireDtype back;
    ASSERT_OK(WireDtypeFromName(WireDtypeName(dtype), &back));
    EXPECT_EQ(back, dtype);
  }
  WireDtype dtype = WireDtype::kFloat32;
  EXPECT_OK(WireDtypeFromName("BFloat16", &dtype));
  EXPECT_EQ(dtype, WireDtype::kBfloat16);
  const Status unknown = WireDtypeFromName("float8", &dtype);
  EXPECT_TRUE(Contains(unknown, "'float8'"));
  EXPECT_EQ(dtype, WireDtype::kBfloat16);
}

struct Outcome {
  Status status;
  std::vector<double> losses;
  std::vector<float> weights;
};

Outcome Train(Collective* collective) {
  Outcome outcome;
  CompileOptions compile(collective);
  compile.seed = 3;
  // 4,352 weights a layer: more than travels as float32 always.
  Sequential model(
      {Input({2}), Dense(64, kRelu), Dense(64, kRelu), Dense(64), Dense(3)});
  model.Compile(SGD(0.05f, 0.9f), SparseCategoricalCrossentropy(kFromLogits),
                {}, compile);
  FitOptions options = Quiet(10);
  options.steps_per_epoch = 3;
  options.check_replicas_every = 1;
  const auto history =
      model.Fit(Points(60).Shuffle(3).Repeat(20).Batch(12), options);
  outcome.status = history.status();
  if (!history.ok()) return outcome;
  outcome.losses = history->Values("loss");
  outcome.weights = WeightsOf(&model);
  return outcome;
}

std::vector<Outcome> TrainJob(int size, WireDtype dtype) {
  const std::vector<std::string> addresses = FreeAddresses(size);
  std::vector<Outcome> outcomes(size);
  RunThreads(size, [&](int r) {
    RingOptions options;
    options.addresses = addresses;
    options.worker = r;
    options.wire_dtype = dtype;
    std::unique_ptr<Collective> ring;
    outcomes[r].status = RingCollective::Open(options, &ring);
    if (outcomes[r].status.ok()) outcomes[r] = Train(ring.get());
  });
  return outcomes;
}

TEST(WireDtypeTest, Training_HalfPrecision_FollowsFloat32AndReplicasStayEqual) {
  for (int size = 2; size <= 4; ++size) {
    const std::vector<Outcome> exact = TrainJob(size, WireDtype::kFloat32);
    ASSERT_OK(exact[0].status);
    for (const WireDtype dtype : kHalves) {
      const std::vector<Outcome> ranks = TrainJob(size, dtype);
      const double near = dtype == WireDtype::kBfloat16 ? 2e-2 : 2e-3;
      for (const Outcome& rank : ranks) {
        ASSERT_OK(rank.status);
        EXPECT_EQ(rank.weights, ranks[0].weights);
        EXPECT_NE(rank.weights, exact[0].weights);  // 16 bits travelled
        for (size_t i = 0; i < rank.losses.size(); ++i) {
          EXPECT_NEAR(rank.losses[i], exact[0].losses[i], near) << i;
        }
      }
    }
  }
}

TEST(WireDtypeTest, Open_TreeWithFloat16_IsRefused) {
  RingOptions options;
  options.addresses = FreeAddresses(1);
  options.implementation = RingImplementation::kTree;
  options.wire_dtype = WireDtype::kFloat16;
  std::unique_ptr<Collective> ring;
  const Status status = RingCollective::Open(options, &ring);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "float16"));
}

// An option that all ranks must have in common. Both ends report both values.
struct Difference {
  const char* name;
  void (*change)(RingOptions*);
  const char* words[2];
};

class DifferenceTest : public testing::TestWithParam<Difference> {};

TEST_P(DifferenceTest, Open_OptionsDiffer_AreNamedOnBothSides) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  Status statuses[2];
  RunThreads(2, [&](int r) {
    RingOptions options;
    options.addresses = addresses;
    options.worker = r;
    options.start_timeout_seconds = 300;  // Open fails long before
    if (r == 1) GetParam().change(&options);
    std::unique_ptr<Collective> ring;
    statuses[r] = RingCollective::Open(options, &ring);
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    for (const char* word : GetParam().words) {
      EXPECT_TRUE(Contains(status, word));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, DifferenceTest,
    testing::Values(Difference{"dtype",
                               [](RingOptions* o) {
                                 o->wire_dtype = WireDtype::kBfloat16;
                               },
                               {"dtype bfloat16", "worker 0 float32"}},
                    Difference{"pack",
                               [](RingOptions* o) { o->bytes_per_pack = 4096; },
                               {"bytes_per_pack 4096", "worker 0 1048576"}},
                    Difference{"implementation",
                               [](RingOptions* o) {
                                 o->implementation = RingImplementation::kRing;
                               },
                               {"implementation RING", "worker 0 AUTO"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ringlet
