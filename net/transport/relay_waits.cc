#include "relay_waits.h"

#include <algorithm>
#include <utility>

#include "../../core/base/time_units.h"

namespace ringlet {
namespace {

// Between two tries; it doubles with each.
constexpr int64_t kFirstRetryPause = 100 * kMillisecond;
constexpr int64_t kMaxRetryPause = 2 * kSecond;
// A relay that has not answered for so long is tried again.
constexpr int64_t kConnectTimeout = 5 * kSecond;
constexpr char kThroughRelay[] = "through the relay at %s";

}  // namespace

// One connection that waits at the relay. The stream may end, or be passed to
// the owner, within its own event.
class RelayWaits::Wait final : public ByteStream::Owner {
 public:
  Wait(RelayWaits* relay_waits, const RelayHello& relay_hello)
      : hello(relay_hello), relay_waits_(*relay_waits) {}

  // True if the relay has not answered for too long.
  bool overdue(int64_t now) const {
    return !below->open() && now - since > kConnectTimeout;
  }
  void OnEnded(LossCause, const Status& why, int64_t now) override {
    if (!below->open()) ++address;
    stream.reset();
    relay_waits_.Ended(this, why, now);
  }

  const RelayHello hello;
  StreamPtr stream;
  // The stream below `stream`, while there is one.
  const ByteStream* below = nullptr;
  size_t address = 0;  // the index of one of the relay's addresses
  int64_t since = 0, next = 0, pause = kFirstRetryPause;

 private:
  void OnOpened(int64_t now) override {
    pause = kFirstRetryPause;
    next = now;
    relay_waits_.reported_ = false;
    relay_waits_.owner_->OnJoined(std::move(stream), now);
  }
  ByteStream::Space NextSpace() override { return {&nothing_, 1}; }
  void OnRead(size_t, int64_t) override {}
  void OnBytes(const uint8_t*, size_t, int64_t) override {}
  void OnWritable(int64_t) override {}

  RelayWaits& relay_waits_;
  uint8_t nothing_ = 0;
};

RelayWaits::RelayWaits(UvHandles* handles, const Address& relay,
                       const std::string& text, Owner* owner)
    : handles_(handles), relay_(relay), text_(text), owner_(owner) {}

RelayWaits::~RelayWaits() = default;

void RelayWaits::Close() { waits_.clear(); }

void RelayWaits::Add(const RelayHello& hello) {
  waits_.push_back(std::make_unique<Wait>(this, hello));
}

void RelayWaits::Ended(Wait* wait, const Status& why, int64_t now) {
  wait->next = now + wait->pause;
  wait->pause = std::min(2 * wait->pause, kMaxRetryPause);
  if (lookup_ != nullptr && lookup_->done()) lookup_.reset();
  if (std::exchange(reported_, true)) return;
  owner_->OnNoRelay(std::string("warning: no worker can connect ") +
                    why.message() + "; trying again");
}

void RelayWaits::Tick(int64_t now) {
  for (const auto& wait : waits_) {
    if (wait->stream == nullptr) {
      if (now >= wait->next) Connect(wait.get(), now);
    } else if (wait->overdue(now)) {
      wait->OnEnded(LossCause::kCut,
                    Error(Code::kUnavailable, "no answer")
                        .Annotate(kThroughRelay, text_.c_str()),
                    now);
    }
  }
}

void RelayWaits::Connect(Wait* wait, int64_t now) {
  if (lookup_ == nullptr) lookup_ = std::make_unique<NameLookup>(relay_);
  if (!lookup_->done()) return;
  std::vector<sockaddr_storage> found;
  StreamPtr below;
  Status status = lookup_->Answer(&found);
  if (status.ok()) {
    const sockaddr_storage& to = found[wait->address % found.size()];
    status = UvStream::ConnectTcp(
        handles_, reinterpret_cast<const sockaddr*>(&to), &below);
  }
  if (!status.ok()) {
    ++wait->address;
    return Ended(wait, status.Annotate(kThroughRelay, text_.c_str()), now);
  }
  wait->below = below.get();
  wait->since = now;
  wait->stream = RelayStream::Make(std::move(below), wait->hello, text_);
  wait->stream->Start(wait);
}

}  // namespace ringlet
