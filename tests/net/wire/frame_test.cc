#include "net/wire/frame.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/documented_bytes.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "core/base/byte_order.h"
#include "core/base/crc32c.h"
#include "core/base/float16.h"
#include "net/membership/failure_detector.h"
#include "net/wire/frame_reader.h"
#include "net/wire/handshake.h"
#include "net/wire/wire_dtype.h"

namespace ringlet {
namespace {

using Bytes = std::vector<uint8_t>;

FrameHeader Example() {
  FrameHeader h;
  h.type = FrameType::kBroadcast;
  h.root = 0x0102;
  h.payload_bytes = 0x1234;
  h.generation = 0x01020304;
  h.step = 0x1112131415161718;
  h.sequence = 0x2122232425262728;
  h.total = 0x3132333435363738;
  h.source = 0x4142;
  h.destination = 0x5152;
  h.chunk = 0x61626364;
  h.payload_crc = 0x71727374;
  return h;
}

std::string Hex(const Bytes& bytes) {
  std::string text;
  char two[3];
  for (uint8_t b : bytes) {
    std::snprintf(two, sizeof(two), "%02x", b);
    text += two;
  }
  return text;
}

Bytes Encoded(const FrameHeader& header) {
  Bytes bytes(kFrameHeaderBytes);
  EncodeHeader(header, bytes.data());
  return bytes;
}

Bytes Frame(FrameHeader header, const Bytes& payload) {
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = Crc32c(payload.data(), payload.size());
  Bytes bytes = Encoded(header);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

TEST(FrameTest, Encode_Example_HasTheFixedBytes) {
  EXPECT_EQ(Hex(Encoded(Example())),
            "52474c54"
            "02"
            "11"
            "0201"
            "34120000"
            "04030201"
            "1817161514131211"
            "2827262524232221"
            "3837363534333231"
            "4241"
            "5251"
            "64636261"
            "74737271"
            "1b2c433e");
}

// The frames of the example: rank 1 of two greets rank 0, reports that it
// computes, and sends its part of a sum of two floats.
Bytes DocumentedExample() {
  Identity identity;
  identity.byte_order = 1;
  identity.worker = 1;
  identity.size = 2;
  identity.job = "ringlet";
  identity.incarnation = 0x0123456789abcdef;
  identity.cluster_hash = ClusterHash({"10.0.0.1:7000", "10.0.0.2:7000"});
  identity.timeout_ms = 5000;
  identity.bytes_per_pack = 1 << 20;
  FrameHeader header;
  header.generation = 1;
  header.source = 1;
  header.type = FrameType::kHello;
  Bytes all = Frame(header, EncodeIdentity(identity));
  Activity activity;
  activity.step = 17;
  activity.sequence = 52;
  Bytes beat(kHeartbeatBytes);
  EncodeHeartbeat(activity, &header, beat.data());
  const Bytes second = Frame(header, beat);
  all.insert(all.end(), second.begin(), second.end());
  header.type = FrameType::kAllReduce;
  header.sequence = 53;
  header.total = 8;
  const Bytes third =
      Frame(header, {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x20, 0xc0});
  all.insert(all.end(), third.begin(), third.end());
  return all;
}

TEST(FrameTest, Example_OfTheDocumentation_IsWhatIsSent) {
  const std::string text = DocumentedBytes("wire_format.md");
  const Bytes documented(text.begin(), text.end());
  EXPECT_EQ(Hex(documented), Hex(DocumentedExample()));
}

TEST(FrameTest, Decode_EncodedHeader_GivesTheSameHeader) {
  FrameHeader h;
  ASSERT_OK(DecodeHeader(Encoded(Example()).data(), &h));
  EXPECT_EQ(Encoded(h), Encoded(Example()));
  EXPECT_EQ(h.type, FrameType::kBroadcast);
  EXPECT_EQ(h.total, 0x3132333435363738u);
  EXPECT_EQ(h.source, 0x4142);
}

TEST(FrameTest, Decode_AnyBitOfAHeaderFlipped_IsRejected) {
  const Bytes good = Encoded(Example());
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    FrameHeader h;
    EXPECT_EQ(DecodeHeader(bad.data(), &h).code(),
              bit / 8 == 4 ? Code::kUnimplemented : Code::kCorruption)
        << bit;
  }
}

TEST(FrameTest, Decode_PayloadBeyondTheTypesBound_IsRejected) {
  for (int type = 0; type < 256; ++type) {
    FrameHeader h;
    h.type = static_cast<FrameType>(type);
    const bool known = (type >= 1 && type <= 12) || (type >= 16 && type <= 20);
    FrameHeader back;
    h.payload_bytes = MaxPayload(h.type);
    EXPECT_EQ(DecodeHeader(Encoded(h).data(), &back).ok(), known) << type;
    h.payload_bytes += 1;
    EXPECT_FALSE(DecodeHeader(Encoded(h).data(), &back).ok()) << type;
    h.payload_bytes = 0xffffffff;
    EXPECT_FALSE(DecodeHeader(Encoded(h).data(), &back).ok()) << type;
  }
}

TEST(FrameTest, Decode_RootInAnAllReduce_IsRejected) {
  FrameHeader h;
  FrameHeader back;
  h.type = FrameType::kAllReduce;
  h.root = 1;
  EXPECT_FALSE(DecodeHeader(Encoded(h).data(), &back).ok());
  h.type = FrameType::kBroadcast;
  EXPECT_OK(DecodeHeader(Encoded(h).data(), &back));
}

TEST(FrameTest, Header_OfAnotherProtocol_ErrorNamesIt) {
  const struct {
    const char *text, *message;
  } others[] = {
      {"HTTP/1.1 400 Bad Request", "it starts 48 54 54 50); that is HTTP"},
      {"GET / HTTP/1.1", "that is HTTP: give the address of a worker"},
      {"SSH-2.0-OpenSSH_9.2", "that is SSH: give the port of a worker"},
      {"GGUF", "not a ringlet frame (it starts 47 47 55 46)"}};
  for (const auto& other : others) {
    Bytes bytes(kFrameHeaderBytes, ' ');
    std::memcpy(bytes.data(), other.text, std::strlen(other.text));
    FrameHeader header;
    const Status status = DecodeHeader(bytes.data(), &header);
    EXPECT_EQ(status.code(), Code::kCorruption);
    EXPECT_TRUE(Contains(status, other.message));
  }
}

TEST(FrameTest, Decode_AnotherVersion_NamesIt) {
  Bytes bytes = Encoded(Example());
  bytes[4] = 9;
  FrameHeader h;
  const Status status = DecodeHeader(bytes.data(), &h);
  EXPECT_TRUE(Contains(status, "version 9"));
}

// Directs payloads to the test's targets, and records the frames.
class Recorder final : public FrameReader::Sink {
 public:
  Status OnHeader(const FrameHeader& header,
                  ReceiveTarget* receive_target) override {
    switch (header.type) {
      case FrameType::kAllReduce:
        receive_target->mode = ReceiveTarget::kReduce;
        receive_target->data = reinterpret_cast<uint8_t*>(sums.data());
        break;
      case FrameType::kAllGather:
        receive_target->mode = ReceiveTarget::kCopy;
        receive_target->data = bytes.data();
        break;
      case FrameType::kAbort:
        receive_target->mode = ReceiveTarget::kBuffer;
        break;
      default:
        receive_target->mode = ReceiveTarget::kDiscard;
    }
    return Status();
  }
  Status OnFrame(const FrameHeader& header, const uint8_t* payload) override {
    log += FrameTypeName(header.type);
    if (payload != nullptr) {
      log += "=" + std::string(reinterpret_cast<const char*>(payload),
                               header.payload_bytes);
    }
    log += ";";
    return Status();
  }

