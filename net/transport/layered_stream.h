// LayeredStream: the common part of the streams that lie above another stream.
//
// An owner may close the stream in any call that it gets. So each such call is
// between ++depth_ and Leave(), which deletes the stream. After the call below_
// may be null.

#ifndef RINGLET_NET_TRANSPORT_LAYERED_STREAM_H_
#define RINGLET_NET_TRANSPORT_LAYERED_STREAM_H_

#include <string>
#include <utility>

#include "byte_stream.h"

namespace ringlet {

class LayeredStream : public ByteStream, protected ByteStream::Owner {
 public:
  void Start(ByteStream::Owner* owner) override {
    owner_ = owner;
    below_->Start(this);
  }
  void StopReading() override {
    reading_ = false;
    below_->StopReading();
  }
  void Close() override {
    ++depth_;
    reading_ = false;
    below_.reset();
    Leave();
  }
  SharedMemory* shared_memory() override { return nullptr; }
  DescriptorSocket* descriptors() override { return nullptr; }
  bool is_local() const override { return below_->is_local(); }
  const std::string& remote() const override { return below_->remote(); }
  const sockaddr_storage& remote_address() const override {
    return below_->remote_address();
  }

 protected:
  explicit LayeredStream(StreamPtr below) : below_(std::move(below)) {}
  ~LayeredStream() override = default;
  void OnBytes(const uint8_t*, size_t, int64_t) override {}
  void Leave() {
    if (--depth_ == 0 && below_ == nullptr) delete this;
  }

  StreamPtr below_;  // null if closed
  ByteStream::Owner* owner_ = nullptr;
  bool reading_ = true;
  // The number of calls that need this object until they return.
  int depth_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_LAYERED_STREAM_H_
