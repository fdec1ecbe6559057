// Two sealed streams above sockets. The test is the kernel, and an attacker on
// the wire.

#include "net/transport/sealed_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "scripted_socket.h"

namespace ringlet {
namespace {

using Bytes = std::vector<uint8_t>;

std::shared_ptr<const JobKeys> Keys(std::vector<uint8_t> seeds) {
  auto keys = std::make_shared<JobKeys>();
  for (const uint8_t seed : seeds) {
    std::memset(keys->keys[keys->count++].bytes, seed, sizeof(JobKey::bytes));
  }
  return keys;
}

constexpr ListenerIdentity kMeant{0x0123456789abcdef, 5, 2};

struct Reader : ByteStream::Owner {
  void OnOpened(int64_t) override { ++opened; }
  ByteStream::Space NextSpace() override { return {nullptr, 0}; }
  void OnRead(size_t, int64_t) override { FAIL() << "bytes are opened first"; }
  void OnBytes(const uint8_t* data, size_t bytes, int64_t) override {
    EXPECT_GT(bytes, 0u);
    received.insert(received.end(), data, data + bytes);
    if (close_on_bytes) stream.reset();
  }
  void OnWritable(int64_t) override { ++writable; }
  void OnEnded(LossCause why, const Status& status, int64_t) override {
    ++ended;
    cause = why;
    text = status.message();
  }

  StreamPtr stream;
  Bytes received;
  int opened = 0;
  int writable = 0;
  int ended = 0;
  LossCause cause = LossCause::kCut;
  std::string text;
  bool close_on_bytes = false;
};

// Both ends of a connection: a connects, b listens.
struct Pair {
  explicit Pair(std::shared_ptr<const JobKeys> keys_a = Keys({1}),
                std::shared_ptr<const JobKeys> keys_b = Keys({1}),
                uint8_t secrets = 40, SeenGreetings* answered = nullptr,
                ListenerIdentity identity_a = kMeant) {
    uint8_t secret[2][kNoiseKeyBytes];
    std::memset(secret[0], secrets, sizeof(secret[0]));
    std::memset(secret[1], secrets + 1, sizeof(secret[1]));
    a.stream = SealedStream::Connect(StreamPtr(&below_a), keys_a, identity_a,
                                     secret[0], nullptr);
    b.stream = SealedStream::Accept(StreamPtr(&below_b), keys_b, kMeant,
                                    secret[1], answered);
    b.stream->Start(&b);
    a.stream->Start(&a);
  }
  ~Pair() {
    a.stream.reset();
    b.stream.reset();
  }

  void Run() {
    while (!below_a.sent.empty() || !below_b.sent.empty()) {
      below_a.Deliver(&below_b.sent);
      below_b.Deliver(&below_a.sent);
    }
  }
  // Writes all bytes, however often the socket blocks; below.sent has the sent
  // bytes.
  static void Write(Reader* from, ScriptedSocket* below, const Bytes& bytes) {
    size_t at = 0;
    while (at < bytes.size()) {
      while (from->stream->blocked()) below->Unblock();
      const ByteStream::Piece piece{bytes.data() + at, bytes.size() - at};
      const int64_t taken = from->stream->Write(&piece, 1);
      ASSERT_GT(taken, 0);
      at += static_cast<size_t>(taken);
    }
    while (from->stream->blocked()) below->Unblock();
  }
  // Returns the sealed bytes that side `a` sends for these.
  Bytes Sealed(const Bytes& bytes) {
    Write(&a, &below_a, bytes);
    Bytes out;
    out.swap(below_a.sent);
    return out;
  }

  ScriptedSocket below_a, below_b;
  Reader a, b;
};

// Tests both ciphers. AES-256-GCM needs instructions that the processor may
// lack.
class SealedStreamTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_OK(SecureStart());
    if (!GetParam()) has_aes_gcm = [] { return false; };
  }
  void TearDown() override { has_aes_gcm = HasAesGcm; }
};
INSTANTIATE_TEST_SUITE_P(Ciphers, SealedStreamTest, testing::Bool());

Bytes RandomBytes(std::mt19937* random, size_t bytes) {
  Bytes out(bytes);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>((*random)());
  return out;
}

