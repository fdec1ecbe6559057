#include "losses.h"

#include <algorithm>
#include <cmath>

namespace ringlet {
namespace {

constexpr float kEpsilon = 1e-7f;  // Keras's backend epsilon

// One row of K values. `d` may be null; it is scaled by `scale`.
struct Row {
  int64_t width;
  const float* p;
  float* d;
  float scale;
};

float LogSumExp(int64_t width, const float* z) {
  const float largest = *std::max_element(z, z + width);
  if (!std::isfinite(largest)) return largest;
  float sum = 0;
  for (int64_t j = 0; j < width; ++j) sum += std::exp(z[j] - largest);
  return largest + std::log(sum);
}

float Clip(float p) { return std::min(std::max(p, kEpsilon), 1 - kEpsilon); }
bool Clipped(float p) { return !(p >= kEpsilon && p <= 1 - kEpsilon); }

float SparseFromLogits(const Row& row, int32_t label) {
  const float* z = row.p;
  const float total = LogSumExp(row.width, z);
  if (row.d != nullptr) {
    for (int64_t j = 0; j < row.width; ++j) {
      const float softmax = std::exp(z[j] - total);
      row.d[j] = row.scale * (softmax - (j == label ? 1.0f : 0.0f));
    }
  }
  return total - z[label];
}

// TensorFlow clips, takes logarithms and applies the loss from logits to them:
// log(sum of clipped p) - log(p[label]).
float SparseFromProbabilities(const Row& row, int32_t label) {
  float sum = 0;
  for (int64_t j = 0; j < row.width; ++j) sum += Clip(row.p[j]);
  const float chosen = Clip(row.p[label]);
  if (row.d != nullptr) {
    for (int64_t j = 0; j < row.width; ++j) {
      const float g = 1 / sum - (j == label ? 1 / chosen : 0.0f);
      row.d[j] = Clipped(row.p[j]) ? 0 : row.scale * g;
    }
  }
  return std::log(sum) - std::log(chosen);
}

float CategoricalFromLogits(const Row& row, const float* t, float smooth) {
  const float* z = row.p;
  const float uniform = smooth / static_cast<float>(row.width);
  const float total = LogSumExp(row.width, z);
  float loss = 0, weight = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    const float target = t[j] * (1 - smooth) + uniform;
    // 0 * inf counts as 0.
    if (target != 0) loss += target * (total - z[j]);
    weight += target;
  }
  if (row.d != nullptr) {
    for (int64_t j = 0; j < row.width; ++j) {
      const float target = t[j] * (1 - smooth) + uniform;
      row.d[j] = row.scale * (std::exp(z[j] - total) * weight - target);
    }
  }
  return loss;
}

float CategoricalFromProbabilities(const Row& row, const float* t,
                                   float smooth) {
  const float uniform = smooth / static_cast<float>(row.width);
  float sum = 0;
  for (int64_t j = 0; j < row.width; ++j) sum += row.p[j];
  float loss = 0, dot = 0;  // dot = sum of dL/dq q, with q = p / sum
  for (int64_t j = 0; j < row.width; ++j) {
    const float q = row.p[j] / sum;
    const float target = t[j] * (1 - smooth) + uniform;
    loss -= target * std::log(Clip(q));
    if (!Clipped(q)) dot -= target;
  }
  if (row.d != nullptr) {
    for (int64_t j = 0; j < row.width; ++j) {
      const float q = row.p[j] / sum;
      const float target = t[j] * (1 - smooth) + uniform;
      const float dq = Clipped(q) ? 0 : -target / q;
      row.d[j] = row.scale * (dq - dot) / sum;
    }
  }
  return loss;
}

float BinaryFromLogits(float x, float t, float* d) {
  const float e = std::exp(-std::fabs(x));
  *d = (x >= 0 ? 1 / (1 + e) : e / (1 + e)) - t;
  return std::max(x, 0.0f) - x * t + std::log1p(e);
}

float BinaryFromProbabilities(float p, float t, float* d) {
  const float q = Clip(p);
  *d = Clipped(p) ? 0 : (q - t) / (q * (1 - q));
  return -(t * std::log(q) + (1 - t) * std::log(1 - q));
}

// The loss of one value and its derivative.
float Elementwise(const Loss& loss, float p, float t, float* d) {
  const float e = p - t;
  switch (loss.kind) {
    case Loss::Kind::kMeanSquaredError:
      *d = 2 * e;
      return e * e;
    case Loss::Kind::kMeanAbsoluteError:
      *d = e > 0 ? 1.0f : e < 0 ? -1.0f : 0.0f;
      return std::fabs(e);
    case Loss::Kind::kHuber:
      if (std::fabs(e) <= loss.delta) {
        *d = e;
        return 0.5f * e * e;
      }
      *d = e > 0 ? loss.delta : -loss.delta;
      return loss.delta * std::fabs(e) - 0.5f * loss.delta * loss.delta;
    default:  // binary crossentropy
      t = t * (1 - loss.label_smoothing) + loss.label_smoothing / 2;
      return loss.from_logits ? BinaryFromLogits(p, t, d)
                              : BinaryFromProbabilities(p, t, d);
  }
}

float MeanOverRow(const Loss& loss, const Row& row, const float* t) {
  const float share = 1.0f / static_cast<float>(row.width);
  float sum = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    float d;
    sum += Elementwise(loss, row.p[j], t[j], &d);
    if (row.d != nullptr) row.d[j] = row.scale * share * d;
  }
  return sum * share;
}

