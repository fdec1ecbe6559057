// RowLogger: a callback that has a RowFile.

#ifndef RINGLET_IO_LOGS_ROW_LOGGER_H_
#define RINGLET_IO_LOGS_ROW_LOGGER_H_

#include <cmath>
#include <string>
#include <vector>

#include "../../core/base/number_text.h"
#include "../../core/fit/fit_details.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"
#include "row_file.h"

namespace ringlet {

class RowLogger : public Callback {
 public:
  RowLogger(const char* name, const std::string& filename)
      : name_(name), file_(name, filename) {}
  const char* name() const override { return name_; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  Status OnSetup(FitState& fit) override {
    file_.Reset(fit.details->after_loss);
    return Status();
  }
  std::string Identity() const override {
    return Describe() + file_.filename();
  }
  // Closes the file after an error too: another writer may need the lock.
  void OnFitReturn(FitState&, const Status& status) override {
    file_.Close(/*keep_rows=*/status.code() == Code::kPeerLost);
  }
  void AppendState(std::vector<StateSpan>* spans) override {
    file_.AppendState(spans);
  }
  void AppendLiveState(std::vector<StateSpan>* spans) override {
    file_.AppendLiveState(spans);
  }
  Status StateLoaded() override { return file_.StateLoaded(); }

 private:
  const char* const name_;

 protected:
  // Called as the fit begins or continues. RowFile::Open explains `last`.
  Status OpenFile(const FitState& fit, bool append,
                  const std::string& last = "") {
    // The restored state does not have this log, and has trained steps. Rows
    // that the file has stay: an earlier part of the run may have written them.
    // A state of the run's begin has no rows, and a job of several workers
    // backs it up before the log is opened.
    const bool is_restored =
        !fit.details->restored_from.empty() || fit.details->in_memory();
    const bool has_trained = fit.epoch > 0 || fit.step > 0;
    const bool is_new_in_run = file_.offset() < 0 && is_restored && has_trained;
    return file_.Open(fit.model->collective(), append || is_new_in_run,
                      fit.details->in_memory(), last);
  }

  RowFile file_;
};

// Appends the fewest digits that read back exactly. A NaN has no sign, in which
// machines differ.
inline void AppendShortest(double value, std::string* row) {
  *row += std::isnan(value) ? "nan" : ShortestText(value);
}

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_ROW_LOGGER_H_
