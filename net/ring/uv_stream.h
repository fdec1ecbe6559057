// UvStream: a ByteStream on libuv, by TCP or a local socket. UvListener: where
// they come from. UvHandles: how many of one user's handles libuv still holds.
//
// Internal to net/. All of the loop's thread only. libuv keeps pointers into a
// stream until its close callback, so a stream deletes itself there.

#ifndef RINGLET_NET_RING_UV_STREAM_H_
#define RINGLET_NET_RING_UV_STREAM_H_

#include <uv.h>

#include <functional>
#include <string>
#include <utility>

#include "../../core/base/check.h"
#include "byte_stream.h"
#include "loop.h"

namespace ringlet {

// The handles of one user on a loop. Outlives them all.
class UvHandles {
 public:
  explicit UvHandles(Loop* loop) : loop_(loop) {}
  UvHandles(const UvHandles&) = delete;
  UvHandles& operator=(const UvHandles&) = delete;

  uv_loop_t* uv() const {
    loop_->AssertInLoop();
    return loop_->uv();
  }
  void Opened() { ++open_; }
  void Closed() {
    if (--open_ == 0 && all_closed_) all_closed_();
  }
  // Calls `done` once no handle is left, at once where none is open.
  void WhenAllClosed(std::function<void()> done) {
    all_closed_ = std::move(done);
    if (open_ == 0) all_closed_();
  }

 private:
  Loop* const loop_;
  int open_ = 0;
  std::function<void()> all_closed_;
};

class UvStream final : public ByteStream {
 public:
  // `listener` is one that has a connection waiting.
  static Status Accept(UvHandles* handles, uv_stream_t* listener,
                       StreamPtr* out);
  static Status ConnectTcp(UvHandles* handles, const sockaddr* address,
                           StreamPtr* out);
  // `name` as LocalSocketName() gives it. Connects, or is refused, at once.
  static Status ConnectLocal(UvHandles* handles, const std::string& name,
                             StreamPtr* out);

  void Start(Owner* owner) override { owner_ = owner; }
  bool open() const override { return open_; }
  int64_t Write(const Piece* pieces, int count) override;
  bool blocked() const override { return blocked_; }
  void StopReading() override { uv_read_stop(stream()); }
  void Close() override;
  void SendDescriptor(int descriptor) override { give_ = descriptor; }
  int TakeDescriptor() override { return std::exchange(came_, -1); }
  bool is_local() const override { return local_; }
  const std::string& remote() const override { return remote_; }
  const sockaddr_storage& remote_address() const override {
    return remote_address_;
  }

 private:
  explicit UvStream(UvHandles* handles) : handles_(handles) {}
  ~UvStream() override;

  static Status Make(UvHandles* handles, bool local, UvStream** stream,
                     StreamPtr* out);
  Status Begin();
  void OnRead(ssize_t bytes);
  int64_t WriteLocal(uv_buf_t* buffers, int count);
  void PeekOnce();
  int64_t WriteLater(const Piece* pieces, int count);
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&handle_); }

  UvHandles* const handles_;
  Owner* owner_ = nullptr;
  union {
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  } handle_;
  uv_connect_t connect_;
  uv_write_t write_;
  bool local_ = false;
  bool open_ = false;
  bool closing_ = false;
  bool failed_ = false;   // to write
  bool blocked_ = false;  // write_ is under way
  bool accepted_ = false;  // local, and nothing was read yet
  int give_ = -1;          // descriptor that goes with the first byte
  int came_ = -1;          // that came so
  std::string remote_;
  sockaddr_storage remote_address_ = {};
  uint8_t later_[1024];
};

class UvListener {
 public:
  class Owner {
   public:
    // Answer with UvStream::Accept(handles, listener->stream()), sooner or
    // later: until then no other is told of.
    virtual void OnConnection(UvListener* listener) = 0;

   protected:
    ~Owner() = default;
  };

  UvListener(UvHandles* handles, Owner* owner)
      : handles_(handles), owner_(owner) {}
  ~UvListener() { RINGLET_CHECK(!open_); }
  UvListener(const UvListener&) = delete;
  UvListener& operator=(const UvListener&) = delete;

  Status ListenTcp(const sockaddr* address);
  Status ListenLocal(const std::string& name);
  void Close();  // idempotent
  bool open() const {
    return open_ &&
           uv_is_closing(reinterpret_cast<const uv_handle_t*>(&handle_)) == 0;
  }
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&handle_); }

  bool waits = false;  // the owner's note: a connection is not yet accepted

 private:
  Status Listen();

  UvHandles* const handles_;
  Owner* const owner_;
  union {
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  } handle_;
  bool open_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_UV_STREAM_H_
