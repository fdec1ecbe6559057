// To change this file, know that:
//   - Each connection has one buffer, for the bytes of its peer. The buffer is
//     filled again when all of it was sent, so a slow reader slows its writer.
//   - The buffer and the write request belong to the connection that is written
//     to. Its close callback frees them.
//   - Two joined connections are closed together.

#include "relay.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "../cluster/address.h"
#include "../transport/socket_address.h"
#include "../transport/tcp_server.h"
#include "rendezvous_table.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr int kSpareFiles = 16;

// A connection of a worker, which the relay joins with the connection of
// another worker.
struct RelayConnection final : TcpServer<RelayConnection>::Accepted {
  enum class State : uint8_t { kHello, kWaits, kJoined };

  RelayConnection* other = nullptr;  // joined with
  State state = State::kHello;
  bool dials = false;
  bool ended = false;      // no more bytes will arrive
  size_t hello_bytes = 0;  // received
  uint8_t hello[kRelayHelloBytes];
  std::unique_ptr<char[]> buffer;  // bytes to send to it
  uv_shutdown_t shutdown;
};

// Returns the seconds since the side connected, sent its hello or ended,
// whichever is the last.
double SecondsWaited(const RelayConnection& side, int64_t now) {
  return static_cast<double>(now - side.since) * 1e-9;
}

class RelayServer final : public Relay, public TcpServer<RelayConnection> {
 public:
  explicit RelayServer(const RelayOptions& options) : options_(options) {}
  ~RelayServer() override { Stop(); }

 private:
  bool Admit(RelayConnection* side) override;
  bool MakeRoom(const RelayConnection* side);
  uv_buf_t SpaceOf(RelayConnection* side) override;
  void OnRead(RelayConnection* side, ssize_t bytes) override;
  void OnSent(RelayConnection* to, int status) override;
  void OnTimer() override;
  void OnEnded(RelayConnection* side);
  void HandleHello(RelayConnection* side);
  void Join(RelayConnection* a, RelayConnection* b);
  void ClosePair(RelayConnection* side);
  bool HasTimedOut(const RelayConnection& side, int64_t now) const;

  const RelayOptions options_;
  RendezvousTable table_;
  bool reported_full_ = false;
};

// --- connections ------------------------------------------------------------

bool RelayServer::Admit(RelayConnection* side) {
  if (connections().size() > static_cast<size_t>(options_.connections) &&
      !MakeRoom(side)) {
    if (!std::exchange(reported_full_, true)) {
      Notice(
          "warning: %d connections are open, the most that this relay takes; "
          "others are closed immediately",
          options_.connections);
    }
    return false;
  }
  uv_tcp_nodelay(&side->tcp, 1);
  uv_tcp_keepalive(&side->tcp, 1, kKeepAliveSeconds);
  return true;
}

// A worker sends its hello immediately. So the oldest connection without one is
// closed, if it has had enough time.
bool RelayServer::MakeRoom(const RelayConnection* side) {
  const auto silent = std::find_if(
      connections().begin(), connections().end(), [](const RelayConnection* s) {
        return s->state == RelayConnection::State::kHello;
      });
  if (*silent == side ||
      SecondsWaited(**silent, side->since) <= options_.silent_seconds) {
    return false;
  }
  Close(*silent);
  return true;
}

// A waiting side sends nothing, so a byte from it is handled as its end.
uv_buf_t RelayServer::SpaceOf(RelayConnection* side) {
  if (side->state == RelayConnection::State::kJoined) {
    return uv_buf_init(side->other->buffer.get(), kBufferBytes);
  }
  const bool in_hello = side->state == RelayConnection::State::kHello;
  uint8_t* const space =
      in_hello ? side->hello + side->hello_bytes : side->hello;
  return uv_buf_init(reinterpret_cast<char*>(space),
                     in_hello ? kRelayHelloBytes - side->hello_bytes : 1);
}

void RelayServer::OnRead(RelayConnection* side, ssize_t bytes) {
  if (bytes == 0 || side->closing) return;
  if (bytes == UV_EOF && side->state == RelayConnection::State::kJoined) {
    return OnEnded(side);
  }
  if (bytes < 0 || side->state == RelayConnection::State::kWaits)
    return ClosePair(side);
  if (side->state == RelayConnection::State::kJoined) {
    uv_read_stop(side->stream());
    return Send(side->other, side->other->buffer.get(),
                static_cast<size_t>(bytes));
  }
  side->hello_bytes += static_cast<size_t>(bytes);
  if (side->hello_bytes == kRelayHelloBytes) HandleHello(side);
}

