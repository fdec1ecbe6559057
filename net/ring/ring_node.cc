#include "ring_node.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace ringlet {
namespace {

constexpr int64_t kSecond = 1000000000;
constexpr int64_t kFirstBackoff = kSecond / 50;
constexpr int64_t kLongestBackoff = kSecond;
constexpr uint64_t kStartTickMs = 20;
constexpr size_t kMaxStrangers = 16;
constexpr size_t kAbortFixedBytes = 6;
constexpr uint16_t kNobody = 0xffff;

Algorithm AlgorithmOf(RingImplementation implementation) {
  switch (implementation) {
    case RingImplementation::kRing:
      return Algorithm::kRing;
    case RingImplementation::kTree:
      return Algorithm::kTree;
    case RingImplementation::kAuto:
      break;
  }
  return Algorithm::kAuto;
}

FailureDetector::Options DetectorOptions(const RingOptions& options) {
  FailureDetector::Options out;
  out.rank = options.rank;
  out.timeout_nanos = static_cast<int64_t>(options.timeout_seconds * 1e9);
  out.addresses = options.addresses;
  return out;
}

}  // namespace

RingNode::RingNode(const RingOptions& options, std::vector<Address> hosts,
                   std::vector<sockaddr_storage> own, uint32_t generation,
                   Loop* loop, Owner* owner)
    : options_(options),
      hosts_(std::move(hosts)),
      own_(std::move(own)),
      loop_(loop),
      owner_(owner),
      rank_(options.rank),
      size_(static_cast<int>(options.addresses.size())),
      proposal_(generation),
      roll_(options.rank, options.addresses, options.start_timeout_seconds),
      peers_(options.addresses.size()),
      handles_(loop),
      detector_(DetectorOptions(options), Now()),
      schedule_(rank_, size_, AlgorithmOf(options.implementation),
                options.wire_dtype, this) {
  identity_.job = options.job;
  identity_.rank = rank_;
  identity_.size = size_;
  identity_.cluster_hash = ClusterHash(options.addresses);
  identity_.timeout_ms =
      static_cast<uint32_t>(std::llround(options.timeout_seconds * 1000));
  identity_.implementation = static_cast<uint8_t>(options.implementation);
  identity_.dtype = static_cast<uint8_t>(options.wire_dtype);
  identity_.bytes_per_pack = static_cast<uint64_t>(options.bytes_per_pack);
  uv_random(nullptr, nullptr, &identity_.incarnation,
            sizeof(identity_.incarnation), 0, nullptr);
}

// Forming the ring.

void RingNode::Begin() {
  loop_->AssertInLoop();
  start_deadline_ =
      Now() + static_cast<int64_t>(options_.start_timeout_seconds * 1e9);
  int error = uv_timer_init(loop_->uv(), &timer_);
  if (error != 0) return Fail(UvError(error, "cannot make a timer"));
  timer_.data = this;
  uv_idle_init(loop_->uv(), &turn_);  // cannot fail
  turn_.data = this;
  handles_.Opened();
  handles_.Opened();
  roll_.Begin(Now());
  if (state_ == State::kWithdrawing) {  // it can tell them without, too
    Listen().IgnoreError();
  } else {
    const Status listening = Listen();
    if (!listening.ok()) return Fail(listening);
  }
  uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) { static_cast<RingNode*>(timer->data)->Tick(); }, 0,
      kStartTickMs);
}

void RingNode::BeginWithdrawal(const Status& why) {
  state_ = State::kWithdrawing;
  withdrawal_ = why;
  Begin();
}

// On every address that its name has here: any of them may be the first that
// another worker finds.
Status RingNode::Listen() {
  Status why;
  bool listening = false;
  for (const sockaddr_storage& own : own_) {
    const Status status = ListenTcp(own);
    listening = listening || status.ok();
    if (status.ok()) {
      ListenLocal(own);
      continue;
    }
    why = status;
    if (why.os_error() == EADDRINUSE) break;  // who comes there meets another
  }
  const char* address = options_.addresses[rank_].c_str();
  if (why.os_error() == EADDRINUSE) {
    return Error(Code::kAlreadyExists,
                 "rank %d cannot listen on %s: the port is in use by another "
                 "process",
                 rank_, address);
  }
  if (listening) return Status();  // a name may have addresses of others too
  if (why.os_error() == EADDRNOTAVAIL) {
    return InvalidArgument(
        "rank %d cannot listen on %s: this host has no such address", rank_,
        address);
  }
  return why.Annotate("rank %d cannot listen on %s", rank_, address);
}

Status RingNode::ListenTcp(const sockaddr_storage& address) {
  UvListener::Owner* owner = this;
  listeners_.push_back(std::make_unique<UvListener>(&handles_, owner));
  return listeners_.back()->ListenTcp(
      reinterpret_cast<const sockaddr*>(&address));
}

