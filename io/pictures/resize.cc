// A new picture's values are fractions of whole numbers: for n pixels of m the
// centre of pixel i is at ((2 i + 1) m - n) / 2n. So sums and quotients of
// integers give the exact values.

#include "resize.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace ringlet {
namespace {

// A part of the picture along one axis.
struct Part {
  int64_t begin, size;
};

// The pixels that make one new pixel along an axis: `first` and those after
// it. Their weights are whole numbers.
struct PixelWeights {
  int64_t first = 0;
  std::vector<int64_t> weights;
};

int64_t FloorDiv(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

PixelWeights NearestWeights(int64_t i, int64_t count, const Part& part) {
  return {part.begin + (2 * i + 1) * part.size / (2 * count), {1}};
}

PixelWeights BilinearWeights(int64_t i, int64_t count, const Part& part) {
  const int64_t at = (2 * i + 1) * part.size - count;
  const int64_t floor = FloorDiv(at, 2 * count);
  const int64_t fraction = at - floor * 2 * count;
  if (floor < 0) return {part.begin, {2 * count}};
  if (floor + 1 >= part.size || fraction == 0) {
    return {part.begin + std::min(floor, part.size - 1), {2 * count}};
  }
  return {part.begin + floor, {2 * count - fraction, fraction}};
}

// New pixel i covers [i m, (i + 1) m), where a pixel has the size n.
PixelWeights AreaWeights(int64_t i, int64_t count, const Part& part) {
  const int64_t begin = i * part.size, end = begin + part.size;
  PixelWeights pixels;
  const int64_t first = begin / count;
  pixels.first = part.begin + first;
  for (int64_t p = first; p * count < end; ++p) {
    pixels.weights.push_back(std::min(end, (p + 1) * count) -
                             std::max(begin, p * count));
  }
  return pixels;
}

std::vector<PixelWeights> WeightsOfPixels(Interpolation interpolation,
                                          int64_t count, const Part& part) {
  std::vector<PixelWeights> pixels;
  for (int64_t i = 0; i < count; ++i) {
    pixels.push_back(interpolation == Interpolation::kNearest
                         ? NearestWeights(i, count, part)
                     : interpolation == Interpolation::kBilinear
                         ? BilinearWeights(i, count, part)
                         : AreaWeights(i, count, part));
  }
  return pixels;
}

int64_t SumOf(const PixelWeights& pixels) {
  int64_t sum = 0;
  for (const int64_t weight : pixels.weights) sum += weight;
  return sum;
}

// `in` is the first value of the pixels. Only values of these pixels are read.
int64_t WeightedSum(const PixelWeights& row, const PixelWeights& column,
                    const unsigned char* in, size_t row_bytes,
                    size_t channels) {
  int64_t sum = 0;
  for (const int64_t row_weight : row.weights) {
    int64_t row_sum = 0;
    for (size_t t = 0; t < column.weights.size(); ++t) {
      row_sum += column.weights[t] * in[t * channels];
    }
    sum += row_weight * row_sum;
    in += row_bytes;
  }
  return sum;
}

// Cuts out the middle part with the aspect ratio of `height` x `width`.
void Crop(const Picture& picture, int64_t height, int64_t width, Part* rows,
          Part* columns) {
  const auto part = [](int64_t size, int64_t other, int64_t to,
                       int64_t other_to) {
    const int64_t kept = std::clamp<int64_t>(other * to / other_to, 1, size);
    return Part{(size - kept) / 2, kept};
  };
  *rows = part(picture.height, picture.width, height, width);
  *columns = part(picture.width, picture.height, width, height);
}

}  // namespace

void Resize(const Picture& picture, Interpolation interpolation, bool crop,
            int64_t height, int64_t width, unsigned char* out) {
  Part rows = {0, picture.height}, columns = {0, picture.width};
  if (crop) Crop(picture, height, width, &rows, &columns);
  const auto channels = static_cast<size_t>(picture.channels);
  const size_t row_bytes = static_cast<size_t>(picture.width) * channels;
  const std::vector<PixelWeights> across =
      WeightsOfPixels(interpolation, width, columns);
  const std::vector<PixelWeights> down =
      WeightsOfPixels(interpolation, height, rows);
  const int64_t total_weight = SumOf(across[0]) * SumOf(down[0]);
  for (const PixelWeights& row : down) {
    for (const PixelWeights& column : across) {
      const unsigned char* const in =
          picture.pixels.data() + static_cast<size_t>(row.first) * row_bytes +
          static_cast<size_t>(column.first) * channels;
      for (size_t c = 0; c < channels; ++c) {
        const int64_t sum =
            WeightedSum(row, column, in + c, row_bytes, channels);
        *out++ = static_cast<unsigned char>((2 * sum + total_weight) /
                                            (2 * total_weight));
      }
    }
  }
}

}  // namespace ringlet
