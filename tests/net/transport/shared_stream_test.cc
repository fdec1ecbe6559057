// Streams over shared memory, above sockets of which the test is the kernel.

#include "net/transport/shared_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "net/transport/local_socket.h"
#include "scripted_socket.h"

namespace ringlet {
namespace {

constexpr uint32_t kLane = SharedLane::kBytes;

// Records the received bytes, and closes the stream when the test requests it.
struct Reader : ByteStream::Owner {
  void OnOpened(int64_t) override {}
  ByteStream::Space NextSpace() override { return {space, sizeof(space)}; }
  void OnRead(size_t bytes, int64_t) override {
    by_socket.append(reinterpret_cast<char*>(space), bytes);
    if (by_socket.find('S') != std::string::npos)
      stream->shared_memory()->ShareInput();
  }
  void OnBytes(const uint8_t* data, size_t bytes, int64_t) override {
    shared.insert(shared.end(), data, data + bytes);
    unfinished = stream->shared_memory()->unfinished();
    if (close_on_bytes) stream.reset();
  }
  void OnWritable(int64_t) override {
    ++writable;
    if (close_on_writable) stream.reset();
  }
  void OnEnded(LossCause why, const Status&, int64_t) override {
    ++ended;
    cause = why;
    stream.reset();
  }

  StreamPtr stream;
  uint8_t space[64];
  std::string by_socket;
  std::vector<uint8_t> shared;
  int writable = 0;
  int ended = 0;
  LossCause cause = LossCause::kCut;
  bool unfinished = false;  // the value at the last bytes
  bool close_on_bytes = false;
  bool close_on_writable = false;
};

class SharedStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    a_.stream = SharedStream::Offer(StreamPtr(&below_a_));
    if (below_a_.gives < 0) GTEST_SKIP() << "no shared memory on this system";
    below_b_.came = dup(below_a_.gives);
    b_.stream = SharedStream::Expect(StreamPtr(&below_b_));
    a_.stream->Start(&a_);
    b_.stream->Start(&b_);
  }
  void TearDown() override {
    if (below_a_.gives >= 0) close(below_a_.gives);
  }

  // Overwrites a number of the segment.
  void Overwrite(off_t place, uint32_t value) {
    ASSERT_EQ(pwrite(below_a_.gives, &value, sizeof(value), place), 4);
  }

  static int64_t Write(Reader* from, const std::vector<uint8_t>& bytes) {
    const ByteStream::Piece piece{bytes.data(), bytes.size()};
    return from->stream->Write(&piece, 1);
  }

  void Share() {
    ASSERT_TRUE(a_.stream->shared_memory()->MapSharedMemory());
    ASSERT_TRUE(b_.stream->shared_memory()->MapSharedMemory());
    for (Reader* end : {&a_, &b_}) {
      ASSERT_EQ(Write(end, {'S'}), 1);
      end->stream->shared_memory()->ShareOutput();
    }
    Run();
  }

  // Until nothing is on its way.
  void Run() {
    while (!below_a_.sent.empty() || !below_b_.sent.empty()) {
      below_a_.Deliver(&below_b_.sent);
      below_b_.Deliver(&below_a_.sent);
    }
  }

  ScriptedSocket below_a_, below_b_;
  Reader a_, b_;
};

TEST_F(SharedStreamTest,
       Write_SharedOutput_GoesThroughMemoryAndTheSocketWakes) {
  Share();
  EXPECT_EQ(a_.by_socket, "S");
  const std::vector<uint8_t> text(1000, 7);
  EXPECT_EQ(Write(&a_, text), 1000);
  EXPECT_EQ(below_a_.sent.size(), 1u) << "one byte wakes";
  EXPECT_EQ(Write(&a_, text), 1000);
  EXPECT_EQ(below_a_.sent.size(), 1u) << "it is on its way";
  Run();
  EXPECT_EQ(b_.shared.size(), 2000u);
  EXPECT_EQ(b_.by_socket, "S");
  // A side that polls is not woken, until it stops polling.
  EXPECT_FALSE(b_.stream->shared_memory()->Poll(0, /*wake=*/false));
  EXPECT_EQ(Write(&a_, text), 1000);
  EXPECT_TRUE(below_a_.sent.empty());
  EXPECT_TRUE(b_.stream->shared_memory()->Poll(0, /*wake=*/true));
  EXPECT_EQ(b_.shared.size(), 3000u);
  EXPECT_EQ(Write(&a_, text), 1000);
  EXPECT_EQ(below_a_.sent.size(), 1u);
}