// Where that cannot be, somebody else having the name, TCP serves.
void RingNode::ListenLocal(const sockaddr_storage& address) {
  if (!options_.local_sockets) return;
  UvListener::Owner* owner = this;
  listeners_.push_back(std::make_unique<UvListener>(&handles_, owner));
  listeners_.back()->ListenLocal(LocalSocketName(address)).IgnoreError();
}

// All ways to a peer in turn, one at a time: each address that its name has, by
// the local socket first where it is of this host. Whatever goes wrong with
// one, as long as it is not a member, leads to the next: nobody vouches for who
// has taken the name of a local socket. After the last way comes a pause, and
// the name is looked up anew: a worker that starts again may be elsewhere.
void RingNode::Dial(int peer) {
  Peer& p = peers_[peer];
  if (p.ways.empty()) {
    if (p.lookup == nullptr) {
      p.lookup = std::make_unique<NameLookup>(hosts_[peer]);
    }
    if (!p.lookup->done()) {
      roll_.Trouble(
          peer, "the resolver has not yet found the name " + hosts_[peer].host);
      return;
    }
    std::vector<sockaddr_storage> addresses;
    const Status found = p.lookup->Answer(&addresses);
    p.lookup.reset();
    if (!found.ok()) return Redial(peer, found.message());
    FindWays(peer, addresses);
  }
  while (p.link == nullptr && p.next_way < p.ways.size()) {
    const Way& way = p.ways[p.next_way++];
    StreamPtr stream;
    const Status status =
        way.local
            ? UvStream::ConnectLocal(&handles_, LocalSocketName(way.address),
                                     &stream)
            : UvStream::ConnectTcp(
                  &handles_, reinterpret_cast<const sockaddr*>(&way.address),
                  &stream);
    if (!status.ok()) {
      Redial(peer, way.local ? "" : status.message());
      continue;
    }
    FramedLink::Owner* owner = this;
    p.link = std::make_unique<FramedLink>(std::move(stream),
                                          LinkPhase::kConnecting, owner);
    p.link->peer = peer;
    p.link->opened_at = Now();
    if (p.link->open()) OnConnected(p.link.get(), Now());
  }
}

void RingNode::FindWays(int peer,
                        const std::vector<sockaddr_storage>& addresses) {
  Peer& p = peers_[peer];
  p.ways.clear();
  p.next_way = 0;
  p.failed.clear();
  for (const sockaddr_storage& address : addresses) {
    if (options_.local_sockets && IsLocalAddress(address)) {
      p.ways.push_back({address, true});
    }
    p.ways.push_back({address, false});
  }
}

// `why` is of the way just tried; "" is not worth telling. Where more are left
// the next is tried at the next tick.
void RingNode::Redial(int peer, const std::string& why) {
  Peer& p = peers_[peer];
  if (!why.empty()) {
    if (!p.failed.empty()) p.failed += ", ";
    const size_t tried = p.next_way;
    const bool several =
        p.ways.size() > 1 &&
        !SameAddress(p.ways.front().address, p.ways.back().address);
    if (several && tried > 0) {
      p.failed += AddressText(p.ways[tried - 1].address) + ": ";
    }
    p.failed += why;
    roll_.Trouble(peer, p.failed);
  }
  roll_.Lost(peer, Now());
  if (p.next_way < p.ways.size()) {
    p.next_dial = Now();
    return;
  }
  p.ways.clear();
  p.next_way = 0;
  p.failed.clear();
  p.backoff =
      std::min(kLongestBackoff, p.backoff == 0 ? kFirstBackoff : 2 * p.backoff);
  p.next_dial = Now() + p.backoff;
}

void RingNode::OnConnected(FramedLink* link, int64_t) {
  if (state_ == State::kWithdrawing) return SendWithdraw(link);
  link->SetPhase(LinkPhase::kAwaitWelcome);
  SendIdentity(link, FrameType::kHello);
}

void RingNode::SendWithdraw(FramedLink* link) {
  link->SetPhase(LinkPhase::kAwaitWelcome);
  const std::vector<uint8_t> payload = EncodeWithdraw({identity_, withdrawal_});
  FrameHeader header;
  header.type = FrameType::kWithdraw;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  SendTo(link, header, payload.data(), false);
}

void RingNode::SendIdentity(FramedLink* link, FrameType type, uint64_t told) {
  const std::vector<uint8_t> payload = EncodeIdentity(identity_);
  FrameHeader header;
  header.type = type;
  header.total = told;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  SendTo(link, header, payload.data(), false);
}

