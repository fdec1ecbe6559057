#include "sim_network.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/crc32c.h"

namespace ringlet {
namespace sim {
namespace {

constexpr int64_t kNever = INT64_MAX / 4;
// The bytes in flight in a direction, as in a kernel's buffers.
constexpr size_t kCapacity = 150000;

int RankOf(const Endpoint& endpoint) {
  sockaddr_in address;
  std::memcpy(&address, &endpoint.address, sizeof(address));
  return ntohs(address.sin_port);
}

}  // namespace

// One end of a connection.
class SimStream final : public ByteStream, private DescriptorSocket {
 public:
  SimStream(Network* network, ConnectionPtr connection, int side, bool open)
      : network_(network),
        connection_(std::move(connection)),
        side_(side),
        open_(open),
        narrow_(network->Chance(3)),
        remote_("rank " + std::to_string(connection_->rank[1 - side])) {
    connection_->end[side] = this;
    ++network_->processes_[connection_->rank[side]].streams;
    remote_address_ =
        SimEndpoint(connection_->rank[1 - side], /*local=*/false).address;
  }

  void Start(Owner* owner) override { owner_ = owner; }
  bool open() const override { return open_; }

  int64_t Write(const Piece* pieces, int count) override {
    RINGLET_CHECK(!blocked_ && open_);
    if (ended_) return -1;
    size_t room = kCapacity - connection_->from[side_].in_flight;
    if (narrow_ || network_->Chance(4)) {  // accepts a part, or nothing
      room =
          std::min<size_t>(room, static_cast<size_t>(network_->Random(3000)));
    }
    std::vector<uint8_t> bytes;
    size_t all = 0;
    for (int i = 0; i < count; ++i) {
      const size_t n = std::min(pieces[i].bytes, room - bytes.size());
      bytes.insert(bytes.end(), pieces[i].data, pieces[i].data + n);
      all += pieces[i].bytes;
    }
    const size_t taken = bytes.size();
    connection_->from[side_].in_flight += taken;
    if (taken > 0) network_->SendBytes(connection_, side_, std::move(bytes));
    if (taken < all) {
      blocked_ = true;
      // A full stream wakes when the other side has read.
      if (connection_->from[side_].in_flight < kCapacity) Wake();
    }
    return static_cast<int64_t>(taken);
  }

  bool blocked() const override { return blocked_; }
  void StopReading() override { reading_ = false; }
  void Close() override {
    connection_->end[side_] = nullptr;
    --network_->processes_[connection_->rank[side_]].streams;
    network_->SendEnd(connection_, side_, LossCause::kExited);
    delete this;
  }
  bool authentic() const override { return false; }
  SharedMemory* shared_memory() override { return nullptr; }
  DescriptorSocket* descriptors() override { return this; }
  bool is_local() const override { return connection_->local; }
  const std::string& remote() const override { return remote_; }
  const sockaddr_storage& remote_address() const override {
    return remote_address_;
  }

  void Wake() {
    const ConnectionPtr c = connection_;
    const int side = side_;
    const int64_t most = narrow_ ? kMs : kMs / 20;
    network_->InProcess(c->rank[side], 1000 + network_->Random(most), [=] {
      SimStream* stream = c->end[side];
      if (stream == nullptr || !stream->blocked_) return;
      stream->blocked_ = false;
      stream->owner_->OnWritable(stream->Clock());
    });
  }
  void Opened() {
    open_ = true;
    owner_->OnOpened(Clock());
  }
  void Ended(LossCause cause, const char* why) {
    ended_ = true;
    if (!reading_) return;
    reading_ = false;
    owner_->OnEnded(cause, Error(Code::kIo, "%s", why), Clock());
  }
  int64_t Clock() const { return network_->ClockOf(connection_->rank[side_]); }

 private:
  void SendDescriptor(int descriptor) override {
    connection_->descriptor = dup(descriptor);
  }
  int TakeDescriptor() override {
    return side_ == 1 ? std::exchange(connection_->descriptor, -1) : -1;
  }

 public:
  Network* const network_;
  const ConnectionPtr connection_;
  const int side_;
  Owner* owner_ = nullptr;
  bool open_;
  const bool narrow_;  // small writes, so frames arrive in many parts
  bool blocked_ = false;
  bool reading_ = true;
  bool ended_ = false;
  const std::string remote_;
  sockaddr_storage remote_address_ = {};

