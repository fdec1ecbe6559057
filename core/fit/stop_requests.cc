#include "stop_requests.h"

#include <algorithm>

#include "ringlet/model.h"

namespace ringlet {
namespace {

// A request: bit 0 stop_training, bit 1 interrupted, bit 2 a new view, then the
// signal.
constexpr unsigned kStop = 1, kInterrupted = 2, kNewView = 4, kSignalShift = 3;
constexpr int kLastSignal = 31;

// A callback may set any number.
int SignalOf(const FitState& fit) {
  return fit.signal > 0 && fit.signal <= kLastSignal ? fit.signal : 0;
}

unsigned char RequestOf(const FitState& fit) {
  const unsigned signal = static_cast<unsigned>(SignalOf(fit)) << kSignalShift;
  return static_cast<unsigned char>((fit.stop_training != 0 ? kStop : 0) |
                                    (fit.interrupted ? kInterrupted : 0) |
                                    signal);
}

void AddRequest(unsigned char request, FitState* fit) {
  if ((request & kStop) != 0) fit->stop_training = 1;
  if ((request & kInterrupted) != 0) fit->interrupted = true;
  fit->signal = std::max(fit->signal, request >> kSignalShift);
}

}  // namespace

void StopRequests::SetRequest(unsigned char request, const FitState& fit) {
  if ((request & ~request_ & kStop) != 0)
    stops_after_ = fit.model->iterations();
  request_ = request;
}

void StopRequests::BeginEpoch(const Collective& collective,
                              const FitState& fit) {
  if (collective.size() == 1 || fit.stop_training == 0 || fit.step == 0) return;
  SetRequest(static_cast<unsigned char>(request_ | kStop), fit);
}

void StopRequests::Defer(const Collective& collective, FitState* fit) {
  AddRequest(request_, fit);
  if (collective.size() == 1) {
    request_ = 0;
    fit->signal = SignalOf(*fit);
    needs_new_view_ = collective.has_joiner();
    return;
  }
  SetRequest(RequestOf(*fit), *fit);
  if (collective.has_joiner()) request_ |= kNewView;
  fit->interrupted = false;
  fit->signal = 0;
}

void StopRequests::Merge(const std::vector<unsigned char>& requests,
                         FitState* fit) {
  request_ = static_cast<unsigned char>(RequestOf(*fit) & ~kStop);
  fit->interrupted = false;
  fit->signal = 0;
  needs_new_view_ = false;
  for (const unsigned char request : requests) {
    AddRequest(request, fit);
    needs_new_view_ = needs_new_view_ || (request & kNewView) != 0;
  }
}

Status StopRequests::Agree(Collective* collective, FitState* fit) {
  Defer(*collective, fit);
  if (collective->size() == 1) return Status();
  all_requests_.resize(static_cast<size_t>(collective->size()));
  RINGLET_RETURN_IF_ERROR(
      collective->AllGather(&request_, 1, all_requests_.data()));
  Merge(all_requests_, fit);
  return Status();
}

void StopRequests::DropLaterStop(const FitState& fit) {
  if (fit.model->iterations() >= stops_after_) return;
  request_ = static_cast<unsigned char>(request_ & ~kStop);
}

void StopRequests::ViewFormed() {
  request_ = static_cast<unsigned char>(request_ & ~kNewView);
  needs_new_view_ = false;
}

void StopRequests::Keep(const FitState& fit) {
  request_ = static_cast<unsigned char>(request_ | (RequestOf(fit) & ~kStop));
}

void StopRequests::Restore(FitState* fit) const { AddRequest(request_, fit); }

}  // namespace ringlet
