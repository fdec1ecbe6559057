// To change this file, know that:
//   - All methods except Start and the destructor run on the loop's thread.
//   - Each connection has one buffer, for the bytes of its peer. The buffer is
//     filled again when all of it was sent, so a slow reader slows its writer.
//   - The buffer and the write request belong to the connection that is written
//     to. Its close callback frees them.
//   - Two joined connections are closed together.

#include "relay.h"

#include <sys/resource.h>
#include <uv.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "../cluster/address.h"
#include "../transport/loop.h"
#include "../transport/socket_address.h"
#include "../transport/uv_stream.h"
#include "rendezvous_table.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr int kSpareFiles = 16;

class RelayServer;

// A connection of a worker, which the relay joins with the connection of
// another worker.
struct Side {
  enum class State : uint8_t { kHello, kWaits, kJoined, kClosing };

  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&tcp); }

  RelayServer* relay = nullptr;
  Side* other = nullptr;  // joined with
  State state = State::kHello;
  bool dials = false;
  bool ended = false;      // no more bytes will arrive
  int64_t since = 0;       // start of its state, or end of the other side
  size_t hello_bytes = 0;  // received
  uint8_t hello[kRelayHelloBytes];
  std::unique_ptr<char[]> buffer;  // bytes to send to it
  uv_tcp_t tcp;
  uv_write_t write;
  uv_shutdown_t shutdown;
};

double SecondsWaited(const Side& side, int64_t now) {
  return static_cast<double>(now - side.since) * 1e-9;
}

class RelayServer final : public Relay, private UvListener::Owner {
 public:
  explicit RelayServer(const RelayOptions& options) : options_(options) {}
  ~RelayServer() override;
  Status Serve(const sockaddr_storage& address);

 private:
  Status Listen(const sockaddr_storage& address);
  void OnConnection(UvListener* listener) override;
  bool Admit(Side* side);
  bool MakeRoom(const Side* side);
  void Read(Side* side);
  uv_buf_t SpaceOf(Side* side);
  void OnRead(Side* side, ssize_t bytes);
  void OnEnded(Side* side);
  void HandleHello(Side* side);
  void Join(Side* a, Side* b);
  void Move(Side* to, size_t bytes);
  void OnMoved(Side* to, int status);
  void Close(Side* side);
  void ClosePair(Side* side);
  void Sweep(int64_t now);
  bool IsOver(const Side& side, int64_t now) const;
  void CloseAll();

  const RelayOptions options_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<UvHandles> handles_;
  std::unique_ptr<UvListener> listener_;
  uv_timer_t timer_;
  RendezvousTable table_;
  std::vector<Side*> sides_;  // the open ones, the oldest first
  bool reported_full_ = false;
};

Status RelayServer::Serve(const sockaddr_storage& address) {
  RINGLET_RETURN_IF_ERROR(Loop::Open(&loop_));
  handles_ = std::make_unique<UvHandles>(loop_.get());
  UvListener::Owner* const self = this;
  listener_ = std::make_unique<UvListener>(handles_.get(), self);
  Status status;
  RunOnLoop(loop_.get(), [&](const auto& done) {
    status = Listen(address);
    done();
  });
  return status;
}

Status RelayServer::Listen(const sockaddr_storage& address) {
  uv_timer_init(handles_->uv(), &timer_);  // cannot fail
  timer_.data = this;
  handles_->Opened();
  uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) {
        static_cast<RelayServer*>(timer->data)->Sweep(UvNanos());
      },
      500, 500);
  return listener_->ListenTcp(reinterpret_cast<const sockaddr*>(&address));
}

RelayServer::~RelayServer() {
  if (loop_ == nullptr) return;
  RunOnLoop(loop_.get(), [&](const auto& done) {
    CloseAll();
    handles_->WhenAllClosed(done);
  });
  loop_.reset();
}

void RelayServer::CloseAll() {
  listener_->Close();
  uv_close(AsHandle(&timer_), [](uv_handle_t* handle) {
    static_cast<RelayServer*>(handle->data)->handles_->Closed();
  });
  while (!sides_.empty()) ClosePair(sides_.back());
}

// --- connections ------------------------------------------------------------

void RelayServer::OnConnection(UvListener*) {
  Side* const side = new Side;
  side->relay = this;
  uv_tcp_init(handles_->uv(), &side->tcp);  // cannot fail
  side->tcp.data = side;
  side->since = UvNanos();
  handles_->Opened();
  sides_.push_back(side);
  if (Admit(side)) return Read(side);
  Close(side);
}

