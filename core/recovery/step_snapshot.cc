#include "step_snapshot.h"

#include <cstring>

#include "../base/state_names.h"
#include "../base/text.h"

namespace ringlet {

// A span of an optimizer slot includes the name of its weight, also if it is a
// scalar: "optimizer/momentum/dense/kernel".
bool IsModelState(const StateSpan& span) {
  // An interrupted step may have changed the scales, also by a wrong gradient.
  if (span.name == kScalesName) return false;
  if (StartsWith(span.name, kWeightsPrefix)) return true;
  if (!StartsWith(span.name, kOptimizerPrefix)) return false;
  const size_t slash = span.name.find('/', sizeof(kOptimizerPrefix) - 1);
  return span.shape.rank() > 0 || slash != std::string::npos;
}

void StepSnapshot::Plan(Saveable* state) {
  taken_ = whole_ = false;
  pieces_.clear();
  std::vector<StateSpan> spans;
  state->AppendState(&spans);
  size_t bytes = 0;
  for (const StateSpan& span : spans) {
    if (IsModelState(span)) continue;
    pieces_.push_back({span, bytes});
    bytes += span.bytes();
  }
  copy_.resize(bytes);
}

void StepSnapshot::Copy(bool large) {
  for (const Piece& piece : pieces_) {
    const size_t bytes = piece.span.bytes();
    // The running metrics and the scales change in every step, whatever their
    // size.
    const bool rests = bytes > kMaxSmallBytes &&
                       !StartsWith(piece.span.name, "metric/") &&
                       piece.span.name != kScalesName;
    if (rests != large) continue;
    std::memcpy(copy_.data() + piece.at, piece.span.data, bytes);
  }
}

void StepSnapshot::Take() {
  Copy(/*large=*/false);
  taken_ = true;
  whole_ = false;
}

void StepSnapshot::CopyLargeSpans() {
  if (taken_ && !whole_) Copy(/*large=*/true);
  whole_ = true;
}

Status StepSnapshot::Restore(Saveable* state) const {
  std::vector<StateSpan> spans;
  state->AppendState(&spans);
  size_t next = 0;
  for (const StateSpan& span : spans) {
    if (IsModelState(span)) continue;
    const bool same = next < pieces_.size() &&
                      pieces_[next].span.name == span.name &&
                      pieces_[next].span.bytes() == span.bytes();
    if (!same) {
      return Error(Code::kInternal,
                   "%s changed its shape while the fit was set up again; its "
                   "state is lost",
                   span.name.c_str());
    }
    std::memcpy(span.data, copy_.data() + pieces_[next++].at, span.bytes());
  }
  return state->StateLoaded();
}

}  // namespace ringlet
