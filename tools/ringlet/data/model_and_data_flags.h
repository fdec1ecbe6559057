// A trained model and data for it, for evaluate and predict.

#ifndef RINGLET_TOOLS_RINGLET_DATA_MODEL_AND_DATA_FLAGS_H_
#define RINGLET_TOOLS_RINGLET_DATA_MODEL_AND_DATA_FLAGS_H_

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../command_line.h"
#include "../config/run_config.h"
#include "../run/run.h"

namespace ringlet {

class ModelAndDataFlags {
 public:
  // With `labels` the data must have labels.
  void Add(CommandLine* flags, bool labels);
  // The arguments after MODEL: more files for --images or --audio.
  void set_more_images(const std::vector<std::string>& paths) {
    more_images_ = paths;
  }
  // MODEL is a saved model, or a RUN.json with the weights of --init. *model is
  // compiled; *batches are of the data that the flags name, or of the data in
  // RUN.json.
  // `out`, the file of --out or --report, or "", must not be a data file.
  Status Open(const std::string& model_path, const std::string& out,
              std::unique_ptr<Model>* model, Dataset* batches) const;
  // --csv -: the examples are lines of stdin.
  bool reads_lines() const { return !labels_ && data_.csv == "-"; }
  // Call it instead of Open if reads_lines() is true. *data gets the options of
  // the lines.
  Status OpenForLines(const std::string& model_path,
                      std::unique_ptr<Model>* model, DataConfig* data) const;
  // After Open: the examples of `file`, of the kind and with the flags of
  // Open's data. "" means data.train of RUN.json. `out` as for Open.
  Status OpenNormal(const std::string& model_path, const std::string& file,
                    const std::string& out, const Model& model,
                    Dataset* batches) const;

 private:
  // The examples of a part of the data.
  struct Choice {
    DataConfig data;
    std::string part;  // "train" or "validation"
    double split = 0;  // not 0 if `data` has both parts: fit.validation_split
  };
  Status Choose(const std::string& model_path, const std::string& part,
                Choice* choice) const;
  Status OpenModel(const std::string& model_path, const std::string& out,
                   std::unique_ptr<Model>* model, Choice* choice) const;
  // If --images names pictures, or --audio sound: `data` become these.
  Status AddPictures(DataConfig* data) const;
  // `choice` is matched with the model's training data.
  Status OpenBatches(Choice choice, const Model& model, Dataset* batches) const;
  // The RUN.json with the data; empty if there is none.
  std::string RunOf(const std::string& model_path) const;
  // --scale and --offset, or nothing if neither is given.
  std::optional<Scale> GivenByFlags() const;
  // The flags may repeat the scale of the training data, but have no other.
  Status CheckScale(const DataDescription& trained_on) const;

  bool labels_ = true;
  InitFlags init_;
  bool header_ = false, no_header_ = false;
  std::string audio_;
  std::string run_, part_ = "validation", label_, separator_, decimal_;
  DataConfig data_;
  std::vector<std::string> more_images_;
  // NaN if not given.
  double scale_ = NAN, offset_ = NAN;
  int64_t batch_size_ = 32, threads_ = 1;
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_DATA_MODEL_AND_DATA_FLAGS_H_
