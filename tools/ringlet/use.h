// What evaluate and predict share: a trained model, and data to use it on.
//
// Internal to tools/ringlet/.

#ifndef RINGLET_TOOLS_RINGLET_USE_H_
#define RINGLET_TOOLS_RINGLET_USE_H_

#include <memory>
#include <string>

#include "command_line.h"
#include "run.h"
#include "run_config.h"

namespace ringlet {

class UseFlags {
 public:
  // `labels`: whether the data are to have labels.
  void Add(CommandLine* flags, bool labels);
  // MODEL is a saved model, or a RUN.json whose weights are those of --init.
  // *model is compiled; *batches are of the data that the flags name, or of
  // those of RUN.json. `out`, a file that will be written, or "", may not be
  // one of the data.
  Status Open(const std::string& model_path, const std::string& out,
              std::unique_ptr<Model>* model, Dataset* batches) const;

 private:
  Status Data(const std::string& model_path, DataConfig* data) const;

  bool labels_ = true;
  InitFlags init_;
  bool header_ = false, no_header_ = false;
  std::string run_, part_ = "validation", label_;
  DataConfig data_;
  double scale_ = 1, offset_ = 0;
  int64_t batch_size_ = 32, threads_ = 1;
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_USE_H_