  // Little-endian, as numbers travel.
  std::vector<float> sums = [] {
    std::vector<float> ones(64, 1.0f);
    SwapToLittle(ones.data(), sizeof(float), ones.size());
    return ones;
  }();
  Bytes bytes = Bytes(100);
  std::string log;
};

Status Feed(FrameReader* reader, const uint8_t* data, size_t bytes) {
  while (bytes > 0) {
    const FrameReader::Space space = reader->NextSpace();
    EXPECT_GT(space.bytes, 0u);
    const size_t n = std::min(bytes, space.bytes);
    std::memcpy(space.data, data, n);
    RINGLET_RETURN_IF_ERROR(reader->Read(n));
    data += n;
    bytes -= n;
  }
  return Status();
}

// One frame for each receive mode, and an empty frame.
Bytes Conversation() {
  Bytes floats(64 * sizeof(float));
  for (int i = 0; i < 64; ++i) {
    float f = static_cast<float>(i);
    SwapToLittle(&f, sizeof(f), 1);
    std::memcpy(&floats[i * sizeof(float)], &f, sizeof(f));
  }
  Bytes all;
  const auto append = [&](FrameType type, const Bytes& payload) {
    FrameHeader h;
    h.type = type;
    const Bytes frame = Frame(h, payload);
    all.insert(all.end(), frame.begin(), frame.end());
  };
  append(FrameType::kAbort, {'a', 'b', 'c'});  // the rest is not aligned
  append(FrameType::kAllReduce, floats);
  append(FrameType::kBarrier, {});
  append(FrameType::kAllGather, Bytes(100, 7));
  append(FrameType::kBroadcast, Bytes(50, 9));
  return all;
}

void ExpectConversation(const Recorder& recorder) {
  EXPECT_EQ(recorder.log, "abort=abc;all-reduce;barrier;all-gather;broadcast;");
  std::vector<float> sums = recorder.sums;
  SwapToLittle(sums.data(), sizeof(float), sums.size());
  for (int i = 0; i < 64; ++i) ASSERT_EQ(sums[i], 1.0f + i);
  EXPECT_EQ(recorder.bytes, Bytes(100, 7));
}

TEST(FrameReaderTest, Read_CutAnywhere_GivesTheSameFrames) {
  const Bytes all = Conversation();
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    Recorder recorder;
    FrameReader reader(&recorder);
    ASSERT_OK(Feed(&reader, all.data(), cut));
    ASSERT_OK(Feed(&reader, all.data() + cut, all.size() - cut));
    ExpectConversation(recorder);
  }
}

TEST(FrameReaderTest, Read_AnySize_GivesTheSameFrames) {
  const Bytes all = Conversation();
  for (size_t each = 1; each < 600; ++each) {
    Recorder recorder, from_memory;
    FrameReader reader(&recorder), other(&from_memory);
    for (size_t at = 0; at < all.size(); at += each) {
      const size_t n = std::min(each, all.size() - at);
      ASSERT_OK(Feed(&reader, all.data() + at, n));
      ASSERT_OK(other.Read(all.data() + at, n));
    }
    ExpectConversation(recorder);
    ExpectConversation(from_memory);
  }
}

// In an all-gather the floats become those sent as halves. In an all-reduce
// these are added to the floats.
class HalvesSink final : public FrameReader::Sink {
 public:
  Status OnHeader(const FrameHeader& header,
                  ReceiveTarget* receive_target) override {
    const bool adds = header.type == FrameType::kAllReduce;
    receive_target->mode = adds ? ReceiveTarget::kReduce : ReceiveTarget::kCopy;
    receive_target->dtype = WireDtype::kBfloat16;
    receive_target->data = reinterpret_cast<uint8_t*>(floats.data());
    return Status();
  }
  Status OnFrame(const FrameHeader&, const uint8_t*) override {
    return Status();
  }
  std::vector<float> floats = std::vector<float>(64, 0.0f);
};

TEST(FrameReaderTest, Halves_CutAnywhere_LandAtTheirFloats) {
  Bytes halves(64 * sizeof(uint16_t));
  for (int i = 0; i < 64; ++i) {
    StoreLittle(BFloat16OfFloat(static_cast<float>(i)), &halves[2 * i]);
  }
  Bytes all;
  for (const FrameType type : {FrameType::kAllGather, FrameType::kAllReduce}) {
    FrameHeader h;
    h.type = type;
    const Bytes frame = Frame(h, halves);
    all.insert(all.end(), frame.begin(), frame.end());
  }
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    HalvesSink sink;
    FrameReader reader(&sink);
    ASSERT_OK(Feed(&reader, all.data(), cut));
    ASSERT_OK(Feed(&reader, all.data() + cut, all.size() - cut));
    SwapToLittle(sink.floats.data(), sizeof(float), sink.floats.size());
    for (int i = 0; i < 64; ++i) ASSERT_EQ(sink.floats[i], 2.0f * i) << cut;
  }
}

