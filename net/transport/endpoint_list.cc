#include "endpoint_list.h"

#include <algorithm>
#include <utility>

#include "../../core/base/time_units.h"
#include "socket_address.h"

namespace ringlet {
namespace {

constexpr int64_t kFirstBackoff = kSecond / 50;
constexpr int64_t kLongestBackoff = kSecond;

}  // namespace

void EndpointList::SetEndpoints(std::vector<Endpoint> endpoints) {
  Clear();
  endpoints_ = std::move(endpoints);
}

bool EndpointList::Next(Endpoint* out) {
  if (next_ == endpoints_.size()) return false;
  *out = endpoints_[next_++];
  return true;
}

std::string EndpointList::RecordFailure(const std::string& why, int64_t now,
                                        int64_t longest) {
  if (!why.empty()) {
    if (!failed_.empty()) failed_ += ", ";
    const bool several =
        endpoints_.size() > 1 &&
        !SameAddress(endpoints_.front().address, endpoints_.back().address);
    if (several && next_ > 0) {
      failed_ += AddressText(endpoints_[next_ - 1].address) + ": ";
    }
    failed_ += why;
  }
  std::string known = failed_;
  next_attempt_ = now;
  if (next_ == endpoints_.size()) {
    Clear();
    backoff_ = std::min({longest, kLongestBackoff,
                         backoff_ == 0 ? kFirstBackoff : 2 * backoff_});
    next_attempt_ = now + backoff_;
  }
  return known;
}

void EndpointList::RecordSuccess() {
  Clear();
  backoff_ = 0;
}

void EndpointList::Clear() {
  endpoints_.clear();
  next_ = 0;
  failed_.clear();
}

}  // namespace ringlet
