// The order of closing matters: OnLeft closes all handles, and the node may be
// deleted only when handles_ reports that all are closed. Local sockets are
// tried before TCP (Resolve). Streams are wrapped here in one order: TCP,
// relay, seal; or local socket, shared memory.

#include "ring_node.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../cluster/address.h"
#include "../collective/topology.h"
#include "../transport/seal_stream.h"
#include "../transport/shared_stream.h"

namespace ringlet {
namespace {

// How long a thread polls shared memory before it sleeps.
constexpr int64_t kPollNanos = 50000;
// A program that reaches the port can connect so often that the worker does
// nothing else. So the number of accepted connections is limited: in each turn
// of the loop while a ring forms, and in each tick later. Further connections
// wait in the kernel's queue. While the queue is full, they get no answer.
// Session::OnAccepted relies on it: the connections of one turn are read before
// the connections of the turn after the next can displace them.
constexpr int kAdmitsAtOnce = 8;

uint64_t RandomIncarnation() {
  uint64_t incarnation = 0;
  uv_random(nullptr, nullptr, &incarnation, sizeof(incarnation), 0, nullptr);
  return incarnation;
}

// A withdrawing worker may lack the job's options, also whether the job is
// elastic, so it links with all other workers.
std::vector<int> LinkedWorkers(const RingOptions& options, bool withdraws) {
  const bool may_be = withdraws && options.size() <= kMaxElasticWorkers;
  return LinksOf(options.worker, options.size(),
                 options.min_workers > 0 || may_be);
}

bool UsesSharedMemory(const RingOptions& options) {
  const char* const shm_variable = std::getenv("RINGLET_SHM");
  return options.shared_memory &&
         (shm_variable == nullptr || std::strcmp(shm_variable, "0") != 0);
}

}  // namespace

RingNode::RingNode(const RingOptions& options, std::vector<Address> hosts,
                   OwnAddresses own_addresses, uint32_t generation,
                   uint64_t remaining_mask, Loop* loop, Owner* owner)
    : options_(options),
      hosts_(std::move(hosts)),
      cluster_hash_(ClusterHash(options.addresses)),
      loop_(loop),
      shares_(UsesSharedMemory(options)),
      owner_(owner),
      handles_(loop),
      lookups_(hosts_.size()),
      listeners_(options_, hosts_, std::move(own_addresses), &handles_, this),
      forms_again_(generation > 1),
      admits_left_(kAdmitsAtOnce),
      session_(options, generation, RandomIncarnation(), this, owner, UvNanos(),
               remaining_mask) {}

void RingNode::Begin() {
  if (InitHandles()) session_.Begin(UvNanos());
}

void RingNode::BeginWithdrawal(const Status& why) {
  withdraws_ = true;
  if (InitHandles()) session_.BeginWithdrawal(why, UvNanos());
}

bool RingNode::InitHandles() {
  const int error = uv_timer_init(handles_.uv(), &timer_);
  if (error != 0) {
    owner_->OnFailed(UvError(error, "cannot make a timer"));
    return false;
  }
  uv_idle_init(handles_.uv(), &turn_idle_);  // cannot fail
  uv_idle_init(handles_.uv(), &admit_idle_);
  timer_.data = turn_idle_.data = admit_idle_.data = this;
  for (int i = 0; i < 3; ++i) handles_.Opened();
  initialized_ = true;
  return true;
}

// Listening.

Status RingNode::Listen() {
  if (!options_.relay.empty()) return WaitAtRelay();
  // In the first ring an unusable address is most likely a mistake.
  RINGLET_RETURN_IF_ERROR(listeners_.Begin(forms_again_, UvNanos()));
  return CheckDescriptors(0);
}

// Returns an error if this process cannot open descriptors for all connections
// and two more: a file and a folder. Without this check dials would fail until
// the start's timeout.
Status RingNode::CheckDescriptors(int relay_connections) const {
  const int size = options_.size();
  const int links =
      relay_connections +
      static_cast<int>(LinkedWorkers(options_, withdraws_).size());
  int64_t limit = 0;
  const int spare = SpareDescriptors(links + 2, &limit);
  if (spare == links + 2) return Status();
  return ResourceExhausted(
      "worker %d of %d can have %d more files and connections open (of %d that "
      "'ulimit -n' allows), but needs %d: %d connections and 2 files; raise "
      "the limit",
      options_.worker, size, spare, static_cast<int>(limit), links + 2, links);
}

void RingNode::OnConnection(UvListener* listener) {
  if (admits_left_ > 0) return Admit(listener);
  listener->waits = true;
  if (!session_.connecting()) return;  // it waits until the next tick
  uv_idle_start(&admit_idle_, [](uv_idle_t* idle) {
    uv_idle_stop(idle);
    static_cast<RingNode*>(idle->data)->AdmitMore();
  });
}

void RingNode::Admit(UvListener* listener) {
  --admits_left_;
  StreamPtr stream;
  if (!UvStream::Accept(&handles_, listener->stream(), &stream).ok()) return;
  if (!Seal(SealedStream::Accept, options_.worker, &stream).ok()) return;
  if (stream->is_local() && shares_) {
    stream = SharedStream::Expect(std::move(stream));
  }
  session_.OnAccepted(std::move(stream), UvNanos());
}

void RingNode::AdmitMore() {
  admits_left_ = kAdmitsAtOnce;
  for (const auto& listener : listeners_.all()) {
    if (!listener->open() || !std::exchange(listener->waits, false)) continue;
    Admit(listener.get());
  }
}

Status RingNode::Seal(SealedStream::Maker* make, int listens,
                      StreamPtr* stream) {
  return SealStream(make, options_.keys,
                    {cluster_hash_, static_cast<uint16_t>(hosts_.size()),
                     static_cast<uint16_t>(listens)},
                    &answered_, stream);
}

// Opens a waiting connection at the relay for each linked worker with a higher
// number, and for each key.
Status RingNode::WaitAtRelay() {
  RINGLET_RETURN_IF_ERROR(SecureStart());
  Address relay;
  RINGLET_RETURN_IF_ERROR(ParseAddress(options_.relay, &relay));
  RelayWaits::Owner* const self = this;
  waits_ = std::make_unique<RelayWaits>(&handles_, relay, options_.relay, self);
  for (const int r : LinkedWorkers(options_, withdraws_)) {
    for (int i = 0; r > options_.worker && i < options_.keys->count; ++i) {
      waits_->Add(MakeHello(RelayHello::kListens, options_.worker, r,
                            options_.keys->keys[i]));
    }
  }
  RINGLET_RETURN_IF_ERROR(CheckDescriptors(static_cast<int>(waits_->size())));
  waits_->Tick(UvNanos());
  return Status();
}

RelayHello RingNode::MakeHello(RelayHello::Role role, int listens, int dials,
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
  if (!Seal(SealedStream::Accept, options_.worker, &stream).ok()) return;
  session_.OnAccepted(std::move(stream), now);
}

void RingNode::StopListening() {
  if (waits_ != nullptr) waits_->Close();
  listeners_.Close();
}

// Connecting.

Status RingNode::Resolve(int peer, bool* done,
                         std::vector<Endpoint>* endpoints) {
  std::unique_ptr<NameLookup>& lookup = lookups_[peer];
  Address host = hosts_[peer];
  if (!options_.relay.empty()) {
    RINGLET_RETURN_IF_ERROR(ParseAddress(options_.relay, &host));
  }
  if (lookup == nullptr) lookup = std::make_unique<NameLookup>(host);
  *done = lookup->done();
  if (!*done) {
    return Error(Code::kUnavailable,
                 "the resolver has not yet found the name %s",
                 host.host.c_str());
  }
  std::vector<sockaddr_storage> addresses;
  const Status found = lookup->Answer(&addresses);
  lookup.reset();
  RINGLET_RETURN_IF_ERROR(found);
  for (const sockaddr_storage& address : addresses) {
    if (options_.local_sockets && options_.relay.empty() &&
        IsLocalAddress(address)) {
      endpoints->push_back({address, /*local=*/true});
    }
    endpoints->push_back({address, /*local=*/false});
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
    RINGLET_RETURN_IF_ERROR(SecureStart());
    *out = RelayStream::Make(std::move(*out),
                             MakeHello(RelayHello::kDials, peer,
                                       options_.worker, options_.keys->keys[0]),
                             options_.relay);
  }
  return Seal(SealedStream::Connect, peer, out);
}

// Time.

// On a busy machine this thread may not be scheduled for long. So it leaves the
// loop before it yields the processor.
void RingNode::PollUntilEnded(uint64_t sequence) {
  if (session_.Ended(sequence)) return;
  int64_t now = UvNanos();
  for (int64_t moved = now;
       !session_.Ended(sequence) && now - moved < kPollNanos; now = UvNanos()) {
    const bool received = session_.Poll(now, /*wake=*/false);
    if (received) moved = now;
    if (received && !loop_->loop_thread_waits()) continue;
    loop_->Leave();
    sched_yield();
    loop_->Enter();
  }
  session_.Poll(now, /*wake=*/true);
}

void RingNode::TickEvery(int64_t nanos) {
  const uint64_t ms =
      static_cast<uint64_t>(std::max<int64_t>(1, nanos / 1000000));
  uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) {
        RingNode* const node = static_cast<RingNode*>(timer->data);
        node->AdmitMore();
        const std::string line = node->listeners_.Tick(UvNanos());
        if (!line.empty()) node->owner_->OnNotice(line);
        if (node->waits_ != nullptr) node->waits_->Tick(UvNanos());
        node->SetStep(node->owner_->Step());
        node->session_.Tick(UvNanos());
      },
      ms, ms);
}

// An idle handle runs once all events of the present poll were handled. So the
// bytes of these events are read first.
void RingNode::RequestTurn() {
  if (uv_is_active(AsHandle(&turn_idle_))) return;
  uv_idle_start(&turn_idle_, [](uv_idle_t* idle) {
    uv_idle_stop(idle);
    static_cast<RingNode*>(idle->data)->session_.RunTurn(UvNanos());
  });
}

void RingNode::OnLeft() {
  if (waits_ != nullptr) waits_->Close();
  const uv_close_cb closed = [](uv_handle_t* handle) {
    static_cast<RingNode*>(handle->data)->handles_.Closed();
  };
  if (initialized_) {
    uv_close(AsHandle(&timer_), closed);
    uv_close(AsHandle(&turn_idle_), closed);
    uv_close(AsHandle(&admit_idle_), closed);
  }
  handles_.WhenAllClosed([this] { owner_->OnClosed(); });
}

}  // namespace ringlet
