// MelSpectrogram and MFCC against their formulas in float64.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/op_runner.h"
#include "../../support/python.h"
#include "core/layers/layer_kind.h"
#include "core/model/model_parts.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// A tone, a quieter one and noise.
Floats Sound(int64_t samples, uint64_t seed) {
  Floats sound = RandomFloats(static_cast<size_t>(samples), seed);
  for (size_t i = 0; i < sound.size(); ++i) {
    const auto t = static_cast<float>(i) / 16000;
    sound[i] = 0.01f * sound[i] + 0.5f * std::sin(2764.6f * t) +
               0.1f * std::sin(9000.0f * t + static_cast<float>(seed));
  }
  return sound;
}

std::string Fields(const Layer& l) {
  const bool mel = l.kind == Layer::Kind::kMelSpectrogram;
  std::ostringstream text;
  const double max_freq = std::isinf(l.max_freq)
                              ? static_cast<double>(l.sampling_rate / 2)
                              : double{l.max_freq};
  text.precision(17);
  text << (mel ? "MelSpectrogram" : "MFCC") << " fft_length=" << l.fft_length
       << " sequence_length=" << l.sequence_length
       << " sequence_stride=" << l.sequence_stride
       << " sampling_rate=" << l.sampling_rate
       << " num_mel_bins=" << l.num_mel_bins << " min_freq=" << l.min_freq
       << " max_freq=" << max_freq << " mag_exp=" << l.mag_exp
       << " power_to_db=" << l.power_to_db << " top_db=" << l.top_db
       << " min_power=" << l.min_power << " ref_power=" << l.ref_power
       << " num_mfcc=" << l.num_mfcc << " log_offset=" << l.log_offset
       << " htk=" << l.htk << " center=" << l.centered;
  return text.str();
}

Layer Small(Layer layer) {
  layer.fft_length = 256;
  layer.sequence_length = 200;
  layer.sequence_stride = 100;
  layer.num_mel_bins = 20;
  return layer;
}

// As MLPerf Tiny's anomaly detection computes it with librosa.
Layer LibrosaLogMel() {
  Layer layer = MFCC();
  layer.fft_length = layer.sequence_length = 1024;
  layer.sequence_stride = 512;
  layer.num_mel_bins = 128;
  layer.min_freq = 0;
  layer.max_freq = 8000;
  layer.mag_exp = 2;
  layer.power_to_db = layer.centered = true;
  layer.htk = false;
  layer.num_mfcc = 0;
  layer.log_offset = 2.220446049250313e-16f;
  return layer;
}

std::vector<Layer> Cases() {
  std::vector<Layer> all = {MelSpectrogram(), MFCC(), LibrosaLogMel(),
                            Small(MelSpectrogram()), Small(MFCC())};
  all.push_back(Small(MelSpectrogram()));
  all.back().power_to_db = false;
  all.back().mag_exp = 1.5f;
  all.push_back(Small(MelSpectrogram()));
  all.back().fft_length = 250;  // no power of 2
  all.back().top_db = 20;
  all.back().ref_power = 3;
  all.push_back(Small(MFCC()));
  all.back().fft_length = all.back().sequence_length = 201;  // odd
  all.back().power_to_db = all.back().centered = true;
  return all;
}

TEST(SpectrogramTest, EachLayer_RandomSamples_IsTheFormulaInFloat64) {
  const DataFiles files;
  const Floats sound = Sound(16000, 1);
  files.Write("x", std::string(reinterpret_cast<const char*>(sound.data()),
                               sound.size() * sizeof(float)));
  std::string cases;
  for (const Layer& layer : Cases()) cases += Fields(layer) + " x\n";
  files.Write("cases.txt", cases);
  const std::vector<std::string> lines =
      RunPython(Script("spectrogram_oracle.py") + files.root());
  ASSERT_EQ(lines.size(), Cases().size());
  for (size_t i = 0; i < lines.size(); ++i) {
    OpRunner op(Cases()[i], {{16000}});
    ASSERT_OK(op.status());
    std::istringstream values(lines[i]);
    double expected = 0, worst = 0;
    for (const float y : op.Run(1, {sound}, {}, {}).y) {
      ASSERT_TRUE(values >> expected) << i;
      worst = std::max(
          worst, std::fabs(y - expected) / std::max(1.0, std::fabs(expected)));
    }
    EXPECT_FALSE(values >> expected) << i;
    EXPECT_LE(worst, 1e-5) << Fields(Cases()[i]);
  }
}

TEST(SpectrogramTest, KeywordSpotting_OneSecond_HasShapeOfMlperfTiny) {
  EXPECT_EQ(OpRunner(MFCC(), {{16000}}).op().output(), Shape({49, 10}));
  EXPECT_EQ(OpRunner(MelSpectrogram(), {{16000}}).op().output(),
            Shape({128, 32}));
}

