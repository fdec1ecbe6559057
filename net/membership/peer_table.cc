// A link is in one place: peers_, unauthenticated_ or dropped_. A link that is
// dropped in its own event goes to dropped_, and is deleted later. The number
// of unauthenticated links has a limit: a new link displaces the oldest link
// that is not open yet. If all are open, it displaces the oldest.

#include "peer_table.h"

#include <algorithm>
#include <utility>

#include "../../core/base/check.h"
#include "../collective/topology.h"

namespace ringlet {
namespace {

// In a large ring all other workers may connect at the same time.
constexpr size_t kMaxUnauthenticated = 16;
constexpr int kMaxStuckTicks = 12;  // a tick is T/8

}  // namespace

PeerTable::PeerTable(int worker, int size, std::vector<int> linked,
                     FramedLink::Owner* owner)
    : worker_(worker),
      owner_(owner),
      linked_(std::move(linked)),
      peers_(static_cast<size_t>(size)) {}

void PeerTable::LinkAll() {
  linked_.clear();
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
    if (r != worker_) linked_.push_back(r);
  }
}

FramedLink* PeerTable::up_link(int peer) const {
  FramedLink* const found = link(peer);
  return found != nullptr && found->up() ? found : nullptr;
}

// Opening.

FramedLink* PeerTable::NewUnauthenticated(StreamPtr stream, LinkPhase phase,
                                          int64_t now) {
  unauthenticated_.push_back(
      std::make_unique<FramedLink>(std::move(stream), phase, owner_));
  FramedLink* const link = unauthenticated_.back().get();
  link->opened_at = now;
  return link;
}

void PeerTable::Accept(StreamPtr stream, int64_t now) {
  if (unauthenticated_.size() >= std::max(kMaxUnauthenticated, peers_.size())) {
    const auto stranger =
        std::find_if(unauthenticated_.begin(), unauthenticated_.end(),
                     [](const auto& link) { return !link->open(); });
    const auto which = stranger != unauthenticated_.end()
                           ? stranger
                           : unauthenticated_.begin();
    DropUnauthenticated(which->get());
  }
  NewUnauthenticated(std::move(stream), LinkPhase::kAwaitHello, now);
}

void PeerTable::Open(int peer, StreamPtr stream, int64_t now) {
  peers_[peer].link = std::make_unique<FramedLink>(
      std::move(stream), LinkPhase::kConnecting, owner_);
  FramedLink* const opened = link(peer);
  opened->peer = peer;
  opened->opened_at = now;
  if (opened->open()) owner_->OnConnected(opened, now);
}

void PeerTable::OpenProbe(int peer, StreamPtr stream, int64_t now) {
  FramedLink* const link =
      NewUnauthenticated(std::move(stream), LinkPhase::kConnecting, now);
  link->peer = peer;
  link->is_probe = true;
}

void PeerTable::Adopt(int peer, FramedLink* link) {
  const auto found =
      std::find_if(unauthenticated_.begin(), unauthenticated_.end(),
                   [link](const auto& one) { return one.get() == link; });
  RINGLET_CHECK(found != unauthenticated_.end());
  peers_[peer].link = std::move(*found);
  unauthenticated_.erase(found);
  link->peer = peer;
}

// Dropping.

void PeerTable::Drop(std::unique_ptr<FramedLink>* link) {
  if (*link == nullptr) return;
  (*link)->Close();
  dropped_.push_back(std::move(*link));
}

void PeerTable::Drop(int peer) { Drop(&peers_[peer].link); }

void PeerTable::DropUnauthenticated(FramedLink* link) {
  for (auto it = unauthenticated_.begin(); it != unauthenticated_.end(); ++it) {
    if (it->get() != link) continue;
    Drop(&*it);
    unauthenticated_.erase(it);
    return;
  }
}

void PeerTable::DropUnauthenticated(int64_t before) {
  while (!unauthenticated_.empty() &&
         unauthenticated_.front()->opened_at < before) {
    DropUnauthenticated(unauthenticated_.front().get());
  }
}

// Sending.

void PeerTable::Send(FramedLink* link, FrameHeader header,
                     const uint8_t* payload, bool borrowed) {
  const bool proposes =
      header.type == FrameType::kHello || header.type == FrameType::kWelcome;
  if (!proposes) header.generation = generation_;
  header.source = static_cast<uint16_t>(worker_);
  header.destination = WorkerOnWire(link->peer);
  if (header.type != FrameType::kHeartbeat) header.step = step_;
  if (borrowed) {
    link->SendBorrowed(header, payload);
  } else {
    link->Send(header, payload);
  }
}

void PeerTable::Send(int peer, const FrameHeader& header,
                     const uint8_t* payload, bool borrowed) {
  FramedLink* const link = up_link(peer);
  if (link != nullptr) Send(link, header, payload, borrowed);
}

void PeerTable::SendToAll(const FrameHeader& header, const uint8_t* payload) {
  for (const int r : linked_) Send(r, header, payload);
}

// All links.

void PeerTable::BeginTurn() {
  for (const int r : linked_) {
    if (link(r) != nullptr) link(r)->BeginTurn();
  }
}

bool PeerTable::Poll(int64_t now, bool wake) {
  bool moved = false;
  for (const int r : linked_) {
    moved = (link(r) != nullptr && link(r)->Poll(now, wake)) || moved;
  }
  return moved;
}

std::vector<int> PeerTable::TickStuck(bool counts) {
  std::vector<int> stuck;
  for (const int r : linked_) {
    if (UpdateStuck(&peers_[r], counts)) stuck.push_back(r);
  }
  return stuck;
}

bool PeerTable::UpdateStuck(Peer* peer, bool counts) {
  const FramedLink* const link = peer->link.get();
  const uint64_t taken_bytes = link == nullptr ? 0 : link->taken_bytes();
  const bool is_stalled = counts && link != nullptr && link->up() &&
                          !link->drained() && taken_bytes == peer->taken_bytes;
  peer->stuck_ticks = is_stalled ? peer->stuck_ticks + 1 : 0;
  peer->taken_bytes = taken_bytes;
  const bool overflowed = link != nullptr && link->overflowed();
  return peer->stuck_ticks > kMaxStuckTicks || overflowed;
}

bool PeerTable::drained() const {
  return std::all_of(linked_.begin(), linked_.end(), [this](int r) {
    return link(r) == nullptr || link(r)->drained();
  });
}

bool PeerTable::empty() const {
  return std::all_of(linked_.begin(), linked_.end(),
                     [this](int r) { return link(r) == nullptr; });
}

}  // namespace ringlet
