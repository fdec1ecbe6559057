#include "net/transport/shared_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "../../support/random_cases.h"

namespace ringlet {
namespace {

constexpr uint32_t kBytes = SharedLane::kBytes;

// The memory that both sides have mapped. It has the exact length, so that a
// sanitizer finds accesses beyond it.
struct Memory {
  explicit Memory(uint32_t begin = 0) : begin_(begin) {
    control->written = control->read = begin;
    control->reader_waits = control->writer_waits = 0;
  }
  SharedLane Side() { return SharedLane(control.get(), data.get(), begin_); }

  std::unique_ptr<SharedLane::Control> control =
      std::make_unique<SharedLane::Control>();
  std::unique_ptr<uint8_t[]> data{new uint8_t[kBytes]()};

 private:
  const uint32_t begin_;
};

uint8_t ByteAt(uint64_t place) {
  return static_cast<uint8_t>(place * 2654435761u >> 24);
}

// The counts may begin anywhere. The second ones pass 2^32.
TEST(SharedLaneTest, Bytes_AnyPieces_ArriveInOrderAndWhole) {
  for (uint32_t begin : {0u, 0u - 5 * kBytes / 2, kBytes / 2 + 1}) {
    Memory memory(begin);
    SharedLane writer = memory.Side();
    SharedLane reader = memory.Side();
    std::mt19937 random(begin);
    uint64_t written = 0;
    uint64_t read = 0;
    std::vector<uint8_t> piece(2 * kBytes);
    while (read < 8 * uint64_t{kBytes}) {
      const size_t n = random() % (random() % 4 == 0 ? piece.size() : 70);
      for (size_t i = 0; i < n; ++i) piece[i] = ByteAt(written + i);
      const int64_t taken = writer.Write(piece.data(), n);
      ASSERT_EQ(static_cast<uint64_t>(taken),
                std::min<uint64_t>(n, kBytes - (written - read)));
      written += static_cast<uint64_t>(taken);
      ASSERT_EQ(writer.PrepareToWaitForRoom(/*wake=*/false),
                written - read == kBytes);
      const uint8_t* data = nullptr;
      const int64_t some = reader.Peek(&data);
      ASSERT_GE(some, 0);
      ASSERT_EQ(some == 0, written == read);
      const auto use = static_cast<uint64_t>(
          some == 0 ? 0 : 1 + random() % static_cast<uint64_t>(some));
      for (uint64_t i = 0; i < use; ++i) ASSERT_EQ(data[i], ByteAt(read + i));
      read += use;
      if (use > 0) reader.Consume(use);
      ASSERT_EQ(reader.PrepareToWaitForBytes(/*wake=*/false), written == read);
    }
  }
}

TEST(SharedLaneTest, Wait_BytesOrRoomCome_IsAnsweredOnce) {
  Memory memory;
  SharedLane writer = memory.Side();
  SharedLane reader = memory.Side();
  const std::vector<uint8_t> all(kBytes, 1);
  EXPECT_FALSE(writer.ClearReaderWait());
  EXPECT_TRUE(reader.PrepareToWaitForBytes(/*wake=*/true));
  EXPECT_EQ(writer.Write(all.data(), 1), 1);
  EXPECT_TRUE(writer.ClearReaderWait());
  EXPECT_FALSE(writer.ClearReaderWait());
  EXPECT_FALSE(reader.PrepareToWaitForBytes(/*wake=*/true));  // a byte is there
  EXPECT_FALSE(writer.ClearReaderWait());

  EXPECT_EQ(writer.Write(all.data(), kBytes), kBytes - 1);
  EXPECT_TRUE(writer.PrepareToWaitForRoom(/*wake=*/true));
  EXPECT_FALSE(reader.ClearWriterWait()) << "nothing is free";
  const uint8_t* data = nullptr;
  EXPECT_EQ(reader.Peek(&data), 1);  // the one byte that the reader last saw
  reader.Consume(1);
  EXPECT_EQ(reader.Peek(&data), kBytes - 1);
  reader.Consume(kBytes / 2 - 2);
  EXPECT_FALSE(reader.ClearWriterWait()) << "less than half is free";
  reader.Consume(1);
  EXPECT_TRUE(reader.ClearWriterWait());
  EXPECT_FALSE(reader.ClearWriterWait());
  EXPECT_FALSE(writer.PrepareToWaitForRoom(/*wake=*/true));
  EXPECT_FALSE(reader.ClearWriterWait());
}

// The other side writes any value into the counts, at any time.
TEST(SharedLaneTest, Counts_Hostile_TouchNoOtherMemory) {
  const std::vector<uint8_t> piece(kBytes + 100, 3);
  uint64_t refused = 0;
  RandomCases cases("RINGLET_LANE", {}, /*part=*/1, /*share=*/0.2);
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    std::mt19937 random(static_cast<unsigned>(cases.number()));
    Memory memory;
    SharedLane lane = memory.Side();
    const bool writes = cases.number() % 2 == 0;
    for (int i = 0; i < 20; ++i) {
      const uint32_t small = random() % (2 * kBytes);
      const uint32_t value = random() % 3 == 0   ? random()
                             : random() % 2 == 0 ? small
                                                 : 0u - small;
      memory.control->written = memory.control->read = value;
      memory.control->reader_waits = memory.control->writer_waits = random();
      if (writes) {
        const int64_t n = lane.Write(piece.data(), random() % piece.size());
        refused += n < 0;
        if (n < 0) break;
        ASSERT_LE(n, kBytes);
        lane.PrepareToWaitForRoom(/*wake=*/true);
        lane.ClearReaderWait();
        continue;
      }
      const uint8_t* data = nullptr;
      const int64_t n = lane.Peek(&data);
      refused += n < 0;
      if (n < 0) break;
      ASSERT_GE(data, memory.data.get());
      ASSERT_LE(data + n, memory.data.get() + kBytes);
      lane.Consume(static_cast<size_t>(n) / 2);
      lane.PrepareToWaitForBytes(/*wake=*/true);
      lane.ClearWriterWait();
    }
  }
  EXPECT_GE(refused, cases.count() / 4);
}

// Sleeps until it is woken.
class Bell {
 public:
  void Ring() {
    std::lock_guard<std::mutex> lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  void Sleep() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

// A wake that is lost is a test that does not end.
TEST(SharedLaneTest, Wait_AnyOrder_Ends) {
  constexpr uint64_t kAll = 24 << 20;
  Memory memory;
  Bell writer_bell, reader_bell;
  std::thread writing([&] {
    SharedLane lane = memory.Side();
    std::mt19937 random(1);
    std::vector<uint8_t> piece(80000);
    uint64_t at = 0;
    while (at < kAll) {
      const auto n = std::min<uint64_t>(kAll - at, 1 + random() % 80000);
      for (uint64_t i = 0; i < n; ++i) piece[i] = ByteAt(at + i);
      for (uint64_t done = 0; done < n;) {
        const int64_t taken = lane.Write(piece.data() + done, n - done);
        if (lane.ClearReaderWait()) reader_bell.Ring();
        if (taken == 0 && lane.PrepareToWaitForRoom(/*wake=*/true))
          writer_bell.Sleep();
        done += static_cast<uint64_t>(taken);
      }
      at += n;
    }
  });
  SharedLane lane = memory.Side();
  uint64_t wrong = 0;
  for (uint64_t at = 0; at < kAll;) {
    const uint8_t* data = nullptr;
    const int64_t n = std::min<int64_t>(lane.Peek(&data), 50000);
    if (n == 0 && lane.PrepareToWaitForBytes(/*wake=*/true))
      reader_bell.Sleep();
    if (n == 0) continue;
    for (int64_t i = 0; i < n; ++i) {
      wrong += data[i] != ByteAt(at + static_cast<uint64_t>(i));
    }
    lane.Consume(static_cast<size_t>(n));
    if (lane.ClearWriterWait()) writer_bell.Ring();
    at += static_cast<uint64_t>(n);
  }
  writing.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace ringlet
