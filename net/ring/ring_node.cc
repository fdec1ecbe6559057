#include "ring_node.h"

#include <algorithm>
#include <utility>

namespace ringlet {
namespace {

uint64_t RandomIncarnation() {
  uint64_t incarnation = 0;
  uv_random(nullptr, nullptr, &incarnation, sizeof(incarnation), 0, nullptr);
  return incarnation;
}

}  // namespace

RingNode::RingNode(const RingOptions& options, std::vector<Address> hosts,
                   std::vector<sockaddr_storage> own, uint32_t generation,
                   Loop* loop, Owner* owner)
    : options_(options),
      hosts_(std::move(hosts)),
      own_(std::move(own)),
      owner_(owner),
      handles_(loop),
      lookups_(hosts_.size()),
      session_(options, generation, RandomIncarnation(), this, owner, Now()) {}

void RingNode::Begin() {
  if (MakeTimers()) session_.Begin(Now());
}

void RingNode::BeginWithdrawal(const Status& why) {
  if (MakeTimers()) session_.BeginWithdrawal(why, Now());
}

bool RingNode::MakeTimers() {
  const int error = uv_timer_init(handles_.uv(), &timer_);
  if (error != 0) {
    owner_->OnFailed(UvError(error, "cannot make a timer"));
    return false;
  }
  uv_idle_init(handles_.uv(), &turn_);  // cannot fail
  timer_.data = turn_.data = this;
  handles_.Opened();
  handles_.Opened();
  timers_ = true;
  return true;
}

// Listening.

// On every address that its name has here: any of them may be the first that
// another worker finds. Where the local socket's name is somebody else's, TCP
// serves.
Status RingNode::Listen() {
  Status why;
  bool listening = false;
  for (const sockaddr_storage& own : own_) {
    const Status status =
        NewListener()->ListenTcp(reinterpret_cast<const sockaddr*>(&own));
    listening = listening || status.ok();
    if (status.ok()) {
      if (!options_.local_sockets) continue;
      NewListener()->ListenLocal(LocalSocketName(own)).IgnoreError();
      continue;
    }
    why = status;
    if (why.os_error() == EADDRINUSE) break;  // who comes there meets another
  }
  // A name may have addresses of others too.
  if (listening && why.os_error() != EADDRINUSE) return Status();
  return ListenError(why);
}

Status RingNode::ListenError(const Status& why) const {
  const int rank = options_.rank;
  const char* address = options_.addresses[rank].c_str();
  if (why.os_error() == EADDRINUSE) {
    return Error(Code::kAlreadyExists,
                 "rank %d cannot listen on %s: the port is in use by another "
                 "process",
                 rank, address);
  }
  if (why.os_error() == EADDRNOTAVAIL) {
    return InvalidArgument(
        "rank %d cannot listen on %s: this host has no such address", rank,
        address);
  }
  return why.Annotate("rank %d cannot listen on %s", rank, address);
}

UvListener* RingNode::NewListener() {
  UvListener::Owner* owner = this;
  listeners_.push_back(std::make_unique<UvListener>(&handles_, owner));
  return listeners_.back().get();
}

void RingNode::OnConnection(UvListener* listener) {
  StreamPtr stream;
  if (UvStream::Accept(&handles_, listener->stream(), &stream).ok()) {
    session_.OnAccepted(std::move(stream), Now());
  }
}

void RingNode::StopListening() {
  for (const auto& listener : listeners_) listener->Close();
}

// Connecting.

Status RingNode::Resolve(int peer, bool* done,
                         std::vector<Endpoint>* endpoints) {
  std::unique_ptr<NameLookup>& lookup = lookups_[peer];
  if (lookup == nullptr) lookup = std::make_unique<NameLookup>(hosts_[peer]);
  *done = lookup->done();
  if (!*done) {
    return Error(Code::kUnavailable,
                 "the resolver has not yet found the name %s",
                 hosts_[peer].host.c_str());
  }
  std::vector<sockaddr_storage> addresses;
  const Status found = lookup->Answer(&addresses);
  lookup.reset();
  RINGLET_RETURN_IF_ERROR(found);
  for (const sockaddr_storage& address : addresses) {
    if (options_.local_sockets && IsLocalAddress(address)) {
      endpoints->push_back({address, true});
    }
    endpoints->push_back({address, false});
  }
  return Status();
}

Status RingNode::Connect(const Endpoint& endpoint, StreamPtr* out) {
  if (endpoint.local) {
    return UvStream::ConnectLocal(&handles_, LocalSocketName(endpoint.address),
                                  out);
  }
  return UvStream::ConnectTcp(
      &handles_, reinterpret_cast<const sockaddr*>(&endpoint.address), out);
}

// Time.

void RingNode::TickEvery(int64_t nanos) {
  const uint64_t ms =
      static_cast<uint64_t>(std::max<int64_t>(1, nanos / 1000000));
  uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) {
        static_cast<RingNode*>(timer->data)->session_.Tick(Now());
      },
      ms, ms);
}

// An idle handle runs once all events of the present poll were handled, so what
// they announced is read first.
void RingNode::AwaitTurn() {
  if (uv_is_active(reinterpret_cast<uv_handle_t*>(&turn_))) return;
  uv_idle_start(&turn_, [](uv_idle_t* turn) {
    uv_idle_stop(turn);
    static_cast<RingNode*>(turn->data)->session_.TakeTurn(Now());
  });
}

void RingNode::OnLeft() {
  const uv_close_cb closed = [](uv_handle_t* handle) {
    static_cast<RingNode*>(handle->data)->handles_.Closed();
  };
  if (timers_) {
    uv_close(reinterpret_cast<uv_handle_t*>(&timer_), closed);
    uv_close(reinterpret_cast<uv_handle_t*>(&turn_), closed);
  }
  handles_.WhenAllClosed([this] { owner_->OnClosed(); });
}

}  // namespace ringlet
