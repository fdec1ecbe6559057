// FitPlan: the checked arguments of a fit, and their comparison between ranks.

#ifndef RINGLET_CORE_FIT_FIT_PLAN_H_
#define RINGLET_CORE_FIT_FIT_PLAN_H_

#include <cstdint>
#include <optional>

#include "../exchange/joining_members.h"
#include "../model/fingerprint.h"
#include "ringlet/dataset.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

class FitPlan {
 public:
  // All arguments outlive the FitPlan. `number` is the number of completed fits
  // of the model, plus one.
  FitPlan(const Model* model, int64_t number, const Dataset* dataset,
          const FitOptions* options)
      : model_(*model),
        number_(number),
        dataset_(*dataset),
        options_(*options) {}

  // Checks the arguments of this rank.
  Status Check() const;
  // Reserves all memory and reads some data. So a lack of memory, or data that
  // do not fit the model, are errors before anything is printed, restored or
  // written. Call it before Agree.
  Status ReserveAndProbe(Model* model);
  // kInvalidArgument on every rank if the ranks' arguments differ; see
  // JoiningMembers.
  Status Agree(const JoiningMembers& joining) const;

  int64_t number() const { return number_; }
  int64_t StepsPerEpoch() const;  // zero if unknown
  bool Validates(int64_t epoch) const;
  Validation ValidationOfAll() const;
  // True if the data end before this step. With steps_per_epoch, a dataset with
  // an end is read once over all epochs.
  bool IsDataExhausted(int64_t epoch, int64_t step) const;
  // Returns the number of steps from `step` to the end of the epoch or of the
  // data.
  int64_t StepsLeft(int64_t epoch, int64_t step) const;

 private:
  // Steps to the end of the data; INT64_MAX for endless data.
  int64_t StepsOfData(int64_t epoch, int64_t step) const;
  bool validates() const { return !options_.validation_data.empty(); }
  void ReadContent(const Dataset& dataset, std::optional<uint64_t>* content);

  const Model& model_;
  const int64_t number_;
  const Dataset& dataset_;
  const FitOptions& options_;
  // Checksums of data that all workers must have in common; none if each worker
  // has its own.
  std::optional<uint64_t> content_, validation_content_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_FIT_PLAN_H_