void RingNode::OnConnection(UvListener* listener) {
  dropped_.clear();
  if (strangers_.size() >= kMaxStrangers) {  // the oldest had its chance
    std::unique_ptr<FramedLink> oldest = std::move(strangers_.front());
    strangers_.erase(strangers_.begin());
    DropLink(&oldest);
  }
  StreamPtr stream;
  const bool wanted = live() || meets();
  if (!UvStream::Accept(&handles_, listener->stream(), &stream).ok() ||
      !wanted) {
    return;
  }
  FramedLink::Owner* owner = this;
  auto link = std::make_unique<FramedLink>(std::move(stream),
                                           LinkPhase::kAwaitHello, owner);
  link->opened_at = Now();
  strangers_.push_back(std::move(link));
}

Status RingNode::OnHello(FramedLink* link, const FrameHeader& header,
                         const uint8_t* payload) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  if (state_ == State::kWithdrawing) {
    const bool member = CheckMember(identity_, peer).ok() &&
                        peer.rank < size_ && peer.rank != rank_;
    if (!member) return CheckMember(identity_, peer);
    link->peer = peer.rank;
    SendWithdraw(link);
    return Status();
  }
  const Status fits = CheckPeer(identity_, peer, -1);
  if (!fits.ok()) {
    RefuseOther(link, peer, fits);
    return Status();
  }
  Peer& p = peers_[peer.rank];
  if (state_ != State::kStarting || p.link != nullptr) {
    RefuseRival(link, peer);
    return Status();
  }
  for (std::unique_ptr<FramedLink>& stranger : strangers_) {
    if (stranger.get() == link) p.link = std::move(stranger);
  }
  strangers_.erase(std::remove(strangers_.begin(), strangers_.end(), nullptr),
                   strangers_.end());
  RINGLET_CHECK(p.link.get() == link);
  link->peer = peer.rank;
  SendIdentity(link, FrameType::kWelcome);
  Join(peer.rank, header.generation);
  return Status();
}

Status RingNode::OnWelcome(FramedLink* link, const FrameHeader& header,
                           const uint8_t* payload) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  if (state_ == State::kWithdrawing) {  // it has heard of it
    RINGLET_RETURN_IF_ERROR(CheckMember(identity_, peer));
    if (peer.rank != link->peer) return Corruption("another rank's answer");
    peers_[peer.rank].told = true;
    for (int r = 0; r < std::min(size_, 64); ++r) {
      if ((header.total >> r & 1) != 0) peers_[r].told = true;
    }
    if (peers_[peer.rank].link.get() == link) DropLink(&peers_[peer.rank].link);
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(CheckPeer(identity_, peer, link->peer));
  Join(link->peer, header.generation);
  return Status();
}

// Of a worker that has the place of nobody who is there: believed as far as a
// kHello in that name would be.
Status RingNode::OnWithdraw(FramedLink* link, const FrameHeader& header,
                            const uint8_t* payload) {
  Withdraw withdraw;
  RINGLET_RETURN_IF_ERROR(
      DecodeWithdraw(payload, header.payload_bytes, &withdraw));
  const Identity& peer = withdraw.identity;
  const Status member = CheckMember(identity_, peer);
  const bool asked = link->phase() == LinkPhase::kAwaitWelcome;
  const bool known = member.ok() && peer.rank != rank_ && peer.rank < size_ &&
                     (!asked || peer.rank == link->peer);
  if (asked && !known) return Corruption("a withdrawal of another worker");
  if (!known || !meets() || !Missing(peer.rank)) {
    Reject(link,
           !member.ok() ? member
                        : InvalidArgument("rank %d has a worker here already",
                                          peer.rank),
           /*final=*/false);
    return Status();
  }
  uint64_t told = 0;  // by Fail
  for (int r = 0; r < std::min(size_, 64); ++r) {
    if (r != rank_ && !Missing(r)) told |= uint64_t{1} << r;
  }
  SendIdentity(link, FrameType::kWelcome, first_time() ? told : 0);
  if (state_ == State::kWithdrawing) {
    peers_[peer.rank].told = true;
    return Status();
  }
  const Status why =
      withdraw.reason.Annotate("rank %d (%s) cannot take part", peer.rank,
                               options_.addresses[peer.rank].c_str());
  if (!first_time()) {
    roll_.Trouble(peer.rank, std::string("it cannot take part: ") +
                                 withdraw.reason.message());
    Say(roll_.Refused(link->stream().remote(), why.message(), Now()));
    return asked ? why : Status();
  }
  told_by_other_ = true;
  Fail(why);
  return Status();
}

// By TCP alone is a refusal the last word: whoever has taken the name of a
// local socket does not keep two workers apart.
Status RingNode::OnReject(FramedLink* link, const FrameHeader& header,
                          const uint8_t* payload) {
  const std::string text = Printable(payload, header.payload_bytes);
  const Status why =
      Error(Code::kUnavailable, "it refused this worker: %s", text.c_str());
  if (state_ != State::kStarting || link->stream().is_local()) return why;
  const int peer = link->peer;
  if (header.sequence == 0) {
    Say(roll_.RefusedBy(peer, text, Now()));
    return why;
  }
  Fail(Error(CodeOf(header.sequence), "rank %d (%s) refused this worker: %s",
             peer, options_.addresses[peer].c_str(), text.c_str()));
  return Status();
}