TEST(SpectrogramTest, Forward_AnyBatchAndThreads_GivesOneResult) {
  for (const Layer& layer : Cases()) {
    OpRunner op(layer, {{2100}});
    ASSERT_OK(op.status());
    Floats all;
    std::vector<Floats> each;
    for (uint64_t i = 0; i < 5; ++i) {
      const Floats x = Sound(2100, i);
      all.insert(all.end(), x.begin(), x.end());
      each.push_back(op.Run(1, {x}, {}, {}).y);
    }
    Floats expected;
    for (const Floats& y : each) {
      expected.insert(expected.end(), y.begin(), y.end());
    }
    EXPECT_EQ(op.Run(5, {all}, {}, {}).y, expected);
    EXPECT_EQ(op.Run(5, {all}, {}, {}, /*threads=*/2, /*planned=*/32).y,
              expected);
    EXPECT_EQ(op.Run(5, {all}, {}, {}, /*threads=*/4).y, expected);
  }
}

TEST(SpectrogramTest, Forward_Silence_IsFinite) {
  for (const Layer& layer : Cases()) {
    OpRunner op(layer, {{2100}});
    for (const float y : op.Run(1, {Floats(2100)}, {}, {}).y) {
      EXPECT_TRUE(std::isfinite(y));
    }
  }
}

TEST(SpectrogramTest, Make_WrongFields_AreRefused) {
  const auto error = [](Layer layer, const Shape& x) {
    return OpRunner(layer, {x}).status();
  };
  EXPECT_TRUE(Contains(error(MFCC(), {16000, 1}), "put a Reshape"));
  EXPECT_TRUE(Contains(error(MFCC(), {479}), "at least 480 samples, not 479"));
  EXPECT_TRUE(Contains(error(MelSpectrogram(), {1024}), "at least 1025"));
  Layer layer = MFCC();
  layer.max_freq = 8001;
  EXPECT_TRUE(Contains(error(layer, {16000}), "at most half"));
  layer = MFCC();
  layer.fft_length = 256;
  EXPECT_TRUE(Contains(error(layer, {16000}), "fft_length is 256"));
  layer = MFCC();
  layer.num_mfcc = 41;
  EXPECT_TRUE(Contains(error(layer, {16000}), "num_mfcc is 41"));
  layer.num_mel_bins = int64_t{1} << 40;
  EXPECT_TRUE(Contains(error(layer, {16000}), "num_mel_bins"));
}

// A number that a field of JSON refuses is refused here too, so a saved model
// can be loaded.
TEST(SpectrogramTest, Make_NumbersBeyondTheirFieldsRange_AreRefused) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const struct {
    Layer layer;
    float Layer::*member;
    float value;
    const char* error;
  } cases[] = {{MelSpectrogram(), &Layer::top_db, kInfinity, "top_db must be"},
               {MelSpectrogram(), &Layer::top_db, -5, "top_db must be"},
               {MelSpectrogram(), &Layer::min_power, 0, "min_power must be"},
               {MelSpectrogram(), &Layer::ref_power, NAN, "ref_power must be"},
               {MelSpectrogram(), &Layer::min_freq, -1, "min_freq must be"},
               {MFCC(), &Layer::mag_exp, -1, "mag_exp must be"},
               {MFCC(), &Layer::mag_exp, NAN, "mag_exp must be"},
               {MFCC(), &Layer::max_freq, NAN, "max_freq must be"},
               {MFCC(), &Layer::max_freq, -kInfinity, "max_freq must be"},
               {MFCC(), &Layer::log_offset, -1, "log_offset must be"}};
  for (const auto& c : cases) {
    Layer layer = c.layer;
    layer.*c.member = c.value;
    EXPECT_TRUE(Contains(OpRunner(layer, {{16000}}).status(), c.error));
  }
  const auto with = [](Layer layer, int64_t Layer::*member, int64_t value) {
    layer.*member = value;
    return OpRunner(layer, {{200000}}).status();
  };
  EXPECT_TRUE(Contains(with(MelSpectrogram(), &Layer::fft_length, 0),
                       "fft_length is 0"));
  EXPECT_TRUE(Contains(with(MFCC(), &Layer::sequence_length, 0),
                       "sequence_length is 0"));
  EXPECT_TRUE(Contains(with(MFCC(), &Layer::num_mfcc, -1), "num_mfcc is -1"));
  EXPECT_TRUE(Contains(with(MFCC(), &Layer::sequence_stride, 0),
                       "sequence_stride is 0"));
  EXPECT_TRUE(
      Contains(with(MFCC(), &Layer::num_mel_bins, 1025), "from 1 to 1024"));
  EXPECT_TRUE(Contains(with(MFCC(), &Layer::fft_length, 8193),
                       "above 8192 it must be a power of 2"));
  EXPECT_OK(with(MFCC(), &Layer::fft_length, 8192));
  EXPECT_OK(with(MFCC(), &Layer::fft_length, 65536));
}

