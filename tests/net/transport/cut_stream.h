// CutStream: a ByteStream that passes received data to its owner from its own
// memory, in pieces of any length, as sealed and shared-memory streams do.
//
// The memory of each piece is freed after the call, so a sanitizer detects each
// later use.

#ifndef RINGLET_TESTS_NET_TRANSPORT_CUT_STREAM_H_
#define RINGLET_TESTS_NET_TRANSPORT_CUT_STREAM_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "net/transport/layered_stream.h"

namespace ringlet {

class CutStream final : public LayeredStream, private SharedMemory {
 public:
  // `cut` returns the length of the next piece, from 1 to `most`.
  using Cut = std::function<size_t(size_t most)>;
  static StreamPtr Make(StreamPtr below, Cut cut) {
    return StreamPtr(new CutStream(std::move(below), std::move(cut)));
  }

  bool open() const override { return below_->open(); }
  int64_t Write(const Piece* pieces, int count) override {
    return below_->Write(pieces, count);
  }
  bool blocked() const override { return below_->blocked(); }
  bool authentic() const override { return below_->authentic(); }
  SharedMemory* shared_memory() override {
    return below_->shared_memory() == nullptr ? nullptr : this;
  }
  DescriptorSocket* descriptors() override { return below_->descriptors(); }

 private:
  CutStream(StreamPtr below, Cut cut)
      : LayeredStream(std::move(below)), cut_(std::move(cut)) {}
  ~CutStream() override = default;

  bool MapSharedMemory() override {
    return below_->shared_memory()->MapSharedMemory();
  }
  void DeclineSharedMemory() override {
    below_->shared_memory()->DeclineSharedMemory();
  }
  void ShareOutput() override { below_->shared_memory()->ShareOutput(); }
  // Bytes from the socket after the last frame only wake the reader.
  void ShareInput() override {
    rest_wakes_ = true;
    below_->shared_memory()->ShareInput();
  }
  bool Poll(int64_t now, bool wake) override {
    return below_->shared_memory()->Poll(now, wake);
  }
  bool unfinished() const override {
    return below_->shared_memory()->unfinished();
  }

  void OnOpened(int64_t now) override { owner_->OnOpened(now); }
  Space NextSpace() override { return {space_, sizeof(space_)}; }
  void OnRead(size_t bytes, int64_t now) override {
    OnBytes(space_, bytes, now);
  }
  void OnBytes(const uint8_t* data, size_t bytes, int64_t now) override {
    ++depth_;
    rest_wakes_ = false;
    while (bytes > 0 && reading_ && !rest_wakes_) {
      const size_t n = cut_(bytes);
      const std::vector<uint8_t> piece(data, data + n);
      owner_->OnBytes(piece.data(), n, now);
      data += n;
      bytes -= n;
    }
    Leave();
  }
  void OnWritable(int64_t now) override { owner_->OnWritable(now); }
  void OnEnded(LossCause cause, const Status& why, int64_t now) override {
    owner_->OnEnded(cause, why, now);
  }

  const Cut cut_;
  bool rest_wakes_ = false;
  uint8_t space_[20000];
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_TRANSPORT_CUT_STREAM_H_