TEST_P(SealedStreamTest, Write_AnySizesOfReadsAndWrites_ArrivesAsSent) {
  std::mt19937 random(1);
  for (const size_t at_once : {size_t{1}, size_t{7}, size_t{1000}, SIZE_MAX}) {
    for (const size_t takes : {size_t{100}, size_t{20000}, SIZE_MAX}) {
      Pair pair;
      pair.below_a.gives_at_once = pair.below_b.gives_at_once = at_once;
      pair.Run();
      ASSERT_EQ(pair.a.opened, 1);
      ASSERT_TRUE(pair.a.stream->open());
      pair.below_a.takes = takes;
      Bytes all;
      for (const size_t bytes : {1, 56, 2000, 16384, 16385, 65592, 300000}) {
        const Bytes text = RandomBytes(&random, bytes);
        Pair::Write(&pair.a, &pair.below_a, text);
        all.insert(all.end(), text.begin(), text.end());
        pair.Run();
        EXPECT_EQ(pair.b.received.size(), all.size());
      }
      EXPECT_EQ(pair.b.received, all);
      Pair::Write(&pair.b, &pair.below_b, all);
      pair.Run();
      EXPECT_EQ(pair.a.received, all);
      EXPECT_EQ(pair.a.ended + pair.b.ended, 0);
    }
  }
}

TEST_P(SealedStreamTest, Write_SeveralPieces_GoInOneRecord) {
  Pair pair;
  pair.Run();
  const Bytes header(56, 1), payload(1000, 2);
  const ByteStream::Piece pieces[] = {{header.data(), header.size()},
                                      {nullptr, 0},
                                      {payload.data(), payload.size()}};
  EXPECT_EQ(pair.a.stream->Write(pieces, 3), 1056);
  EXPECT_EQ(pair.below_a.sent.size(), 2 + 1056 + kNoiseTagBytes);
  pair.Run();
  EXPECT_EQ(pair.b.received.size(), 1056u);
}

// Small and large pieces in any order, more than a write's worth.
TEST_P(SealedStreamTest, Write_PiecesOfAnyLength_ArriveAsSent) {
  std::mt19937 random(2);
  Pair pair;
  pair.Run();
  Bytes all;
  for (int i = 0; i < 300; ++i) {
    Bytes texts[ByteStream::kMaxPieces];
    ByteStream::Piece pieces[ByteStream::kMaxPieces];
    Bytes joined;
    for (int k = 0; k < ByteStream::kMaxPieces; ++k) {
      const size_t most[] = {1, 60, 3000, 40000};
      texts[k] = RandomBytes(&random, random() % most[random() % 4]);
      pieces[k] = {texts[k].data(), texts[k].size()};
      joined.insert(joined.end(), texts[k].begin(), texts[k].end());
    }
    const int64_t taken = pair.a.stream->Write(pieces, ByteStream::kMaxPieces);
    ASSERT_LE(taken, static_cast<int64_t>(joined.size()));
    ASSERT_TRUE(taken > 0 || joined.empty());
    all.insert(all.end(), joined.begin(), joined.begin() + taken);
    pair.Run();
    ASSERT_EQ(pair.b.received.size(), all.size());
  }
  EXPECT_EQ(pair.b.received, all);
}

// The handshake chooses the cipher, since one of the two sides may lack one.
TEST_P(SealedStreamTest, Handshake_OneSideWithoutAesGcm_AgreesOnACipher) {
  for (const bool is_a_without : {false, true}) {
    const auto aes = has_aes_gcm;
    const auto none = [] { return false; };
    if (is_a_without) has_aes_gcm = none;
    Pair pair;  // `a` has sent its greeting
    has_aes_gcm = is_a_without ? aes : none;
    pair.below_b.Deliver(&pair.below_a.sent);
    has_aes_gcm = is_a_without ? none : aes;
    pair.Run();
    has_aes_gcm = aes;
    Pair::Write(&pair.a, &pair.below_a, Bytes(100, 1));
    Pair::Write(&pair.b, &pair.below_b, Bytes(100, 1));
    pair.Run();
    EXPECT_EQ(pair.a.received.size(), 100u);
    EXPECT_EQ(pair.b.received.size(), 100u);
  }
}

