// Fuzz entry: any bytes at either end of a sealed connection. The first byte
// chooses:
// - 0 to 4: the bytes that the listening side gets;
// - 5 to 9: changes of a true greeting to that side;
// - 10 to 14: the bytes that the connecting side gets;
// - 15: changes of records behind a true handshake.
//
// A change is a place and the value that is XORed to the byte there. The
// remaining bytes follow at the end. For any bytes, only the true bytes open a
// connection, bring an answer or are passed on.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "core/base/check.h"
#include "net/transport/sealed_stream.h"
#include "tests/net/transport/scripted_socket.h"

namespace {

using namespace ringlet;  // NOLINT: a test program of its own
using Bytes = std::vector<uint8_t>;

struct End final : ByteStream::Owner {
  void OnOpened(int64_t) override { opened = true; }
  ByteStream::Space NextSpace() override { return {nullptr, 0}; }
  void OnRead(size_t, int64_t) override { RINGLET_CHECK(false); }
  void OnBytes(const uint8_t* data, size_t bytes, int64_t) override {
    received.insert(received.end(), data, data + bytes);
  }
  void OnWritable(int64_t) override { opened = true; }
  void OnEnded(LossCause, const Status& why, int64_t) override {
    RINGLET_CHECK(!ended && !why.ok());
    ended = true;
  }

  ScriptedSocket below;
  StreamPtr stream;
  Bytes received;
  bool opened = false;
  bool ended = false;
};

std::unique_ptr<End> Make(bool connects) {
  static const auto keys = std::make_shared<JobKeys>(JobKeys{{{{7}}}, 1});
  const uint8_t secret[kNoiseKeyBytes] = {9, static_cast<uint8_t>(connects)};
  auto end = std::make_unique<End>();
  const auto make = connects ? SealedStream::Connect : SealedStream::Accept;
  end->stream = make(StreamPtr(&end->below), keys, {1, 2, 0}, secret, nullptr);
  end->stream->Start(end.get());
  return end;
}

// Changes the bytes. Returns true if they are no longer a beginning of the
// original.
bool Change(const uint8_t* data, size_t size, Bytes* bytes) {
  const Bytes before = *bytes;
  size_t at = 0;
  for (; at + 2 <= size && data[at] < 200; at += 2) {
    if (data[at] < bytes->size()) (*bytes)[data[at]] ^= data[at + 1];
  }
  bytes->insert(bytes->end(), data + at, data + size);
  return !std::equal(before.begin(), before.end(), bytes->begin());
}

void Listen(Bytes bytes) {
  static const Bytes greeting = Make(/*connects=*/true)->below.sent;
  const auto end = Make(/*connects=*/false);
  const bool whole =
      bytes.size() >= greeting.size() &&
      std::equal(greeting.begin(), greeting.end(), bytes.begin());
  end->below.Deliver(&bytes);
  RINGLET_CHECK(end->received.empty());
  RINGLET_CHECK(end->opened == whole);
  RINGLET_CHECK(end->below.sent.empty() == !whole);
}

void Connect(Bytes bytes) {
  const auto end = Make(/*connects=*/true);
  end->below.Deliver(&bytes);
  RINGLET_CHECK(end->received.empty() && !end->opened);
}

void Records(const uint8_t* data, size_t size) {
  const auto a = Make(/*connects=*/true);
  const auto b = Make(/*connects=*/false);
  b->below.Deliver(&a->below.sent);
  a->below.Deliver(&b->below.sent);
  RINGLET_CHECK(a->opened && b->opened);
  Bytes expected;
  for (const size_t n : {3, 100, 40}) {
    const Bytes text(n, static_cast<uint8_t>(n));
    const ByteStream::Piece piece{text.data(), n};
    RINGLET_CHECK(a->stream->Write(&piece, 1) == static_cast<int64_t>(n));
    expected.insert(expected.end(), text.begin(), text.end());
  }
  const bool changed = Change(data, size, &a->below.sent);
  b->below.Deliver(&a->below.sent);
  RINGLET_CHECK(b->received.size() <= expected.size());
  RINGLET_CHECK(
      std::equal(b->received.begin(), b->received.end(), expected.begin()));
  RINGLET_CHECK(changed || b->received.size() == expected.size());
  RINGLET_CHECK(!changed || b->received.size() < expected.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool has_secure_parts = SecureStart().ok();
  if (!has_secure_parts || size < 1) return 0;
  const int what = data[0] & 15;
  Bytes bytes(data + 1, data + size);
  if (what < 5) {
    Listen(std::move(bytes));
  } else if (what < 10) {
    Bytes greeting = Make(/*connects=*/true)->below.sent;
    Change(data + 1, size - 1, &greeting);
    Listen(std::move(greeting));
  } else if (what < 15) {
    Connect(std::move(bytes));
  } else {
    Records(data + 1, size - 1);
  }
  return 0;
}
