#include "loggers.h"

#include <algorithm>
#include <vector>

#include "../../core/base/text.h"
#include "../../core/model/model.h"
#include "row_file.h"

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
    std::string rows;
    if (keys_.empty()) rows = ChooseKeys(*logs);
    rows += std::to_string(fit.epoch);
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
  // The columns of a file that is gone on with are its own.
  Status Open(const FitState& fit) {
    Collective* const collective = fit.model->collective();
    RINGLET_RETURN_IF_ERROR(OpenFile(fit, append_));
    if (file_.offset() == 0) return Status();
    RINGLET_RETURN_IF_ERROR(file_.ReadHeader(collective, &header_));
    size_t from = header_.find(separator_);
    while (from != std::string::npos) {
      const size_t to = header_.find(separator_, from + 1);
      keys_.push_back(header_.substr(
          from + 1, to == std::string::npos ? to : to - from - 1));
      from = to;
    }
    return Status();
  }

  // The header's row, if there is none yet.
  std::string ChooseKeys(const Logs& logs) {
    bool validated = false;
    for (const auto& entry : logs.entries()) {
      keys_.push_back(entry.first);
      validated |= StartsWith(entry.first, "val_");
    }
    std::sort(keys_.begin(), keys_.end());
    if (!validated) {
      const size_t n = keys_.size();
      for (size_t i = 0; i < n; ++i) keys_.push_back("val_" + keys_[i]);
    }
    if (!header_.empty()) return "";
    std::string row = "epoch";
    for (const std::string& key : keys_) row += separator_ + key;
    return row + "\r\n";
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
