// Scores are errors of the values as the model takes them, after "scale" and
// "offset". The C function of `export --anomaly` computes the same score
// (ErrorOf), and a threshold printed here must fit there.

#include "anomaly.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <memory>

#include "core/base/number_text.h"
#include "core/base/text.h"
#include "core/model/model_parts.h"
#include "io/export/reconstruction.h"
#include "io/files/atomic_file.h"
#include "io/readers/arrays/npz.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

Status ComputeScores(Model* model, const Dataset& data,
                     ReconstructionError error, std::vector<float>* scores) {
  RINGLET_RETURN_IF_ERROR(ModelParts(model).graph().CheckAdapted());
  LoaderOptions options;
  options.targets = options.training = false;
  std::unique_ptr<BatchLoader> loader;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(data, options, &loader));
  const int64_t width = model->output_shape(0).elements();
  Batch batch;
  while (!batch.last) {
    RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
    RINGLET_RETURN_IF_ERROR(
        model->Forward(batch.x, batch.count, /*training=*/false));
    for (int64_t i = 0; i < batch.count * width; i += width) {
      scores->push_back(
          ComputeError(error, batch.x + i, model->output() + i, width));
    }
  }
  return Status();
}

// NumPy's quantile with its default method, of values that are not empty.
double Quantile(std::vector<float> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const double t = at - static_cast<double>(low);
  const double a = double{values[low]},
               b = double{values[std::min(low + 1, values.size() - 1)]};
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

std::string ToCsv(const Anomalies& anomalies) {
  std::string text = anomalies.threshold ? "score,anomaly\n" : "score\n";
  for (size_t i = 0; i < anomalies.scores.size(); ++i) {
    const float score = anomalies.scores[i];
    text += std::isnan(score) ? "nan" : ShortestText(score);
    if (anomalies.threshold) text += anomalies.IsAnomaly(i) ? ",1" : ",0";
    text += '\n';
  }
  return text;
}

Status WriteText(const std::string& text, const std::string& path) {
  if (!path.empty()) return WriteWholeFile(PosixFiles(), path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) {
    return Status();
  }
  return OsError(errno, "stdout: writing");
}

}  // namespace

Status ReadScore(const std::string& name, ReconstructionError* error) {
  *error = name.empty() || name == "mse" ? ReconstructionError::kSquared
           : name == "mae"               ? ReconstructionError::kAbsolute
                                         : ReconstructionError::kNone;
  if (*error != ReconstructionError::kNone) return Status();
  return InvalidArgument("--score %s: is neither mse nor mae",
                         Printable(name).c_str());
}

void AnomalyFlags::Add(CommandLine* flags) {
  flags->Switch("--anomaly", &anomaly_,
                "of an autoencoder: write each example's error of\n"
                "reconstruction, as \"score\", in place of its outputs");
  flags->Text("--score", "NAME", &score_, kScoreHelp);
  flags->Number("--threshold", "NUMBER", 0, 1e30, &threshold_,
                "with --anomaly: also write \"anomaly\", 1 for a score\n"
                "above the threshold");
  flags->Number("--threshold-quantile", "NUMBER", 0, 1, &quantile_,
                "as --threshold, with this quantile of the scores of\n"
                "normal examples, such as 0.99");
  flags->Text("--threshold-data", "FILE", &data_,
              "the normal examples, in a file as that of the data\n"
              "(default: data.train of RUN.json)");
}

Status AnomalyFlags::Check(const std::string& out) const {
  ReconstructionError error;
  RINGLET_RETURN_IF_ERROR(ReadScore(score_, &error));
  const bool by_number = !std::isnan(threshold_);
  const bool by_quantile = !std::isnan(quantile_);
  if (!anomaly_ &&
      (by_number || by_quantile || !data_.empty() || !score_.empty())) {
    return InvalidArgument("%s needs --anomaly",
                           by_number        ? "--threshold"
                           : by_quantile    ? "--threshold-quantile"
                           : !data_.empty() ? "--threshold-data"
                                            : "--score");
  }
  if (by_number && by_quantile) {
    return InvalidArgument("give --threshold or --threshold-quantile");
  }
  if (!data_.empty() && !by_quantile) {
    return InvalidArgument("--threshold-data needs --threshold-quantile");
  }
  RINGLET_RETURN_IF_ERROR(CheckNotRead("--out", out, {data_}));
  if (!EndsWith(out, ".npy") || !(by_number || by_quantile)) return Status();
  return InvalidArgument(
      "--out %s: has one array, and there are score and anomaly; give FILE.npz "
      "or FILE.csv",
      out.c_str());
}

Status AnomalyFlags::Score(Model* model, const std::string& model_path,
                           const ModelAndDataFlags& use, const Dataset& data,
                           const std::string& out, Anomalies* anomalies) const {
  RINGLET_RETURN_IF_ERROR(
      CheckReconstructs(*model).Annotate("%s", model_path.c_str()));
  ReconstructionError error;
  RINGLET_RETURN_IF_ERROR(ReadScore(score_, &error));
  if (!std::isnan(threshold_)) anomalies->threshold = threshold_;
  if (!std::isnan(quantile_)) {
    Dataset normal;
    RINGLET_RETURN_IF_ERROR(
        use.OpenNormal(model_path, data_, out, *model, &normal));
    std::vector<float> scores;
    RINGLET_RETURN_IF_ERROR(ComputeScores(model, normal, error, &scores));
    const std::string name = normal.source()->name();
    if (std::any_of(scores.begin(), scores.end(),
                    [](float score) { return std::isnan(score); })) {
      return Corruption(
          "%s: an example has the score NaN, so there is no "
          "threshold; the model has weights that are not finite",
          name.c_str());
    }
    anomalies->threshold = Quantile(scores, quantile_);
    Notice("threshold %s: the %s quantile of the scores of %zu examples of %s",
           ShortestText(*anomalies->threshold).c_str(),
           ShortestText(quantile_).c_str(), scores.size(), name.c_str());
  }
  const DataDescription* const data_of = model->data_description();
  if (data_of != nullptr &&
      (data_of->scale.factor != 1 || data_of->scale.offset != 0)) {
    Notice(
        "note: the scores compare the outputs with x * %s + %s, so y of the "
        "training must have been scaled too; a Rescaling layer in place of "
        "\"scale\" scales neither",
        ShortestText(data_of->scale.factor).c_str(),
        ShortestText(data_of->scale.offset).c_str());
  }
  return ComputeScores(model, data, error, &anomalies->scores);
}

Status WriteAnomalies(const Anomalies& anomalies, const std::string& out) {
  const Shape shape({static_cast<int64_t>(anomalies.scores.size())});
  const float* const scores = anomalies.scores.data();
  if (EndsWith(out, ".npy")) {
    return WriteNpy(out, DType::kFloat32, shape, scores);
  }
  if (!EndsWith(out, ".npz")) return WriteText(ToCsv(anomalies), out);
  NpzWriter file;
  RINGLET_RETURN_IF_ERROR(file.Open(PosixFiles(), out));
  RINGLET_RETURN_IF_ERROR(file.Add("score", DType::kFloat32, shape, scores));
  std::vector<unsigned char> is_anomaly;
  for (size_t i = 0; anomalies.threshold && i < anomalies.scores.size(); ++i) {
    is_anomaly.push_back(anomalies.IsAnomaly(i) ? 1 : 0);
  }
  if (anomalies.threshold) {
    RINGLET_RETURN_IF_ERROR(
        file.Add("anomaly", DType::kUint8, shape, is_anomaly.data()));
  }
  return file.Finish();
}

}  // namespace ringlet
