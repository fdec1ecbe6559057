// CTraining: the parts that a C file needs for training, besides the model: the
// loss, the optimizer, and the state that the file's model_save writes.

#ifndef RINGLET_IO_EXPORT_C_C_TRAINING_H_
#define RINGLET_IO_EXPORT_C_C_TRAINING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "c_helpers.h"
#include "c_interface.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

struct CTraining {
  // Returns an error if C cannot train the compiled model with its outputs,
  // optimizer, loss, trained weights and masks. A step has at most `batch_size`
  // examples. Weights with these paths are not trained.
  Status Make(const Model& trained, int64_t batch_size,
              const std::vector<std::string>& frozen);

  int64_t numbers() const { return OffsetOf(nullptr); }
  // Returns the offset of a weight among the trained weights; -1 if it is not
  // trained. For null, returns the number of all trained numbers.
  int64_t OffsetOf(const Variable* weight) const;
  bool IsTrained(const Variable* weight) const {
    return weight != nullptr && OffsetOf(weight) >= 0;
  }
  size_t tensors() const;
  int64_t state_bytes() const;

  // The lines about training in the first comment of the file, and the lines of
  // code that follow this comment.
  std::string Comment() const;
  std::string Includes() const;
  // The trained weights and the memory of a step.
  std::string Memory(const float* weights) const;
  int64_t memory_bytes() const { return 4 * numbers() * (2 + slots) + 12; }
  // Adds the helper functions that the functions of training call.
  void AddHelpers(CHelpers* helpers) const;
  // All functions of training. They call forward, backward and end_step.
  std::string Functions(const CInterface& c) const;

  const Model* model = nullptr;
  int64_t batch = 1;
  bool takes_logits = false;  // the loss takes the input of the last activation
  Loss loss;
  int slots = 0;
  std::vector<const Variable*> variables;  // in the order of their gradients
  // `header` has the bytes of a saved state before its tensors. `footer` has
  // the bytes of the footer before its checksums (docs/checkpoint_format.md).
  std::string header, footer;
};

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_TRAINING_H_
