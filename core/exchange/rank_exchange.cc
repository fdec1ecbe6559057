#include "rank_exchange.h"

#include <algorithm>
#include <climits>

#include "../base/check.h"

namespace ringlet {

RankExchange::RankExchange(Collective* collective, int64_t count,
                           int64_t changes, const StepTimer* timer)
    : collective_(*collective),
      bucket_(static_cast<int64_t>(collective->bucket_bytes() / sizeof(float))),
      unrounded_bucket_(std::min(
          bucket_,
          static_cast<int64_t>(std::min<size_t>(
              collective->unrounded_bytes() / sizeof(float), INT_MAX)))),
      timer_(*timer) {
  tickets_.reserve(
      static_cast<size_t>(count / bucket_ + changes / unrounded_bucket_ + 4));
}

Status RankExchange::Sum(float* values, int64_t count) {
  while (status_.ok() && count > 0) {
    const int64_t n = std::min(count, unrounded_bucket_);
    status_ = collective_.AllReduce(values, static_cast<size_t>(n));
    values += n;
    count -= n;
  }
  return status_;
}

void RankExchange::Drop() {
  (void)FinishReport();
  (void)WaitForAll();
  status_ = Status();
}

Status RankExchange::StartReport(const void* report, size_t bytes,
                                 void* reports) {
  RINGLET_CHECK(!reporting_);
  RINGLET_RETURN_IF_ERROR(
      collective_.StartAllGather(report, bytes, reports, &report_));
  reporting_ = true;
  return Status();
}

Status RankExchange::FinishReport() {
  if (!reporting_) return Status();
  reporting_ = false;
  return collective_.Wait(report_);
}

void RankExchange::RecordStart(const Status& status,
                               Collective::Ticket ticket) {
  status_ = status;
  if (status_.ok()) tickets_.push_back(ticket);
}

Status RankExchange::WaitFor(std::vector<Collective::Ticket>* tickets) {
  if (tickets->empty()) return status_;
  const int64_t begin = timer_.Now();
  for (size_t i = 0; i < tickets->size(); ++i) {
    const Status s = collective_.Wait((*tickets)[i]);
    if (status_.ok()) status_ = s;
    if (status_.ok()) OnSumArrived(i);
  }
  tickets->clear();
  timer_.Report("all-reduce", "step", begin);
  return status_;
}

}  // namespace ringlet