void RelayServer::HandleHello(RelayConnection* side) {
  RelayHello hello;
  if (!DecodeRelayHello(side->hello, &hello)) return Close(side);
  side->state = RelayConnection::State::kWaits;
  side->dials = hello.role == RelayHello::kDials;
  side->since = UvNanos();
  const RendezvousTable::Match match = table_.Arrive(side, hello);
  if (match.displaced != nullptr)
    Close(static_cast<RelayConnection*>(match.displaced));
  if (match.other != nullptr)
    Join(side, static_cast<RelayConnection*>(match.other));
}

void RelayServer::Join(RelayConnection* a, RelayConnection* b) {
  a->other = b;
  b->other = a;
  for (RelayConnection* const side : {a, b}) {
    side->state = RelayConnection::State::kJoined;
    side->buffer = std::make_unique<char[]>(kBufferBytes);
  }
  for (RelayConnection* const side : {a, b}) {
    char joined = kRelayJoined;
    const uv_buf_t reply = uv_buf_init(&joined, 1);
    if (uv_try_write(side->stream(), &reply, 1) != 1) return ClosePair(a);
  }
}

// --- hellos and bytes -------------------------------------------------------

void RelayServer::OnSent(RelayConnection* to, int status) {
  if (to->closing) return;
  if (status != 0) return ClosePair(to);
  Read(to->other);
}

// All bytes of this side were passed to the other side, so its end is passed on
// too.
void RelayServer::OnEnded(RelayConnection* side) {
  RelayConnection* const other = side->other;
  uv_read_stop(side->stream());
  side->ended = true;
  side->since = UvNanos();
  if (other->ended) return ClosePair(side);
  const int error = uv_shutdown(&other->shutdown, other->stream(),
                                [](uv_shutdown_t*, int) {});
  if (error != 0) ClosePair(side);
}

// --- disconnections ---------------------------------------------------------

void RelayServer::ClosePair(RelayConnection* side) {
  table_.Leave(side);
  if (side->other != nullptr) Close(side->other);
  Close(side);
}

bool RelayServer::HasTimedOut(const RelayConnection& side, int64_t now) const {
  const double seconds = SecondsWaited(side, now);
  switch (side.state) {
    case RelayConnection::State::kHello:
      return seconds > options_.hello_seconds;
    case RelayConnection::State::kWaits:
      return side.dials && seconds > options_.dial_seconds;
    case RelayConnection::State::kJoined:
      return side.ended && seconds > options_.linger_seconds;
  }
  return false;
}

void RelayServer::OnTimer() {
  const int64_t now = UvNanos();
  for (size_t i = connections().size(); i-- > 0;) {
    if (i >= connections().size()) continue;  // closed with another connection
    RelayConnection* const side = connections()[i];
    if (HasTimedOut(*side, now)) ClosePair(side);
  }
  if (2 * connections().size() < static_cast<size_t>(options_.connections)) {
    reported_full_ = false;
  }
}

// Parses "host:port", or "port" for all addresses.
Status FindAddress(const std::string& text, sockaddr_storage* out) {
  Address address;
  const bool all = text.find(':') == std::string::npos;
  RINGLET_RETURN_IF_ERROR(
      ParseAddress(all ? "127.0.0.1:" + text : text, &address));
  if (all) {
    AllAddresses(address.port, out);
    return Status();
  }
  if (NumericAddress(address, out).ok()) return Status();
  return InvalidArgument(
      "%s: give one of this host's addresses in numbers, or a port alone",
      text.c_str());
}

Status CheckDescriptorLimit(const RelayOptions& options) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      limit.rlim_cur >=
          static_cast<rlim_t>(options.connections + kSpareFiles)) {
    return Status();
  }
  return ResourceExhausted(
      "%d connections, but 'ulimit -n' allows %d files and connections; raise "
      "it, or take fewer",
      options.connections, static_cast<int>(limit.rlim_cur));
}

}  // namespace

Status Relay::Start(const RelayOptions& options, std::unique_ptr<Relay>* out) {
  sockaddr_storage address = {};
  RINGLET_RETURN_IF_ERROR(FindAddress(options.address, &address));
  RINGLET_RETURN_IF_ERROR(CheckDescriptorLimit(options));
  auto relay = std::make_unique<RelayServer>(options);
  RINGLET_RETURN_IF_ERROR(
      relay->Serve(address).Annotate("%s", options.address.c_str()));
  *out = std::move(relay);
  return Status();
}

}  // namespace ringlet
