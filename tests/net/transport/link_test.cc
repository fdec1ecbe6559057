#include "net/transport/framed_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../support/expect_ok.h"
#include "core/base/crc32c.h"
#include "net/transport/relay_stream.h"
#include "net/transport/sealed_stream.h"
#include "net/transport/shared_stream.h"
#include "net/transport/uv_stream.h"
#include "net/wire/wire_dtype.h"
#include "scripted_socket.h"

namespace ringlet {
namespace {

// Owns one link and waits for its events.
class Waiter final : public FramedLink::Owner {
 public:
  void OnConnected(FramedLink*, int64_t) override { connected.set_value(); }
  void OnHeard(FramedLink*, int64_t) override {}
  Status OnHeader(FramedLink*, const FrameHeader&, ReceiveTarget*) override {
    return Status();
  }
  Status OnFrame(FramedLink*, const FrameHeader&, const uint8_t*) override {
    return Status();
  }
  void OnTurn(FramedLink*, int64_t) override {}
  void OnSent(FramedLink*, uint64_t) override {}
  void OnDown(FramedLink* link, LossCause, const Status&, int64_t) override {
    link->Close();
  }

  std::promise<void> connected;
};

// A socket that listens on the loopback, and the accepted socket of a link that
// has connected to it.
struct LoopbackSockets {
  LoopbackSockets() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener, any, bytes), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, any, &bytes), 0);
  }
  ~LoopbackSockets() {
    close(listener);
    if (accepted >= 0) close(accepted);
  }
  void ReadAll(void* data, size_t bytes) const {
    ASSERT_EQ(recv(accepted, data, bytes, MSG_WAITALL),
              static_cast<ssize_t>(bytes));
  }

  int listener = socket(AF_INET, SOCK_STREAM, 0);
  int accepted = -1;
  sockaddr_in address = {};
};

FrameHeader Data(uint64_t sequence, uint32_t bytes) {
  FrameHeader header;
  header.type = FrameType::kAllReduce;
  header.sequence = sequence;
  header.payload_bytes = bytes;
  return header;
}

// The sequences of the frames of operations up to the abort.
std::vector<uint64_t> SequencesBeforeAbort(const LoopbackSockets& sockets) {
  std::vector<uint64_t> sequences;
  for (;;) {
    uint8_t bytes[kFrameHeaderBytes];
    sockets.ReadAll(bytes, sizeof(bytes));
    FrameHeader header;
    const Status decoded = DecodeHeader(bytes, &header);
    EXPECT_OK(decoded);
    if (!decoded.ok() || header.type == FrameType::kAbort) return sequences;
    std::vector<uint8_t> payload(header.payload_bytes);
    sockets.ReadAll(payload.data(), payload.size());
    sequences.push_back(header.sequence);
  }
}

// The other side does not read. The queue has bulk frames until the kernel
// takes no more, one frame that cannot have begun, and a short last piece,
// which is a copy.
TEST(LinkTest, Drop_FramesAreQueued_NothingOfTheOperationFollows) {
  LoopbackSockets sockets;
  Waiter waiter;
  std::unique_ptr<Loop> loop;
  ASSERT_OK(Loop::Open(&loop));
  UvHandles handles(loop.get());
  std::unique_ptr<FramedLink> made;
  loop->Post([&] {
    StreamPtr stream;
    EXPECT_OK(UvStream::ConnectTcp(
        &handles, reinterpret_cast<sockaddr*>(&sockets.address), &stream));
    made = std::make_unique<FramedLink>(std::move(stream),
                                        LinkPhase::kConnecting, &waiter);
  });
  sockets.accepted = accept(sockets.listener, nullptr, nullptr);
  waiter.connected.get_future().wait();
  FramedLink& link = *made;

  const std::vector<uint8_t> bulk(kSegmentBytes, 7);
  std::promise<uint64_t> sent;
  loop->Post([&] {
    uint64_t next = 0;
    while (link.drained() && next < 10000) {
      link.SendBorrowed(Data(next++, kSegmentBytes), bulk.data());
    }
    link.SendBorrowed(Data(next++, kSegmentBytes), bulk.data());
    link.Send(Data(next++, 2304), bulk.data());
    link.DropBorrowed();
    FrameHeader abort;
    abort.type = FrameType::kAbort;
    abort.payload_bytes = 6;
    link.Send(abort, bulk.data());
    sent.set_value(next);
  });
  const uint64_t all = sent.get_future().get();
  ASSERT_LT(all, 10000u) << "the kernel takes everything";
  const std::vector<uint64_t> sequences = SequencesBeforeAbort(sockets);
  for (size_t i = 0; i < sequences.size(); ++i) EXPECT_EQ(sequences[i], i);
  EXPECT_LE(sequences.size(), all - 2);
  std::promise<void> closed;
  loop->Post([&] {
    link.Close();
    handles.WhenAllClosed([&] { closed.set_value(); });
  });
  closed.get_future().wait();
}