float RowLoss(const Loss& loss, const Row& row, const void* targets,
              int64_t number) {
  const float* t = static_cast<const float*>(targets) + number * row.width;
  switch (loss.kind) {
    case Loss::Kind::kSparseCategoricalCrossentropy: {
      const int32_t label = static_cast<const int32_t*>(targets)[number];
      return loss.from_logits ? SparseFromLogits(row, label)
                              : SparseFromProbabilities(row, label);
    }
    case Loss::Kind::kCategoricalCrossentropy:
      return loss.from_logits
                 ? CategoricalFromLogits(row, t, loss.label_smoothing)
                 : CategoricalFromProbabilities(row, t, loss.label_smoothing);
    default:
      return MeanOverRow(loss, row, t);
  }
}

Loss Make(Loss::Kind kind, bool from_logits, float label_smoothing = 0) {
  Loss loss;
  loss.kind = kind;
  loss.from_logits = from_logits;
  loss.label_smoothing = label_smoothing;
  return loss;
}

}  // namespace

const char* Loss::class_name() const {
  switch (kind) {
    case Kind::kSparseCategoricalCrossentropy:
      return "SparseCategoricalCrossentropy";
    case Kind::kCategoricalCrossentropy:
      return "CategoricalCrossentropy";
    case Kind::kBinaryCrossentropy:
      return "BinaryCrossentropy";
    case Kind::kMeanSquaredError:
      return "MeanSquaredError";
    case Kind::kMeanAbsoluteError:
      return "MeanAbsoluteError";
    case Kind::kHuber:
      return "Huber";
  }
  return "Loss";
}

const char* Loss::name() const {
  switch (kind) {
    case Kind::kSparseCategoricalCrossentropy:
      return "sparse_categorical_crossentropy";
    case Kind::kCategoricalCrossentropy:
      return "categorical_crossentropy";
    case Kind::kBinaryCrossentropy:
      return "binary_crossentropy";
    case Kind::kMeanSquaredError:
      return "mean_squared_error";
    case Kind::kMeanAbsoluteError:
      return "mean_absolute_error";
    case Kind::kHuber:
      return "huber_loss";
  }
  return "loss";
}

Activation Loss::logits_activation() const {
  switch (kind) {
    case Kind::kSparseCategoricalCrossentropy:
    case Kind::kCategoricalCrossentropy:
      return kSoftmax;
    case Kind::kBinaryCrossentropy:
      return kSigmoid;
    default:
      return kLinear;
  }
}

Loss SparseCategoricalCrossentropy(FromLogits logits) {
  return Make(Loss::Kind::kSparseCategoricalCrossentropy, logits);
}
Loss CategoricalCrossentropy(FromLogits logits, float label_smoothing) {
  return Make(Loss::Kind::kCategoricalCrossentropy, logits, label_smoothing);
}
Loss BinaryCrossentropy(FromLogits logits, float label_smoothing) {
  return Make(Loss::Kind::kBinaryCrossentropy, logits, label_smoothing);
}
Loss MeanSquaredError() { return Make(Loss::Kind::kMeanSquaredError, false); }
Loss MeanAbsoluteError() { return Make(Loss::Kind::kMeanAbsoluteError, false); }
Loss Huber(float delta) {
  Loss loss = Make(Loss::Kind::kHuber, false);
  loss.delta = delta;
  return loss;
}

Status CheckLossShape(const Loss& loss, const Shape& output) {
  const bool categorical =
      loss.kind == Loss::Kind::kSparseCategoricalCrossentropy ||
      loss.kind == Loss::Kind::kCategoricalCrossentropy;
  if (categorical && (output.rank() < 1 || output.back() < 2)) {
    return InvalidArgument(
        "%s needs an output of two or more classes, not %s; use "
        "BinaryCrossentropy for one",
        loss.class_name(), output.ToString().c_str());
  }
  if (!(loss.label_smoothing >= 0 && loss.label_smoothing <= 1)) {
    return InvalidArgument("%s: label_smoothing must be in [0, 1], not %g",
                           loss.class_name(), loss.label_smoothing);
  }
  if (!(loss.delta > 0)) {
    return InvalidArgument("%s: delta must be > 0, not %g", loss.class_name(),
                           loss.delta);
  }
  return Status();
}

void ComputeLoss(const Loss& loss, const Shape& output, int64_t count,
                 const float* predictions, const void* targets, float scale,
                 float* per_example, float* d_predictions) {
  const int64_t width = output.back();
  const int64_t rows = output.elements() / width;
  const float share = 1.0f / static_cast<float>(rows);
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t number = i * rows + r;
      const Row row = {
          width, predictions + number * width,
          d_predictions == nullptr ? nullptr : d_predictions + number * width,
          scale * share};
      sum += RowLoss(loss, row, targets, number);
    }
    per_example[i] = sum * share;
  }
}

}  // namespace ringlet
