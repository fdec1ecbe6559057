// TrainingStatus: shows where a training is, to `ringlet top` and at the
// address of --status. docs/status.md has the pages.

#ifndef RINGLET_TOOLS_RINGLET_RUN_TRAINING_STATUS_H_
#define RINGLET_TOOLS_RINGLET_RUN_TRAINING_STATUS_H_

#include <memory>
#include <string>

#include "io/logs/live_progress.h"
#include "net/status/status_server.h"
#include "progress_files.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

class TrainingStatus {
 public:
  // `address`: of --status; "": none. `run` is the path of RUN.json.
  static Status Start(const std::string& run, const ClusterConfig& cluster,
                      const std::string& address,
                      std::unique_ptr<TrainingStatus>* out);

  // The callback that follows the fit.
  const std::shared_ptr<ProgressRecorder>& recorder() const {
    return recorder_;
  }

 private:
  StatusServer::Answer AnswerTo(const std::string& path) const;

  ProgressFile file_;
  std::shared_ptr<ProgressRecorder> recorder_;
  // Of the newest line of file_.
  int64_t last_write_ = 0;
  LiveProgress::Phase written_phase_ = LiveProgress::Phase::kStarting;
  std::unique_ptr<StatusServer> server_;  // ends before what it reads
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_TRAINING_STATUS_H_