TEST(FrameReaderTest, TakeUnchecked_PayloadHasAChecksum_IsRejected) {
  FrameHeader h;
  h.type = FrameType::kAbort;
  Bytes frame = Frame(h, {'a', 'b'});
  Recorder recorder;
  FrameReader reader(&recorder);
  reader.SkipChecksums();
  EXPECT_FALSE(reader.Read(frame.data(), frame.size()).ok());
  h.payload_bytes = 2;
  EncodeHeader(h, frame.data());
  FrameReader another(&recorder);
  another.SkipChecksums();
  EXPECT_OK(another.Read(frame.data(), frame.size()));
  EXPECT_EQ(recorder.log, "abort=ab;");
}

TEST(FrameReaderTest, Read_AnyBitOfAFrameFlipped_IsRejected) {
  for (FrameType type : {FrameType::kAbort, FrameType::kAllGather,
                         FrameType::kAllReduce, FrameType::kBroadcast}) {
    FrameHeader h;
    h.type = type;
    const Bytes good = Frame(h, Bytes(40, 5));
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      Bytes bad = good;
      bad[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      Recorder recorder;
      FrameReader reader(&recorder);
      const bool version = bit / 8 == 4;
      ASSERT_EQ(Feed(&reader, bad.data(), bad.size()).code(),
                version ? Code::kUnimplemented : Code::kCorruption);
      ASSERT_EQ(recorder.log, "");
    }
  }
}

