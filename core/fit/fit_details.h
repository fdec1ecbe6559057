// FitDetails: what the parts of ringlet know of a running fit, beside FitState.

#ifndef RINGLET_CORE_FIT_FIT_DETAILS_H_
#define RINGLET_CORE_FIT_FIT_DETAILS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../recovery/restore_source.h"
#include "ringlet/fit.h"
#include "ringlet/shape.h"

namespace ringlet {

// The newest file of the whole model that a callback has saved.
struct SavedModel {
  // Records that `model` was saved, with its weights in this type.
  void Record(Model* model, const std::string& file, Storage weights);
  // True if the file has the present weights and optimizer state.
  bool IsCurrent(Model* model) const;

  // The file; empty if no callback has saved one.
  std::string path;
  // False if the file has a weight that is infinite or NaN.
  bool is_finite = true;
  // A checksum of each tensor in the file. The list is empty if the file's
  // weights are rounded.
  std::vector<uint32_t> checksums;
  // True if another partition of an elastic job may still replace the file.
  bool is_shared = false;
};

struct FitDetails {
  SavedModel saved;
  // The result of a callback's save, in words: "the model is in m.safetensors".
  std::string saved_message;
  // The file from which a callback has restored the fit; empty if none has.
  std::string restored_from;

  // The source of the state, at the start or since the last loss.
  RestoreSource source = RestoreSource::kStart;
  bool in_memory() const { return source == RestoreSource::kMemory; }
  // True after a loss or a join, if this fit trained before it.
  bool after_loss = false;
  // Until the first step: this worker joins a running elastic job. If it alone
  // fails, the other workers continue without it.
  bool is_joining = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_FIT_DETAILS_H_