TEST_F(SharedStreamTest, Write_SegmentIsFull_BlocksUntilHalfIsFree) {
  Share();
  const std::vector<uint8_t> much(kLane + 5, 1);
  EXPECT_EQ(Write(&a_, much), kLane);
  EXPECT_FALSE(a_.stream->blocked());
  EXPECT_EQ(Write(&a_, {1}), 0);
  EXPECT_TRUE(a_.stream->blocked());
  Run();
  EXPECT_EQ(a_.writable, 1);
  EXPECT_FALSE(a_.stream->blocked());
  EXPECT_EQ(b_.shared.size(), kLane);
}

// A wake must not get between bytes of the socket that are still to come.
TEST_F(SharedStreamTest, Wake_SocketHasBytesToCome_WaitsForThem) {
  ASSERT_TRUE(b_.stream->shared_memory()->MapSharedMemory());
  // b has received everything from a, and has not yet announced that its own
  // output is in the segment.
  ASSERT_EQ(Write(&a_, {'S'}), 1);
  a_.stream->shared_memory()->ShareOutput();
  Run();
  EXPECT_EQ(Write(&a_, std::vector<uint8_t>(kLane, 1)), kLane);
  EXPECT_EQ(Write(&a_, {1}), 0);
  below_b_.Deliver(&below_a_.sent);
  EXPECT_EQ(b_.shared.size(), kLane);
  EXPECT_TRUE(below_b_.sent.empty());
  below_b_.is_blocked = true;
  b_.stream->shared_memory()->ShareOutput();
  EXPECT_TRUE(below_b_.sent.empty());
  below_b_.Unblock();
  EXPECT_EQ(below_b_.sent.size(), 1u);
  EXPECT_EQ(b_.writable, 0) << "the segment was never full";
  Run();
  EXPECT_EQ(a_.writable, 1);
}

// If more bytes have arrived than were read, Poll has returned that the owner
// must poll again, since no wake-up follows.
TEST_F(SharedStreamTest, Poll_MoreCameMeanwhile_ReturnsThatMoreIsThere) {
  Share();
  constexpr uint32_t kBytes = 3000000;
  std::thread writer([this] {
    const uint8_t byte = 1;
    const ByteStream::Piece piece{&byte, 1};
    for (uint32_t i = 0; i < kBytes;) {
      if (!a_.stream->blocked()) {
        i += a_.stream->Write(&piece, 1) > 0;
      } else {
        a_.stream->shared_memory()->Poll(0, /*wake=*/false);
      }
    }
  });
  size_t forgotten = 0;
  while (b_.shared.size() < kBytes) {
    b_.stream->shared_memory()->Poll(0, /*wake=*/true);
    forgotten += b_.stream->shared_memory()->unfinished() && !b_.unfinished;
  }
  writer.join();
  EXPECT_EQ(forgotten, 0u);
}

TEST_F(SharedStreamTest, Read_WriterHasEnded_GivesAllThatWasWritten) {
  Share();
  std::vector<uint8_t> text(kLane);
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<uint8_t>(i % 251);
  }
  EXPECT_EQ(Write(&a_, std::vector<uint8_t>(1000, 1)), 1000);
  Run();
  b_.shared.clear();
  EXPECT_EQ(Write(&a_, text), kLane);
  a_.stream.reset();
  EXPECT_TRUE(below_a_.closed);
  below_b_.End();
  EXPECT_EQ(b_.shared, text);
  EXPECT_EQ(b_.ended, 1);
  EXPECT_EQ(b_.cause, LossCause::kExited);
}