// The receiving end of a link over scripted sockets. It receives one all-reduce
// into its own memory, and keeps the abort that follows.
class Receiver final : public FramedLink::Owner {
 public:
  explicit Receiver(const ReceiveTarget& receive_target)
      : memory_(new uint8_t[kBytes / PackedBytesPerFloat(receive_target.dtype) *
                            4]()),
        receive_target_(receive_target) {}

  void Receive(StreamPtr stream) {
    link = std::make_unique<FramedLink>(std::move(stream),
                                        LinkPhase::kAwaitHello, this);
    link->SetPhase(LinkPhase::kUp);
  }
  // As a session does when a peer is lost.
  void DropOperation() {
    link->DropBorrowed();
    memory_.reset();
    receive_target_.mode = ReceiveTarget::kDiscard;
  }

  void OnConnected(FramedLink*, int64_t) override {}
  void OnHeard(FramedLink*, int64_t) override {}
  Status OnHeader(FramedLink*, const FrameHeader& header,
                  ReceiveTarget* receive_target) override {
    receive_target->mode = ReceiveTarget::kBuffer;
    if (header.type == FrameType::kAbort) return Status();
    *receive_target = receive_target_;
    receive_target->data = memory_.get();
    return Status();
  }
  Status OnFrame(FramedLink*, const FrameHeader& header,
                 const uint8_t*) override {
    log += std::string(FrameTypeName(header.type)) + ";";
    return Status();
  }
  void OnTurn(FramedLink*, int64_t) override {}
  void OnSent(FramedLink*, uint64_t) override {}
  void OnDown(FramedLink*, LossCause, const Status& why, int64_t) override {
    log += why.message();
  }

  // More than the reader's first buffer holds.
  static constexpr size_t kBytes = 1600;
  std::unique_ptr<FramedLink> link;
  std::string log;

 private:
  std::unique_ptr<uint8_t[]> memory_;
  ReceiveTarget receive_target_;
};

// The sending end. It sends bytes, without frames.
struct Sender final : ByteStream::Owner {
  void OnOpened(int64_t) override {}
  ByteStream::Space NextSpace() override { return {space, sizeof(space)}; }
  void OnRead(size_t, int64_t) override {}
  void OnBytes(const uint8_t*, size_t, int64_t) override {}
  void OnWritable(int64_t) override {}
  void OnEnded(LossCause, const Status&, int64_t) override {}

  uint8_t space[4096];
  StreamPtr stream;
};

enum class StreamKind { kPlain, kRelayed, kSealed, kShared };

std::string NameOf(StreamKind kind) {
  const char* const names[] = {"Plain", "Relayed", "Sealed", "Shared"};
  return names[static_cast<int>(kind)];
}