// A byte is changed in the handshake or behind it, in either direction. The
// receiver gets only a true beginning of the sent text, and the connection
// ends.
TEST_P(SealedStreamTest, Bytes_AnyOneChanged_EndTheStream) {
  const Bytes text(40, 7);
  size_t greeting = 0;
  for (size_t i = 0;; ++i) {
    Pair pair;
    greeting = pair.below_a.sent.size();
    if (i >= greeting) break;
    pair.below_a.sent[i] ^= 4;
    pair.Run();
    EXPECT_EQ(pair.b.ended, 1) << i;
    EXPECT_EQ(pair.b.cause, LossCause::kProtocol);
    EXPECT_TRUE(pair.below_b.sent.empty());
    EXPECT_FALSE(pair.a.stream->open());
  }
  EXPECT_EQ(greeting, 60u);
  for (size_t i = 0; i < 52; ++i) {
    Pair pair;
    pair.below_b.Deliver(&pair.below_a.sent);
    ASSERT_EQ(pair.below_b.sent.size(), 52u);
    pair.below_b.sent[i] ^= 0x80;
    pair.Run();
    EXPECT_EQ(pair.a.ended, 1) << i;
    EXPECT_FALSE(pair.a.stream->open());
    EXPECT_EQ(pair.a.opened, 0);
  }
  for (size_t i = 0;; ++i) {
    Pair pair;
    pair.Run();
    Bytes sealed = pair.Sealed(text);
    const Bytes more = pair.Sealed(text);
    const size_t first = sealed.size();
    sealed.insert(sealed.end(), more.begin(), more.end());
    if (i >= sealed.size()) break;
    sealed[i] ^= 1;
    // Enough bytes if the changed bit makes a length greater.
    sealed.resize(sealed.size() + 70000);
    pair.below_b.Deliver(&sealed);
    EXPECT_EQ(pair.b.received.size(), i < first ? 0 : text.size()) << i;
    EXPECT_EQ(pair.b.ended, 1) << i;
    EXPECT_EQ(pair.b.cause, LossCause::kProtocol) << i;
  }
}

TEST_P(SealedStreamTest, Record_ImpossibleLength_EndsTheStream) {
  for (const size_t length : {0, 16, 16401, 65535}) {
    Pair pair;
    pair.Run();
    Bytes record = {static_cast<uint8_t>(length),
                    static_cast<uint8_t>(length >> 8)};
    pair.below_b.Deliver(&record);
    EXPECT_EQ(pair.b.ended, 1) << length;
  }
}

TEST_P(SealedStreamTest, Stream_CutAnywhere_GivesWholeRecordsAndEnds) {
  for (size_t i = 0; i < 2 * (40 + 18); ++i) {
    Pair pair;
    pair.Run();
    Bytes sealed = pair.Sealed(Bytes(40, 7));
    const Bytes more = pair.Sealed(Bytes(40, 8));
    sealed.insert(sealed.end(), more.begin(), more.end());
    sealed.resize(i);
    pair.below_b.Deliver(&sealed);
    pair.below_b.End();
    EXPECT_EQ(pair.b.received.size(), i / 58 * 40) << i;
    EXPECT_EQ(pair.b.ended, 1);
    EXPECT_EQ(pair.b.cause, LossCause::kExited);
  }
}

TEST_P(SealedStreamTest,
       Record_RepeatedMovedLeftOutOrTurnedAround_EndsTheStream) {
  enum { kRepeated, kMoved, kLeftOut, kTurnedAround, kOfAnother, kLast };
  for (int what = 0; what < kLast; ++what) {
    Pair pair;
    pair.Run();
    Pair another(Keys({1}), Keys({1}), 50);
    another.Run();
    Bytes first = pair.Sealed(Bytes(40, 1));
    Bytes second = pair.Sealed(Bytes(40, 2));
    Bytes third = pair.Sealed(Bytes(40, 3));
    Bytes others = another.Sealed(Bytes(40, 2));
    ScriptedSocket& to = what == kTurnedAround ? pair.below_a : pair.below_b;
    Reader& end = what == kTurnedAround ? pair.a : pair.b;
    if (what == kRepeated) {
      Bytes again = first;
      to.Deliver(&first);
      to.Deliver(&again);
    } else if (what == kMoved) {
      to.Deliver(&second);
    } else if (what == kLeftOut) {
      to.Deliver(&first);
      to.Deliver(&third);
    } else if (what == kTurnedAround) {
      to.Deliver(&first);
    } else {
      to.Deliver(&first);
      to.Deliver(&others);
    }
    const bool none = what == kMoved || what == kTurnedAround;
    EXPECT_EQ(end.received.size(), none ? 0u : 40u) << what;
    EXPECT_EQ(end.ended, 1) << what;
    EXPECT_EQ(end.cause, LossCause::kProtocol) << what;
    Bytes rest = second;
    to.Deliver(&rest);
    EXPECT_EQ(end.received.size(), none ? 0u : 40u) << "nothing more is read";
  }
}