TEST_F(SharedStreamTest, Stream_ClosedInItsEvents_DeliversNoMore) {
  Share();
  b_.close_on_bytes = true;
  EXPECT_EQ(Write(&a_, std::vector<uint8_t>(kLane, 1)), kLane);
  EXPECT_EQ(Write(&a_, {1}), 0);
  Run();
  EXPECT_TRUE(below_b_.closed);
  EXPECT_EQ(b_.shared.size(), 64u << 10);
  EXPECT_EQ(b_.ended, 0);
}

TEST_F(SharedStreamTest, Stream_ClosedInItsWritableEvent_ClosesTheSocket) {
  Share();
  a_.close_on_writable = true;
  EXPECT_EQ(Write(&a_, std::vector<uint8_t>(kLane, 1)), kLane);
  EXPECT_EQ(Write(&a_, {1}), 0);
  Run();
  EXPECT_TRUE(below_a_.closed);
}

TEST_F(SharedStreamTest, Counts_Overwritten_EndTheConnection) {
  for (int control : {0, 64, 256, 320}) {  // counts of both lanes
    if (a_.stream == nullptr) {
      TearDown();
      a_ = Reader();
      b_ = Reader();
      below_a_ = below_b_ = ScriptedSocket();
      SetUp();
    }
    Share();
    for (Reader* end : {&a_, &b_}) EXPECT_EQ(Write(end, {1, 2, 3}), 3);
    Overwrite(control, 0x7fffffff);
    if (control % 256 != 0) {
      EXPECT_EQ(Write(&a_, {4}) + Write(&b_, {4}), 0) << "one of them fails";
    }
    for (Reader* end : {&a_, &b_}) {
      if (end->stream != nullptr)
        end->stream->shared_memory()->Poll(0, /*wake=*/true);
    }
    Run();
    EXPECT_EQ(a_.ended + b_.ended, 1) << control;
    for (Reader* end : {&a_, &b_}) {
      if (end->ended > 0) {
        EXPECT_EQ(end->cause, LossCause::kProtocol);
      }
      end->stream.reset();
    }
  }
}

#ifdef __linux__
#ifdef __x86_64__  // an emulator takes all descriptors for its own
int OpenDescriptors() {
  int open = 0;
  for (int fd = 0; fd < 1024; ++fd) open += fcntl(fd, F_GETFD) != -1;
  return open;
}

TEST(LocalSocketTest, Peek_TwoDescriptorsWereSent_TakesOne) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const int two[2] = {dup(ends[0]), dup(ends[0])};
  char byte = 1;
  iovec piece = {&byte, 1};
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(two))] = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(two));
  std::memcpy(CMSG_DATA(head), two, sizeof(two));
  ASSERT_EQ(sendmsg(ends[0], &message, 0), 1);
  const int before = OpenDescriptors();
  const int taken = PeekDescriptor(ends[1]);
  EXPECT_GE(taken, 0);
  EXPECT_EQ(OpenDescriptors(), before + 1) << "the other one was not closed";
  for (int fd : {ends[0], ends[1], two[0], two[1], taken}) close(fd);
}
#endif
#endif

TEST(SharedSegmentTest, Map_NotSealedOrOfAnotherLength_IsRefused) {
  EXPECT_EQ(SharedSegment::Map(open("/dev/null", O_RDWR)), nullptr);
#ifdef SYS_memfd_create
  const auto memory = [](off_t bytes, int seals) {
    const int fd = static_cast<int>(syscall(SYS_memfd_create, "test", 2u));
    EXPECT_EQ(ftruncate(fd, bytes), 0);
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
  };
  constexpr off_t kRight = (64 << 10) + 2 * off_t{kLane};
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  EXPECT_EQ(SharedSegment::Map(memory(kRight - 1, kSeals)), nullptr);
  EXPECT_EQ(SharedSegment::Map(memory(kRight, F_SEAL_GROW)), nullptr);
  EXPECT_EQ(SharedSegment::Map(memory(kRight, kSeals | F_SEAL_WRITE)), nullptr);
  EXPECT_NE(SharedSegment::Map(memory(kRight, kSeals)), nullptr);
#endif
}

}  // namespace
}  // namespace ringlet
