#include "ringlet/loggers.h"

#include <algorithm>
#include <vector>

#include "../../core/base/text.h"
#include "../../core/fit/fit_details.h"
#include "../readers/tables/csv_records.h"
#include "ringlet/model.h"
#include "ringlet/status.h"
#include "row_logger.h"

namespace ringlet {
namespace {

class CSVLoggerCallback final : public RowLogger {
 public:
  CSVLoggerCallback(const std::string& filename, char separator, bool append)
      : RowLogger("csv_logger", filename),
        separator_(separator),
        append_(append) {}

  Status OnSetup(FitState& fit) override {
    keys_.clear();
    header_.clear();
    return RowLogger::OnSetup(fit);
  }

  Status OnEpochBegin(FitState& fit) override {
    return file_.is_open() ? Status() : Open(fit);
  }

  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    if (!file_.is_open()) RINGLET_RETURN_IF_ERROR(Open(fit));
    if (keys_.empty()) ChooseKeys(fit, *logs);
    std::string rows = std::to_string(fit.epoch);
    for (const std::string& key : keys_) {
      const double* value = logs->Find(key);
      rows += separator_;
      if (value == nullptr) {
        rows += "NA";
      } else {
        AppendShortest(*value, &rows);
      }
    }
    file_.Write(rows + "\r\n");
    return Status();
  }

 private:
  // A continued file keeps its columns.
  Status Open(const FitState& fit) {
    Collective* const collective = fit.model->collective();
    RINGLET_RETURN_IF_ERROR(OpenFile(fit, append_));
    if (file_.offset() == 0) return Status();
    RINGLET_RETURN_IF_ERROR(
        file_.ReadHeader(collective, fit.details->in_memory(), &header_));
    if (header_.empty()) return Status();
    std::vector<std::string> fields;
    // If the first line is cut off, this process writes its header below it.
    const Status read = RecordReader::SplitLine(header_, separator_, &fields);
    if (!read.ok()) {
      if (fit.chief) {
        Notice(
            "warning: %s: line 1 of %s is not a header: %s; this run writes "
            "its own header",
            name(), file_.filename().c_str(), read.message());
      }
      header_.clear();
      return Status();
    }
    keys_.assign(fields.begin() + 1, fields.end());
    return Status();
  }

  // Writes the header, if there is none yet. A fit that has not validated yet
  // has the columns for it.
  void ChooseKeys(const FitState& fit, const Logs& logs) {
    bool validated = fit.validation == Validation::kNever;
    for (const auto& entry : logs.entries()) {
      keys_.push_back(entry.first);
      validated |= StartsWith(entry.first, "val_");
    }
    std::sort(keys_.begin(), keys_.end());
    if (!validated) {
      const size_t n = keys_.size();
      for (size_t i = 0; i < n; ++i) keys_.push_back("val_" + keys_[i]);
    }
    if (!header_.empty()) return;
    std::string row = "epoch";
    for (const std::string& key : keys_) {
      row += separator_ + CsvField(key, separator_);
    }
    file_.Write(row + "\r\n");
  }

  const char separator_;
  const bool append_;
  std::vector<std::string> keys_;
  std::string header_;
};

}  // namespace

std::shared_ptr<Callback> CSVLogger(const std::string& filename, char separator,
                                    bool append) {
  return std::make_shared<CSVLoggerCallback>(filename, separator, append);
}

}  // namespace ringlet
