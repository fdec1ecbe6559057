// RelayStream: a ByteStream to another worker, through a relay. Both workers
// have connected to the relay.
//
// Pure: above a stream that connects to the relay. It sends the hello
// (net/wire/relay_hello.h). It is open() once the relay has joined it with the
// other worker's stream, and then passes bytes unchanged. The SealedStream
// above protects them from the relay.

#ifndef RINGLET_NET_TRANSPORT_RELAY_STREAM_H_
#define RINGLET_NET_TRANSPORT_RELAY_STREAM_H_

#include <string>

#include "../wire/relay_hello.h"
#include "layered_stream.h"

namespace ringlet {

class RelayStream final : public LayeredStream {
 public:
  // `relay` is the relay's address, for messages.
  static StreamPtr Make(StreamPtr below, const RelayHello& hello,
                        const std::string& relay) {
    return StreamPtr(new RelayStream(std::move(below), hello, relay));
  }

  // A second call, from inside OnOpened, gives the stream another owner.
  void Start(ByteStream::Owner* owner) override;
  bool open() const override { return joined_; }
  int64_t Write(const Piece* pieces, int count) override {
    return below_->Write(pieces, count);
  }
  bool blocked() const override { return !joined_ || below_->blocked(); }
  bool authentic() const override { return false; }
  bool is_local() const override { return false; }

 private:
  RelayStream(StreamPtr below, const RelayHello& hello,
              const std::string& relay)
      : LayeredStream(std::move(below)), hello_(hello), relay_(relay) {}

  void OnOpened(int64_t now) override;
  Space NextSpace() override;
  void OnRead(size_t bytes, int64_t now) override;
  void OnWritable(int64_t now) override;
  void OnEnded(LossCause cause, const Status& why, int64_t now) override;
  void End(LossCause cause, const Status& why, int64_t now);

  const RelayHello hello_;
  const std::string relay_;
  uint8_t answer_ = 0;
  bool started_ = false;
  bool joined_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_RELAY_STREAM_H_
