// The table of losses: one row for each class, with all facts about it.
//
// To add a loss, add its Kind, its factory and the members that it needs to
// losses.h, its formula to crossentropies.cc or regression_losses.cc, and its
// row to losses.cc. JSON in both directions, docs/reference.md, the fingerprint
// that ranks compare and the checks of its settings follow from the row.

#ifndef RINGLET_CORE_OBJECTIVE_LOSS_TABLE_H_
#define RINGLET_CORE_OBJECTIVE_LOSS_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "config_field.h"
#include "ringlet/losses.h"

namespace ringlet {

// One row of `width` predictions and its targets: `label` for a loss that takes
// classes, otherwise `t`. If `d` is not null, the gradient times `scale` is
// written to it.
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

// Returns the loss of a row, and writes its gradient if `d` is not null.
using RowLoss = double(const Loss& loss, const LossRow& row);

RowLoss SparseCrossentropyOfRow, CrossentropyOfRow, BinaryCrossentropyOfRow,
    BinaryFocalOfRow, CategoricalFocalOfRow, KLDivergenceOfRow;
RowLoss SquaredErrorOfRow, AbsoluteErrorOfRow, PercentageErrorOfRow,
    LogarithmicErrorOfRow, HuberOfRow, LogCoshOfRow, PoissonOfRow,
    CosineSimilarityOfRow, HingeOfRow, SquaredHingeOfRow, CategoricalHingeOfRow;

struct LossClass {
  const char* name;              // Keras's class name, which is written
  const char* aliases;           // other names, separated by spaces
  const char* object_name;       // the Keras name of an object of it
  bool takes_classes;            // see Loss::takes_classes
  bool categorical;              // a row has two classes or more
  Activation logits_activation;  // see Loss::logits_activation
  FieldTable<Loss> fields;
  RowLoss* row;
};

// The losses in the order of Loss::Kind, without kCustom.
struct LossTable {
  const LossClass* begin() const { return first; }
  const LossClass* end() const { return first + count; }
  const LossClass* first;
  size_t count;
};
LossTable AllLosses();
// The loss's row. A custom loss has none.
const LossClass& ClassOf(const Loss& loss);

}  // namespace ringlet

#endif  // RINGLET_CORE_OBJECTIVE_LOSS_TABLE_H_
