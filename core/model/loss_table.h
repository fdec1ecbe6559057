// The table of losses: one row for each class, all that is known of it.
//
// Internal to core/ and io/. To add a loss: its Kind, its factory and the
// members it needs in losses.h; its formula in crossentropies.cc or
// regression_losses.cc; its row in losses.cc. JSON in both directions,
// docs/reference.md, the fingerprint that ranks compare and the checks of its
// settings follow from the row.

#ifndef RINGLET_CORE_MODEL_LOSS_TABLE_H_
#define RINGLET_CORE_MODEL_LOSS_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <variant>

#include "../base/interval.h"
#include "losses.h"

namespace ringlet {

// One row of `width` predictions, and its targets: `label` where the loss takes
// classes, otherwise t. `d` may be null; it is scaled by `scale`.
struct LossRow {
  int64_t width;
  const float* p;
  const float* t;
  int32_t label;
  float* d;
  float scale;

  void Set(int64_t j, double gradient) const {
    d[j] = static_cast<float>(scale * gradient);
  }
};

// The loss of a row, and its gradient where there is a `d`.
using RowLoss = double(const Loss& loss, const LossRow& row);

RowLoss SparseCrossentropyOfRow, CrossentropyOfRow, BinaryCrossentropyOfRow,
    BinaryFocalOfRow, CategoricalFocalOfRow, KLDivergenceOfRow;
RowLoss SquaredErrorOfRow, AbsoluteErrorOfRow, PercentageErrorOfRow,
    LogarithmicErrorOfRow, HuberOfRow, LogCoshOfRow, PoissonOfRow,
    CosineSimilarityOfRow, HingeOfRow, SquaredHingeOfRow, CategoricalHingeOfRow;

// A setting that not all losses have. An int is the only number that it takes;
// a null stands for the only value null.
struct LossField {
  const char* name;  // Keras's
  std::variant<float Loss::*, bool Loss::*, int, std::nullptr_t> value;
  Interval range = kAnyNumber;  // of a float
  bool written = true;
};

struct LossClass {
  const char* name;              // Keras's class name, which is written
  const char* aliases;           // other names of it, with a blank between two
  const char* object_name;       // what Keras calls an object of it
  bool takes_classes;            // see Loss::takes_classes
  bool categorical;              // a row is of two classes or more
  Activation logits_activation;  // see Loss::logits_activation
  const LossField* fields;       // as they are written
  size_t num_fields;
  RowLoss* row;

  const LossField* begin() const { return fields; }
  const LossField* end() const { return fields + num_fields; }
};

// In the order of Loss::Kind, without kCustom.
struct LossTable {
  const LossClass* begin() const { return first; }
  const LossClass* end() const { return first + count; }
  const LossClass* first;
  size_t count;
};
LossTable AllLosses();
// Not of a custom loss.
const LossClass& ClassOf(const Loss& loss);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_LOSS_TABLE_H_
