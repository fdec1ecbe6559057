#include "link.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "../../core/base/crc32c.h"
#include "socket_address.h"

namespace ringlet {
namespace {

constexpr int kBacklog = 128;
// Linux doubles it. What waits between two processes of a host should still be
// in a cache when it is read; much less, and a segment does not fit.
constexpr int kLoopbackBuffer = 96 << 10;

Cause CauseOf(int uv_error) {
  switch (uv_error) {
    case UV_EOF:
    case UV_ECONNRESET:
    case UV_EPIPE:
    case UV_ECONNABORTED:
      return Cause::kExited;
    case UV_ECONNREFUSED:
      return Cause::kRefused;
    default:
      return Cause::kCut;
  }
}

// A non-blocking socket for a name of Linux's abstract space; the negative
// errno where there is none.
int LocalSocket(const std::string& name, sockaddr_un* address,
                socklen_t* bytes) {
  if (name.empty() || name.size() > sizeof(address->sun_path)) {
    return -EAFNOSUPPORT;
  }
  std::memset(address, 0, sizeof(*address));
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path, name.data(), name.size());
  *bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
#ifdef __linux__
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return fd >= 0 ? fd : -errno;
#else
  return -EAFNOSUPPORT;
#endif
}

// Whether the other end of a local socket belongs to this process's user. Where
// the system does not say, the handshake decides.
bool IsOfSameUser(int fd) {
#ifdef SO_PEERCRED
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0) {
    return peer.uid == geteuid();
  }
#else
  (void)fd;
#endif
  return true;
}

uv_handle_t* AsHandle(void* handle) {
  return static_cast<uv_handle_t*>(handle);
}

}  // namespace

Status Link::Init(bool local) {
  loop_->AssertInLoop();
  local_ = local;
  const int error = local ? uv_pipe_init(loop_->uv(), &handle_.pipe, 0)
                          : uv_tcp_init(loop_->uv(), &handle_.tcp);
  if (error != 0) return UvError(error, "cannot make a connection");
  stream()->data = this;
  open_handles_ = 1;
  return Status();
}

// The connection is there: reads from now on.
Status Link::Begin() {
  if (!local_) {
    uv_tcp_nodelay(&handle_.tcp, 1);
    sockaddr_storage address = {};
    int bytes = sizeof(address);
    if (uv_tcp_getpeername(&handle_.tcp, reinterpret_cast<sockaddr*>(&address),
                           &bytes) == 0) {
      remote_ = AddressText(address);
      remote_address_ = address;
      // Within one host more only leaves the caches; between hosts the system
      // measures what the way holds.
      int send_bytes = kLoopbackBuffer;
      if (IsLocalAddress(address)) {
        uv_send_buffer_size(AsHandle(&handle_), &send_bytes);
      }
    }
  } else {
    remote_ = "a process of this host";
  }
  const int error = uv_read_start(
      stream(),
      [](uv_handle_t* handle, size_t, uv_buf_t* out) {
        Link* link = static_cast<Link*>(handle->data);
        const FrameReader::Space space = link->reader_.NextSpace();
        *out = uv_buf_init(reinterpret_cast<char*>(space.data),
                           static_cast<unsigned>(space.bytes));
      },
      [](uv_stream_t* stream, ssize_t bytes, const uv_buf_t*) {
        static_cast<Link*>(stream->data)->OnRead(bytes);
      });
  return error == 0 ? Status() : UvError(error, "cannot read");
}

Status Link::Accept(uv_stream_t* listener) {
  RINGLET_RETURN_IF_ERROR(Init(listener->type == UV_NAMED_PIPE));
  const int error = uv_accept(listener, stream());
  uv_os_fd_t fd = -1;
  const bool foreign = error == 0 && local_ &&
                       uv_fileno(AsHandle(&handle_), &fd) == 0 &&
                       !IsOfSameUser(fd);
  const Status status =
      error != 0 ? UvError(error, "cannot accept a connection")
      : foreign  ? Error(Code::kUnavailable, "another user's local socket")
                 : Begin();
  if (!status.ok()) Close();
  return status;
}

Status Link::ConnectTcp(const sockaddr* address) {
  RINGLET_RETURN_IF_ERROR(Init(false));
  connect_.data = this;
  const int error = uv_tcp_connect(
      &connect_, &handle_.tcp, address, [](uv_connect_t* request, int status) {
        Link* link = static_cast<Link*>(request->data);
        if (link->closing_) return;
        if (status != 0) {
          return link->Down(CauseOf(status), UvError(status, "cannot connect"));
        }
        const Status begun = link->Begin();
        if (!begun.ok()) return link->Down(Cause::kCut, begun);
        link->owner_->OnConnected(link);
      });
  if (error == 0) return Status();
  Close();
  return UvError(error, "cannot connect");
}

