// WatchedModel: the model of --save, as the rounds of `train --watch` train and
// replace it.

#ifndef RINGLET_TOOLS_RINGLET_WATCH_WATCHED_MODEL_H_
#define RINGLET_TOOLS_RINGLET_WATCH_WATCHED_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "../config/run_config.h"
#include "../run/run.h"
#include "io/watch/watcher.h"
#include "ringlet/dataset.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"
#include "ringlet/status.h"
#include "watched_folder.h"

namespace ringlet {

class WatchedModel {
 public:
  // Takes the content of RUN.json, and makes the model of the file `path`.
  // Without this file it makes the model of RUN.json. An error if the two have
  // different layers.
  Status Open(const std::string& path, const InitFlags& init,
              std::unique_ptr<RunConfig> config);

  // The id of the round of the model's file; empty if there is none.
  const std::string& installed() const { return installed_; }
  Model* model() { return config_->model.get(); }
  // The layers without weights. Unlike model() it remains when a round cannot
  // read the model's file.
  const Model& layers() const { return *layers_; }
  bool has_file() const;
  // Trains a copy of the installed model on the files of the round, and keeps
  // it for Install. Removes the files that cannot be read from *round.
  Status Train(const WatchedFolder& folder, WatchRound* round,
               WatchScores* scores);
  Status Install(const WatchRound& round);

 private:
  Status ReadInstalled();
  // Makes the installed model, or the model that training begins with.
  Status Make();
  Status CheckSameLayers() const;
  // kNotFound if the round trains an installed model, and its file is gone.
  Status CheckIsThere(const WatchRound& round) const;
  Status Fit(const WatchRound& round, const Dataset& data, FitOptions options);
  Status Evaluate(const Dataset& data, Logs* logs);
  std::string BackupPath(const WatchRound& round) const;
  void RemoveBackups(const std::string& kept) const;

  std::string path_;
  InitFlags init_;
  std::unique_ptr<RunConfig> config_;
  std::unique_ptr<Model> layers_;
  std::string
      configuration_;  // the model as RUN.json has it, "" if it is saved
  // saved_model of RUN.json. Once the model's file exists, config_ has the path
  // of this file instead.
  std::string saved_model_;
  std::optional<LoraOptions> lora_;
  bool has_compile_ = false;
  int64_t seed_ = 0;          // fit.seed
  bool has_weights_ = false;  // training begins with trained weights
  std::string installed_;
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_WATCH_WATCHED_MODEL_H_
