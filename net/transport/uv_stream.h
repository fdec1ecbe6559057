// UvStream: a ByteStream on libuv, by TCP or a local socket. UvListener:
// accepts streams. UvHandles: counts the handles of one user that libuv still
// holds.
//
// For the loop's thread only. libuv keeps pointers into a stream until its
// close callback, so a stream deletes itself there.

#ifndef RINGLET_NET_TRANSPORT_UV_STREAM_H_
#define RINGLET_NET_TRANSPORT_UV_STREAM_H_

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
  // Calls `done` once no handle is left, immediately if none is open.
  void WhenAllClosed(std::function<void()> done) {
    all_closed_ = std::move(done);
    if (open_ == 0) all_closed_();
  }

 private:
  Loop* const loop_;
  int open_ = 0;
  std::function<void()> all_closed_;
};

class UvStream final : public ByteStream, private DescriptorSocket {
 public:
  // `listener` has a waiting connection.
  static Status Accept(UvHandles* handles, uv_stream_t* listener,
                       StreamPtr* out);
  static Status ConnectTcp(UvHandles* handles, const sockaddr* address,
                           StreamPtr* out);
  // `name` is from LocalSocketName(). Never waits: connects, or returns an
  // error.
  static Status ConnectLocal(UvHandles* handles, const std::string& name,
                             StreamPtr* out);

  void Start(Owner* owner) override { owner_ = owner; }
  bool open() const override { return open_; }
  int64_t Write(const Piece* pieces, int count) override;
  bool blocked() const override { return blocked_; }
  void StopReading() override { uv_read_stop(stream()); }
  void Close() override;
  bool authentic() const override { return false; }
  SharedMemory* shared_memory() override { return nullptr; }
  DescriptorSocket* descriptors() override { return local_ ? this : nullptr; }
  bool is_local() const override { return local_; }
  const std::string& remote() const override { return remote_; }
  const sockaddr_storage& remote_address() const override {
    return remote_address_;
  }

 private:
  explicit UvStream(UvHandles* handles) : handles_(handles) {}
  ~UvStream() override;

  void SendDescriptor(int descriptor) override {
    descriptor_to_send_ = descriptor;
  }
  int TakeDescriptor() override {
    return std::exchange(received_descriptor_, -1);
  }

  static Status Make(UvHandles* handles, bool local, UvStream** stream,
                     StreamPtr* out);
  Status Begin();
  void OnRead(ssize_t bytes);
  int64_t WriteLocal(uv_buf_t* buffers, int count);
  // Takes the descriptor that may be in front of the first bytes.
  void PeekOnce();
  // Gives libuv's queue a copy of at most sizeof(later_) bytes; returns how
  // many.
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
  bool failed_ = false;           // a write has failed
  bool blocked_ = false;          // write_ is under way
  bool accepted_ = false;         // local, and nothing was read yet
  int descriptor_to_send_ = -1;   // a descriptor to send with the first byte
  int received_descriptor_ = -1;  // a received descriptor
  std::string remote_;
  sockaddr_storage remote_address_ = {};
  uint8_t later_[1024];  // the bytes of write_
};

class UvListener {
 public:
  class Owner {
   public:
    // Answer with UvStream::Accept(handles, listener->stream()), now or later.
    // Until then OnConnection is not called again.
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
  // True if the listener may be deleted.
  bool closed() const { return !open_; }
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

#endif  // RINGLET_NET_TRANSPORT_UV_STREAM_H_
