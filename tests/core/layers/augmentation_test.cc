// Layers that change images, against their definitions in NumPy, which get the
// numbers that were drawn (tests/augmentation_oracle.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/draw.h"
#include "../../support/expect_ok.h"
#include "../../support/op_checks.h"
#include "../../support/python.h"
#include "io/keras/layer_json.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

bool HasNumpy() {
  const std::string command =
      std::string(kPython) + " -c 'import numpy' > /dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}

// A number of [low, high] with a few digits.
float Number(Draw* draw, float low, float high) {
  return low + (high - low) * static_cast<float>(draw->From(0, 64)) / 64;
}

FloatRange SomeRange(Draw* draw, float low, float high) {
  return {Number(draw, low, high), Number(draw, low, high)};
}

// The layers in the order of their Kinds, each with random settings.
Layer SomeLayer(int number, Draw* draw) {
  const auto filled = [&](Layer layer) {
    return layer.FillMode(static_cast<FillMode>(draw->From(0, 3)))
        .FillValue(Number(draw, -2, 2))
        .Interpolation(static_cast<Interpolation>(draw->From(0, 1)));
  };
  const int64_t height = draw->From(1, 12), width = draw->From(1, 12);
  switch (number) {
    case 0:
      return RandomFlip(static_cast<FlipMode>(draw->From(0, 2)));
    case 1:
      return filled(
          RandomTranslation(SomeRange(draw, -1, 1), Number(draw, -1, 1)));
    case 2:
      return filled(RandomRotation(SomeRange(draw, -1, 1)));
    case 3:
      return filled(draw->From(0, 1) == 0 ? RandomZoom(SomeRange(draw, -1, 1))
                                          : RandomZoom(SomeRange(draw, -1, 1),
                                                       SomeRange(draw, -1, 1)));
    case 4:
      return RandomCrop(height, width);
    case 5:
      return RandomContrast(Number(draw, 0, 1), Number(draw, 0, 1))
          .ValueRange(-Number(draw, 0, 1), Number(draw, 0.5f, 1));
    case 6:
      return RandomBrightness(SomeRange(draw, -1, 1))
          .ValueRange(-Number(draw, 0, 1), Number(draw, 0.5f, 1));
    case 7:
      return CenterCrop(height, width);
    default: {
      const int64_t form = draw->From(0, 2);
      return Resizing(height, width)
          .Interpolation(static_cast<Interpolation>(draw->From(0, 1)))
          .CropToAspectRatio(form == 1)
          .PadToAspectRatio(form == 2)
          .FillValue(Number(draw, -2, 2));
    }
  }
}
constexpr int kLayers = 9;

std::string Config(const Layer& layer) {
  JsonWriter w;
  w.BeginObject();
  WriteConfig(&w, layer);
  w.EndObject();
  return w.text();
}

// The numbers that the runner's examples draw.
std::string Units(int64_t batch, const OpRunner& runner) {
  const Philox random(3, static_cast<uint64_t>(runner.counter));
  std::ostringstream out;
  out.precision(17);
  for (int64_t i = 0; i < batch; ++i) {
    out << (i == 0 ? "[" : ", [");
    const Philox::Block words = random.At(4 * static_cast<uint64_t>(i));
    for (size_t k = 0; k < 4; ++k) {
      out << (k == 0 ? "" : ", ") << double{Philox::Unit(words[k])};
    }
    out << "]";
  }
  return "[" + out.str() + "]";
}

std::string Bytes(const Floats& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(float));
}

