// Anomaly scores: how far an autoencoder's outputs are from its inputs.

#ifndef RINGLET_TOOLS_RINGLET_DATA_ANOMALY_H_
#define RINGLET_TOOLS_RINGLET_DATA_ANOMALY_H_

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "../command_line.h"
#include "model_and_data_flags.h"
#include "ringlet/dataset.h"
#include "ringlet/export.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr char kScoreHelp[] =
    "with --anomaly: mse, the mean of squared errors (default),\n"
    "or mae, of absolute ones";

// Reads "mse", "mae", or "", which means mse.
Status ReadScore(const std::string& name, ReconstructionError* error);

// The scores of examples, and whether each is above the threshold, if there is
// one.
struct Anomalies {
  std::vector<float> scores;
  std::optional<double> threshold;
  // An example with a score of NaN is an anomaly.
  bool IsAnomaly(size_t i) const { return !(double{scores[i]} <= *threshold); }
};

class AnomalyFlags {
 public:
  void Add(CommandLine* flags);
  // Returns an error if flags exclude each other, or a file of the kind of
  // --out cannot hold what they request.
  Status Check(const std::string& out) const;
  bool wanted() const { return anomaly_; }
  // Scores `data`, the data of `use`, for the file `out`. Prints a threshold
  // that it computes.
  Status Score(Model* model, const std::string& model_path,
               const ModelAndDataFlags& use, const Dataset& data,
               const std::string& out, Anomalies* anomalies) const;

 private:
  bool anomaly_ = false;
  std::string score_, data_;
  double threshold_ = NAN, quantile_ = NAN;  // NAN: not given
};

// Writes the scores to `out` as CSV, NPY or NPZ, by the end of its name. If
// `out` is "", writes CSV on stdout.
Status WriteAnomalies(const Anomalies& anomalies, const std::string& out);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_DATA_ANOMALY_H_
