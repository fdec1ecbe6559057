#include "gradient_exchange.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "../base/check.h"

namespace ringlet {
namespace {

// A job of one.
class NoExchange final : public GradientExchange {
 public:
  bool sums() const override { return false; }
  void Begin() override {}
  void Ready(int64_t) override {}
  bool failed() const override { return false; }
  Status Finish() override { return Status(); }
  void Drop() override {}
  Status StartReport(const void* mine, size_t bytes, void* all) override {
    std::memcpy(all, mine, bytes);
    return Status();
  }
  Status FinishReport() override { return Status(); }
};

// Sums the gradients of each step, in buckets that are started while the
// backward pass computes the rest.
class StepExchange final : public GradientExchange {
 public:
  StepExchange(Collective* collective, float* gradients, int64_t count,
               const StepTimer* timer)
      : collective_(*collective),
        gradients_(gradients),
        count_(count),
        bucket_(
            static_cast<int64_t>(collective->bucket_bytes() / sizeof(float))),
        timer_(*timer) {
    tickets_.reserve(static_cast<size_t>(count / bucket_ + 2));
  }
  ~StepExchange() override { Drop(); }

  bool sums() const override { return true; }

  void Begin() override {
    RINGLET_CHECK(tickets_.empty());
    started_ = count_;
  }

  // Buckets are cut at fixed places, so that all ranks start the same ones
  // whatever their layers report.
  void Ready(int64_t ready) override {
    while (status_.ok() && started_ > 0) {
      const int64_t begin = std::max<int64_t>(0, started_ - bucket_);
      if (begin < ready) return;
      Collective::Ticket ticket = 0;
      status_ = collective_.StartAllReduce(
          gradients_ + begin, static_cast<size_t>(started_ - begin), &ticket);
      if (!status_.ok()) return;
      tickets_.push_back(ticket);
      started_ = begin;
    }
  }

  bool failed() const override { return !status_.ok(); }

  Status Finish() override {
    if (tickets_.empty()) return status_;
    const int64_t begin = timer_.Now();
    for (const Collective::Ticket ticket : tickets_) {
      const Status s = collective_.Wait(ticket);
      if (status_.ok()) status_ = s;
    }
    tickets_.clear();
    timer_.Piece("all-reduce", "step", begin);
    return status_;
  }

  void Drop() override {
    (void)FinishReport();
    (void)Finish();
    status_ = Status();
  }

  Status StartReport(const void* mine, size_t bytes, void* all) override {
    RINGLET_CHECK(!reporting_);
    RINGLET_RETURN_IF_ERROR(
        collective_.StartAllGather(mine, bytes, all, &report_));
    reporting_ = true;
    return Status();
  }

  Status FinishReport() override {
    if (!reporting_) return Status();
    reporting_ = false;
    return collective_.Wait(report_);
  }

 private:
  Collective& collective_;
  float* const gradients_;
  const int64_t count_;
  const int64_t bucket_;  // floats
  const StepTimer& timer_;
  int64_t started_ = 0;  // gradients from here on are on their way
  std::vector<Collective::Ticket> tickets_;  // of them
  Status status_;                            // of this step's sums
  Collective::Ticket report_ = 0;
  bool reporting_ = false;
};

}  // namespace

std::unique_ptr<GradientExchange> MakeGradientExchange(Collective* collective,
                                                       float* gradients,
                                                       int64_t count,
                                                       const StepTimer* timer) {
  if (collective->size() == 1) return std::make_unique<NoExchange>();
  return std::make_unique<StepExchange>(collective, gradients, count, timer);
}

}  // namespace ringlet
