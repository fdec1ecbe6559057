// StepReport: what each rank tells the others of a step: its part of the loss
// and the metrics, and a note.
//
// Internal to core/. It travels while the gradients are computed.

#ifndef RINGLET_CORE_MODEL_STEP_REPORT_H_
#define RINGLET_CORE_MODEL_STEP_REPORT_H_

#include <vector>

#include "../base/status.h"
#include "compile_config.h"
#include "gradient_exchange.h"
#include "metrics.h"

namespace ringlet {

class StepReport {
 public:
  // `config` outlives it.
  explicit StepReport(const CompileConfig* config) : config_(*config) {}

  // After the metrics were resolved.
  void Reset();

  // This rank's part: the sum of its examples' losses, and their outputs.
  Status Compute(const Batch& batch, double loss_sum, const Shape& output,
                 const float* outputs);
  const MetricState* mine() const { return mine_.data(); }

  Status Send(unsigned char note, GradientExchange* exchange);
  // Every rank's notes and, unless one has a note (!= 0), the sums.
  Status Receive(GradientExchange* exchange);
  const std::vector<unsigned char>& notes() const { return notes_; }
  bool has_note() const;
  // Of the last Receive without a note, added in the order of the ranks.
  const MetricState* sums() const { return sums_.data(); }

 private:
  size_t state_bytes() const { return mine_.size() * sizeof(MetricState); }

  const CompileConfig& config_;
  std::vector<MetricState> mine_;
  std::vector<MetricState> sums_;
  std::vector<unsigned char> notes_;  // by rank
  // A report is the states as little-endian doubles, and the note.
  std::vector<unsigned char> sent_;
  std::vector<unsigned char> received_;  // rank after rank
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_STEP_REPORT_H_
