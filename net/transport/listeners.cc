// Each attempt, of the look-up and of listening, ends in RecordAttempt, which
// decides whether another follows. Only the first ring's errors end a job:
// later an address may return. A local socket is opened before its port, since
// a worker that reaches the port looks for it.

#include "listeners.h"

#include <algorithm>
#include <utility>

#include "../../core/base/time_units.h"
#include "socket_address.h"

namespace ringlet {
namespace {

constexpr int64_t kLongestPause = kSecond;
constexpr int64_t kFirstLine = kSecond;
constexpr int64_t kMaxLineInterval = 3600 * kFirstLine;

}  // namespace

int64_t Listeners::pause() const {
  const auto timeout = Nanos(options_.timeout_seconds);
  return std::min(kLongestPause, timeout / 4);
}

Status Listeners::Begin(bool retries, int64_t now) {
  next_line_ = now + kFirstLine;
  if (own_.addresses.empty()) {
    if (!retries) return Error(Code::kUnavailable, "no address is known");
    trying_ = true;
    StartLookup();
    HandleAnswer(now);
    return Status();
  }
  bool may_succeed_later = false;
  const Status status = ListenOnAll(&may_succeed_later);
  if (!status.ok() && !retries && !may_succeed_later) return status;
  RecordAttempt(status, now);
  return Status();
}

std::string Listeners::Tick(int64_t now) {
  if (trying_) {
    if (search_ == nullptr && now >= next_try_) StartLookup();
    HandleAnswer(now);
  }
  return DueLine(now);
}

void Listeners::StartLookup() {
  search_ = std::make_unique<OwnAddressSearch>(hosts_, options_.worker,
                                               options_.start_timeout_seconds);
}

// Handles the answer of the search, if the search is done.
void Listeners::HandleAnswer(int64_t now) {
  if (search_ == nullptr || !search_->done()) return;
  OwnAddresses found;
  Status status = search_->Answer(&found);
  search_.reset();
  if (status.ok()) {
    own_ = std::move(found);
    bool may_succeed_later = false;
    status = ListenOnAll(&may_succeed_later);
  }
  RecordAttempt(status, now);
}

// Records the result of an attempt to listen.
void Listeners::RecordAttempt(const Status& status, int64_t now) {
  failed_ = !status.ok();
  unreachable_reason_ = status;
  if (status.ok() && !own_.complete) {
    unreachable_reason_ =
        Error(Code::kUnavailable,
              "worker %d listens on %s only, where other hosts may not "
              "reach it",
              options_.worker, AddressText(own_.addresses.front()).c_str());
  }
  trying_ = !unreachable_reason_.ok();
  next_try_ = now + pause();
}

std::string Listeners::DueLine(int64_t now) {
  if (own_.warning != warned_) {
    warned_ = own_.warning;
    if (!warned_.empty()) return "warning: " + warned_;
  }
  if (failed_ && now >= next_line_) {
    line_interval_ = std::min(2 * line_interval_, kMaxLineInterval);
    next_line_ = now + line_interval_;
    reported_ = true;
    return std::string(unreachable_reason_.message()) + "; it tries again";
  }
  if (failed_ || !std::exchange(reported_, false)) return "";
  return "worker " + std::to_string(options_.worker) + " listens on " +
         AddressText(listens_on_.back()) + " now";
}

// Listens on every address of the worker's own name: another worker may find
// any of them first. The name may have addresses of other hosts too, so one
// usable address is enough.
Status Listeners::ListenOnAll(bool* may_succeed_later) {
  DeleteClosed();
  Status why;
  for (const sockaddr_storage& own : own_.addresses) {
    const bool listens = std::any_of(
        listens_on_.begin(), listens_on_.end(),
        [&](const sockaddr_storage& had) { return SameAddress(had, own); });
    if (listens) continue;
    const Status status = ListenOn(own);
    if (status.ok()) {
      listens_on_.push_back(own);
      continue;
    }
    why = status;
    if (why.os_error() == EADDRINUSE) break;  // another process has the port
  }
  if (!listens_on_.empty() && why.os_error() != EADDRINUSE) return Status();
  *may_succeed_later =
      why.os_error() == EADDRNOTAVAIL && options_.min_workers > 0;
  return MakeError(why);
}

// Opens the local socket before the port: a worker that reaches the port must
// find it.
Status Listeners::ListenOn(const sockaddr_storage& address) {
  const size_t before = listeners_.size();
  if (options_.local_sockets) ListenLocal(address);
  const Status status =
      Add()->ListenTcp(reinterpret_cast<const sockaddr*>(&address));
  for (size_t i = before; !status.ok() && i < listeners_.size(); ++i) {
    listeners_[i]->Close();
  }
  return status;
}

// Opens a local socket for each key. If another process has its name, TCP alone
// is used.
void Listeners::ListenLocal(const sockaddr_storage& address) {
  const JobKeys* const keys = options_.keys.get();
  for (int i = 0; i < (keys != nullptr ? keys->count : 1); ++i) {
    const JobKey* const key = keys != nullptr ? &keys->keys[i] : nullptr;
    Add()->ListenLocal(LocalSocketName(address, key)).IgnoreError();
  }
}

Status Listeners::MakeError(const Status& why) const {
  const int worker = options_.worker;
  const char* address = options_.addresses[worker].c_str();
  if (why.os_error() == EADDRINUSE) {
    return Error(Code::kAlreadyExists,
                 "worker %d cannot listen on %s: the port is in use by another "
                 "process",
                 worker, address);
  }
  if (why.os_error() == EADDRNOTAVAIL) {
    return InvalidArgument(
        "worker %d cannot listen on %s: this host has no such address", worker,
        address);
  }
  return why.Annotate("worker %d cannot listen on %s", worker, address);
}

UvListener* Listeners::Add() {
  listeners_.push_back(std::make_unique<UvListener>(handles_, accepts_));
  return listeners_.back().get();
}

// Deletes the closed listeners of earlier tries.
void Listeners::DeleteClosed() {
  listeners_.erase(
      std::remove_if(listeners_.begin(), listeners_.end(),
                     [](const auto& listener) { return listener->closed(); }),
      listeners_.end());
}

void Listeners::Close() {
  trying_ = false;
  search_.reset();
  for (const auto& listener : listeners_) listener->Close();
}

}  // namespace ringlet
