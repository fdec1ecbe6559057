#include "relay_waits.h"

#include <algorithm>
#include <utility>

namespace ringlet {
namespace {

constexpr int64_t kFirstPause = 100000000, kLongestPause = 2000000000;

}  // namespace

// Its stream may end, or be handed on, in the middle of its own event.
class RelayWaits::Wait final : public ByteStream::Owner {
 public:
  Wait(RelayWaits* of, const RelayHello& said) : hello(said), of_(*of) {}

  const RelayHello hello;
  StreamPtr stream;
  int64_t next = 0, pause = kFirstPause;

 private:
  void OnOpened(int64_t now) override {
    pause = kFirstPause;
    next = now;
    of_.told_ = false;
    of_.owner_->OnJoined(std::move(stream), now);
  }
  ByteStream::Space NextSpace() override { return {&nothing_, 1}; }
  void OnRead(size_t, int64_t) override {}
  void OnBytes(const uint8_t*, size_t, int64_t) override {}
  void OnWritable(int64_t) override {}
  void OnEnded(Cause, const Status& why, int64_t now) override {
    stream.reset();
    of_.Ended(this, why, now);
  }

  RelayWaits& of_;
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
  wait->pause = std::min(2 * wait->pause, kLongestPause);
  if (std::exchange(told_, true)) return;
  owner_->OnNoRelay(std::string("warning: no worker can come ") +
                    why.message() + "; trying again");
}

void RelayWaits::Tick(int64_t now) {
  for (const auto& wait : waits_) {
    if (wait->stream == nullptr && now >= wait->next) Connect(wait.get(), now);
  }
}

void RelayWaits::Connect(Wait* wait, int64_t now) {
  if (lookup_ == nullptr) lookup_ = std::make_unique<NameLookup>(relay_);
  if (!lookup_->done()) return;
  std::vector<sockaddr_storage> found;
  StreamPtr below;
  Status status = lookup_->Answer(&found);
  if (status.ok()) {
    status = UvStream::ConnectTcp(
        handles_, reinterpret_cast<const sockaddr*>(&found[0]), &below);
  }
  if (!status.ok()) {
    lookup_.reset();
    status = status.Annotate("by the relay at %s", text_.c_str());
    return Ended(wait, status, now);
  }
  wait->stream = RelayStream::Make(std::move(below), wait->hello, text_);
  wait->stream->Start(wait);
}

}  // namespace ringlet