void RingNode::Join(int peer, uint32_t proposal) {
  peers_[peer].proposal = proposal;
  peers_[peer].link->SetPhase(LinkPhase::kUp);
  schedule_.Replaced(peer);
  peers_[peer].ways.clear();  // should it be lost again, all begins anew
  peers_[peer].next_way = 0;
  peers_[peer].failed.clear();
  peers_[peer].backoff = 0;
  detector_.Joined(peer, Now());
  roll_.Came(peer);
  CheckFormed();
}

// Says why and closes; remembered for the message about who is missing.
void RingNode::Reject(FramedLink* link, const Status& why, bool final,
                      bool quiet) {
  const std::string line =
      roll_.Refused(link->stream().remote(), why.message(), Now(), quiet);
  FrameHeader header;
  header.type = FrameType::kReject;
  header.sequence = final ? static_cast<uint64_t>(why.code()) : 0;
  header.payload_bytes = static_cast<uint32_t>(
      std::min<size_t>(std::strlen(why.message()), kTextBytes));
  SendTo(link, header, reinterpret_cast<const uint8_t*>(why.message()), false);
  for (std::unique_ptr<FramedLink>& stranger : strangers_) {
    if (stranger.get() == link) DropLink(&stranger);
  }
  strangers_.erase(std::remove(strangers_.begin(), strangers_.end(), nullptr),
                   strangers_.end());
  Say(line);
}

void RingNode::Say(const std::string& line) {
  if (!line.empty()) owner_->OnNotice(line);
}

// Two that wait for each other and differ wait in vain. Here as there the last
// word is by TCP, which the other tries after a local socket.
void RingNode::RefuseOther(FramedLink* link, const Identity& peer,
                           const Status& why) {
  const bool of_this_job = peer.job == identity_.job;
  const bool waits = state_ == State::kStarting && peer.rank < size_ &&
                     Missing(peer.rank) && of_this_job &&
                     !link->stream().is_local();
  if (!waits) return Reject(link, why, /*final=*/false);
  const sockaddr_storage from = link->stream().remote_address();
  Reject(link, why, /*final=*/true);
  if (!first_time()) return;
  if (CheckMember(identity_, peer).ok()) return Fail(why);
  // Anybody may have another list: one of this job comes from where its rank
  // is.
  refusal_.why = why;
  refusal_.from = from;
  refusal_.lookup = std::make_unique<NameLookup>(hosts_[peer.rank]);
  JudgeRefusal();
}

// The place is taken; by one that died unnoticed just now, or by a second
// worker of that index, which is still here when the first would have been
// missed.
void RingNode::RefuseRival(FramedLink* link, const Identity& peer) {
  Peer& p = peers_[peer.rank];
  if (p.rival != peer.incarnation) {
    p.rival = peer.incarnation;
    p.rival_since = Now();
  }
  const bool both_live = static_cast<double>(Now() - p.rival_since) >
                         2e9 * options_.timeout_seconds;
  Reject(link,
         Error(Code::kAlreadyExists,
               "rank %d is already part of the running job \"%s\": two workers "
               "have the same index, or one came back",
               peer.rank, options_.job.c_str()),
         both_live);
}

// Nothing else of what it says can be read.
void RingNode::RefuseVersion(FramedLink* link, const Status& why) {
  const sockaddr_storage from = link->stream().remote_address();
  Reject(link, why, /*final=*/true);
  if (state_ != State::kStarting || !first_time()) return;
  for (int r = 0; r < size_; ++r) {
    sockaddr_storage numeric;
    if (!Missing(r) || !NumericAddress(hosts_[r], &numeric).ok()) continue;
    if (SameHost(from, numeric)) {
      return Fail(InvalidArgument("a worker on the host of rank %d (%s): %s", r,
                                  options_.addresses[r].c_str(),
                                  why.message()));
    }
  }
}

void RingNode::JudgeRefusal() {
  if (refusal_.lookup == nullptr || !refusal_.lookup->done()) return;
  std::vector<sockaddr_storage> addresses;
  refusal_.lookup->Answer(&addresses).IgnoreError();  // then there are none
  refusal_.lookup.reset();
  const bool member = std::any_of(addresses.begin(), addresses.end(),
                                  [&](const sockaddr_storage& address) {
                                    return SameHost(refusal_.from, address);
                                  });
  if (member) Fail(refusal_.why);
}

void RingNode::CheckFormed() {
  if (state_ != State::kStarting) return;
  for (int r = 0; r < size_; ++r) {
    if (Missing(r)) return;
  }
  // All ranks have the same proposals at hand: one for each pair of links.
  generation_ = proposal_;
  for (const Peer& p : peers_) {
    generation_ = std::max(generation_, p.proposal);
  }
  detector_.SetGeneration(generation_);
  state_ = State::kRunning;
  const uint64_t ms = std::max<uint64_t>(
      1, static_cast<uint64_t>(detector_.tick_nanos() / 1000000));
  uv_timer_set_repeat(&timer_, ms);
  uv_timer_again(&timer_);
  Say(roll_.Complete(Now()));
  owner_->OnRunning();
}