 private:
  ~SimStream() override = default;
};

Endpoint SimEndpoint(int rank, bool local) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x0a000001u + static_cast<uint32_t>(rank));
  address.sin_port = htons(static_cast<uint16_t>(rank));
  Endpoint out;
  std::memcpy(&out.address, &address, sizeof(address));
  out.local = local;
  return out;
}

Network::Network(int size, uint64_t seed)
    : size_(size),
      random_(seed),
      processes_(static_cast<size_t>(size)),
      blocked_until_(static_cast<size_t>(size) * static_cast<size_t>(size)) {
  for (Process& p : processes_) p.offset = (1 + Random(1000000)) * kMs;
}

// Events and processes.

void Network::At(int64_t when, std::function<void()> what) {
  events_.push({std::max(when, now_), order_++, std::move(what)});
}

void Network::InProcess(int rank, int64_t delay, std::function<void()> what) {
  const uint64_t incarnation = processes_[rank].incarnation;
  At(now_ + delay, [this, rank, incarnation, what = std::move(what)]() mutable {
    Run(rank, incarnation, std::move(what));
  });
}

void Network::Run(int rank, uint64_t incarnation, std::function<void()> what) {
  Process& p = processes_[rank];
  if (p.incarnation != incarnation) return;
  if (p.deferred.empty() && now_ >= p.stalled_until) return what();
  p.deferred.push_back(std::move(what));
  if (p.deferred.size() > 1) return;
  At(p.stalled_until,
     [this, rank, incarnation] { RunDeferred(rank, incarnation); });
}

// Runs all events that came while the process was stalled, in their order.
void Network::RunDeferred(int rank, uint64_t incarnation) {
  Process& p = processes_[rank];
  while (p.incarnation == incarnation && !p.deferred.empty()) {
    if (now_ < p.stalled_until) {
      At(p.stalled_until,
         [this, rank, incarnation] { RunDeferred(rank, incarnation); });
      return;
    }
    const std::function<void()> what = std::move(p.deferred.front());
    p.deferred.pop_front();
    what();
  }
}

bool Network::Step() {
  if (events_.empty()) return false;
  Event event = events_.top();
  events_.pop();
  now_ = event.when;
  const uint64_t event_is[] = {static_cast<uint64_t>(event.when), event.order};
  trace_digest_ = Crc32c(event_is, sizeof(event_is), trace_digest_);
  event.what();
  return true;
}

uint64_t Network::StartProcess(int rank) {
  processes_[rank].stalled_until = 0;
  processes_[rank].deferred.clear();
  processes_[rank].silent = false;
  return ++processes_[rank].incarnation;
}

void Network::Stall(int rank, int64_t nanos) {
  processes_[rank].stalled_until =
      std::max(processes_[rank].stalled_until, now_ + nanos);
}

// Connections.

void Network::SetLatency(int64_t least, int64_t more) {
  latency_ = least;
  jitter_ = more;
}

void Network::Block(int from, int to, int64_t until) {
  int64_t& blocked = blocked_until_[from * size_ + to];
  blocked = std::max(blocked, until);
}

// The time at which bytes that end `side` sends now arrive.
int64_t Network::Arrival(const ConnectionPtr& c, int side) {
  const int64_t blocked =
      blocked_until_[c->rank[side] * size_ + c->rank[1 - side]];
  const int64_t when = std::max(now_, blocked) + latency_ + Random(jitter_ + 1);
  Connection::Direction& direction = c->from[side];
  direction.last_arrival = std::max(when, direction.last_arrival);
  return direction.last_arrival;
}

// Runs `what` at `when`, in the process at end `side`.
void Network::Deliver(const ConnectionPtr& c, int side, int64_t when,
                      uint64_t incarnation, std::function<void()> what) {
  const int rank = c->rank[side];
  At(when, [this, rank, incarnation, what = std::move(what)]() mutable {
    Run(rank, incarnation, std::move(what));
  });
}