Status Link::ConnectLocal(const std::string& name) {
  sockaddr_un address;
  socklen_t bytes = 0;
  const int fd = LocalSocket(name, &address, &bytes);
  if (fd < 0) return OsError(-fd, "cannot make a local socket");
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    const int error = errno;
    close(fd);
    return OsError(error, "cannot connect to a local socket");
  }
  Status status =
      IsOfSameUser(fd)
          ? Init(true)
          : Error(Code::kUnavailable, "the local socket is another user's");
  if (!status.ok()) {
    close(fd);
    return status;
  }
  const int error = uv_pipe_open(&handle_.pipe, fd);
  if (error != 0) {
    close(fd);
    status = UvError(error, "cannot use a local socket");
  } else {
    status = Begin();
  }
  if (!status.ok()) Close();
  return status;
}

void Link::Send(FrameHeader header, const uint8_t* payload) {
  RINGLET_CHECK(header.payload_bytes <= kEagerBytes);
  Enqueue(&header, payload, false);
}

void Link::SendBorrowed(FrameHeader header, const uint8_t* payload) {
  Enqueue(&header, payload, true);
}

// The place of the next frame: of a heartbeat that of the last one, where that
// has not begun to be sent. Null where there is none.
Link::Out* Link::NextOut(FrameType type) {
  const bool heartbeat = type == FrameType::kHeartbeat;
  for (int i = written_ > 0 ? 1 : 0; heartbeat && i < count_; ++i) {
    Out* out = &queue_[(first_ + i) % kMaxFrames];
    if (out->heartbeat) return out;
  }
  if (count_ == kMaxFrames) return nullptr;
  Out* out = &queue_[(first_ + count_++) % kMaxFrames];
  out->heartbeat = heartbeat;
  return out;
}

void Link::Enqueue(FrameHeader* header, const uint8_t* payload, bool borrowed) {
  loop_->AssertInLoop();
  if (closing_ || broken_) return;
  Out* out = NextOut(header->type);
  if (out == nullptr) {  // the peer does not read: the owner ends this
    overflowed_ = true;
    return WriteFailed();
  }
  out->payload_bytes = header->payload_bytes;
  out->sequence = header->sequence;
  out->data = IsData(header->type);
  out->borrowed = borrowed;
  out->payload = payload;
  if (borrowed) {
    ++borrowed_;
    turn_bytes_ += header->payload_bytes;
  } else {
    out->copy.assign(payload, payload + header->payload_bytes);
    out->payload = out->copy.data();
  }
  header->payload_crc = Crc32c(payload, header->payload_bytes);
  EncodeHeader(*header, out->header);
  Pump();
}

void Link::Pump() {
  if (pumping_) return;
  pumping_ = true;
  while (count_ > 0 && !waiting_ && !closing_ && !broken_) {
    uv_buf_t buffers[8];
    unsigned n = 0;
    size_t skip = written_;
    for (int i = 0; i < count_ && n + 2 <= 8; ++i) {
      Out& out = queue_[(first_ + i) % kMaxFrames];
      if (skip < kFrameHeaderBytes) {
        buffers[n++] =
            uv_buf_init(reinterpret_cast<char*>(out.header + skip),
                        static_cast<unsigned>(kFrameHeaderBytes - skip));
        skip = kFrameHeaderBytes;
      }
      const size_t done = skip - kFrameHeaderBytes;
      if (done < out.payload_bytes) {
        buffers[n++] = uv_buf_init(
            reinterpret_cast<char*>(const_cast<uint8_t*>(out.payload + done)),
            static_cast<unsigned>(out.payload_bytes - done));
      }
      skip = 0;
    }
    const int written = uv_try_write(stream(), buffers, n);
    if (written == UV_EAGAIN) {
      WaitForKernel();
    } else if (written < 0) {
      WriteFailed();
    } else {
      Advance(static_cast<size_t>(written));
    }
  }
  pumping_ = false;
}

// The next `bytes` of the queue have been written.
void Link::Advance(size_t bytes) {
  written_ += bytes;
  taken_bytes_ += bytes;
  while (count_ > 0 && written_ >= kFrameHeaderBytes + front().payload_bytes) {
    written_ -= kFrameHeaderBytes + front().payload_bytes;
    const bool borrowed = front().borrowed;
    const uint64_t sequence = front().sequence;
    first_ = (first_ + 1) % kMaxFrames;
    --count_;
    if (!borrowed) continue;
    --borrowed_;
    owner_->OnSent(this, sequence);
  }
}

// Leaves a copied piece with libuv, which tells when the kernel took it.
void Link::WaitForKernel() {
  size_t n = 0;
  Out& out = front();
  const size_t total = kFrameHeaderBytes + out.payload_bytes;
  if (written_ < kFrameHeaderBytes) {
    n = kFrameHeaderBytes - written_;
    std::memcpy(wait_buffer_, out.header + written_, n);
  }
  const size_t from = std::max(written_, kFrameHeaderBytes);
  const size_t more = std::min(sizeof(wait_buffer_) - n, total - from);
  if (more > 0) {
    std::memcpy(wait_buffer_ + n, out.payload + (from - kFrameHeaderBytes),
                more);
  }
  n += more;
  const uv_buf_t buffer = uv_buf_init(reinterpret_cast<char*>(wait_buffer_),
                                      static_cast<unsigned>(n));
  write_.data = this;
  waiting_ = true;
  const int error = uv_write(&write_, stream(), &buffer, 1,
                             [](uv_write_t* request, int status) {
                               Link* link = static_cast<Link*>(request->data);
                               link->waiting_ = false;
                               if (link->closing_) return;
                               if (status != 0) return link->WriteFailed();
                               link->Pump();
                               link->owner_->OnTurn(link);
                             });
  if (error != 0) {
    waiting_ = false;
    return WriteFailed();
  }
  Advance(n);
}