// Time.

void RingNode::Tick() {
  dropped_.clear();
  const int64_t now = Now();
  ExpireHandshakes(now);
  if (state_ == State::kWithdrawing) return TickWithdrawal(now);
  UpdateActivity();
  bool beat = false;
  const FailureDetector::Suspect suspect = detector_.Tick(now, &beat);
  if (beat) {
    FrameHeader header;
    uint8_t payload[kHeartbeatBytes];
    EncodeHeartbeat(detector_.activity(), &header, payload);
    for (Peer& p : peers_) {
      if (p.link != nullptr && p.link->phase() == LinkPhase::kUp) {
        SendTo(p.link.get(), header, payload, false);
      }
    }
  }
  const int stuck = FindStuck();
  if (state_ == State::kStarting) {
    if (stuck >= 0) {
      detector_.Gone(stuck);
      DropLink(&peers_[stuck].link);
      Redial(stuck, "it was there and did not read");
    }
    return TickStart(now, suspect);
  }
  if (stuck >= 0 && suspect.rank < 0) {
    const double seconds = peers_[stuck].stuck_ticks * options_.timeout_seconds;
    const FailureDetector::Suspect deaf = {stuck, Cause::kStalled, seconds / 8};
    Fail(detector_.Lost(deaf, "it does not read what it is sent"));
  }
  if (suspect.rank >= 0) {
    if (state_ == State::kRunning) {
      Fail(detector_.Lost(suspect, ""));
    } else if (suspect.rank != rank_) {
      detector_.Gone(suspect.rank);
      DropLink(&peers_[suspect.rank].link);
    }
  }
  if (state_ == State::kLeaving && now >= leave_deadline_) {
    for (Peer& p : peers_) DropLink(&p.link);
  }
  CheckClosed();
}

// A member that takes nothing of what waits for it, for 1.5 T of this worker's
// own time: it may still beat, and so look as if it computed. -1: none.
int RingNode::FindStuck() {
  constexpr int kMostTicks = 12;  // of T/8
  int stuck = -1;
  for (int r = 0; r < size_; ++r) {
    Peer& p = peers_[r];
    if (state_ != State::kRunning || p.link == nullptr ||
        p.link->phase() != LinkPhase::kUp || p.link->drained() ||
        p.link->taken_bytes() != p.taken_bytes) {
      p.stuck_ticks = 0;
    } else {
      ++p.stuck_ticks;
    }
    p.taken_bytes = p.link == nullptr ? 0 : p.link->taken_bytes();
    const bool overflowed = p.link != nullptr && p.link->overflowed();
    if (p.stuck_ticks > kMostTicks || overflowed) stuck = r;
  }
  return stuck;
}

void RingNode::TickStart(int64_t now, const FailureDetector::Suspect& suspect) {
  if (suspect.rank >= 0 && suspect.rank != rank_) {
    detector_.Gone(suspect.rank);
    DropLink(&peers_[suspect.rank].link);
    Redial(suspect.rank, "it was there and fell silent");
  }
  JudgeRefusal();
  if (state_ != State::kStarting) return;
  if (now >= start_deadline_) {
    return Fail(Error(
        Code::kDeadlineExceeded,
        "rank %d waited %g s for the other workers; missing are %s", rank_,
        options_.start_timeout_seconds, roll_.Missing(now).c_str()));
  }
  for (int r = 0; r < rank_ && state_ == State::kStarting; ++r) {
    if (peers_[r].link == nullptr && now >= peers_[r].next_dial) Dial(r);
  }
  Say(roll_.Due(now));
}

void RingNode::TickWithdrawal(int64_t now) {
  bool all = true;
  for (int r = 0; r < size_; ++r) {
    const Peer& p = peers_[r];
    if (r == rank_ || p.told) continue;
    all = false;
    if (p.link == nullptr && now >= p.next_dial) Dial(r);
  }
  if (all || now >= start_deadline_) owner_->OnTold();
}

void RingNode::ExpireHandshakes(int64_t now) {
  const int64_t limit = static_cast<int64_t>(kHandshakeSeconds * 1e9);
  for (std::unique_ptr<FramedLink>& stranger : strangers_) {
    if (now - stranger->opened_at > limit) DropLink(&stranger);
  }
  strangers_.erase(std::remove(strangers_.begin(), strangers_.end(), nullptr),
                   strangers_.end());
  for (int r = 0; r < size_; ++r) {
    Peer& p = peers_[r];
    if (p.link == nullptr || now - p.link->opened_at <= limit ||
        (p.link->phase() != LinkPhase::kConnecting &&
         p.link->phase() != LinkPhase::kAwaitWelcome)) {
      continue;
    }
    const bool connected = p.link->phase() == LinkPhase::kAwaitWelcome;
    DropLink(&p.link);
    Redial(r, connected ? "something listens there and does not answer"
                        : "no answer from its host");
  }
}

