// Fit, Evaluate and Predict: Keras's loops.
//
// Public. The options and results of Model's loops; the order of events is that
// of Keras 3's trainer. In a job of several workers every rank calls the same
// function with the same arguments.
//
//   model.Fit(dataset, options)       trains, and gives the History
//   model.Evaluate(dataset, options)  "loss" and the metrics over the dataset
//   model.Predict(dataset)            outputs (examples, output shape) in the
//                                     order of the dataset, on every rank
//
// Signals are the program's own, unless a callback takes them: BackupAndRestore
// and SaveWhenTrained save on SIGINT, SIGTERM and SIGHUP, and Fit returns.

#ifndef RINGLET_CORE_FIT_FIT_H_
#define RINGLET_CORE_FIT_FIT_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "../base/status.h"
#include "../data/dataset.h"
#include "../model/model.h"
#include "callback.h"

namespace ringlet {

// kAuto: the bar on a terminal, the line elsewhere.
enum class Verbose : uint8_t { kAuto, kSilent, kBar, kLine };

struct FitOptions {
  int64_t epochs = 1;
  int64_t initial_epoch = 0;
  // 0: an epoch is the dataset from a beginning to its end.
  int64_t steps_per_epoch = 0;
  Dataset validation_data;                 // none: no validation
  int64_t validation_steps = 0;            // 0: all of it
  int64_t validation_freq = 1;             // every so many epochs …
  std::vector<int64_t> validation_epochs;  // … or after these, from 1 on
  // What an example of a class counts in the loss and in weighted metrics while
  // training; a class that is not named counts 1. The class is the target's
  // number, or the largest of a one-hot target. Not with sample weights of the
  // dataset (Dataset::SampleWeight).
  ClassWeights class_weight;
  std::vector<std::shared_ptr<Callback>> callbacks;
  Verbose verbose = Verbose::kAuto;
  // Of the progress, each line flushed as it is made. The chief prints it;
  // another worker of a job one line at the start and one at the end.
  FILE* out = stdout;
  bool prefetch = true;  // prepare the next batch while this one computes
  // Every so many steps all ranks compare their weights (Model::CheckReplicas);
  // 0: never, but for what an elastic job keeps where rounds scatter its state.
  int64_t check_replicas_every = 100;
  // In an elastic job they compare, whenever they do so, what each computes in
  // a pass over the same examples too: a worker whose machine computes other
  // numbers is named and left out, and the others go on from where all had the
  // same (docs/membership.md).
  bool cross_check = true;
};

// The logs of each finished epoch.
struct History {
  std::vector<int64_t> epoch;
  std::vector<Logs> logs;
  // Values of `name` over the epochs; NaN where an epoch lacks it.
  std::vector<double> Values(const std::string& name) const;
};

struct EvaluateOptions {
  int64_t steps = 0;  // 0: to the end of the dataset
  Verbose verbose = Verbose::kAuto;
  FILE* out = stdout;
  bool prefetch = true;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_FIT_H_
