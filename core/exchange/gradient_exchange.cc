// Operations of the ranks pair up by their order, so every rank starts the same
// operations in the same order. In a step these are:
//   the sums of layers in the forward pass
//   the report
//   the buckets of state changes
//   the buckets of the gradients, from the end
// Buckets are cut at places that follow from the sizes alone. A layer that sums
// over all workers in the backward pass does so between two buckets: when the
// gradients of all later layers are final.
//
// From Start to Finish the collective owns the span. After an error no
// operation starts, and all started ones are waited for before the error is
// returned.

#include "gradient_exchange.h"

#include <algorithm>
#include <cstring>

#include "../base/check.h"
#include "rank_exchange.h"

namespace ringlet {
namespace {

// Exchanges nothing, for a job of one worker.
class NoExchange final : public GradientExchange {
 public:
  bool sums() const override { return false; }
  void Begin(int, int) override {}
  void OnGradientsFinal(int64_t) override {}
  bool failed() const override { return false; }
  Status Finish(bool* must_repeat) override {
    *must_repeat = false;
    return Status();
  }
  Status Sum(float*, int64_t) override { return Status(); }
  void Drop() override {}
  Status StartReport(const void* report, size_t bytes, void* reports) override {
    std::memcpy(reports, report, bytes);
    return Status();
  }
  Status FinishReport() override { return Status(); }
};

// Adds the gradients of a worker's replicas, as floats in their order.
class ReplicaSums {
 public:
  // `sums` is as long as `gradients`. Both spans outlive the ReplicaSums.
  // `sums` may be null for a worker with one replica, which has nothing to add.
  ReplicaSums(float* gradients, float* sums)
      : gradients_(gradients), sums_(sums) {}

  // Begins the pass of replica `replica` of `replicas`.
  void Begin(int replica, int replicas) {
    RINGLET_CHECK(replicas == 1 || sums_ != nullptr);
    first_ = replica == 0;
    last_ = replica + 1 == replicas;
  }
  // gradients[begin … end) are final in this pass; call it once for each range.
  // In the last pass they become the sums of all passes.
  void Add(int64_t begin, int64_t end) const {
    if (first_ && last_) return;
    float* const to = (last_ ? gradients_ : sums_) + begin;
    const float* const from = (last_ ? sums_ : gradients_) + begin;
    const int64_t count = end - begin;
    if (first_) {
      std::copy_n(from, count, to);
      return;
    }
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  }
  bool last() const { return last_; }

 private:
  float* const gradients_;
  float* const sums_;
  bool first_ = true, last_ = true;
};

// Sums the gradients of each step, in buckets that start while the backward
// pass computes the rest.
class StepExchange final : public RankExchange {
 public:
  StepExchange(Collective* collective, const PersistentSpans& spans,
               int64_t count, int64_t changes, const StepTimer* timer)
      : RankExchange(collective, count, changes, timer),
        gradients_(spans.gradients),
        own_(spans.gradients, spans.sums),
        count_(count),
        changes_(changes) {}
  ~StepExchange() override { Drop(); }

  void Begin(int replica, int replicas) override {
    RINGLET_CHECK(tickets_.empty());
    started_ = added_ = count_ + changes_;
    own_.Begin(replica, replicas);
    AddOwn(count_);
    while (own_.last() && status_.ok() && started_ > count_) {
      Start(std::max(count_, started_ - unrounded_bucket_));
    }
  }

  // Buckets are cut at fixed places, so that all ranks start the same buckets
  // in any order of their layers' calls.
  void OnGradientsFinal(int64_t ready) override {
    AddOwn(ready);
    while (own_.last() && status_.ok() && started_ > 0) {
      const int64_t begin = std::max<int64_t>(0, started_ - bucket_);
      if (begin < ready) return;
      Start(begin);
    }
  }

  Status Finish(bool* must_repeat) override {
    *must_repeat = false;
    return WaitForAll();
  }

 private:
  // Adds the final gradients of this pass to the gradients of the earlier
  // passes.
  void AddOwn(int64_t begin) {
    own_.Add(begin, added_);
    added_ = begin;
  }

  // Starts the sum of the numbers from `begin` to started_.
  void Start(int64_t begin) {
    Collective::Ticket ticket = 0;
    const Status status = collective_.StartAllReduce(
        gradients_ + begin, static_cast<size_t>(started_ - begin), &ticket);
    RecordStart(status, ticket);
    if (status_.ok()) started_ = begin;
  }

  float* const gradients_;
  ReplicaSums own_;
  const int64_t count_, changes_;
  int64_t added_ = 0;    // numbers from here on include this pass
  int64_t started_ = 0;  // sums from here on have started
};

}  // namespace

std::unique_ptr<GradientExchange> MakeNoExchange() {
  return std::make_unique<NoExchange>();
}

std::unique_ptr<GradientExchange> MakeGradientExchange(
    Collective* collective, int replicas, const PersistentSpans& spans,
    int64_t count, int64_t changes, const StepTimer* timer) {
  if (replicas == 1) return MakeNoExchange();
  return std::make_unique<StepExchange>(collective, spans, count, changes,
                                        timer);
}

}  // namespace ringlet