// Frames.

void RingNode::SendTo(FramedLink* link, FrameHeader header,
                      const uint8_t* payload, bool borrowed) {
  const bool greets =
      header.type == FrameType::kHello || header.type == FrameType::kWelcome;
  header.generation = greets ? proposal_ : generation_;
  header.source = static_cast<uint16_t>(rank_);
  header.destination =
      link->peer < 0 ? kNobody : static_cast<uint16_t>(link->peer);
  if (header.type != FrameType::kHeartbeat) header.step = step_;
  if (borrowed) {
    link->SendBorrowed(header, payload);
  } else {
    link->Send(header, payload);
  }
}

bool RingNode::HasRoom(int peer) const {
  const FramedLink* link = peers_[peer].link.get();
  return link != nullptr && link->phase() == LinkPhase::kUp &&
         link->has_room() && !link->turn_over();
}

// A full queue says itself when the kernel has taken of it (OnTurn).
void RingNode::AwaitRoom(int peer) {
  const FramedLink* link = peers_[peer].link.get();
  if (link != nullptr && link->turn_over()) NextTurn();
}

// Goes on once what has come in meanwhile has been read.
void RingNode::NextTurn() {
  if (uv_is_active(reinterpret_cast<uv_handle_t*>(&turn_))) return;
  uv_idle_start(&turn_, [](uv_idle_t* turn) {
    uv_idle_stop(turn);
    RingNode* node = static_cast<RingNode*>(turn->data);
    for (Peer& p : node->peers_) {
      if (p.link != nullptr) p.link->NewTurn();
    }
    node->Advance();
  });
}

void RingNode::Send(int peer, const FrameHeader& header, const uint8_t* payload,
                    bool borrowed) {
  FramedLink* link = peers_[peer].link.get();
  if (link != nullptr && link->phase() == LinkPhase::kUp) {
    SendTo(link, header, payload, borrowed);
  }
}

void RingNode::OnHeard(FramedLink* link, int64_t now) {
  dropped_.clear();
  if (link->phase() == LinkPhase::kUp) detector_.Heard(link->peer, now);
}

Status RingNode::OnHeader(FramedLink* link, const FrameHeader& header,
                          Landing* landing) {
  landing->mode = Landing::kKeep;
  if (link->phase() != LinkPhase::kUp) return Status();
  if (header.source != link->peer || header.destination != rank_) {
    return Corruption("a frame from rank %d to rank %d came from rank %d",
                      header.source, header.destination, link->peer);
  }
  const bool operation =
      IsData(header.type) || header.type == FrameType::kReady;
  if (stale(header)) {
    ++stale_frames_;
    landing->mode = Landing::kSkip;
    return Status();
  }
  if (!operation) return Status();
  landing->mode = Landing::kSkip;
  if (!live()) return Status();
  const Status status = schedule_.OnHeader(link->peer, header, landing);
  if (status.code() != Code::kInvalidArgument) return status;
  landing->mode = Landing::kSkip;  // the peer means well; the calls differ
  Fail(status);
  return Status();
}

Status RingNode::OnFrame(FramedLink* link, const FrameHeader& header,
                         const uint8_t* payload) {
  const size_t bytes = header.payload_bytes;
  if (link->phase() == LinkPhase::kUp && stale(header)) return Status();
  switch (header.type) {
    case FrameType::kHello:
      return OnHello(link, header, payload);
    case FrameType::kWelcome:
      return OnWelcome(link, header, payload);
    case FrameType::kReject:
      return OnReject(link, header, payload);
    case FrameType::kWithdraw:
      return OnWithdraw(link, header, payload);
    case FrameType::kHeartbeat: {
      Activity activity;
      RINGLET_RETURN_IF_ERROR(
          DecodeHeartbeat(header, payload, size_, &activity));
      detector_.Beat(link->peer, activity, Now());
      return Status();
    }
    case FrameType::kGoodbye:
      OnGoodbye(link, header.sequence);
      return Status();
    case FrameType::kAbort:
      OnAbort(link, payload, bytes);
      return Status();
    default:
      break;
  }
  if (!live()) return Status();
  return schedule_.OnFrame(link->peer, header, payload);
}