// The fields of layers that read sound have no setters, which would be checked.
TEST(SpectrogramTest, Make_FieldsOfTheOtherLayer_AreRefused) {
  const auto error = [](Layer layer, auto Layer::*member, auto value) {
    layer.*member = value;
    return OpRunner(layer, {{16000}}).status();
  };
  EXPECT_TRUE(Contains(error(MelSpectrogram(), &Layer::num_mfcc, int64_t{13}),
                       "MelSpectrogram has no num_mfcc, which is of MFCC"));
  EXPECT_TRUE(Contains(error(MelSpectrogram(), &Layer::log_offset, 0.1f),
                       "no log_offset"));
  EXPECT_TRUE(Contains(error(MelSpectrogram(), &Layer::htk, false), "no htk"));
  EXPECT_TRUE(
      Contains(error(MelSpectrogram(), &Layer::centered, false), "no center"));
  EXPECT_TRUE(Contains(error(MFCC(), &Layer::top_db, 40.0f),
                       "MFCC has no top_db, which is of MelSpectrogram"));
  EXPECT_TRUE(Contains(error(MFCC(), &Layer::min_power, 1.0f), "no min_power"));
  EXPECT_TRUE(Contains(error(MFCC(), &Layer::ref_power, 2.0f), "no ref_power"));
}

TEST(SpectrogramTest, Compile_SamplingRatesOfOneSound_MustBeEqual) {
  const auto compile = [](int64_t rate, bool two_inputs, bool pool) {
    Layer first = Small(MFCC()), second = first;
    second.sampling_rate = rate;
    second.max_freq = first.max_freq = 2000;
    Functional model;
    const auto add = [&](const Layer& layer, int x) {
      return model.Add(layer, {x});
    };
    const int a = model.Add(Input({600}));
    int b = two_inputs ? model.Add(Input({600})) : a;
    b = add(Reshape({600, 1}), b);
    if (pool) b = add(AveragePooling1D(2), b);
    b = add(Flatten(), b);
    const int y = add(Flatten(), add(first, a));
    const int z = add(Flatten(), add(second, b));
    add(Dense(2), model.Add(Concatenate(), {y, z}));
    model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
    return model.status();
  };
  EXPECT_OK(compile(16000, /*two_inputs=*/false, /*pool=*/false));
  EXPECT_TRUE(Contains(
      compile(8000, /*two_inputs=*/false, /*pool=*/false),
      "layers 'mfcc' and 'mfcc_1' take the same sound, but with sampling_rate "
      "16000 and 8000; give both that of the files, or an Input each"));
  EXPECT_OK(compile(8000, /*two_inputs=*/true, /*pool=*/false));
  EXPECT_OK(compile(8000, /*two_inputs=*/false, /*pool=*/true));
}

// If its length is not a power of 2, a transform takes more multiply-adds.
TEST(SpectrogramTest, MultiplyAdds_AnyLength_CountsAllFrames) {
  Layer layer = Small(MFCC());
  const auto cost = [&](int64_t samples) {
    return OpRunner(layer, {{samples}}).op().multiply_adds();
  };
  const int64_t fast = cost(200);
  EXPECT_EQ(cost(1100), 10 * fast);
  layer.fft_length = 255;
  EXPECT_GT(cost(200), 5 * fast);
}

TEST(SpectrogramTest, TableBytes_AnyWrapper_CountsTheTablesOnce) {
  const auto bytes = [](const Layer& layer, const Shape& x) {
    Sequential model({Input(x), layer});
    EXPECT_OK(model.status());
    return ModelParts(&model).graph().TableBytes();
  };
  const uint64_t step_bytes = bytes(Small(MFCC()), {600});
  // The window, both halves of the circle, and the cosine transform.
  EXPECT_GT(step_bytes, (200 + 2 * 256 + 10 * 20) * sizeof(double));
  EXPECT_LT(step_bytes, 16384u);
  EXPECT_EQ(bytes(TimeDistributed(Small(MFCC())), {3, 600}), step_bytes);
  EXPECT_EQ(bytes(Dense(3), {600}), 0u);
}

// Backward of a layer that reads sound writes no gradient, whatever the layer
// is wrapped in.
TEST(SpectrogramTest, Compile_TrainedLayerBefore_IsRefused) {
  for (const Layer& sound : {Small(MFCC()), Small(MelSpectrogram())}) {
    Sequential nested({Input({600}), sound});
    const struct {
      Layer layer;
      Shape input;
    } cases[] = {{sound, {600}},
                 {TimeDistributed(sound), {2, 600}},
                 {nested.AsLayer(), {600}}};
    for (const auto& c : cases) {
      for (const bool trainable : {true, false}) {
        SCOPED_TRACE(ClassName(c.layer));
        Sequential model({Input(c.input), Dense(600).Trainable(trainable),
                          c.layer, Flatten(), Dense(2)});
        model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
        EXPECT_EQ(model.status().ok(), !trainable) << model.status().message();
        if (!trainable) continue;
        EXPECT_TRUE(Contains(model.status(), "passes no gradient on"));
      }
    }
  }
}

}  // namespace
}  // namespace ringlet
