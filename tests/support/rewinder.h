// A backup in memory: restores a fit to where an earlier one was saved.

#ifndef RINGLET_TESTS_SUPPORT_REWINDER_H_
#define RINGLET_TESTS_SUPPORT_REWINDER_H_

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {

// A backup in memory. It copies all spans at a save point and restores them at
// the beginning of another run.
class Rewinder : public Callback {
 public:
  const char* name() const override { return "rewinder"; }
  Status OnSavePoint(FitState& fit, bool) override {
    if (fit.model->iterations() == save_at) bytes_ = Copy(fit);
    if (fit.model->iterations() == die_at) {
      return Error(Code::kInternal, "the power went");
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
  int64_t save_at = -1, die_at = -1;

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

#endif  // RINGLET_TESTS_SUPPORT_REWINDER_H_