void RingNode::OnGoodbye(FramedLink* link, uint64_t completed) {
  Advance();  // what it sent before
  if (link->closed()) return;
  Peer& p = peers_[link->peer];
  p.left = true;
  detector_.Gone(link->peer);
  link->SetPhase(LinkPhase::kLeft);
  if (state_ == State::kStarting) {
    p.left = false;
    DropLink(&p.link);
    Redial(link->peer, "it was there and gave up");
    return;
  }
  // Without the first operation, the barrier of the start, its ring has never
  // formed. It may come back and wait for this rank, which therefore cannot
  // stay in a ring with the one that it was.
  if (state_ == State::kRunning && (completed == 0 || !link->drained())) {
    UpdateActivity();
    return Fail(detector_.Lost({link->peer, Cause::kLeft, 0}, ""));
  }
  // It reads no more, and waits for this end to be closed.
  if (state_ != State::kLeaving || link->drained()) DropLink(&p.link);
}

void RingNode::OnAbort(FramedLink* link, const uint8_t* payload, size_t bytes) {
  Advance();  // what it sent before
  if (!live() || bytes < kAbortFixedBytes) return;
  const Code code = CodeOf(payload[0]);
  const uint16_t rank = LoadLittle<uint16_t>(payload + 2);
  const uint16_t from = LoadLittle<uint16_t>(payload + 4);
  const std::string text =
      Printable(payload + kAbortFixedBytes, bytes - kAbortFixedBytes);
  if (state_ == State::kStarting && code == Code::kPeerLost) {
    // Its ring has ended before this one's began: both form the next.
    detector_.Gone(link->peer);
    DropLink(&peers_[link->peer].link);
    return Redial(link->peer, "it was there and lost another");
  }
  if (state_ == State::kStarting && !first_time() &&
      IsPermanent(Error(code, "%s", text.c_str()))) {
    detector_.Gone(link->peer);
    const int peer = link->peer;
    DropLink(&peers_[peer].link);
    return Redial(peer, "it was there and failed: " + text);
  }
  const int lost = rank < size_ ? rank : link->peer;
  const Status reason = code == Code::kPeerLost
                            ? PeerLost(lost, "%s", text.c_str())
                            : Error(code, "%s", text.c_str());
  told_by_other_ = true;
  if (from != kNobody) {
    return Fail(reason, from < size_ ? from : link->peer);
  }
  const std::string told =
      text + " (told by rank " + std::to_string(link->peer) + ")";
  Fail(code == Code::kPeerLost ? PeerLost(lost, "%s", told.c_str())
                               : Error(code, "%s", told.c_str()));
}

void RingNode::OnTurn(FramedLink* link, int64_t) {
  if (link->phase() == LinkPhase::kLeft && link->drained()) {
    DropLink(&peers_[link->peer].link);
  }
  Advance();
  CheckTold();
  CheckClosed();
}

void RingNode::OnSent(FramedLink*, uint64_t sequence) {
  schedule_.OnSent(sequence);
}

void RingNode::OnDown(FramedLink* link, Cause cause, const Status& why,
                      int64_t) {
  const int peer = link->peer;
  if (peer < 0 || peers_[peer].link.get() != link) {
    if (cause == Cause::kProtocol) {
      return why.code() == Code::kUnimplemented
                 ? RefuseVersion(link, why)
                 : Reject(link, why, /*final=*/false, /*quiet=*/true);
    }
    for (std::unique_ptr<FramedLink>& stranger : strangers_) {
      if (stranger.get() == link) DropLink(&stranger);
    }
    strangers_.erase(std::remove(strangers_.begin(), strangers_.end(), nullptr),
                     strangers_.end());
    return;
  }
  const bool up = link->phase() == LinkPhase::kUp;
  const bool other_version = cause == Cause::kProtocol &&
                             !link->stream().is_local() &&
                             why.code() == Code::kUnimplemented;
  detector_.Gone(peer);
  DropLink(&peers_[peer].link);
  if (state_ == State::kStarting && !up && other_version) {
    Fail(InvalidArgument("rank %d (%s): %s", peer,
                         options_.addresses[peer].c_str(), why.message()));
  } else if (meets()) {
    Redial(peer, up ? "it was there and its connection ended" : why.message());
  } else if (state_ == State::kRunning && up) {
    UpdateActivity();
    const FailureDetector::Suspect self = detector_.HeldUp(Now());
    Fail(self.rank >= 0 ? detector_.Lost(self, "")
                        : detector_.Lost({peer, cause, 0}, why.message()));
  }
  CheckTold();
  CheckClosed();
}

// Operations.

void RingNode::Start(const Call* calls, size_t count) {
  if (state_ != State::kRunning) return;
  for (size_t i = 0; i < count; ++i) schedule_.Start(calls[i]);
  Advance();
}

void RingNode::Advance() {
  if (!live()) return;
  const Status status = schedule_.Progress();
  if (status.code() == Code::kCorruption) {
    return Fail(detector_.Lost({schedule_.culprit(), Cause::kProtocol, 0},
                               status.message()));
  }
  if (!status.ok()) return Fail(status);
  if (schedule_.completed() != completed_) {
    completed_ = schedule_.completed();
    owner_->OnCompleted(completed_);
  }
  if (schedule_.idle()) return;
  const int on = schedule_.waiting_on();
  if (on >= 0 && peers_[on].left) {
    UpdateActivity();
    Fail(detector_.Lost({on, Cause::kLeft, 0}, "it ended before this rank"));
  }
}