// What the other side said last is still to be read; then reading fails too.
void Link::WriteFailed() {
  broken_ = true;
  count_ = 0;
  borrowed_ = 0;
}

void Link::DropBorrowed() {
  reader_.SkipPayload();
  int kept = 0;
  bool dropped = false;
  for (int i = 0; i < count_; ++i) {
    Out& out = queue_[(first_ + i) % kMaxFrames];
    // The other side takes no frame of an operation that skips one.
    if (dropped && out.data) continue;
    if (out.borrowed) {
      dropped = i > 0 || written_ == 0;
      if (dropped) continue;
      // Part of it is on its way, so the rest must follow: from a copy.
      out.copy.assign(out.payload, out.payload + out.payload_bytes);
      out.payload = out.copy.data();
      out.borrowed = false;
    }
    if (kept != i) std::swap(queue_[(first_ + kept) % kMaxFrames], out);
    // A vector's memory moves with it, so `payload` stays right.
    ++kept;
  }
  count_ = kept;
  borrowed_ = 0;
}

void Link::OnRead(ssize_t bytes) {
  if (closing_ || bytes == 0) return;
  if (bytes < 0) {
    const int error = static_cast<int>(bytes);
    return Down(CauseOf(error),
                error == UV_EOF ? Error(Code::kIo, "closed by the other side")
                                : UvError(error, "cannot read"));
  }
  owner_->OnHeard(this);
  const Status status = reader_.Read(static_cast<size_t>(bytes));
  if (!status.ok() && !closing_) return Down(Cause::kProtocol, status);
  owner_->OnTurn(this);  // also where a frame had the owner close this
}

Status Link::OnHeader(const FrameHeader& header, Landing* landing) {
  if (closing_) return Error(Code::kCancelled, "closing");
  if (!FrameIsLegal(phase, header.type)) {
    return Corruption("a %s frame out of turn", FrameTypeName(header.type));
  }
  return owner_->OnHeader(this, header, landing);
}

Status Link::OnFrame(const FrameHeader& header, const uint8_t* payload) {
  if (closing_) return Error(Code::kCancelled, "closing");
  return owner_->OnFrame(this, header, payload);
}

void Link::Down(Cause cause, const Status& why) {
  uv_read_stop(stream());
  if (cause != Cause::kProtocol) WriteFailed();
  owner_->OnDown(this, cause, why);
}

void Link::Close() {
  if (closing_) return;
  closing_ = true;
  phase = LinkPhase::kClosed;
  count_ = borrowed_ = 0;
  if (open_handles_ == 0) return;  // it never began
  uv_close(AsHandle(&handle_), [](uv_handle_t* handle) {
    Link* link = static_cast<Link*>(handle->data);
    link->open_handles_ = 0;
    link->owner_->OnClosed(link);
  });
}

Status Listener::ListenTcp(const sockaddr* address) {
  loop_->AssertInLoop();
  int error = uv_tcp_init(loop_->uv(), &handle_.tcp);
  if (error != 0) return UvError(error, "cannot make a socket");
  handle_.tcp.data = this;
  open_ = true;
  error = uv_tcp_bind(&handle_.tcp, address, 0);
  if (error == 0) return Listen();
  Close();
  return UvError(error, "cannot bind");
}

Status Listener::ListenLocal(const std::string& name) {
  sockaddr_un address;
  socklen_t bytes = 0;
  const int fd = LocalSocket(name, &address, &bytes);
  if (fd < 0) return OsError(-fd, "cannot make a local socket");
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    const int error = errno;
    close(fd);
    return OsError(error, "cannot bind a local socket");
  }
  int error = uv_pipe_init(loop_->uv(), &handle_.pipe, 0);
  if (error == 0) {
    handle_.pipe.data = this;
    open_ = local_ = true;
    error = uv_pipe_open(&handle_.pipe, fd);
    if (error == 0) return Listen();
    Close();
  }
  close(fd);
  return UvError(error, "cannot use a local socket");
}

Status Listener::Listen() {
  const int error =
      uv_listen(stream(), kBacklog, [](uv_stream_t* server, int status) {
        Listener* listener = static_cast<Listener*>(server->data);
        if (status == 0) listener->owner_->OnConnection(listener);
      });
  if (error == 0) return Status();
  Close();
  return UvError(error, "cannot listen");
}

void Listener::Close() {
  if (!open_ || uv_is_closing(AsHandle(&handle_))) return;
  uv_close(AsHandle(&handle_), [](uv_handle_t* handle) {
    Listener* listener = static_cast<Listener*>(handle->data);
    listener->open_ = false;
    listener->owner_->OnListenerClosed(listener);
  });
}

}  // namespace ringlet
