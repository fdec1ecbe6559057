#include "io/pictures/resize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/python.h"

namespace ringlet {
namespace {

using Pixels = std::vector<unsigned char>;

Picture RandomPicture(int64_t height, int64_t width, int channels,
                      std::mt19937* random) {
  Picture picture;
  picture.height = height;
  picture.width = width;
  picture.channels = channels;
  for (int64_t i = 0; i < picture.count() * channels; ++i) {
    picture.pixels.push_back(static_cast<unsigned char>((*random)()));
  }
  return picture;
}

Pixels Resized(const Picture& picture, Interpolation interpolation, bool crop,
               int64_t height, int64_t width) {
  Pixels pixels(static_cast<size_t>(height * width * picture.channels));
  Resize(picture, interpolation, crop, height, width, pixels.data());
  return pixels;
}

const std::pair<const char*, Interpolation> kInterpolations[] = {
    {"nearest", Interpolation::kNearest},
    {"bilinear", Interpolation::kBilinear},
    {"area", Interpolation::kArea}};

TEST(ResizeTest, Resize_OwnSize_ChangesNothing) {
  std::mt19937 random(3);
  const Picture picture = RandomPicture(5, 9, 3, &random);
  for (const auto& [name, interpolation] : kInterpolations) {
    EXPECT_EQ(Resized(picture, interpolation, false, 5, 9), picture.pixels)
        << name;
    EXPECT_EQ(Resized(picture, interpolation, true, 5, 9), picture.pixels)
        << name;
  }
}

TEST(ResizeTest, Resize_TwoPixels_HaveKerasValues) {
  Picture picture;
  picture.height = 1;
  picture.width = 2;
  picture.channels = 1;
  picture.pixels = {0, 100};
  // The centres of the new pixels are at -0.25, 0.25, 0.75 and 1.25.
  EXPECT_EQ(Resized(picture, Interpolation::kBilinear, false, 1, 4),
            Pixels({0, 25, 75, 100}));
  EXPECT_EQ(Resized(picture, Interpolation::kNearest, false, 1, 4),
            Pixels({0, 0, 100, 100}));
  EXPECT_EQ(Resized(picture, Interpolation::kArea, false, 1, 1), Pixels({50}));
  EXPECT_EQ(Resized(picture, Interpolation::kArea, false, 1, 3),
            Pixels({0, 50, 100}));
}

TEST(ResizeTest, Resize_RandomPictures_AreWithinHalfOfFloat64) {
  if (!HavePython()) GTEST_SKIP() << "no python3 with NumPy";
  const DataFiles files;
  std::mt19937 random(1);
  const auto size = [&](uint32_t most) {
    return 1 + static_cast<int64_t>(random() % most);
  };
  std::vector<Pixels> all;
  std::string cases;
  for (int i = 0; i < 300; ++i) {
    const auto& [name, interpolation] = kInterpolations[i % 3];
    const int channels = i % 2 == 0 ? 1 : 3;
    const Picture picture =
        RandomPicture(size(20), size(20), channels, &random);
    const int64_t height = size(20), width = size(20);
    const bool crop = i % 5 == 0;
    all.push_back(Resized(picture, interpolation, crop, height, width));
    const std::string file = std::to_string(i);
    files.Write(file, {picture.pixels.begin(), picture.pixels.end()});
    std::ostringstream line;
    line << picture.height << ' ' << picture.width << ' ' << channels << ' '
         << height << ' ' << width << ' ' << name << ' ' << crop << ' ' << file
         << '\n';
    cases += line.str();
  }
  files.Write("cases.txt", cases);
  const std::vector<std::string> lines =
      RunPython(Script("resize_oracle.py") + files.root());
  ASSERT_EQ(lines.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    std::istringstream values(lines[i]);
    double expected = 0;
    size_t count = 0;
    for (const unsigned char pixel : all[i]) {
      ASSERT_TRUE(values >> expected) << i;
      EXPECT_LE(std::fabs(pixel - expected), 0.5 + 1e-9) << i;
      ++count;
    }
    EXPECT_FALSE(values >> expected) << i;
  }
}

}  // namespace
}  // namespace ringlet
