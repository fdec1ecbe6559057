// StepReport: the report that each rank sends to the other ranks in a step. It
// has a row for each of the rank's replicas (loss and metrics), and the time of
// a replica in the previous step. It also has the rank's request to give up the
// step (0 if there is none; see StopRequests).
//
// It is sent while the gradients are computed, with all states in each step. So
// between two steps every rank has the same running values, as logs, callbacks
// and a joining worker need them. For this reason a metric keeps few sums; the
// largest usual one, AUC, sends 3.2 KB for a replica.

#ifndef RINGLET_CORE_STEP_STEP_REPORT_H_
#define RINGLET_CORE_STEP_STEP_REPORT_H_

#include <vector>

#include "../exchange/compile_config.h"
#include "../exchange/gradient_exchange.h"
#include "../graph/model_memory.h"
#include "ringlet/dataset.h"
#include "ringlet/metrics.h"
#include "ringlet/status.h"

namespace ringlet {

class StepReport {
 public:
  // `config` outlives the StepReport.
  explicit StepReport(const CompileConfig* config) : config_(*config) {}

  // Call after the metrics were resolved.
  void Reset();

  // Computes one replica's part from the sum of its examples' losses, and the
  // sums of each output. `memory` has the outputs.
  Status Compute(const Batch& batch, double loss_sum,
                 const std::vector<double>& loss_sums, const Graph& graph,
                 const ModelMemory& memory);
  // The states of the last replica.
  const MetricState* own_states() const { return own_states_.data(); }
  // Stores the last computed result for this rank's replica `replica`.
  void StoreResult(int replica);
  // Sets the result of replica `replica` to zero.
  void ClearResult(int replica);
  // Adds the last computed result to the result of replica `replica`. Call
  // ClearResult before the first one.
  void AddResult(int replica);
  // Marks the replica as late; it has no results.
  void MarkLate(int replica);

  // Sets the time of a replica by this rank's clock; zero if not measured. It
  // is sent until the next call or Reset.
  void SetReplicaNanos(int64_t nanos) { replica_nanos_ = nanos; }
  Status Send(unsigned char request, GradientExchange* exchange);
  // Receives every rank's request and, if all are 0, the sums.
  Status Receive(GradientExchange* exchange);
  const std::vector<unsigned char>& requests() const { return requests_; }
  bool has_request() const;
  // From the last Receive without a request, added in the order of the
  // replicas.
  const MetricState* sums() const { return sums_.data(); }
  // From the same Receive: the number of examples of each replica of the job.
  const std::vector<double>& examples() const { return examples_; }
  int late_replicas() const { return late_; }
  // The times of every rank's SetReplicaNanos, by rank; never below 0.
  const std::vector<int64_t>& replica_nanos() const { return all_nanos_; }

 private:
  double AddRow(const unsigned char* row);  // returns its examples
  unsigned char* RowOf(int replica);
  size_t state_bytes() const {
    return own_states_.size() * sizeof(MetricState);
  }

  const CompileConfig& config_;
  std::vector<MetricState> own_states_;
  std::vector<MetricState> sums_;
  std::vector<double> examples_;
  int late_ = 0;
  std::vector<unsigned char> requests_;  // the request of each rank
  int64_t replica_nanos_ = 0;
  std::vector<int64_t> all_nanos_;  // each rank's time of a replica
  // A report is rows of states as little-endian doubles, the same number on
  // each rank. Then come the nanoseconds as a little-endian integer of 8 bytes,
  // and the request.
  std::vector<unsigned char> sent_;
  // The reports, in the order of the ranks.
  std::vector<unsigned char> received_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_STEP_STEP_REPORT_H_
