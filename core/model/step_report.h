// StepReport: what each rank tells the others of a step: its replicas' parts of
// the loss and the metrics, a row each, what a replica took it in the step
// before, and a note.
//
// Internal to core/. It travels while the gradients are computed, all states in
// each step: between two steps every rank has the same running values, as logs,
// callbacks and a rank that takes another's place need them. So a metric keeps
// few sums; the largest usual one, AUC, sends 3.2 KB a replica.

#ifndef RINGLET_CORE_MODEL_STEP_REPORT_H_
#define RINGLET_CORE_MODEL_STEP_REPORT_H_

#include <vector>

#include "../base/status.h"
#include "compile_config.h"
#include "gradient_exchange.h"
#include "metrics.h"
#include "model_memory.h"

namespace ringlet {

class StepReport {
 public:
  // `config` outlives it.
  explicit StepReport(const CompileConfig* config) : config_(*config) {}

  // After the metrics were resolved.
  void Reset();

  // One replica's part: the sum of its examples' losses, and of those of each
  // output; what the outputs are is in `memory`.
  Status Compute(const Batch& batch, double loss_sum,
                 const std::vector<double>& loss_sums, const Graph& graph,
                 const ModelMemory& memory);
  const MetricState* mine() const { return mine_.data(); }  // the last one's
  // What was computed last is that of this rank's number `replica` …
  void Keep(int replica);
  // … or is added to what it has; first of all it is to have nothing.
  void Clear(int replica);
  void Add(int replica);
  // It has nothing, for it was late.
  void LeaveOut(int replica);

  // Nanoseconds, by a rank's own clock; 0: not measured. Until the next call or
  // Reset.
  void SetReplicaNanos(int64_t nanos) { replica_nanos_ = nanos; }
  Status Send(unsigned char note, GradientExchange* exchange);
  // Every rank's notes and, unless one has a note (!= 0), the sums.
  Status Receive(GradientExchange* exchange);
  const std::vector<unsigned char>& notes() const { return notes_; }
  bool has_note() const;
  // Of the last Receive without a note, added in the order of the replicas.
  const MetricState* sums() const { return sums_.data(); }
  // Of that: the examples of each replica of the job.
  const std::vector<double>& examples() const { return examples_; }
  int late() const { return late_; }  // replicas
  // What every rank's SetReplicaNanos said, by rank; never below 0.
  const std::vector<int64_t>& replica_nanos() const { return all_nanos_; }

 private:
  double AddRow(const unsigned char* row);  // of so many examples
  unsigned char* RowOf(int replica);
  size_t state_bytes() const { return mine_.size() * sizeof(MetricState); }

  const CompileConfig& config_;
  std::vector<MetricState> mine_;
  std::vector<MetricState> sums_;
  std::vector<double> examples_;
  int late_ = 0;
  std::vector<unsigned char> notes_;  // by rank
  int64_t replica_nanos_ = 0;
  std::vector<int64_t> all_nanos_;  // by rank
  // A report is rows of states as little-endian doubles, as many on each rank,
  // the nanoseconds, a little-endian integer of 8 bytes, and the note.
  std::vector<unsigned char> sent_;
  std::vector<unsigned char> received_;  // rank after rank
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_STEP_REPORT_H_
