// FitPlan: what a fit was asked to do, checked, and as the ranks compare it.
//
// Internal to core/.

#ifndef RINGLET_CORE_FIT_FIT_PLAN_H_
#define RINGLET_CORE_FIT_FIT_PLAN_H_

#include <cstdint>

#include "../base/status.h"
#include "../data/dataset.h"
#include "../model/arrivals.h"
#include "../model/fingerprint.h"
#include "../model/model.h"
#include "fit.h"

namespace ringlet {

class FitPlan {
 public:
  // All outlive it. `number` counts the fits of the model that have completed,
  // and this one.
  FitPlan(const Model* model, int64_t number, const Dataset* dataset,
          const FitOptions* options)
      : model_(*model),
        number_(number),
        dataset_(*dataset),
        options_(*options) {}

  // The arguments, of this rank alone.
  Status Check() const;
  // Takes all the memory now, so that what is too large fails before it starts,
  // and looks at the data: what does not fit the model is refused before
  // anything was printed, restored or written.
  Status TryOut(Model* model) const;
  // kInvalidArgument on every rank where they differ; see Arrivals.
  Status Agree(const Arrivals& arrivals) const;

  int64_t number() const { return number_; }
  int64_t StepsPerEpoch() const;  // 0: not known
  bool Validates(int64_t epoch) const;
  Validation ValidationOfAll() const;
  // The data end before this step: with steps_per_epoch set, a dataset with an
  // end is read once over all epochs.
  bool RunsOut(int64_t epoch, int64_t step) const;
  // From this step on up to the epoch's or the data's end.
  int64_t StepsLeft(int64_t epoch, int64_t step) const;

 private:
  // Until the data end; INT64_MAX where they do not.
  int64_t StepsOfData(int64_t epoch, int64_t step) const;
  bool validates() const { return !options_.validation_data.empty(); }

  const Model& model_;
  const int64_t number_;
  const Dataset& dataset_;
  const FitOptions& options_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_FIT_PLAN_H_