TEST(AugmentationTest, EachLayer_SomeThousandDraws_EqualsKerasInNumPy) {
  if (!HasNumpy()) GTEST_SKIP() << kPython << " has no numpy";
  if (std::string(kByteOrder) == ">") GTEST_SKIP() << "a big-endian machine";
  const DataFiles files;
  std::string cases;
  for (int number = 0; number < 33 * kLayers; ++number) {
    Draw draw(static_cast<uint64_t>(number));
    const Layer layer = SomeLayer(number % kLayers, &draw).Name("it");
    const Shape image = {draw.From(1, 9), draw.From(1, 9), draw.From(1, 4)};
    const int64_t batch = number % 11 == 0 ? 1 : 32 + draw.From(0, 7);
    OpRunner runner(layer, {image});
    ASSERT_OK(runner.status());
    runner.counter = number;
    runner.training = number % 7 != 0;
    const Floats x = RandomInputs({image}, batch)[0];
    const Floats dy = RandomFloats(
        static_cast<size_t>(batch * runner.op().output().elements()), 55);
    const OpRun run =
        runner.Run(batch, {x}, {}, runner.training ? dy : Floats(), 2);
    const std::string name = std::to_string(number);
    files.Write(name + ".x", Bytes(x));
    files.Write(name + ".y", Bytes(run.y));
    files.Write(name + ".dy", Bytes(dy));
    files.Write(name + ".dx", Bytes(runner.training ? run.dx[0] : x));
    std::ostringstream line;
    line << "{\"class\": \"" << ClassName(layer)
         << "\", \"config\": " << Config(layer) << ", \"shape\": [" << image[0]
         << ", " << image[1] << ", " << image[2]
         << "], \"training\": " << (runner.training ? "true" : "false");
    for (const char* const file : {"x", "y", "dy", "dx"}) {
      line << ", \"" << file << "\": \"" << name << "." << file << "\"";
    }
    std::string config = line.str();
    config.erase(std::remove(config.begin(), config.end(), '\n'), config.end());
    cases += config + ", \"units\": " + Units(batch, runner) + "}\n";
  }
  files.Write("cases.txt", cases);
  const std::vector<std::string> lines =
      RunPython(Script("augmentation_oracle.py") + files.root());
  EXPECT_EQ(lines.size(), static_cast<size_t>(kLayers));
  for (const std::string& line : lines) {  // class, images, error
    const size_t at = line.find(' ');
    ASSERT_NE(at, std::string::npos);
    EXPECT_GT(std::atoi(line.c_str() + at), 1000) << line;
  }
}

// The draws of an example do not depend on the number of examples, on threads
// or on the memory.
TEST(AugmentationTest, Example_AnyBatch_HasTheSameBits) {
  for (int number = 0; number < kLayers; ++number) {
    for (const Shape& image :
         {Shape{1, 1, 1}, Shape{2, 3, 3}, Shape{9, 7, 4}}) {
      Draw draw(static_cast<uint64_t>(number) + 100);
      const Layer layer = SomeLayer(number, &draw);
      SCOPED_TRACE(ClassName(layer));
      ExpectSameBits(layer, {image}, 7);
      OpRunner runner(layer, {image});
      const Floats x = RandomInputs({image}, 100)[0];
      const Floats all = runner.Run(100, {x}, {}, {}, 3).y;
      for (const int64_t batch : {1, 32, 68}) {
        const auto inputs = static_cast<ptrdiff_t>(batch * image.elements());
        const auto outputs =
            static_cast<ptrdiff_t>(batch * runner.op().output().elements());
        EXPECT_EQ(
            runner.Run(batch, {Floats(x.begin(), x.begin() + inputs)}, {}, {})
                .y,
            Floats(all.begin(), all.begin() + outputs));
      }
    }
  }
}

TEST(AugmentationTest, Step_WithAnotherCounter_DrawsOtherNumbers) {
  for (int number = 0; number < 7; ++number) {
    Draw draw(7);
    const Layer layer =
        number == 4 ? RandomCrop(3, 3) : SomeLayer(number, &draw);
    SCOPED_TRACE(ClassName(layer));
    OpRunner runner(layer, {{8, 8, 2}});
    const Floats x = RandomInputs({{8, 8, 2}}, 20)[0];
    const Floats first = runner.Run(20, {x}, {}, {}).y;
    EXPECT_EQ(runner.Run(20, {x}, {}, {}).y, first);
    runner.counter = 6;
    EXPECT_NE(runner.Run(20, {x}, {}, {}).y, first);
    runner.training = false;
    if (number == 4) continue;  // y has another size than x
    EXPECT_EQ(runner.Run(20, {x}, {}, {}).y, x);
  }
}

