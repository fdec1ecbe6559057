// Threads: all from Begin to End runs on the thread of loop_, the rest on the
// thread of the caller. The caller touches the exchange only before Begin and
// after End, so the mutex guards done_ and closed_ alone.

#include "link_checks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "../../core/base/time_units.h"
#include "../cluster/address.h"
#include "../membership/session.h"
#include "../transport/seal_stream.h"
#include "../transport/socket_address.h"
#include "host_facts.h"

namespace ringlet {

LinkChecks::LinkChecks(const RingOptions& ring, std::vector<Address> hosts,
                       PeerContext context)
    : ring_(ring),
      hosts_(std::move(hosts)),
      cluster_hash_(ClusterHash(ring.addresses)),
      context_(std::move(context)),
      next_address_(hosts_.size()) {}

LinkChecks::~LinkChecks() { Finish(0); }

Status LinkChecks::Start(double seconds) {
  for (const Address& host : hosts_) {
    lookups_.push_back(std::make_unique<NameLookup>(host));
  }
  listen_status_ = FindOwnAddresses(hosts_, ring_.worker, seconds, &own_);
  for (size_t r = 0; r < hosts_.size() && context_.facts.packet_bytes == 0;
       ++r) {
    std::vector<sockaddr_storage> found;
    const bool known = lookups_[r]->done() && lookups_[r]->Answer(&found).ok();
    if (static_cast<int>(r) == ring_.worker || !known || found.empty() ||
        IsLocalAddress(found[0])) {
      continue;
    }
    context_.facts.packet_bytes = PacketBytesTo(found[0]);
  }
  RINGLET_RETURN_IF_ERROR(Loop::Open(&loop_));
  handles_ = std::make_unique<UvHandles>(loop_.get());
  loop_->Post([this] { Begin(); });
  return Status();
}

void LinkChecks::Begin() {
  if (uv_timer_init(handles_->uv(), &timer_) == 0) {
    handles_->Opened();
    has_timer_ = true;
  }
  if (listen_status_.ok()) Listen();
  context_.listens = listen_status_.ok();
  DoctorExchange::Options options;
  options.self = MakeIdentity(ring_, 1);
  options.facts = EncodeFacts(context_.facts);
  options.settings = context_.settings;
  options.sealed = ring_.keys != nullptr;
  options.listens = context_.listens;
  DoctorExchange::Transport* const self = this;
  exchange_ = std::make_unique<DoctorExchange>(options, self, Clock::System());
  if (!has_timer_) return;
  timer_.data = this;
  constexpr uint64_t kMilliseconds = DoctorExchange::kTickNanos / kMillisecond;
  uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) { static_cast<LinkChecks*>(timer->data)->Tick(); },
      0, kMilliseconds);
}

// On all addresses of this worker; the first error is kept.
void LinkChecks::Listen() {
  for (const sockaddr_storage& own : own_.addresses) {
    UvListener::Owner* const self = this;
    listeners_.push_back(std::make_unique<UvListener>(handles_.get(), self));
    const Status status =
        listeners_.back()->ListenTcp(reinterpret_cast<const sockaddr*>(&own));
    if (listen_status_.ok()) listen_status_ = status;
  }
}

void LinkChecks::Tick() {
  exchange_->Tick(UvNanos());
  if (!exchange_->done()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

void LinkChecks::OnConnection(UvListener* listener) {
  StreamPtr stream;
  if (!UvStream::Accept(handles_.get(), listener->stream(), &stream).ok() ||
      !Seal(SealedStream::Accept, ring_.worker, &stream).ok()) {
    return;
  }
  exchange_->OnAccepted(std::move(stream), UvNanos());
}

Status LinkChecks::Connect(int peer, StreamPtr* out) {
  const auto r = static_cast<size_t>(peer);
  if (!lookups_[r]->done()) {
    return Error(Code::kUnavailable,
                 "the resolver has not yet found the name %s",
                 hosts_[r].host.c_str());
  }
  std::vector<sockaddr_storage> found;
  RINGLET_RETURN_IF_ERROR(lookups_[r]->Answer(&found));
  const sockaddr_storage& to = found[next_address_[r]++ % found.size()];
  RINGLET_RETURN_IF_ERROR(UvStream::ConnectTcp(
      handles_.get(), reinterpret_cast<const sockaddr*>(&to), out));
  return Seal(SealedStream::Connect, peer, out);
}

Status LinkChecks::Seal(SealedStream::Maker* make, int listens,
                        StreamPtr* stream) {
  return SealStream(make, ring_.keys,
                    {cluster_hash_, static_cast<uint16_t>(hosts_.size()),
                     static_cast<uint16_t>(listens)},
                    &answered_, stream);
}

void LinkChecks::Finish(double seconds) {
  if (loop_ == nullptr) return;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(std::max(0., seconds)),
                    [this] { return done_; });
  lock.unlock();
  loop_->Post([this] { End(); });
  lock.lock();
  changed_.wait(lock, [this] { return closed_; });
  lock.unlock();
  loop_.reset();
}

void LinkChecks::End() {
  exchange_->Close();
  for (const auto& listener : listeners_) listener->Close();
  if (has_timer_) {
    uv_close(AsHandle(&timer_), [](uv_handle_t* handle) {
      static_cast<LinkChecks*>(handle->data)->handles_->Closed();
    });
  }
  handles_->WhenAllClosed([this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  });
}

bool LinkChecks::holds_job() const {
  const PeerReport& self =
      exchange_->reports()[static_cast<size_t>(ring_.worker)];
  return listen_status_.os_error() == EADDRINUSE &&
         (self.reach == PeerReport::Reach::kJob ||
          self.reach == PeerReport::Reach::kDoctor);
}

NameFacts LinkChecks::MakeNameFacts(int worker) const {
  const auto r = static_cast<size_t>(worker);
  NameFacts facts;
  facts.worker = worker;
  facts.host = hosts_[r].host;
  sockaddr_storage numeric;
  facts.numeric = NumericAddress(hosts_[r], &numeric).ok();
  facts.answered = lookups_[r]->done();
  if (!facts.answered) return facts;
  std::vector<sockaddr_storage> found;
  facts.status = lookups_[r]->Answer(&found);
  if (!facts.status.ok() || found.empty()) return facts;
  facts.loopback = std::all_of(found.begin(), found.end(), IsLoopbackAddress);
  const std::string text = AddressText(found[0]);
  facts.address = text.substr(0, text.rfind(':'));
  return facts;
}

void LinkChecks::AddFindings(double name_seconds, Findings* out) const {
  std::vector<NameFacts> names;
  names.reserve(static_cast<size_t>(ring_.size()));
  for (int r = 0; r < ring_.size(); ++r) names.push_back(MakeNameFacts(r));
  CheckNames(names, ring_.worker, name_seconds, out);
  const auto self = static_cast<size_t>(ring_.worker);
  const bool named = names[self].answered && names[self].status.ok();
  if (named) {
    CheckPort(
        {ring_.addresses[self], hosts_[self].port, listen_status_, holds_job()},
        out);
  }
  for (int r = 0; r < ring_.size(); ++r) {
    const NameFacts& name = names[static_cast<size_t>(r)];
    if (r == ring_.worker || !name.answered || !name.status.ok()) continue;
    CheckPeerReport(context_, r, exchange_->reports()[static_cast<size_t>(r)],
                    out);
  }
  for (const std::string& refusal : exchange_->refusals()) {
    AddWarning("refused", "refused a connection from " + refusal,
               "if that is a host of this job: give it the same key, list of "
               "workers and version",
               out);
  }
}

}  // namespace ringlet
