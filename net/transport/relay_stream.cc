#include "relay_stream.h"

#include <utility>

namespace ringlet {

void RelayStream::Start(ByteStream::Owner* owner) {
  if (std::exchange(started_, true)) {
    owner_ = owner;
  } else {
    LayeredStream::Start(owner);
  }
}

void RelayStream::OnOpened(int64_t now) {
  uint8_t hello[kRelayHelloBytes];
  EncodeRelayHello(hello_, hello);
  const Piece piece{hello, sizeof(hello)};
  // A new connection takes these few bytes without a wait.
  if (below_->Write(&piece, 1) == static_cast<int64_t>(sizeof(hello))) return;
  End(LossCause::kCut, Error(Code::kIo, "cannot write to the relay"), now);
}

ByteStream::Space RelayStream::NextSpace() {
  if (!joined_) return {&answer_, 1};
  return owner_->NextSpace();
}

void RelayStream::OnRead(size_t bytes, int64_t now) {
  ++depth_;
  if (joined_) {
    owner_->OnRead(bytes, now);
  } else if (answer_ == kRelayJoined) {
    joined_ = true;
    owner_->OnOpened(now);
  } else {
    End(LossCause::kProtocol, Corruption("it does not answer as a relay"), now);
  }
  Leave();
}

void RelayStream::OnWritable(int64_t now) {
  if (joined_) owner_->OnWritable(now);
}

// The relay has closed the connection. Either of the workers may have ended.
void RelayStream::OnEnded(LossCause cause, const Status& why, int64_t now) {
  ++depth_;
  if (cause != LossCause::kExited) {
    End(cause, why, now);
  } else if (joined_) {
    End(LossCause::kCut,
        Error(Code::kIo, "closed; the relay has ended, or that worker"), now);
  } else {
    End(LossCause::kExited,
        Error(Code::kUnavailable,
              "closed before the other worker connected: the relay has ended "
              "or is full, or another took this worker's place"),
        now);
  }
  Leave();
}

void RelayStream::End(LossCause cause, const Status& why, int64_t now) {
  ++depth_;
  if (std::exchange(reading_, false)) {
    below_->StopReading();
    owner_->OnEnded(cause, why.Annotate("by the relay at %s", relay_.c_str()),
                    now);
  }
  Leave();
}

}  // namespace ringlet
