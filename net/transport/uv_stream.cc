// Write first passes the caller's memory to the kernel. If the kernel accepts
// nothing, Write copies at most sizeof(later_) bytes and queues the copy in
// libuv, since only a queued write reports that the kernel accepts bytes again.
// So the caller's memory is not used after Write returns, and the count of
// taken bytes exceeds what the kernel has by at most one copy.

#include "uv_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "local_socket.h"
#include "socket_address.h"

namespace ringlet {
namespace {

constexpr int kBacklog = 128;
// Linux doubles it. Queued bytes between two processes of a host should fit in
// the cache. A segment must fit too.
constexpr int kLoopbackBuffer = 96 << 10;

LossCause CauseOf(int uv_error) {
  switch (uv_error) {
    case UV_EOF:
    case UV_ECONNRESET:
    case UV_EPIPE:
    case UV_ECONNABORTED:
      return LossCause::kExited;
    case UV_ECONNREFUSED:
      return LossCause::kRefused;
    default:
      return LossCause::kCut;
  }
}

}  // namespace

Status UvStream::Make(UvHandles* handles, bool local, UvStream** stream,
                      StreamPtr* out) {
  UvStream* new_stream = new UvStream(handles);
  new_stream->local_ = local;
  const int error =
      local ? uv_pipe_init(handles->uv(), &new_stream->handle_.pipe, 0)
            : uv_tcp_init(handles->uv(), &new_stream->handle_.tcp);
  if (error != 0) {
    delete new_stream;
    return UvError(error, "cannot make a connection");
  }
  new_stream->stream()->data = new_stream;
  handles->Opened();
  *stream = new_stream;
  out->reset(new_stream);
  return Status();
}

// The connection is open: reads from now on.
Status UvStream::Begin() {
  open_ = true;
  if (!local_) {
    uv_tcp_nodelay(&handle_.tcp, 1);
    uv_tcp_keepalive(&handle_.tcp, 1, kKeepAliveSeconds);
    sockaddr_storage address = {};
    int bytes = sizeof(address);
    if (uv_tcp_getpeername(&handle_.tcp, reinterpret_cast<sockaddr*>(&address),
                           &bytes) == 0) {
      remote_ = AddressText(address);
      remote_address_ = address;
      // Within one host a larger buffer leaves the caches. Between hosts the
      // system measures the buffer that the route needs.
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
        UvStream* stream = static_cast<UvStream*>(handle->data);
        if (stream->accepted_) stream->PeekOnce();
        const Space space = stream->owner_->NextSpace();
        *out = uv_buf_init(reinterpret_cast<char*>(space.data),
                           static_cast<unsigned>(space.bytes));
      },
      [](uv_stream_t* stream, ssize_t bytes, const uv_buf_t*) {
        static_cast<UvStream*>(stream->data)->OnRead(bytes);
      });
  return error == 0 ? Status() : UvError(error, "cannot read");
}

Status UvStream::Accept(UvHandles* handles, uv_stream_t* listener,
                        StreamPtr* out) {
  UvStream* new_stream = nullptr;
  StreamPtr stream;
  RINGLET_RETURN_IF_ERROR(
      Make(handles, listener->type == UV_NAMED_PIPE, &new_stream, &stream));
  const int error = uv_accept(listener, new_stream->stream());
  if (error != 0) return UvError(error, "cannot accept a connection");
  uv_os_fd_t fd = -1;
  if (new_stream->local_ &&
      uv_fileno(AsHandle(&new_stream->handle_), &fd) == 0 &&
      !IsOfSameUser(fd)) {
    return Error(Code::kUnavailable, "another user's local socket");
  }
  new_stream->accepted_ = new_stream->local_;
  RINGLET_RETURN_IF_ERROR(new_stream->Begin());
  *out = std::move(stream);
  return Status();
}

Status UvStream::ConnectTcp(UvHandles* handles, const sockaddr* address,
                            StreamPtr* out) {
  UvStream* new_stream = nullptr;
  StreamPtr stream;
  RINGLET_RETURN_IF_ERROR(Make(handles, /*local=*/false, &new_stream, &stream));
  new_stream->connect_.data = new_stream;
  const int error = uv_tcp_connect(
      &new_stream->connect_, &new_stream->handle_.tcp, address,
      [](uv_connect_t* request, int status) {
        UvStream* uv_stream = static_cast<UvStream*>(request->data);
        if (uv_stream->closing_) return;
        if (status != 0) {
          return uv_stream->owner_->OnEnded(
              CauseOf(status), UvError(status, "cannot connect"), UvNanos());
        }
        const Status begun = uv_stream->Begin();
        if (!begun.ok()) {
          return uv_stream->owner_->OnEnded(LossCause::kCut, begun, UvNanos());
        }
        uv_stream->owner_->OnOpened(UvNanos());
      });
  if (error != 0) return UvError(error, "cannot connect");
  *out = std::move(stream);
  return Status();
}

Status UvStream::ConnectLocal(UvHandles* handles, const std::string& name,
                              StreamPtr* out) {
  int fd = -1;
  RINGLET_RETURN_IF_ERROR(ConnectLocalSocket(name, &fd));
  UvStream* new_stream = nullptr;
  StreamPtr stream;
  const Status status = Make(handles, /*local=*/true, &new_stream, &stream);
  const int error =
      status.ok() ? uv_pipe_open(&new_stream->handle_.pipe, fd) : 0;
  if (!status.ok() || error != 0) {
    close(fd);
    return status.ok() ? UvError(error, "cannot use a local socket") : status;
  }
  RINGLET_RETURN_IF_ERROR(new_stream->Begin());
  *out = std::move(stream);
  return Status();
}

int64_t UvStream::Write(const Piece* pieces, int count) {
  RINGLET_CHECK(!blocked_ && count <= kMaxPieces);
  if (failed_) return -1;
  uv_buf_t buffers[kMaxPieces];
  for (int i = 0; i < count; ++i) {
    buffers[i] = uv_buf_init(
        reinterpret_cast<char*>(const_cast<uint8_t*>(pieces[i].data)),
        static_cast<unsigned>(pieces[i].bytes));
  }
  const int64_t written =
      local_ ? WriteLocal(buffers, count)
             : uv_try_write(stream(), buffers, static_cast<unsigned>(count));
  if (written != UV_EAGAIN) return written;
  return WriteLater(pieces, count);
}

// May run on any thread that has entered the loop, so it raises no signal.
int64_t UvStream::WriteLocal(uv_buf_t* buffers, int count) {
  const int descriptor = std::exchange(descriptor_to_send_, -1);
  uv_os_fd_t fd = -1;
  const int error = uv_fileno(AsHandle(&handle_), &fd);
  if (error != 0) return error;
  return WriteLocalSocket(fd, reinterpret_cast<iovec*>(buffers), count,
                          descriptor);
}

void UvStream::PeekOnce() {
  accepted_ = false;
  uv_os_fd_t fd = -1;
  if (uv_fileno(AsHandle(&handle_), &fd) == 0)
    received_descriptor_ = PeekDescriptor(fd);
}

int64_t UvStream::WriteLater(const Piece* pieces, int count) {
  size_t n = 0;
  for (int i = 0; i < count && n < sizeof(later_); ++i) {
    const size_t copied = std::min(pieces[i].bytes, sizeof(later_) - n);
    std::memcpy(later_ + n, pieces[i].data, copied);
    n += copied;
  }
  const uv_buf_t buffer =
      uv_buf_init(reinterpret_cast<char*>(later_), static_cast<unsigned>(n));
  write_.data = this;
  const int error = uv_write(
      &write_, stream(), &buffer, 1, [](uv_write_t* request, int status) {
        UvStream* uv_stream = static_cast<UvStream*>(request->data);
        uv_stream->blocked_ = false;
        uv_stream->failed_ = status != 0;
        if (!uv_stream->closing_) uv_stream->owner_->OnWritable(UvNanos());
      });
  blocked_ = error == 0;
  failed_ = error != 0;
  return error == 0 ? static_cast<int64_t>(n) : -1;
}

void UvStream::OnRead(ssize_t bytes) {
  if (closing_ || bytes == 0) return;
  if (bytes > 0) return owner_->OnRead(static_cast<size_t>(bytes), UvNanos());
  StopReading();
  const int error = static_cast<int>(bytes);
  owner_->OnEnded(CauseOf(error),
                  error == UV_EOF ? Error(Code::kIo, "closed by the other side")
                                  : UvError(error, "cannot read"),
                  UvNanos());
}

UvStream::~UvStream() {
  if (received_descriptor_ >= 0) close(received_descriptor_);
}

void UvStream::Close() {
  closing_ = true;
  uv_close(AsHandle(&handle_), [](uv_handle_t* handle) {
    UvStream* stream = static_cast<UvStream*>(handle->data);
    UvHandles* const handles = stream->handles_;
    delete stream;
    handles->Closed();
  });
}

Status UvListener::ListenTcp(const sockaddr* address) {
  int error = uv_tcp_init(handles_->uv(), &handle_.tcp);
  if (error != 0) return UvError(error, "cannot make a socket");
  handle_.tcp.data = this;
  handles_->Opened();
  open_ = true;
  error = uv_tcp_bind(&handle_.tcp, address, 0);
  if (error == 0) return Listen();
  Close();
  return UvError(error, "cannot bind");
}

Status UvListener::ListenLocal(const std::string& name) {
  int fd = -1;
  RINGLET_RETURN_IF_ERROR(BindLocalSocket(name, &fd));
  int error = uv_pipe_init(handles_->uv(), &handle_.pipe, 0);
  if (error == 0) {
    handle_.pipe.data = this;
    handles_->Opened();
    open_ = true;
    error = uv_pipe_open(&handle_.pipe, fd);
    if (error == 0) return Listen();
    Close();
  }
  close(fd);
  return UvError(error, "cannot use a local socket");
}

Status UvListener::Listen() {
  const int error =
      uv_listen(stream(), kBacklog, [](uv_stream_t* server, int status) {
        UvListener* listener = static_cast<UvListener*>(server->data);
        if (status == 0) listener->owner_->OnConnection(listener);
      });
  if (error == 0) return Status();
  Close();
  return UvError(error, "cannot listen");
}

void UvListener::Close() {
  if (!open()) return;
  uv_close(AsHandle(&handle_), [](uv_handle_t* handle) {
    UvListener* listener = static_cast<UvListener*>(handle->data);
    listener->open_ = false;
    listener->handles_->Closed();
  });
}

}  // namespace ringlet
