#include "name_lookup.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>

#include "../../core/base/check.h"
#include "detached_thread.h"
#include "socket_address.h"

namespace ringlet {

struct NameLookup::State {
  Address address;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool done = false;
  Status status;
  std::vector<sockaddr_storage> answer;

  void End(const Status& result, const std::vector<sockaddr_storage>& found) {
    const std::lock_guard<std::mutex> lock(mutex);
    status = result;
    answer = found;
    done = true;
    changed.notify_all();
  }
};

#ifdef RINGLET_NO_NAMES

// A static glibc's resolver loads shared libraries that may not be there.
NameLookup::Resolver NameLookup::resolver = nullptr;

Status NameLookup::Check(const Address& address) {
  sockaddr_storage numeric;
  if (NumericAddress(address, &numeric).ok()) return Status();
  return InvalidArgument(
      "%s is a name, and a static program cannot look names up: give numeric "
      "addresses",
      address.host.c_str());
}

NameLookup::NameLookup(const Address& address)
    : state_(std::make_shared<State>()) {
  sockaddr_storage numeric;
  if (NumericAddress(address, &numeric).ok()) {
    state_->End(Status(), {numeric});
  } else {
    state_->End(Check(address), {});
  }
}

#else

NameLookup::Resolver NameLookup::resolver = getaddrinfo;

Status NameLookup::Check(const Address&) { return Status(); }

void NameLookup::Resolve(State* state) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  std::vector<sockaddr_storage> found;
  const Address& address = state->address;
  const int error = resolver(address.host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    state->End(Error(Code::kUnavailable, "the name %s cannot be resolved: %s",
                     address.host.c_str(), gai_strerror(error)),
               found);
    return;
  }
  for (const addrinfo* item = list; item != nullptr; item = item->ai_next) {
    const int family = item->ai_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage one = {};
    std::memcpy(&one, item->ai_addr, item->ai_addrlen);
    SetPort(address.port, &one);
    const bool known = std::any_of(
        found.begin(), found.end(),
        [&](const sockaddr_storage& had) { return SameAddress(had, one); });
    if (!known && found.size() < kMaxAddresses) found.push_back(one);
  }
  freeaddrinfo(list);
  state->End(found.empty() ? Error(Code::kUnavailable,
                                   "the name %s has no IPv4 or IPv6 address",
                                   address.host.c_str())
                           : Status(),
             found);
}

NameLookup::NameLookup(const Address& address)
    : state_(std::make_shared<State>()) {
  state_->address = address;
  sockaddr_storage numeric;
  if (NumericAddress(address, &numeric).ok()) {
    state_->End(Status(), {numeric});
    return;
  }
  // The thread has its own reference to the state, which may outlive this
  // object.
  const int error =
      StartDetachedThread([share = state_] { Resolve(share.get()); });
  if (error == 0) return;
  state_->End(OsError(error, "cannot start a thread to look %s up",
                      address.host.c_str()),
              {});
}

#endif

bool NameLookup::Wait(double seconds) const {
  std::unique_lock<std::mutex> lock(state_->mutex);
  return state_->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                  [this] { return state_->done; });
}

Status NameLookup::Answer(std::vector<sockaddr_storage>* out) const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  RINGLET_CHECK(state_->done);
  *out = state_->answer;
  return state_->status;
}

}  // namespace ringlet
