#include "stop_requests.h"

#include <algorithm>

#include "ringlet/model.h"

namespace ringlet {
namespace {

// A note: bit 0 stop_training, bit 1 interrupted, bit 2 request for a new view,
// then the signal.
constexpr unsigned kStop = 1, kInterrupted = 2, kNewView = 4, kSignalShift = 3;
constexpr int kLastSignal = 31;

// A callback may set any number.
int SignalOf(const FitState& fit) {
  return fit.signal > 0 && fit.signal <= kLastSignal ? fit.signal : 0;
}

unsigned char NoteOf(const FitState& fit) {
  const unsigned signal = static_cast<unsigned>(SignalOf(fit)) << kSignalShift;
  return static_cast<unsigned char>((fit.stop_training != 0 ? kStop : 0) |
                                    (fit.interrupted ? kInterrupted : 0) |
                                    signal);
}

void AddNote(unsigned char note, FitState* fit) {
  if ((note & kStop) != 0) fit->stop_training = 1;
  if ((note & kInterrupted) != 0) fit->interrupted = true;
  fit->signal = std::max(fit->signal, note >> kSignalShift);
}

}  // namespace

void StopRequests::Note(unsigned char note, const FitState& fit) {
  if ((note & ~note_ & kStop) != 0) stops_after_ = fit.model->iterations();
  note_ = note;
}

void StopRequests::BeginEpoch(const Collective& collective,
                              const FitState& fit) {
  if (collective.size() == 1 || fit.stop_training == 0 || fit.step == 0) return;
  Note(static_cast<unsigned char>(note_ | kStop), fit);
}

void StopRequests::Defer(const Collective& collective, FitState* fit) {
  AddNote(note_, fit);
  if (collective.size() == 1) {
    note_ = 0;
    fit->signal = SignalOf(*fit);
    needs_new_view_ = collective.has_joiner();
    return;
  }
  Note(NoteOf(*fit), *fit);
  if (collective.has_joiner()) note_ |= kNewView;
  fit->interrupted = false;
  fit->signal = 0;
}

void StopRequests::Merge(const std::vector<unsigned char>& notes,
                         FitState* fit) {
  note_ = static_cast<unsigned char>(NoteOf(*fit) & ~kStop);
  fit->interrupted = false;
  fit->signal = 0;
  needs_new_view_ = false;
  for (const unsigned char note : notes) {
    AddNote(note, fit);
    needs_new_view_ = needs_new_view_ || (note & kNewView) != 0;
  }
}

Status StopRequests::Agree(Collective* collective, FitState* fit) {
  Defer(*collective, fit);
  if (collective->size() == 1) return Status();
  notes_.resize(static_cast<size_t>(collective->size()));
  RINGLET_RETURN_IF_ERROR(collective->AllGather(&note_, 1, notes_.data()));
  Merge(notes_, fit);
  return Status();
}

void StopRequests::DropLaterStop(const FitState& fit) {
  if (fit.model->iterations() >= stops_after_) return;
  note_ = static_cast<unsigned char>(note_ & ~kStop);
}

void StopRequests::ViewFormed() {
  note_ = static_cast<unsigned char>(note_ & ~kNewView);
  needs_new_view_ = false;
}

void StopRequests::Keep(const FitState& fit) {
  note_ = static_cast<unsigned char>(note_ | (NoteOf(fit) & ~kStop));
}

void StopRequests::Restore(FitState* fit) const { AddNote(note_, fit); }

}  // namespace ringlet