TEST(AugmentationTest, RandomFlip_Images_AreWholeOrMirrored) {
  OpRunner runner(RandomFlip(FlipMode::kHorizontal), {{1, 3, 1}});
  Floats x;
  for (int i = 0; i < 200; ++i) x.insert(x.end(), {1, 2, 3});
  const Floats y = runner.Run(200, {x}, {}, {}).y;
  int flipped = 0;
  for (size_t i = 0; i < y.size(); i += 3) {
    EXPECT_EQ(y[i + 1], 2);
    EXPECT_EQ(y[i] + y[i + 2], 4);
    flipped += y[i] == 3;
  }
  EXPECT_NEAR(flipped, 100, 30);
}

TEST(AugmentationTest, RandomContrast_LowerAboveUpper_KeepsBoth) {
  OpRunner runner(RandomContrast(0.5f, 0.25f).ValueRange(-9, 9), {{1, 2, 1}});
  Floats x;
  for (int i = 0; i < 1000; ++i) x.insert(x.end(), {-1, 1});
  const Floats y = runner.Run(1000, {x}, {}, {}).y;
  const auto [least, most] = std::minmax_element(
      y.begin(), y.end(),
      [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  EXPECT_NEAR(std::fabs(*least), 0.5f, 0.01f);
  EXPECT_NEAR(std::fabs(*most), 1.25f, 0.01f);
}

TEST(AugmentationTest, Gradients_EachLayer_MatchTheOutputs) {
  CheckGradients(RandomTranslation({0.1f, 0.3f}, 0.3f), {{4, 5, 2}}, 3, 2);
  CheckGradients(RandomRotation(0.5f).FillMode(FillMode::kConstant),
                 {{4, 5, 2}}, 3, 2);
  CheckGradients(RandomZoom(0.5f).FillMode(FillMode::kWrap), {{4, 5, 2}}, 3);
  CheckGradients(RandomContrast(0.5f, 0.9f).ValueRange(-9, 9), {{4, 5, 2}}, 3);
  CheckGradients(RandomCrop(3, 2), {{4, 5, 2}}, 3);
  CheckGradients(Resizing(7, 3), {{4, 5, 2}}, 3);
}

TEST(AugmentationTest, Layer_DoesNotFit_ErrorNamesIt) {
  const auto expect = [](const Layer& layer, const Shape& x,
                         const std::string& part) {
    const std::string text = OpRunner(layer, {x}).status().message();
    EXPECT_TRUE(Contains(text, part));
  };
  const Shape image = {4, 4, 1};
  expect(RandomFlip(), {4, 4}, "(height, width, channels)");
  expect(RandomTranslation(2, 0), image, "height_factor must be a number in");
  expect(RandomTranslation(0, FloatRange()), image,
         "width_factor must be a number in [-1, 1], or [lower, upper], not "
         "none");
  expect(RandomZoom(0, {0.1f, NAN}), image, "width_factor must be");
  expect(RandomRotation({0, NAN}), image, "factor must be a number in [-1, 1]");
  expect(RandomZoom(0, {-2, 0}), image, "width_factor must be");
  expect(RandomContrast(-0.5f), image, "numbers >= 0 with lower <= 1");
  expect(RandomContrast(2, 2), image, "lower <= 1, not [2, 2]");
  expect(RandomContrast(1, -0.5f), image, "factor must be");
  expect(RandomBrightness(1.5f), image, "factor must be a number in");
  expect(RandomBrightness(1).ValueRange(0, INFINITY), image, "value_range");
  expect(RandomCrop(0, 1), image, "height and width must be");
  expect(Resizing(INT64_MAX, 1), image, "height and width must be");
  expect(Resizing(int64_t{1} << 20, int64_t{1} << 20), image, "too large");
  expect(Resizing(2, 2).Interpolation(Interpolation::kArea), image, "\"area\"");
  expect(RandomZoom(0).Interpolation(Interpolation::kArea), image, "\"area\"");
  expect(Resizing(2, 2).CropToAspectRatio(true).PadToAspectRatio(true), image,
         "only one of");
  expect(Resizing(int64_t{1} << 25, 1).PadToAspectRatio(true), {1, 16384, 1},
         "which is too large");
  expect(CenterCrop(2, 2).FillValue(1), image, "CenterCrop has no fill_value");
}

}  // namespace
}  // namespace ringlet
