#include "verified_point.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace ringlet {

std::vector<StateSpan> VerifiedPoint::Spans() const {
  std::vector<StateSpan> spans;
  model_.weights_state()->AppendState(&spans);
  model_.optimizer_state()->AppendState(&spans);
  return spans;
}

Status VerifiedPoint::Reserve() {
  if (copy_ != nullptr) return Status();
  size_t bytes = 0;
  for (const StateSpan& span : Spans()) bytes += span.bytes();
  copy_.reset(new (std::nothrow) unsigned char[bytes]);
  if (copy_ != nullptr) return Status();
  return Error(Code::kResourceExhausted,
               "model '%s': no memory for a copy of %zu bytes of the weights "
               "and optimizer slots, to which an elastic job returns after a "
               "loss; \"cross_check\": false needs no copy",
               model_.name().c_str(), bytes);
}

void VerifiedPoint::Keep(const StepSnapshot& snapshot, int64_t epoch,
                         int64_t digest) {
  unsigned char* to = copy_.get();
  for (const StateSpan& span : Spans()) {
    to = std::copy_n(static_cast<const unsigned char*>(span.data), span.bytes(),
                     to);
  }
  snapshot_ = snapshot;
  epoch_ = epoch;
  digest_ = digest;
}

void VerifiedPoint::Restore(StepSnapshot* snapshot) {
  const unsigned char* from = copy_.get();
  for (const StateSpan& span : Spans()) {
    std::memcpy(span.data, from, span.bytes());
    from += span.bytes();
  }
  // These bytes came from the model itself, so they are valid.
  model_.optimizer_state()->StateLoaded().IgnoreError();
  *snapshot = snapshot_;
}

}  // namespace ringlet