Status Network::Connect(int from, const Endpoint& endpoint, StreamPtr* out) {
  const int to = RankOf(endpoint);
  if (endpoint.local && !Listens(to)) {
    return Error(Code::kUnavailable, "nobody listens");
  }
  auto c = std::make_shared<Connection>();
  c->rank[0] = from;
  c->rank[1] = to;
  c->incarnation[0] = processes_[from].incarnation;
  c->incarnation[1] = processes_[to].incarnation;
  c->local = endpoint.local;
  connections_.push_back(c);
  out->reset(new SimStream(this, c, 0, endpoint.local));
  if (processes_[from].silent) return Status();
  const int64_t arrival = Arrival(c, 0);
  if (arrival >= kNever) return Status();
  const auto refused = [c, this] {
    Deliver(c, 0, Arrival(c, 1), c->incarnation[0], [c] {
      if (c->end[0] != nullptr)
        c->end[0]->Ended(LossCause::kRefused, "refused");
    });
  };
  At(arrival, [this, c, to, refused] {
    if (processes_[to].silent) return;
    if (!Listens(to)) return refused();
    c->incarnation[1] = processes_[to].incarnation;
    // Run, not a later event: bytes may arrive at the same time.
    Run(to, c->incarnation[1], [this, c, to] {
      if (Listens(to)) {
        processes_[to].listener->Accept(
            StreamPtr(new SimStream(this, c, 1, /*open=*/true)));
      }
    });
    if (c->local) return;
    Deliver(c, 0, Arrival(c, 1), c->incarnation[0], [c] {
      if (c->end[0] != nullptr) c->end[0]->Opened();
    });
  });
  return Status();
}

void Network::SendBytes(const ConnectionPtr& c, int side,
                        std::vector<uint8_t> bytes) {
  const int link[] = {c->rank[side], c->rank[1 - side]};
  trace_digest_ = Crc32c(link, sizeof(link), trace_digest_);
  trace_digest_ = Crc32c(bytes.data(), bytes.size(), trace_digest_);
  if (Lost(c, side)) return;
  const int64_t when = Arrival(c, side);
  if (when >= kNever) return;
  Deliver(c, 1 - side, when, c->incarnation[1 - side],
          [this, c, side, bytes = std::move(bytes)] {
            if (Lost(c, side)) return;
            std::vector<uint8_t>& unread = c->from[side].unread;
            unread.insert(unread.end(), bytes.begin(), bytes.end());
            if (!Chance(4)) return Read(c, 1 - side);
            // The process is busy, and more bytes may arrive before it reads.
            InProcess(c->rank[1 - side], Random(kMs),
                      [this, c, side] { Read(c, 1 - side); });
          });
}

void Network::SendEnd(const ConnectionPtr& c, int side, LossCause cause) {
  if (Lost(c, side)) return;
  const int64_t when = Arrival(c, side);
  if (when >= kNever) return;
  Deliver(c, 1 - side, when, c->incarnation[1 - side], [this, c, side, cause] {
    if (Lost(c, side)) return;
    Read(c, 1 - side);
    SimStream* stream = c->end[1 - side];
    if (stream != nullptr) stream->Ended(cause, "ended");
  });
}

void Network::Read(const ConnectionPtr& c, int side) {
  std::vector<uint8_t> bytes;
  bytes.swap(c->from[1 - side].unread);
  size_t at = 0;
  while (at < bytes.size()) {
    SimStream* stream = c->end[side];
    if (stream == nullptr || !stream->reading_) return;
    const ByteStream::Space space = stream->owner_->NextSpace();
    size_t n = std::min(space.bytes, bytes.size() - at);
    if (Chance(4)) n = 1 + static_cast<size_t>(Random(static_cast<int64_t>(n)));
    std::memcpy(space.data, bytes.data() + at, n);
    at += n;
    stream->owner_->OnRead(n, stream->Clock());
  }
  const size_t before = c->from[1 - side].in_flight;
  c->from[1 - side].in_flight -= bytes.size();
  SimStream* sender = c->end[1 - side];
  if (before >= kCapacity && sender != nullptr) sender->Wake();
}

bool Network::Cut(int a, int b, bool half_open) {
  for (const std::weak_ptr<Connection>& weak : connections_) {
    const ConnectionPtr c = weak.lock();
    if (c == nullptr || c->end[0] == nullptr || c->end[1] == nullptr ||
        std::minmax(c->rank[0], c->rank[1]) != std::minmax(a, b)) {
      continue;
    }
    if (half_open) {
      c->from[Random(2)].cut = true;
    } else {
      // A device in between ends it, as if the other process had ended, or the
      // cause is not known.
      const LossCause cause = Chance(2) ? LossCause::kExited : LossCause::kCut;
      for (int side : {0, 1}) SendEnd(c, side, cause);
    }
    return true;
  }
  return false;
}

}  // namespace sim
}  // namespace ringlet
