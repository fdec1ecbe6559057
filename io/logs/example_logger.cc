// A row needs no record of the training: it is computed from the position of
// its step, by the functions that read the batch (DatasetParts::Plan,
// ExampleAt). The state keeps the last position alone, and StateLoaded checks
// it, since it comes from a file.

#include <algorithm>
#include <string>
#include <vector>

#include "../../core/data/dataset_parts.h"
#include "../../core/fit/fit_details.h"
#include "ringlet/loggers.h"
#include "ringlet/model.h"
#include "row_logger.h"

namespace ringlet {
namespace {

class ExampleLoggerCallback final : public RowLogger {
 public:
  explicit ExampleLoggerCallback(const std::string& filename)
      : RowLogger("example_logger", filename) {}

  std::string Describe() const override { return name(); }

  Status OnTrainBatchBegin(FitState& fit) override {
    if (file_.is_open()) return Status();
    const bool has_last_steps = fit.details->in_memory() && last_.count > 0;
    RINGLET_RETURN_IF_ERROR(OpenFile(fit, /*append=*/false,
                                     has_last_steps ? RowsOf(fit, last_) : ""));
    if (file_.offset() > 0) return Status();
    file_.Write("epoch,step,replica,pass,used,size,examples\n");
    return Status();
  }

  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    last_ = {fit.epoch, fit.step + 1 - fit.steps_taken, fit.steps_taken,
             fit.position.pass, fit.position.used};
    file_.Write(RowsOf(fit, last_));
    return Status();
  }

  Status OnSetup(FitState& fit) override {
    last_ = Steps();
    const LocalUpdates& local = fit.model->local_updates();
    if (local.participation > 0 || local.quorum > 0) {
      return InvalidArgument(
          "examples are logged only if all replicas take part in every "
          "round: leave the log, or participation and quorum, out");
    }
    return RowLogger::OnSetup(fit);
  }
  // The rows of a large batch, or of a round, are longer than the rows that a
  // RowFile's state has.
  void AppendLiveState(std::vector<StateSpan>* spans) override {
    RowLogger::AppendLiveState(spans);
    spans->push_back({std::string("callback/") + name() + "/last_steps",
                      DType::kInt64,
                      {sizeof(Steps) / sizeof(int64_t)},
                      &last_});
  }
  Status StateLoaded() override {
    const int64_t smallest = std::min(
        {last_.epoch, last_.first, last_.count, last_.pass, last_.used});
    if (smallest < 0) return Corruption("a step of %s is negative", name());
    return RowLogger::StateLoaded();
  }

 private:
  // The last logged steps: `count` steps, from step `first` of `epoch` on. The
  // first began at (pass, used).
  struct Steps {
    int64_t epoch = 0, first = 0, count = 0, pass = 0, used = 0;
  };

  const std::string& RowsOf(const FitState& fit, const Steps& steps) {
    const int replicas = fit.model->num_replicas();
    const bool by_replica = fit.dataset->parts().HasReplicaStreams(replicas);
    const int world = by_replica ? replicas : 1;
    rows_.clear();
    DataPosition position = {steps.pass, steps.used};
    for (int64_t s = steps.first; s < steps.first + steps.count; ++s) {
      for (int r = 0; r < world; ++r) {
        rows_ += std::to_string(steps.epoch) + "," + std::to_string(s) + ",";
        AppendRow(*fit.dataset, position,
                  by_replica ? std::to_string(r) : "all", r, world);
      }
      position = fit.dataset->parts().Plan(position, 0, world).next;
    }
    return rows_;
  }

  // Appends the rest of a row, after epoch and number, for the step at
  // `position`.
  void AppendRow(const Dataset& data, const DataPosition& position,
                 const std::string& replica, int rank, int world) {
    const BatchPlan plan = data.parts().Plan(position, rank, world);
    const bool by_replica = world > 1;
    int64_t size = data.size();
    if (data.parts().drop_remainder && !data.parts().batches_cross_passes) {
      size -= size % data.batch_size();
    } else if (data.parts().drop_remainder && !data.parts().endless()) {
      size = 0;  // the last pass uses less
    }
    rows_ += replica;
    for (const int64_t number : {position.pass, by_replica ? 0 : position.used,
                                 by_replica ? 0 : size}) {
      rows_ += "," + std::to_string(number);
    }
    char separator = ',';
    for (int64_t k = 0; k < plan.count; ++k) {
      const bool next_pass =
          !by_replica && k > 0 && (position.used + k) % data.size() == 0;
      if (next_pass) rows_ += " /";
      rows_ += separator;
      rows_ += std::to_string(
          data.parts().ExampleAt(position, plan.first + k, rank, world));
      separator = ' ';
    }
    rows_ += plan.count == 0 ? ",\n" : "\n";
  }

  Steps last_;
  std::string rows_;
};

}  // namespace

std::shared_ptr<Callback> ExampleLogger(const std::string& filename) {
  return std::make_shared<ExampleLoggerCallback>(filename);
}

}  // namespace ringlet