void RingNode::UpdateActivity() {
  Activity activity;
  activity.step = step_;
  activity.sequence = completed_;
  if (live() && !schedule_.idle()) {
    activity.sequence = completed_ + 1;
    activity.type = schedule_.waiting_type();
    activity.waiting_on = schedule_.waiting_on();
  }
  detector_.SetActivity(activity, schedule_.moved_bytes(), Now());
}

Waiting RingNode::WaitsFor() {
  loop_->AssertInLoop();
  UpdateActivity();
  return detector_.WaitsFor(Now());
}

// Ends.

void RingNode::Abort(const Status& reason) {
  loop_->AssertInLoop();
  Fail(reason, rank_);
  telling_ = true;
  CheckTold();
}

void RingNode::CheckTold() {
  if (!telling_) return;
  for (const Peer& p : peers_) {
    if (p.link != nullptr && !p.link->drained()) return;
  }
  telling_ = false;
  owner_->OnTold();
}

Status RingNode::FailedAt(int origin, const Status& reason) const {
  return reason.Annotate("rank %d (%s) failed", origin,
                         options_.addresses[origin].c_str());
}

void RingNode::Fail(const Status& status, int origin) {
  if (!live()) return;
  // While the workers meet others may do so without this rank, but for what no
  // wait mends.
  const bool tell = state_ == State::kRunning || IsPermanent(status);
  state_ = State::kFailed;
  schedule_.Clear();
  uint8_t payload[kAbortFixedBytes + kTextBytes] = {
      static_cast<uint8_t>(status.code())};
  StoreLittle(
      status.rank() < 0 ? kNobody : static_cast<uint16_t>(status.rank()),
      payload + 2);
  StoreLittle(origin < 0 ? kNobody : static_cast<uint16_t>(origin),
              payload + 4);
  const size_t text =
      std::min<size_t>(std::strlen(status.message()), kTextBytes);
  std::memcpy(payload + kAbortFixedBytes, status.message(), text);
  FrameHeader header;
  header.type = FrameType::kAbort;
  header.payload_bytes = static_cast<uint32_t>(kAbortFixedBytes + text);
  for (int r = 0; r < size_; ++r) {
    FramedLink* link = peers_[r].link.get();
    if (link == nullptr) continue;
    link->DropBorrowed();
    if (link->phase() != LinkPhase::kUp) {
      if (link->phase() != LinkPhase::kLeft) DropLink(&peers_[r].link);
      continue;
    }
    if (tell) SendTo(link, header, payload, false);
    if (r != status.rank() || origin >= 0) continue;
    detector_.Gone(r);
    DropLink(&peers_[r].link);
  }
  owner_->OnFailed(origin < 0 ? status : FailedAt(origin, status));
}

void RingNode::Leave() {
  loop_->AssertInLoop();
  if (state_ == State::kLeaving) return;
  schedule_.Clear();
  state_ = State::kLeaving;
  leave_deadline_ =
      Now() + static_cast<int64_t>(options_.timeout_seconds * 1e9);
  for (const auto& listener : listeners_) listener->Close();
  for (std::unique_ptr<FramedLink>& stranger : strangers_) DropLink(&stranger);
  strangers_.clear();
  FrameHeader goodbye;
  goodbye.type = FrameType::kGoodbye;
  goodbye.sequence = completed_;
  for (Peer& p : peers_) {
    if (p.link == nullptr) continue;
    p.link->DropBorrowed();
    if (p.link->phase() == LinkPhase::kUp) {
      SendTo(p.link.get(), goodbye, nullptr, false);
    } else if (p.link->phase() != LinkPhase::kLeft || p.link->drained()) {
      DropLink(&p.link);
    }
  }
  CheckClosed();
}

void RingNode::DropLink(std::unique_ptr<FramedLink>* link) {
  if (*link == nullptr) return;
  (*link)->Close();
  dropped_.push_back(std::move(*link));
}

void RingNode::CheckClosed() {
  if (state_ != State::kLeaving || ended_) return;
  for (const Peer& p : peers_) {
    if (p.link != nullptr) return;
  }
  ended_ = true;
  const uv_close_cb closed = [](uv_handle_t* handle) {
    static_cast<RingNode*>(handle->data)->handles_.Closed();
  };
  if (timer_.data != nullptr) {
    uv_close(reinterpret_cast<uv_handle_t*>(&timer_), closed);
    uv_close(reinterpret_cast<uv_handle_t*>(&turn_), closed);
  }
  handles_.WhenAllClosed([this] { owner_->OnClosed(); });
}

}  // namespace ringlet
