// MemoryBackup: restores a fit to the save point of an earlier one.

#ifndef RINGLET_TESTS_SUPPORT_MEMORY_BACKUP_H_
#define RINGLET_TESTS_SUPPORT_MEMORY_BACKUP_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {

// A backup in memory. It copies all spans at a save point and restores them at
// the beginning of another run.
class MemoryBackup : public Callback {
 public:
  const char* name() const override { return "memory_backup"; }
  Status OnSavePoint(FitState& fit, bool) override {
    if (fit.model->iterations() == save_after_step) bytes_ = Copy(fit);
    if (fit.model->iterations() == fail_after_step) {
      return Error(Code::kInternal, "simulated power cut");
    }
    return Status();
  }
  Status OnTrainBegin(FitState& fit) override {
    if (bytes_.empty()) return Status();
    size_t at = 0;
    for (const StateSpan& span : Spans(fit)) {
      std::memcpy(span.data, bytes_.data() + at, span.bytes());
      at += span.bytes();
    }
    EXPECT_EQ(at, bytes_.size());
    for (Saveable* saveable : All(fit)) {
      RINGLET_RETURN_IF_ERROR(saveable->StateLoaded());
    }
    return Status();
  }
  std::optional<int64_t> save_after_step, fail_after_step;

 private:
  static std::vector<Saveable*> All(FitState& fit) {
    std::vector<Saveable*> all = {fit.model->weights_state(),
                                  fit.model->optimizer_state(), &fit};
    for (const auto& callback : *fit.callbacks) all.push_back(callback.get());
    return all;
  }
  static std::vector<StateSpan> Spans(FitState& fit) {
    std::vector<StateSpan> spans;
    for (Saveable* saveable : All(fit)) saveable->AppendState(&spans);
    return spans;
  }
  static std::string Copy(FitState& fit) {
    std::string bytes;
    for (const StateSpan& span : Spans(fit)) {
      bytes.append(static_cast<const char*>(span.data), span.bytes());
    }
    return bytes;
  }
  std::string bytes_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_MEMORY_BACKUP_H_
