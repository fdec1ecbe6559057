// ScriptedSocket: the stream below another, of which the test is the kernel.

#ifndef RINGLET_TESTS_NET_TRANSPORT_SCRIPTED_SOCKET_H_
#define RINGLET_TESTS_NET_TRANSPORT_SCRIPTED_SOCKET_H_

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "net/transport/byte_stream.h"

namespace ringlet {

class ScriptedSocket final : public ByteStream, private DescriptorSocket {
 public:
  void Start(Owner* owner) override { owner_ = owner; }
  bool open() const override { return true; }
  int64_t Write(const Piece* pieces, int count) override {
    size_t taken = 0;
    for (int i = 0; i < count; ++i) {
      const size_t n = std::min(pieces[i].bytes, takes - taken);
      sent.insert(sent.end(), pieces[i].data, pieces[i].data + n);
      taken += n;
      if (n < pieces[i].bytes) is_blocked = true;
    }
    return static_cast<int64_t>(taken);
  }
  bool blocked() const override { return is_blocked; }
  void StopReading() override { stopped = true; }
  void Close() override { closed = true; }
  bool authentic() const override { return false; }
  SharedMemory* shared_memory() override { return nullptr; }
  DescriptorSocket* descriptors() override { return this; }
  bool is_local() const override { return true; }
  const std::string& remote() const override { return remote_; }
  const sockaddr_storage& remote_address() const override { return address_; }

  // Delivers the bytes that the other end has sent.
  void Deliver(std::vector<uint8_t>* bytes) {
    std::vector<uint8_t> all;
    all.swap(*bytes);
    for (size_t at = 0; at < all.size() && !closed && !stopped;) {
      const Space space = owner_->NextSpace();
      const size_t n = std::min({space.bytes, all.size() - at, gives_at_once});
      std::memcpy(space.data, all.data() + at, n);
      at += n;
      owner_->OnRead(n, 0);
    }
  }
  void End() {
    owner_->OnEnded(LossCause::kExited, Error(Code::kIo, "ended"), 0);
  }
  void Unblock() {
    is_blocked = false;
    owner_->OnWritable(0);
  }

  std::vector<uint8_t> sent;
  int gives = -1, came = -1;
  bool is_blocked = false;
  bool closed = false;
  bool stopped = false;
  size_t takes = SIZE_MAX;  // the most bytes of a write; then it blocks
  size_t gives_at_once = SIZE_MAX;

 private:
  void SendDescriptor(int descriptor) override { gives = dup(descriptor); }
  int TakeDescriptor() override { return std::exchange(came, -1); }

  Owner* owner_ = nullptr;
  std::string remote_ = "here";
  sockaddr_storage address_ = {};
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_TRANSPORT_SCRIPTED_SOCKET_H_
