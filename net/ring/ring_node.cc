#include "ring_node.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "../../core/base/byte_order.h"
#include "shared_stream.h"
#include "topology.h"

namespace ringlet {
namespace {

constexpr int64_t kPatienceNanos = 50000;
// Whoever can reach a port can connect, so often that nothing else is done.
// While a ring forms so many are admitted in one turn of the loop, later, when
// none is needed, in one tick. All others wait in the kernel's queue, and where
// that is full are not answered. Session::OnAccepted counts on it: one turn's
// are read before those of the turn after the next can displace them.
constexpr int kAdmitsAtOnce = 8;

uint64_t RandomIncarnation() {
  uint64_t incarnation = 0;
  uv_random(nullptr, nullptr, &incarnation, sizeof(incarnation), 0, nullptr);
  return incarnation;
}

// Who withdraws does not know whether the others' job is elastic.
std::vector<int> LinkedRanks(const RingOptions& options, bool withdraws) {
  const bool may_be = withdraws && options.size() <= kMostElastic;
  return LinksOf(options.rank, options.size(),
                 options.min_workers > 0 || may_be);
}

bool Shares(const RingOptions& options) {
  const char* const said = std::getenv("RINGLET_SHM");
  return options.shared_memory &&
         (said == nullptr || std::strcmp(said, "0") != 0);
}

}  // namespace

RingNode::RingNode(const RingOptions& options, std::vector<Address> hosts,
                   std::vector<sockaddr_storage> own, uint32_t generation,
                   uint64_t remaining, Loop* loop, Owner* owner)
    : options_(options),
      hosts_(std::move(hosts)),
      own_(std::move(own)),
      cluster_hash_(ClusterHash(options.addresses)),
      loop_(loop),
      shares_(Shares(options)),
      owner_(owner),
      handles_(loop),
      lookups_(hosts_.size()),
      admits_(kAdmitsAtOnce),
      session_(options, generation, RandomIncarnation(), this, owner, Now(),
               remaining) {}

void RingNode::Begin() {
  if (MakeTimers()) session_.Begin(Now());
}

void RingNode::BeginWithdrawal(const Status& why) {
  withdraws_ = true;
  if (MakeTimers()) session_.BeginWithdrawal(why, Now());
}

bool RingNode::MakeTimers() {
  const int error = uv_timer_init(handles_.uv(), &timer_);
  if (error != 0) {
    owner_->OnFailed(UvError(error, "cannot make a timer"));
    return false;
  }
  uv_idle_init(handles_.uv(), &turn_);  // cannot fail
  uv_idle_init(handles_.uv(), &more_);
  timer_.data = turn_.data = more_.data = this;
  for (int i = 0; i < 3; ++i) handles_.Opened();
  timers_ = true;
  return true;
}

// Listening.

// On every address that its name has here: any of them may be the first that
// another worker finds. The local socket is there first: who reaches the port
// could have found it.
Status RingNode::Listen() {
  if (!options_.relay.empty()) return WaitAtRelay();
  Status why;
  bool listening = false;
  for (const sockaddr_storage& own : own_) {
    const size_t before = listeners_.size();
    if (options_.local_sockets) ListenLocal(own);
    const Status status =
        NewListener()->ListenTcp(reinterpret_cast<const sockaddr*>(&own));
    listening = listening || status.ok();
    if (status.ok()) continue;
    for (size_t i = before; i < listeners_.size(); ++i) listeners_[i]->Close();
    why = status;
    if (why.os_error() == EADDRINUSE) break;  // who comes there meets another
  }
  // A name may have addresses of others too.
  if (listening && why.os_error() != EADDRINUSE) return CheckDescriptors(0);
  return ListenError(why);
}

// Who comes with any of the keys. Where a name is somebody else's, TCP serves.
void RingNode::ListenLocal(const sockaddr_storage& own) {
  const JobKeys* const keys = options_.keys.get();
  for (int i = 0; i < (keys != nullptr ? keys->count : 1); ++i) {
    const JobKey* const key = keys != nullptr ? &keys->keys[i] : nullptr;
    NewListener()->ListenLocal(LocalSocketName(own, key)).IgnoreError();
  }
}

// Whether every connection, and a file and a folder beside them, can be open at
// once. Where they cannot, dials would fail until the start's timeout.
Status RingNode::CheckDescriptors(int waits) const {
  const int size = options_.size();
  const int links =
      waits + static_cast<int>(LinkedRanks(options_, withdraws_).size());
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return Status();
  int spare = 0;
  for (rlim_t fd = 0; fd < limit.rlim_cur && spare < links + 2; ++fd) {
    if (fcntl(static_cast<int>(fd), F_GETFD) < 0) ++spare;
  }
  if (spare == links + 2) return Status();
  return ResourceExhausted(
      "rank %d of %d can have %d more files and connections open (of %d that "
      "'ulimit -n' allows), but needs %d: %d connections and 2 files; raise "
      "the limit",
      options_.rank, size, spare, static_cast<int>(limit.rlim_cur), links + 2,
      links);
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
  if (admits_ > 0) return Admit(listener);
  listener->waits = true;
  if (!session_.forms()) return;  // until the next tick
  uv_idle_start(&more_, [](uv_idle_t* more) {
    uv_idle_stop(more);
    static_cast<RingNode*>(more->data)->AdmitMore();
  });
}

void RingNode::Admit(UvListener* listener) {
  --admits_;
  StreamPtr stream;
  if (!UvStream::Accept(&handles_, listener->stream(), &stream).ok()) return;
  if (!Seal(SealedStream::Accept, options_.rank, &stream).ok()) return;
  if (stream->is_local() && shares_) {
    stream = SharedStream::Expect(std::move(stream));
  }
  session_.OnAccepted(std::move(stream), Now());
}

void RingNode::AdmitMore() {
  admits_ = kAdmitsAtOnce;
  for (const auto& listener : listeners_) {
    if (!listener->open() || !std::exchange(listener->waits, false)) continue;
    Admit(listener.get());
  }
}

// By TCP: who is at the other end of a local socket the system knows.
Status RingNode::Seal(SealedStream::Maker* make, int listens,
                      StreamPtr* stream) {
  if (options_.keys == nullptr || (*stream)->is_local()) return Status();
  uint8_t secret[kNoiseKeyBytes];
  if (!SecureStart()) {
    return Error(Code::kUnimplemented, "this build cannot seal connections");
  }
  const int error =
      uv_random(nullptr, nullptr, secret, sizeof(secret), 0, nullptr);
  if (error != 0) return UvError(error, "no random numbers");
  const Meant meant{cluster_hash_, static_cast<uint16_t>(hosts_.size()),
                    static_cast<uint16_t>(listens)};
  *stream = make(std::move(*stream), options_.keys, meant, secret, &answered_);
  WipeMemory(secret, sizeof(secret));
  return Status();
}

// For each that would dial this rank, and each key that it may come with.
Status RingNode::WaitAtRelay() {
  if (!SecureStart()) {
    return Error(Code::kUnimplemented, "this build cannot seal connections");
  }
  Address relay;
  RINGLET_RETURN_IF_ERROR(ParseAddress(options_.relay, &relay));
  RelayWaits::Owner* const self = this;
  waits_ = std::make_unique<RelayWaits>(&handles_, relay, options_.relay, self);
  for (const int r : LinkedRanks(options_, withdraws_)) {
    for (int i = 0; r > options_.rank && i < options_.keys->count; ++i) {
      waits_->Add(HelloOf(RelayHello::kListens, options_.rank, r,
                          options_.keys->keys[i]));
    }
  }
  RINGLET_RETURN_IF_ERROR(CheckDescriptors(static_cast<int>(waits_->size())));
  waits_->Tick(Now());
  return Status();
}

RelayHello RingNode::HelloOf(RelayHello::Role role, int listens, int dials,
                             const JobKey& key) const {
  constexpr char kPlace[] = "ringlet relay 1";
  std::vector<uint8_t> place(sizeof(kPlace) + 14);
  std::memcpy(place.data(), kPlace, sizeof(kPlace));
  uint8_t* const at = place.data() + sizeof(kPlace);
  StoreLittle(cluster_hash_, at);
  StoreLittle(static_cast<uint16_t>(options_.size()), at + 8);
  StoreLittle(static_cast<uint16_t>(listens), at + 10);
  StoreLittle(static_cast<uint16_t>(dials), at + 12);
  place.insert(place.end(), options_.job.begin(), options_.job.end());
  RelayHello hello;
  hello.role = role;
  static_assert(kRelayChannelBytes == kKeyTagBytes);
  KeyTag(key, place.data(), place.size(), hello.channel);
  return hello;
}

void RingNode::OnJoined(StreamPtr stream, int64_t now) {
  if (!Seal(SealedStream::Accept, options_.rank, &stream).ok()) return;
  session_.OnAccepted(std::move(stream), now);
}

void RingNode::StopListening() {
  if (waits_ != nullptr) waits_->Close();
  for (const auto& listener : listeners_) listener->Close();
}

// Connecting.

Status RingNode::Resolve(int peer, bool* done,
                         std::vector<Endpoint>* endpoints) {
  std::unique_ptr<NameLookup>& lookup = lookups_[peer];
  Address at = hosts_[peer];
  if (!options_.relay.empty()) {
    RINGLET_RETURN_IF_ERROR(ParseAddress(options_.relay, &at));
  }
  if (lookup == nullptr) lookup = std::make_unique<NameLookup>(at);
  *done = lookup->done();
  if (!*done) {
    return Error(Code::kUnavailable,
                 "the resolver has not yet found the name %s", at.host.c_str());
  }
  std::vector<sockaddr_storage> addresses;
  const Status found = lookup->Answer(&addresses);
  lookup.reset();
  RINGLET_RETURN_IF_ERROR(found);
  for (const sockaddr_storage& address : addresses) {
    if (options_.local_sockets && options_.relay.empty() &&
        IsLocalAddress(address)) {
      endpoints->push_back({address, true});
    }
    endpoints->push_back({address, false});
  }
  return Status();
}

Status RingNode::Connect(int peer, const Endpoint& endpoint, StreamPtr* out) {
  if (endpoint.local) {
    const JobKeys* const keys = options_.keys.get();
    const JobKey* const key = keys != nullptr ? &keys->keys[0] : nullptr;
    RINGLET_RETURN_IF_ERROR(UvStream::ConnectLocal(
        &handles_, LocalSocketName(endpoint.address, key), out));
    if (shares_) *out = SharedStream::Offer(std::move(*out));
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(UvStream::ConnectTcp(
      &handles_, reinterpret_cast<const sockaddr*>(&endpoint.address), out));
  if (!options_.relay.empty()) {
    if (!SecureStart()) {
      return Error(Code::kUnimplemented, "this build cannot seal connections");
    }
    *out = RelayStream::Make(std::move(*out),
                             HelloOf(RelayHello::kDials, peer, options_.rank,
                                     options_.keys->keys[0]),
                             options_.relay);
  }
  return Seal(SealedStream::Connect, peer, out);
}

// Time.

// On a busy machine it may be long before the processor is this thread's again:
// what the loop's thread has to do must not wait for that.
void RingNode::Work(uint64_t sequence) {
  if (session_.Ended(sequence)) return;
  int64_t now = Now();
  for (int64_t moved = now;
       !session_.Ended(sequence) && now - moved < kPatienceNanos; now = Now()) {
    const bool some = session_.Poll(now, false);
    if (some) moved = now;
    if (some && !loop_->wanted()) continue;
    loop_->Leave();
    sched_yield();
    loop_->Enter();
  }
  session_.Poll(now, true);
}

void RingNode::TickEvery(int64_t nanos) {
  const uint64_t ms =
      static_cast<uint64_t>(std::max<int64_t>(1, nanos / 1000000));
  uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) {
        RingNode* const node = static_cast<RingNode*>(timer->data);
        node->AdmitMore();
        if (node->waits_ != nullptr) node->waits_->Tick(Now());
        node->SetStep(node->owner_->Step());
        node->session_.Tick(Now());
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
  if (waits_ != nullptr) waits_->Close();
  const uv_close_cb closed = [](uv_handle_t* handle) {
    static_cast<RingNode*>(handle->data)->handles_.Closed();
  };
  if (timers_) {
    uv_close(reinterpret_cast<uv_handle_t*>(&timer_), closed);
    uv_close(reinterpret_cast<uv_handle_t*>(&turn_), closed);
    uv_close(reinterpret_cast<uv_handle_t*>(&more_), closed);
  }
  handles_.WhenAllClosed([this] { owner_->OnClosed(); });
}

}  // namespace ringlet