TEST(FrameReaderTest, ForgetMemory_InTheMiddleOfAPayload_TouchesNoMemory) {
  FrameHeader h;
  h.type = FrameType::kAllGather;
  const Bytes frame = Frame(h, Bytes(100, 7));
  Recorder recorder;
  FrameReader reader(&recorder);
  ASSERT_OK(Feed(&reader, frame.data(), 90));
  const Bytes before = recorder.bytes;
  reader.DropReceiveTarget();
  ASSERT_OK(Feed(&reader, frame.data() + 90, frame.size() - 90));
  EXPECT_EQ(recorder.bytes, before);
  EXPECT_EQ(recorder.log, "all-gather;");
}

TEST(FrameReaderTest, ForgetMemory_ReaderKeepsThePayload_IsHandedOver) {
  FrameHeader h;
  h.type = FrameType::kAbort;
  const Bytes frame = Frame(h, Bytes(10, 'x'));
  Recorder recorder, whole;
  FrameReader reader(&recorder), reads_all(&whole);
  ASSERT_OK(Feed(&reader, frame.data(), 60));
  reader.DropReceiveTarget();
  ASSERT_OK(Feed(&reader, frame.data() + 60, frame.size() - 60));
  ASSERT_OK(Feed(&reads_all, frame.data(), frame.size()));
  EXPECT_EQ(recorder.log, whole.log);
  EXPECT_NE(recorder.log, "abort;");  // a frame without payload
}

// Returns the error of a frame of all zeros in a reader with `target`.
Status ReadInto(const ReceiveTarget& target, FrameType type, size_t bytes) {
  class Sink final : public FrameReader::Sink {
   public:
    explicit Sink(const ReceiveTarget& target) : target_(target) {}
    Status OnHeader(const FrameHeader&, ReceiveTarget* target) override {
      *target = target_;
      return Status();
    }
    Status OnFrame(const FrameHeader&, const uint8_t*) override {
      return Status();
    }

   private:
    const ReceiveTarget target_;
  };
  Sink sink(target);
  FrameReader reader(&sink);
  FrameHeader h;
  h.type = type;
  const Bytes frame = Frame(h, Bytes(bytes));
  return Feed(&reader, frame.data(), frame.size());
}

// A type with long payloads that its owner expects to be short.
TEST(FrameReaderTest, Read_LongPayloadForABuffer_IsRejected) {
  ReceiveTarget target;
  target.mode = ReceiveTarget::kBuffer;
  EXPECT_OK(ReadInto(target, FrameType::kDoctor, kEagerBytes));
  EXPECT_EQ(ReadInto(target, FrameType::kDoctor, kEagerBytes + 1).code(),
            Code::kCorruption);
}

TEST(FrameReaderTest, Read_PartOfANumberToAdd_IsRejected) {
  std::vector<float> sums(4);
  ReceiveTarget target;
  target.mode = ReceiveTarget::kReduce;
  target.data = reinterpret_cast<uint8_t*>(sums.data());
  EXPECT_OK(ReadInto(target, FrameType::kAllReduce, 16));
  EXPECT_EQ(ReadInto(target, FrameType::kAllReduce, 15).code(),
            Code::kCorruption);
}

// Receives one all-reduce into its own memory, and keeps the following abort.
class Target final : public FrameReader::Sink {
 public:
  Target(const ReceiveTarget& receive_target, size_t bytes)
      : receive_target_(receive_target), memory_(new uint8_t[bytes]()) {}

  Status OnHeader(const FrameHeader& header,
                  ReceiveTarget* receive_target) override {
    receive_target->mode = ReceiveTarget::kBuffer;
    if (header.type == FrameType::kAbort) return Status();
    *receive_target = receive_target_;
    receive_target->data = memory_.get();
    return Status();
  }
  Status OnFrame(const FrameHeader& header, const uint8_t* payload) override {
    log += FrameTypeName(header.type);
    log += payload != nullptr ? "=" + std::to_string(payload[0]) + ";" : ";";
    return Status();
  }
  void DropOperation(FrameReader* reader) {
    reader->DropReceiveTarget();
    memory_.reset();  // a sanitizer detects each later use
    receive_target_.mode = ReceiveTarget::kDiscard;
  }

