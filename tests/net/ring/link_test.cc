#include "net/ring/framed_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <vector>

#include "net/ring/uv_stream.h"

namespace ringlet {
namespace {

// Owns one link and waits for what it tells.
class Waiter final : public FramedLink::Owner {
 public:
  void OnConnected(FramedLink*, int64_t) override { connected.set_value(); }
  void OnHeard(FramedLink*, int64_t) override {}
  Status OnHeader(FramedLink*, const FrameHeader&, Landing*) override {
    return Status();
  }
  Status OnFrame(FramedLink*, const FrameHeader&, const uint8_t*) override {
    return Status();
  }
  void OnTurn(FramedLink*, int64_t) override {}
  void OnSent(FramedLink*, uint64_t) override {}
  void OnDown(FramedLink* link, Cause, const Status&, int64_t) override {
    link->Close();
  }

  std::promise<void> connected;
};

// A socket that listens on the loopback, and one that a link connected to it.
struct Ends {
  Ends() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener, any, bytes), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, any, &bytes), 0);
  }
  ~Ends() {
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
std::vector<uint64_t> SequencesBeforeAbort(const Ends& ends) {
  std::vector<uint64_t> sequences;
  for (;;) {
    uint8_t bytes[kFrameHeaderBytes];
    ends.ReadAll(bytes, sizeof(bytes));
    FrameHeader header;
    const Status decoded = DecodeHeader(bytes, &header);
    EXPECT_TRUE(decoded.ok()) << decoded.message();
    if (!decoded.ok() || header.type == FrameType::kAbort) return sequences;
    std::vector<uint8_t> payload(header.payload_bytes);
    ends.ReadAll(payload.data(), payload.size());
    sequences.push_back(header.sequence);
  }
}

// While the other side does not read: bulk frames until the kernel takes no
// more, one that cannot have begun, and a short last piece, which is a copy.
TEST(LinkTest, NothingOfAnOperationFollowsAFrameThatWasDropped) {
  Ends ends;
  Waiter waiter;
  std::unique_ptr<Loop> loop;
  ASSERT_TRUE(Loop::Open(&loop).ok());
  UvHandles handles(loop.get());
  std::unique_ptr<FramedLink> made;
  loop->Post([&] {
    StreamPtr stream;
    EXPECT_TRUE(UvStream::ConnectTcp(&handles,
                                     reinterpret_cast<sockaddr*>(&ends.address),
                                     &stream)
                    .ok());
    made = std::make_unique<FramedLink>(std::move(stream),
                                        LinkPhase::kConnecting, &waiter);
  });
  ends.accepted = accept(ends.listener, nullptr, nullptr);
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
  const std::vector<uint64_t> sequences = SequencesBeforeAbort(ends);
  for (size_t i = 0; i < sequences.size(); ++i) EXPECT_EQ(sequences[i], i);
  EXPECT_LE(sequences.size(), all - 2);
  std::promise<void> closed;
  loop->Post([&] {
    link.Close();
    handles.WhenAllClosed([&] { closed.set_value(); });
  });
  closed.get_future().wait();
}

}  // namespace
}  // namespace ringlet