// A recorded greeting is answered, for its sender had the key. The bytes
// recorded behind it are not accepted.
TEST_P(SealedStreamTest, Session_RecordedAndSentAgain_IsRejected) {
  Pair pair;
  Bytes greeting = pair.below_a.sent;
  pair.Run();
  Bytes hello = pair.Sealed(Bytes(100, 1));
  Pair later(Keys({1}), Keys({1}), 60);
  later.below_a.sent.clear();
  later.below_b.Deliver(&greeting);
  later.below_b.Deliver(&hello);
  EXPECT_TRUE(later.b.received.empty());
  EXPECT_EQ(later.b.ended, 1);
}

// The copy does not take a member's place either: the listener has answered
// this greeting before.
TEST_P(SealedStreamTest, Listener_SameGreetingAgain_DoesNotAnswer) {
  SeenGreetings answered;
  Pair pair(Keys({1}), Keys({2, 1}), 40, &answered);
  const Bytes greeting = pair.below_a.sent;
  pair.Run();
  EXPECT_TRUE(pair.b.stream->open());
  // A stranger without a key cannot remove a greeting from the list.
  for (uint8_t i = 0; i < 200; ++i) {
    Pair stranger(Keys({7}), Keys({2, 1}), i, &answered);
    stranger.Run();
    EXPECT_FALSE(stranger.b.stream->open());
  }
  Pair later(Keys({1}), Keys({2, 1}), 60, &answered);
  const Bytes own = later.below_a.sent;
  later.below_a.sent = greeting;
  later.Run();
  EXPECT_FALSE(later.b.stream->open());
  EXPECT_TRUE(later.below_b.sent.empty());
  EXPECT_EQ(later.b.ended, 1);
  Pair another(Keys({1}), Keys({2, 1}), 60, &answered);
  another.Run();
  EXPECT_TRUE(another.a.stream->open());
}

// The number of kept greetings is bounded: the oldest one is dropped.
TEST(GreetingsTest, Greetings_ThreeThousandAdded_HasTheLastThousand) {
  SeenGreetings answered;
  const auto number = [](uint32_t n) {
    Bytes bytes(kNoiseKeyBytes);
    std::memcpy(bytes.data() + 2, &n, sizeof(n));
    return bytes;
  };
  for (uint32_t n = 0; n < 3000; ++n) {
    EXPECT_FALSE(answered.Has(number(n).data()));
    answered.Add(number(n).data());
    EXPECT_TRUE(answered.Has(number(n).data()));
  }
  EXPECT_TRUE(answered.Has(number(2000).data()));
  EXPECT_FALSE(answered.Has(number(1000).data()));
}

TEST_P(SealedStreamTest, Greeting_SentBackAsAnAnswer_EndsTheStream) {
  Pair pair;
  Bytes greeting = pair.below_a.sent;
  pair.below_a.sent.clear();
  Bytes reflected(greeting.begin() + 8, greeting.end());
  pair.below_a.Deliver(&reflected);
  EXPECT_FALSE(pair.a.stream->open());
  EXPECT_EQ(pair.a.ended, 1);
}

TEST_P(SealedStreamTest, Peer_AnotherKey_GetsNoAnswer) {
  Pair pair(Keys({2}), Keys({1}));
  pair.below_b.Deliver(&pair.below_a.sent);
  EXPECT_TRUE(pair.below_b.sent.empty());
  EXPECT_EQ(pair.b.ended, 1);
  EXPECT_TRUE(pair.below_b.stopped);
  EXPECT_EQ(pair.b.text.find("it does not have this job's key"), 0u);
  EXPECT_TRUE(pair.b.stream->blocked()) << "nor can it be";
  pair.below_a.End();
  EXPECT_TRUE(Contains(pair.a.text, "is its key (RINGLET_KEY_FILE) the same"));
}

// The peer means a worker of another list, of a list of another length, or
// another worker of this list.
TEST_P(SealedStreamTest, Peer_MeansAnotherWorker_GetsNoAnswer) {
  ListenerIdentity other[3] = {kMeant, kMeant, kMeant};
  other[0].cluster_hash ^= uint64_t{1} << 63;
  other[1].size += 256;
  other[2].worker += 256;
  for (const ListenerIdentity& meant : other) {
    SeenGreetings answered;
    Pair pair(Keys({1}), Keys({2, 1}), 40, &answered, meant);
    pair.Run();
    EXPECT_FALSE(pair.a.stream->open());
    EXPECT_FALSE(pair.b.stream->open());
    EXPECT_EQ(pair.b.ended, 1);
    EXPECT_TRUE(Contains(pair.b.text, "another list of workers"));
  }
}