  std::string log;

 private:
  ReceiveTarget receive_target_;
  std::unique_ptr<uint8_t[]> memory_;
};

struct PayloadKind {
  const char* name;
  ReceiveTarget::Mode mode;
  WireDtype dtype;
  bool integers;
};
constexpr PayloadKind kPayloadKinds[] = {
    {"kept", ReceiveTarget::kBuffer, WireDtype::kFloat32, false},
    {"discarded", ReceiveTarget::kDiscard, WireDtype::kFloat32, false},
    {"copied", ReceiveTarget::kCopy, WireDtype::kFloat32, false},
    {"copied from bfloat16", ReceiveTarget::kCopy, WireDtype::kBfloat16, false},
    {"copied from float16", ReceiveTarget::kCopy, WireDtype::kFloat16, false},
    {"added", ReceiveTarget::kReduce, WireDtype::kFloat32, false},
    {"added from bfloat16", ReceiveTarget::kReduce, WireDtype::kBfloat16,
     false},
    {"added from float16", ReceiveTarget::kReduce, WireDtype::kFloat16, false},
    {"added integers", ReceiveTarget::kReduce, WireDtype::kFloat32, true},
};

enum class Delivery { kIntoSpace, kFromMemory };

// Delivers as streams do: into the reader's space, or from a record that is
// freed after the call.
Status Deliver(FrameReader* reader, Delivery delivery, const uint8_t* data,
               size_t bytes) {
  if (delivery == Delivery::kIntoSpace) return Feed(reader, data, bytes);
  const Bytes record(data, data + bytes);
  return reader->Read(record.data(), record.size());
}

// More than the reader's first buffer holds.
constexpr size_t kDroppedBytes = 2400;

TEST(FrameReaderTest, EveryCut_OperationDroppedThere_RestIsDiscarded) {
  FrameHeader header;
  header.type = FrameType::kAllReduce;
  Bytes all = Frame(header, Bytes(kDroppedBytes, 3));
  const size_t frame_bytes = all.size();
  header.type = FrameType::kAbort;
  const Bytes next = Frame(header, {1, 2, 3});
  all.insert(all.end(), next.begin(), next.end());
  for (const PayloadKind& kind : kPayloadKinds) {
    ReceiveTarget receive_target;
    receive_target.mode = kind.mode;
    receive_target.dtype = kind.dtype;
    receive_target.integers = kind.integers;
    for (const Delivery by : {Delivery::kIntoSpace, Delivery::kFromMemory}) {
      for (size_t cut = 0; cut <= frame_bytes; ++cut) {
        Target target(receive_target,
                      kDroppedBytes / PackedBytesPerFloat(kind.dtype) * 4);
        FrameReader reader(&target);
        ASSERT_OK(Deliver(&reader, by, all.data(), cut));
        target.DropOperation(&reader);
        const Status rest =
            Deliver(&reader, by, all.data() + cut, all.size() - cut);
        ASSERT_OK(rest) << kind.name << ", cut at " << cut;
        const bool kept = kind.mode == ReceiveTarget::kBuffer && cut >= 56;
        ASSERT_EQ(target.log,
                  kept ? "all-reduce=3;abort=1;" : "all-reduce;abort=1;")
            << kind.name << ", cut at " << cut;
      }
    }
  }
}

TEST(FrameReaderTest, NumberInManyParts_OperationDropped_RestIsDiscarded) {
  FrameHeader header;
  header.type = FrameType::kAllReduce;
  const Bytes frame = Frame(header, Bytes(kDroppedBytes, 3));
  ReceiveTarget receive_target;
  receive_target.mode = ReceiveTarget::kReduce;
  for (const Delivery by : {Delivery::kIntoSpace, Delivery::kFromMemory}) {
    for (size_t first = 1; first < 8; ++first) {
      Target target(receive_target, kDroppedBytes);
      FrameReader reader(&target);
      for (size_t at = 0; at < frame.size(); ++at) {
        ASSERT_OK(Deliver(&reader, by, &frame[at], 1));
        if (at == kFrameHeaderBytes + first) target.DropOperation(&reader);
      }
      EXPECT_EQ(target.log, "all-reduce;");
    }
  }
}

}  // namespace
}  // namespace ringlet