bool RelayServer::Admit(Side* side) {
  if (uv_accept(listener_->stream(), side->stream()) != 0) return false;
  if (sides_.size() > static_cast<size_t>(options_.connections) &&
      !MakeRoom(side)) {
    if (!std::exchange(reported_full_, true)) {
      Notice(
          "warning: %d connections are open, the most that are taken; others "
          "are closed immediately",
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
bool RelayServer::MakeRoom(const Side* side) {
  const auto silent = std::find_if(
      sides_.begin(), sides_.end(),
      [](const Side* s) { return s->state == Side::State::kHello; });
  if (*silent == side ||
      SecondsWaited(**silent, side->since) <= options_.silent_seconds) {
    return false;
  }
  Close(*silent);
  return true;
}

void RelayServer::Read(Side* side) {
  const int error = uv_read_start(
      side->stream(),
      [](uv_handle_t* handle, size_t, uv_buf_t* out) {
        Side* const of = static_cast<Side*>(handle->data);
        *out = of->relay->SpaceOf(of);
      },
      [](uv_stream_t* stream, ssize_t bytes, const uv_buf_t*) {
        Side* const of = static_cast<Side*>(stream->data);
        of->relay->OnRead(of, bytes);
      });
  if (error != 0) ClosePair(side);
}

// A waiting side sends nothing, so a byte from it is handled as its end.
uv_buf_t RelayServer::SpaceOf(Side* side) {
  if (side->state == Side::State::kJoined) {
    return uv_buf_init(side->other->buffer.get(), kBufferBytes);
  }
  const bool in_hello = side->state == Side::State::kHello;
  uint8_t* const space =
      in_hello ? side->hello + side->hello_bytes : side->hello;
  return uv_buf_init(reinterpret_cast<char*>(space),
                     in_hello ? kRelayHelloBytes - side->hello_bytes : 1);
}

void RelayServer::OnRead(Side* side, ssize_t bytes) {
  if (bytes == 0 || side->state == Side::State::kClosing) return;
  if (bytes == UV_EOF && side->state == Side::State::kJoined) {
    return OnEnded(side);
  }
  if (bytes < 0 || side->state == Side::State::kWaits) return ClosePair(side);
  if (side->state == Side::State::kJoined) {
    uv_read_stop(side->stream());
    return Move(side->other, static_cast<size_t>(bytes));
  }
  side->hello_bytes += static_cast<size_t>(bytes);
  if (side->hello_bytes == kRelayHelloBytes) HandleHello(side);
}

void RelayServer::HandleHello(Side* side) {
  RelayHello hello;
  if (!DecodeRelayHello(side->hello, &hello)) return Close(side);
  side->state = Side::State::kWaits;
  side->dials = hello.role == RelayHello::kDials;
  side->since = UvNanos();
  const RendezvousTable::Match match = table_.Arrive(side, hello);
  if (match.displaced != nullptr) Close(static_cast<Side*>(match.displaced));
  if (match.other != nullptr) Join(side, static_cast<Side*>(match.other));
}

void RelayServer::Join(Side* a, Side* b) {
  a->other = b;
  b->other = a;
  for (Side* const side : {a, b}) {
    side->state = Side::State::kJoined;
    side->buffer = std::make_unique<char[]>(kBufferBytes);
  }
  for (Side* const side : {a, b}) {
    char joined = kRelayJoined;
    const uv_buf_t said = uv_buf_init(&joined, 1);
    if (uv_try_write(side->stream(), &said, 1) != 1) return ClosePair(a);
  }
}

// --- hellos and bytes -------------------------------------------------------

void RelayServer::Move(Side* to, size_t bytes) {
  to->write.data = to;
  const uv_buf_t buffer =
      uv_buf_init(to->buffer.get(), static_cast<unsigned>(bytes));
  const int error = uv_write(&to->write, to->stream(), &buffer, 1,
                             [](uv_write_t* request, int status) {
                               Side* const of =
                                   static_cast<Side*>(request->data);
                               of->relay->OnMoved(of, status);
                             });
  if (error != 0) ClosePair(to);
}

void RelayServer::OnMoved(Side* to, int status) {
  if (to->state == Side::State::kClosing) return;
  if (status != 0) return ClosePair(to);
  Read(to->other);
}

// All bytes of this side were passed to the other, so its end is passed on too.
void RelayServer::OnEnded(Side* side) {
  Side* const other = side->other;
  uv_read_stop(side->stream());
  side->ended = true;
  side->since = UvNanos();
  if (other->ended) return ClosePair(side);
  const int error = uv_shutdown(&other->shutdown, other->stream(),
                                [](uv_shutdown_t*, int) {});
  if (error != 0) ClosePair(side);
}

// --- disconnections ---------------------------------------------------------

void RelayServer::ClosePair(Side* side) {
  if (side->other != nullptr) Close(side->other);
  Close(side);
}

void RelayServer::Close(Side* side) {
  if (side->state == Side::State::kClosing) return;
  side->state = Side::State::kClosing;
  sides_.erase(std::find(sides_.begin(), sides_.end(), side));
  table_.Leave(side);
  uv_close(AsHandle(&side->tcp), [](uv_handle_t* handle) {
    Side* const of = static_cast<Side*>(handle->data);
    UvHandles* const handles = of->relay->handles_.get();
    delete of;
    handles->Closed();
  });
}

bool RelayServer::IsOver(const Side& side, int64_t now) const {
  const double seconds = SecondsWaited(side, now);
  switch (side.state) {
    case Side::State::kHello:
      return seconds > options_.hello_seconds;
    case Side::State::kWaits:
      return side.dials && seconds > options_.dial_seconds;
    case Side::State::kJoined:
      return side.ended && seconds > options_.linger_seconds;
    case Side::State::kClosing:
      break;
  }
  return false;
}

void RelayServer::Sweep(int64_t now) {
  for (size_t i = sides_.size(); i-- > 0;) {
    if (i < sides_.size() && IsOver(*sides_[i], now)) ClosePair(sides_[i]);
  }
  if (2 * sides_.size() < static_cast<size_t>(options_.connections)) {
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

Status CheckLimit(const RelayOptions& options) {
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
  RINGLET_RETURN_IF_ERROR(CheckLimit(options));
  auto relay = std::make_unique<RelayServer>(options);
  RINGLET_RETURN_IF_ERROR(
      relay->Serve(address).Annotate("%s", options.address.c_str()));
  *out = std::move(relay);
  return Status();
}

}  // namespace ringlet