TEST_P(SealedStreamTest, Keys_TwoWhileTheyRotate_AreBothTaken) {
  const struct {
    std::vector<uint8_t> a, b;
    bool fits;
  } cases[] = {{{1}, {1, 2}, true},    {{1}, {2, 1}, true},
               {{2, 1}, {1, 2}, true}, {{2}, {1, 2}, true},
               {{3}, {1, 2}, false},   {{2, 1}, {1}, false}};
  for (const auto& one : cases) {
    Pair pair(Keys(one.a), Keys(one.b));
    pair.Run();
    ASSERT_EQ(pair.a.stream->open(), one.fits);
    if (!one.fits) continue;
    Pair::Write(&pair.a, &pair.below_a, Bytes(10, 1));
    pair.Run();
    EXPECT_EQ(pair.b.received.size(), 10u);
  }
}

TEST_P(SealedStreamTest, Peer_Plain_ErrorNamesIt) {
  for (const char* text : {"RGLT", "GET / HTTP/1.1\r\n", "RGLS\2", "\xff"}) {
    Pair pair;
    pair.below_a.sent.clear();
    Bytes bytes(text, text + std::strlen(text));
    pair.below_b.Deliver(&bytes);
    EXPECT_EQ(pair.b.ended, 1) << text;
    EXPECT_TRUE(pair.below_b.sent.empty());
    const bool worker = std::strcmp(text, "RGLT") == 0;
    EXPECT_EQ(pair.b.text.find("has no key") != std::string::npos, worker);
    EXPECT_EQ(pair.b.text.find("that is HTTP") != std::string::npos,
              *text == 'G');
  }
  Pair pair;
  Bytes reject = {'R', 'G', 'L', 'T', 1};
  pair.below_a.Deliver(&reject);
  EXPECT_TRUE(Contains(pair.a.text, "has no key"));
}

// As with a web server's address in TF_CONFIG.
TEST_P(SealedStreamTest, Connect_WebServerAnswers_ErrorNamesIt) {
  Pair pair;
  const std::string answer =
      "HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nConnection: close\r\n"
      "Content-Length: 150\r\nContent-Type: text/html\r\n\r\n";
  Bytes bytes(answer.begin(), answer.end());
  pair.below_a.Deliver(&bytes);
  EXPECT_EQ(pair.a.ended, 1);
  EXPECT_TRUE(
      Contains(pair.a.text, "that is HTTP: give the address of a worker"));
}

// Beyond it the numbers go on with another key.
TEST_P(SealedStreamTest, Write_MoreRecordsThanOneKeySeals_AllArrive) {
  Pair pair;
  pair.Run();
  const Bytes byte(1, 9);
  const size_t records = SealedStream::kRekeyAfter + 10;
  for (size_t i = 0; i < records; ++i) {
    Pair::Write(&pair.a, &pair.below_a, byte);
    if (i % 1000 == 0) pair.Run();
  }
  pair.Run();
  EXPECT_EQ(pair.b.received.size(), records);
  EXPECT_EQ(pair.b.ended, 0);
}

TEST_P(SealedStreamTest, Write_SocketIsFull_BlocksUntilAllIsSent) {
  Pair pair;
  pair.Run();
  pair.below_a.takes = 10;
  const Bytes text(100, 3);
  const ByteStream::Piece piece{text.data(), text.size()};
  EXPECT_EQ(pair.a.stream->Write(&piece, 1), 100);
  EXPECT_TRUE(pair.a.stream->blocked());
  for (int i = 0; i < 10; ++i) pair.below_a.Unblock();
  EXPECT_TRUE(pair.a.stream->blocked());
  EXPECT_EQ(pair.a.writable, 0);
  pair.below_a.Unblock();
  EXPECT_FALSE(pair.a.stream->blocked());
  EXPECT_EQ(pair.a.writable, 1);
  pair.Run();
  EXPECT_EQ(pair.b.received, text);
}

TEST_P(SealedStreamTest, Stream_ClosedInItsEvents_DeliversNoMore) {
  Pair pair;
  pair.Run();
  pair.b.close_on_bytes = true;
  Bytes sealed = pair.Sealed(Bytes(100000, 1));
  pair.below_b.Deliver(&sealed);
  EXPECT_TRUE(pair.below_b.closed);
  EXPECT_EQ(pair.b.received.size(), SealedStream::kMaxTextBytes);
  EXPECT_EQ(pair.b.ended, 0);
}

}  // namespace
}  // namespace ringlet
