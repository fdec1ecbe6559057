// Fuzz entry: any bytes to a relay, and from one. Bits 0 and 1 of the first
// byte choose:
// - 0: a greeting;
// - 1: many connections that arrive at a relay's table and leave;
// - 2, 3: a relay's answers to a worker, in pieces; bits 2 to 7 are their
//   length.
//
// For any bytes: a greeting is accepted in one form only. For each channel and
// role one connection waits, and is joined with the next of the other role. A
// worker gets only the bytes behind the byte kJoined.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "net/relay/rendezvous_table.h"
#include "net/transport/relay_stream.h"
#include "tests/net/transport/scripted_socket.h"

namespace {

using namespace ringlet;  // NOLINT: a test program of its own
using Bytes = std::vector<uint8_t>;

void Greet(const uint8_t* data, size_t size) {
  if (size < kRelayHelloBytes) return;
  RelayHello hello;
  if (!DecodeRelayHello(data, &hello)) return;
  RINGLET_CHECK(hello.role == RelayHello::kListens ||
                hello.role == RelayHello::kDials);
  uint8_t again[kRelayHelloBytes];
  EncodeRelayHello(hello, again);
  RINGLET_CHECK(std::memcmp(data, again, sizeof(again)) == 0);
}

// Each byte is an event. Below 128 a connection arrives, with a role and one of
// 16 channels. From 128 on a connection leaves, which may wait, be joined or
// never have arrived.
void ComeAndGo(const uint8_t* data, size_t size) {
  RendezvousTable table;
  std::vector<char> connections(size + 128);
  std::map<std::pair<int, int>, const void*> waits;  // key: channel and role
  for (size_t i = 0; i < size; ++i) {
    if (data[i] >= 128) {
      const void* const goes = &connections[data[i] - size_t{128}];
      table.Leave(goes);
      for (auto at = waits.begin(); at != waits.end(); ++at) {
        if (at->second != goes) continue;
        waits.erase(at);
        break;
      }
    } else {
      RelayHello hello;
      hello.role = data[i] & 1 ? RelayHello::kDials : RelayHello::kListens;
      const int channel = data[i] >> 1 & 15;
      hello.channel[channel % kRelayChannelBytes] = 1;
      const auto other = waits.find({channel, 3 - hello.role});
      const auto before = waits.find({channel, hello.role});
      const bool joins = other != waits.end();
      const RendezvousTable::Match match = table.Arrive(&connections[i], hello);
      RINGLET_CHECK(match.other == (joins ? other->second : nullptr));
      RINGLET_CHECK(
          match.displaced ==
          (joins || before == waits.end() ? nullptr : before->second));
      if (joins) {
        waits.erase(other);
      } else {
        waits[{channel, hello.role}] = &connections[i];
      }
    }
    RINGLET_CHECK(table.waiting() == waits.size());
  }
}

struct End final : ByteStream::Owner {
  void OnOpened(int64_t) override {
    RINGLET_CHECK(!opened && !ended);
    opened = true;
  }
  ByteStream::Space NextSpace() override {
    RINGLET_CHECK(opened);
    return {piece, sizeof(piece)};
  }
  void OnRead(size_t bytes, int64_t) override {
    RINGLET_CHECK(opened && !ended && bytes <= sizeof(piece));
    received.insert(received.end(), piece, piece + bytes);
  }
  void OnBytes(const uint8_t*, size_t, int64_t) override {
    RINGLET_CHECK(false);
  }
  void OnWritable(int64_t) override {}
  void OnEnded(LossCause, const Status& why, int64_t) override {
    RINGLET_CHECK(!ended && !why.ok());
    ended = true;
  }

  uint8_t piece[16];
  Bytes received;
  bool opened = false, ended = false;
};

void Answer(const uint8_t* data, size_t size, size_t at_once) {
  ScriptedSocket below;
  End end;
  below.gives_at_once = std::max<size_t>(at_once, 1);
  {
    const StreamPtr stream =
        RelayStream::Make(StreamPtr(&below), RelayHello(), "relay:7000");
    stream->Start(&end);
    Bytes bytes(data, data + size);
    below.Deliver(&bytes);
    const bool joined = size > 0 && data[0] == kRelayJoined;
    RINGLET_CHECK(end.opened == joined && stream->open() == joined);
    RINGLET_CHECK(end.ended == (size > 0 && !joined));
    RINGLET_CHECK(below.stopped == end.ended);
    RINGLET_CHECK(end.received ==
                  (joined ? Bytes(data + 1, data + size) : Bytes()));
    if (!below.stopped) below.End();
    RINGLET_CHECK(end.ended);
  }
  RINGLET_CHECK(below.closed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  if ((data[0] & 3) == 0) {
    Greet(data + 1, size - 1);
  } else if ((data[0] & 3) == 1) {
    ComeAndGo(data + 1, size - 1);
  } else {
    Answer(data + 1, size - 1, data[0] >> 2);
  }
  return 0;
}