std::vector<uint8_t> MakeFrame(FrameType type, size_t bytes, bool checked) {
  const std::vector<uint8_t> payload(bytes, 3);
  FrameHeader header;
  header.type = type;
  header.payload_bytes = static_cast<uint32_t>(bytes);
  if (checked) header.payload_crc = Crc32c(payload.data(), bytes);
  std::vector<uint8_t> frame(kFrameHeaderBytes);
  EncodeHeader(header, frame.data());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

// A connection of some kind, between a sender and the link that receives.
struct ScriptedPair {
  ScriptedPair(StreamKind stream_kind, const ReceiveTarget& receive_target)
      : kind(stream_kind), receiver(receive_target) {
    StreamPtr sending(&below_there);
    StreamPtr receiving(&below_here);
    const ListenerIdentity meant{1, 2, 0};
    uint8_t secret[kNoiseKeyBytes] = {1};
    switch (kind) {
      case StreamKind::kPlain:
        break;
      case StreamKind::kRelayed:
        receiving =
            RelayStream::Make(std::move(receiving), RelayHello(), "relay");
        below_there.sent.push_back(kRelayJoined);
        break;
      case StreamKind::kSealed: {
        static const auto keys = std::make_shared<JobKeys>(JobKeys{{}, 1});
        sending = SealedStream::Connect(std::move(sending), keys, meant, secret,
                                        nullptr);
        secret[0] = 2;
        receiving = SealedStream::Accept(std::move(receiving), keys, meant,
                                         secret, nullptr);
        break;
      }
      case StreamKind::kShared:
        sending = SharedStream::Offer(std::move(sending));
        below_here.came = std::exchange(below_there.gives, -1);
        receiving = SharedStream::Expect(std::move(receiving));
        break;
    }
    receiver.Receive(std::move(receiving));
    sender.stream = std::move(sending);
    sender.stream->Start(&sender);
    if (kind == StreamKind::kShared) Share();
    Run();
  }
  ~ScriptedPair() {
    sender.stream.reset();
    receiver.link->Close();
  }

  bool checked() const { return kind <= StreamKind::kRelayed; }
  void Share() {
    can_share = receiver.link->MapSharedMemory();
    if (!can_share) return;
    FrameHeader shared;
    shared.type = FrameType::kShared;
    receiver.link->Send(shared, nullptr);
    Send(MakeFrame(FrameType::kShared, 0, /*checked=*/true), 0,
         kFrameHeaderBytes);
    sender.stream->shared_memory()->ShareOutput();
  }
  void Send(const std::vector<uint8_t>& bytes, size_t from, size_t to) {
    if (from == to) return;
    const ByteStream::Piece piece{bytes.data() + from, to - from};
    ASSERT_EQ(sender.stream->Write(&piece, 1),
              static_cast<int64_t>(piece.bytes));
    Run();
  }
  // Delivers until no bytes are in flight.
  void Run() {
    while (!below_here.sent.empty() || !below_there.sent.empty()) {
      below_here.Deliver(&below_there.sent);
      below_there.Deliver(&below_here.sent);
    }
  }

  const StreamKind kind;
  ScriptedSocket below_there, below_here;
  Receiver receiver;
  Sender sender;
  bool can_share = true;
};

class DroppedOperationTest : public testing::TestWithParam<StreamKind> {};
INSTANTIATE_TEST_SUITE_P(Streams, DroppedOperationTest,
                         testing::Values(StreamKind::kPlain,
                                         StreamKind::kRelayed,
                                         StreamKind::kSealed,
                                         StreamKind::kShared),
                         [](const auto& test) { return NameOf(test.param); });

// A peer is lost while a frame of another peer has arrived in part.
void CutAndDrop(StreamKind kind, const ReceiveTarget& receive_target,
                size_t cut) {
  ScriptedPair pair(kind, receive_target);
  if (!pair.can_share) GTEST_SKIP() << "no shared memory on this system";
  ASSERT_EQ(pair.receiver.log, "");
  std::vector<uint8_t> all =
      MakeFrame(FrameType::kAllReduce, Receiver::kBytes, pair.checked());
  const std::vector<uint8_t> next =
      MakeFrame(FrameType::kAbort, 10, pair.checked());
  all.insert(all.end(), next.begin(), next.end());
  pair.Send(all, 0, cut);
  pair.receiver.DropOperation();
  pair.Send(all, cut, all.size());
  ASSERT_EQ(pair.receiver.log, "all-reduce;abort;") << "cut at " << cut;
}

TEST_P(DroppedOperationTest, EveryCut_EveryTarget_RestIsDiscarded) {
  if (GetParam() == StreamKind::kSealed && !SecureStart().ok()) {
    GTEST_SKIP() << "this build cannot seal connections";
  }
  ReceiveTarget receive_targets[7];
  receive_targets[0].mode = ReceiveTarget::kCopy;
  receive_targets[1].mode = ReceiveTarget::kReduce;
  receive_targets[2].mode = ReceiveTarget::kReduce;
  receive_targets[2].integers = true;
  receive_targets[3].mode = ReceiveTarget::kBuffer;
  receive_targets[4].mode = ReceiveTarget::kDiscard;
  receive_targets[5].mode = ReceiveTarget::kCopy;
  receive_targets[5].dtype = WireDtype::kFloat16;
  receive_targets[6].mode = ReceiveTarget::kReduce;
  receive_targets[6].dtype = WireDtype::kBfloat16;
  for (const ReceiveTarget& receive_target : receive_targets) {
    for (size_t cut = 0; cut <= kFrameHeaderBytes + Receiver::kBytes; ++cut) {
      // For slow pairs skips the cuts in the middle, which are all alike.
      const bool slow = GetParam() >= StreamKind::kSealed;
      if (slow && cut == kFrameHeaderBytes + 16) cut = Receiver::kBytes;
      CutAndDrop(GetParam(), receive_target, cut);
      if (HasFatalFailure() || IsSkipped()) return;
    }
  }
}

}  // namespace
}  // namespace ringlet
