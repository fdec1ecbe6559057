// The operations of all ranks in one thread, over a wire in memory that
// delivers in any order the links allow.

#include "net/collective/collective_schedule.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "core/base/byte_order.h"
#include "core/base/crc32c.h"
#include "net/collective/topology.h"

namespace ringlet {
namespace {

class Network {
 public:
  Network(int size, Algorithm algorithm, WireDtype dtype, uint32_t seed)
      : size_(size),
        algorithm_(algorithm),
        dtype_(dtype),
        random_(seed),
        links_(size * size) {
    for (int r = 0; r < size; ++r) {
      ends_.push_back(std::make_unique<End>(this, r));
      ranks_.push_back(std::make_unique<CollectiveSchedule>(
          r, size, algorithm, dtype, ends_.back().get()));
    }
    for (int i = 0; i < size * size; ++i) {
      sinks_.push_back(std::make_unique<Sink>(this, i / size, i % size));
      readers_.push_back(std::make_unique<FrameReader>(sinks_.back().get()));
    }
  }

  // Another process takes rank r's place, as it may while a ring forms.
  void Replace(int r) {
    ranks_[r] = std::make_unique<CollectiveSchedule>(r, size_, algorithm_,
                                                     dtype_, ends_[r].get());
    for (int i = 0; i < size_ * size_; ++i) {
      if (i / size_ != r && i % size_ != r) continue;
      links_[i] = Link();
      readers_[i] = std::make_unique<FrameReader>(sinks_[i].get());
    }
    for (int other = 0; other < size_; ++other) {
      if (other != r) ranks_[other]->DropUnexpected(r);
    }
  }

  CollectiveSchedule* rank(int r) { return ranks_[r].get(); }
  uint64_t payload_bytes() const { return payload_bytes_; }

  Status Start(int r, const Call& call) {
    ranks_[r]->Start(call);
    return ranks_[r]->Progress();
  }

  // Delivers a random piece of a random link, or writes a borrowed frame; false
  // where nothing is left to do.
  Status Step(bool* moved) {
    std::vector<int> busy;
    for (int i = 0; i < size_ * size_; ++i) {
      if (!links_[i].frames.empty() || !links_[i].bytes.empty()) {
        busy.push_back(i);
      }
    }
    *moved = !busy.empty();
    if (busy.empty()) return Status();
    const int i = busy[random_() % busy.size()];
    Link& link = links_[i];
    if (link.bytes.empty() || (!link.frames.empty() && random_() % 2 == 0)) {
      if (!link.frames.empty()) return Write(i);
    }
    const size_t most =
        std::min<size_t>(link.bytes.size(), 1 + random_() % 70000);
    size_t given = 0;
    while (given < most) {
      const FrameReader::Space space = readers_[i]->NextSpace();
      const size_t n = std::min(space.bytes, most - given);
      std::copy(link.bytes.begin(), link.bytes.begin() + n, space.data);
      link.bytes.erase(link.bytes.begin(), link.bytes.begin() + n);
      given += n;
      RINGLET_RETURN_IF_ERROR(readers_[i]->Read(n));
    }
    return ranks_[i % size_]->Progress();
  }

 private:
  struct Frame {
    FrameHeader header;
    const uint8_t* payload;
    std::vector<uint8_t> copy;
    bool borrowed;
  };
  struct Link {
    std::deque<Frame> frames;   // queued at the sender
    std::deque<uint8_t> bytes;  // bytes on the wire
  };
  class End final : public CollectiveSchedule::Wire {
   public:
    End(Network* network, int rank) : network_(network), rank_(rank) {}
    void RequestRoomEvent(int) override {}
    bool HasRoom(int peer) const override {
      return network_->links_[rank_ * network_->size_ + peer].frames.size() < 3;
    }
    void Send(int peer, const FrameHeader& header, const uint8_t* payload,
              bool borrowed) override {
      EXPECT_TRUE(AreLinked(network_->size_, rank_, peer));
      Frame frame{header, payload, {}, borrowed};
      if (!borrowed) {
        EXPECT_LE(header.payload_bytes, kEagerBytes);
        frame.copy.assign(payload, payload + header.payload_bytes);
      }
      network_->links_[rank_ * network_->size_ + peer].frames.push_back(frame);
    }

   private:
    Network* const network_;
    const int rank_;
  };
  class Sink final : public FrameReader::Sink {
   public:
    Sink(Network* network, int from, int to)
        : network_(network), from_(from), to_(to) {}
    Status OnHeader(const FrameHeader& header,
                    ReceiveTarget* receive_target) override {
      return network_->ranks_[to_]->OnHeader(from_, header, receive_target);
    }
    Status OnFrame(const FrameHeader& header, const uint8_t* payload) override {
      return network_->ranks_[to_]->OnFrame(from_, header, payload);
    }

   private:
    Network* const network_;
    const int from_, to_;
  };

  Status Write(int i) {
    Link& link = links_[i];
    Frame frame = link.frames.front();
    link.frames.pop_front();
    const uint8_t* payload = frame.borrowed ? frame.payload : frame.copy.data();
    frame.header.payload_crc = Crc32c(payload, frame.header.payload_bytes);
    uint8_t header[kFrameHeaderBytes];
    EncodeHeader(frame.header, header);
    payload_bytes_ += frame.header.payload_bytes;
    link.bytes.insert(link.bytes.end(), header, header + kFrameHeaderBytes);
    link.bytes.insert(link.bytes.end(), payload,
                      payload + frame.header.payload_bytes);
    if (frame.borrowed) ranks_[i / size_]->OnSent(frame.header.sequence);
    return ranks_[i / size_]->Progress();
  }

  const int size_;
  const Algorithm algorithm_;
  const WireDtype dtype_;
  std::mt19937 random_;
  uint64_t payload_bytes_ = 0;
  std::vector<Link> links_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<std::unique_ptr<CollectiveSchedule>> ranks_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<std::unique_ptr<FrameReader>> readers_;
};

using Data = std::vector<float>;

bool IsSum(FrameType type) {
  return type == FrameType::kAllReduce || type == FrameType::kAllReduceInts;
}

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// An integer of all 32 bits, in a float's place.
float IntegerAsFloat(int rank, size_t i) {
  const uint32_t bits = (static_cast<uint32_t>(i) + 3) * 0x9E3779B9u +
                        static_cast<uint32_t>(rank) * 0x01000193u;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// A call that every rank makes. An all-gather has `count` numbers of each rank.
struct PlannedCall {
  FrameType type;
  size_t count;
  int root;
};
using Plan = std::vector<PlannedCall>;
// The numbers of each rank's calls: by rank, then by call.
using RanksData = std::vector<std::vector<Data>>;

Plan PlanCalls(int size, std::mt19937* random) {
  constexpr size_t kCounts[] = {0, 1, 5, 2048, 2049, 20000, 40001};
  Plan plan;
  for (int i = 0; i < 12; ++i) {
    const auto type = static_cast<FrameType>(16 + (*random)() % 5);
    const size_t count = kCounts[(*random)() % std::size(kCounts)];
    plan.push_back({type, count, static_cast<int>((*random)() % size)});
  }
  return plan;
}

RanksData MakeInputs(int size, const Plan& plan) {
  RanksData data(size);
  for (int r = 0; r < size; ++r) {
    for (const PlannedCall& call : plan) {
      const bool gathers = call.type == FrameType::kAllGather;
      Data v(call.count * (gathers ? size : 1));
      for (size_t i = 0; i < v.size(); ++i) {
        v[i] = call.type == FrameType::kAllReduceInts
                   ? IntegerAsFloat(r, i)
                   : static_cast<float>((r + 1) * 0.3 +
                                        static_cast<double>(i % 101));
      }
      data[r].push_back(v);
    }
  }
  return data;
}

// True if the rank may start its call number `next`. A call that is no sum
// waits for the calls before it, and those after it wait for it.
bool MayStart(const Plan& plan, size_t next, uint64_t completed) {
  if (next >= plan.size()) return false;
  const bool only_sums =
      IsSum(plan[next].type) && (next == 0 || IsSum(plan[next - 1].type));
  return only_sums || completed == next;
}

// Converts `data` to the order of bytes that is sent, or back.
void SwapOrder(Data* data) {
  SwapToLittle(data->data(), sizeof(float), data->size());
}

Call MakeCall(const PlannedCall& planned, Data* data) {
  Call call;
  call.type = planned.type;
  call.data = reinterpret_cast<uint8_t*>(data->data());
  const bool is_barrier = planned.type == FrameType::kBarrier;
  call.bytes = is_barrier ? 0 : planned.count * sizeof(float);
  if (planned.type == FrameType::kBroadcast) call.root = planned.root;
  return call;
}

// Starts each rank's calls in their order, each at a random time, and delivers
// frames in a random order, until all calls are completed.
void RunInRandomOrder(const Plan& plan, std::mt19937* random, Network* network,
                      RanksData* data) {
  const auto size = static_cast<int>(data->size());
  std::vector<size_t> next(data->size(), 0);
  const auto completed = [&](int r) { return network->rank(r)->completed(); };
  for (;;) {
    const auto r = static_cast<int>((*random)() % data->size());
    if (MayStart(plan, next[r], completed(r)) && (*random)() % 3 == 0) {
      Data* const v = &(*data)[r][next[r]];
      SwapOrder(v);
      ASSERT_OK(network->Start(r, MakeCall(plan[next[r]], v)));
      ++next[r];
      continue;
    }
    bool moved = false;
    ASSERT_OK(network->Step(&moved));
    if (moved) continue;
    bool all_completed = true;
    bool any_may_start = false;
    for (int q = 0; q < size; ++q) {
      all_completed = all_completed && completed(q) == plan.size();
      any_may_start =
          any_may_start || (next[q] < plan.size() && completed(q) == next[q]);
    }
    if (all_completed) break;
    ASSERT_TRUE(any_may_start) << "a standstill";
  }
  for (std::vector<Data>& rank_data : *data) {
    for (Data& v : rank_data) SwapOrder(&v);
  }
}

// The results of call `i`, by rank and number.

void ExpectSumOfInts(size_t i, const RanksData& inputs,
                     const RanksData& results) {
  for (const std::vector<Data>& rank_data : results) {
    for (size_t j = 0; j < rank_data[i].size(); ++j) {
      uint32_t sum = 0;
      for (const std::vector<Data>& input : inputs) sum += BitsOf(input[i][j]);
      ASSERT_EQ(BitsOf(rank_data[i][j]), sum);
    }
  }
}

void ExpectSum(size_t i, const RanksData& inputs, const RanksData& results,
               WireDtype dtype) {
  // Each rank rounds the numbers that it sends to nearest.
  const double last_place = dtype == WireDtype::kBfloat16  ? 1. / 256
                            : dtype == WireDtype::kFloat16 ? 1. / 2048
                                                           : 1e-5;
  for (const std::vector<Data>& rank_data : results) {
    for (size_t j = 0; j < rank_data[i].size(); ++j) {
      ASSERT_EQ(BitsOf(rank_data[i][j]), BitsOf(results[0][i][j]));
      double sum = 0;
      for (const std::vector<Data>& input : inputs) sum += input[i][j];
      ASSERT_NEAR(rank_data[i][j], sum,
                  last_place * static_cast<double>(inputs.size()) * sum);
    }
  }
}

// Other calls give copies of one rank's numbers.
void ExpectCopies(const PlannedCall& call, size_t i, const RanksData& inputs,
                  const RanksData& results) {
  for (size_t r = 0; r < results.size(); ++r) {
    for (size_t j = 0; j < results[r][i].size(); ++j) {
      const size_t from = call.type == FrameType::kBroadcast   ? call.root
                          : call.type == FrameType::kAllGather ? j / call.count
                                                               : r;
      ASSERT_EQ(results[r][i][j], inputs[from][i][j]);
    }
  }
}

void ExpectResult(const PlannedCall& call, size_t i, const RanksData& inputs,
                  const RanksData& results, WireDtype dtype) {
  switch (call.type) {
    case FrameType::kAllReduceInts:
      return ExpectSumOfInts(i, inputs, results);
    case FrameType::kAllReduce:
      return ExpectSum(i, inputs, results, dtype);
    default:
      return ExpectCopies(call, i, inputs, results);
  }
}

// All ranks make the same random calls, at random times.
void PlayHistory(int size, Algorithm algorithm, uint32_t seed,
                 WireDtype dtype = WireDtype::kFloat32) {
  SCOPED_TRACE(testing::Message() << size << " ranks, seed " << seed);
  std::mt19937 random(seed);
  Network network(size, algorithm, dtype, seed + 1);
  const Plan plan = PlanCalls(size, &random);
  const RanksData inputs = MakeInputs(size, plan);
  RanksData results = inputs;
  ASSERT_NO_FATAL_FAILURE(RunInRandomOrder(plan, &random, &network, &results));
  for (size_t i = 0; i < plan.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "call " << i);
    ASSERT_NO_FATAL_FAILURE(ExpectResult(plan[i], i, inputs, results, dtype));
  }
}

TEST(CollectiveScheduleTest, Operations_AnyTiming_GiveTheSameResults) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    for (int size = 2; size <= 6; ++size) {
      PlayHistory(size, Algorithm::kAuto, seed);
    }
  }
}

TEST(CollectiveScheduleTest, Operations_AnyTimingByRing_GiveTheSameResults) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    for (int size = 2; size <= 5; ++size) {
      PlayHistory(size, Algorithm::kRing, seed);
    }
  }
}

TEST(CollectiveScheduleTest, Operations_AnyTimingByTree_GiveTheSameResults) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    for (int size = 2; size <= 5; ++size) {
      PlayHistory(size, Algorithm::kTree, seed);
    }
  }
}

// Rings that are not fully connected.
TEST(CollectiveScheduleTest,
     Operations_AnyTimingInLargeRings_GiveTheSameResults) {
  for (const int size : {17, 18, 24, 33}) {
    for (uint32_t seed = 0; seed < 3; ++seed) {
      PlayHistory(size, Algorithm::kAuto, seed);
    }
    PlayHistory(size, Algorithm::kRing, 3);
    PlayHistory(size, Algorithm::kTree, 4);
  }
}

// Without links between all, the root of a broadcast has heard from every rank
// before it sends, and a waiting rank has the number of the rank that it waits
// for.
TEST(CollectiveScheduleTest, Broadcast_InALargeRing_WaitsForTheLastRank) {
  constexpr int kSize = 33;
  for (const int root : {0, 5, 32}) {
    for (const int last : {1, 12, 31}) {
      Network network(kSize, Algorithm::kAuto, WireDtype::kFloat32, 1);
      std::vector<uint8_t> data(kSize, 7);
      const auto start = [&](int r) {
        Call call{FrameType::kBroadcast, &data[r], 1, root};
        ASSERT_OK(network.Start(r, call));
      };
      for (int r = 0; r < kSize; ++r) {
        if (r != last) start(r);
      }
      bool moved = true;
      while (moved) ASSERT_OK(network.Step(&moved));
      for (int r = 0; r < kSize; ++r) {
        ASSERT_EQ(network.rank(r)->completed(), 0u);
        if (r == last) continue;
        int at = r;
        for (int hops = 0; at != last && hops < kSize; ++hops) {
          at = network.rank(at)->waiting_on();
          ASSERT_GE(at, 0);
        }
        EXPECT_EQ(at, last);
      }
      start(last);
      for (moved = true; moved;) ASSERT_OK(network.Step(&moved));
      for (int r = 0; r < kSize; ++r) {
        EXPECT_EQ(network.rank(r)->completed(), 1u);
      }
    }
  }
}

// A worker is killed after it has begun the first operation, and is started
// again before the ring of the other ranks has formed. The frames of its first
// process are dropped.
TEST(CollectiveScheduleTest, Frames_OfAReplacedProcess_AreDropped) {
  for (int size = 2; size <= 5; ++size) {
    for (int replaced = 0; replaced < size; ++replaced) {
      Network network(size, Algorithm::kAuto, WireDtype::kFloat32, 1);
      bool moved = true;
      Call barrier;
      ASSERT_OK(network.Start(replaced, barrier));
      while (moved) ASSERT_OK(network.Step(&moved));
      network.Replace(replaced);
      std::vector<float> data(size);
      for (int n = 0; n < 20; ++n) {
        for (int r = 0; r < size; ++r) {
          Call call;
          if (n % 2 == 1) {
            data[r] = 1;
            SwapToLittle(&data[r], sizeof(float), 1);
            call.type = FrameType::kAllReduce;
            call.data = reinterpret_cast<uint8_t*>(&data[r]);
            call.bytes = sizeof(float);
          }
          ASSERT_OK(network.Start(r, call));
        }
        for (moved = true; moved;) {
          ASSERT_OK(network.Step(&moved));
        }
        for (int r = 0; r < size; ++r) {
          ASSERT_EQ(network.rank(r)->completed(), static_cast<uint64_t>(n + 1));
          if (n % 2 == 0) continue;
          SwapToLittle(&data[r], sizeof(float), 1);
          ASSERT_EQ(data[r], size);
        }
      }
    }
  }
}

// A wire that swallows everything.
class Void final : public CollectiveSchedule::Wire {
 public:
  bool HasRoom(int) const override { return true; }
  void RequestRoomEvent(int) override {}
  void Send(int, const FrameHeader&, const uint8_t*, bool) override {}
};

FrameHeader DataFrame(uint64_t sequence, uint32_t bytes, uint64_t total) {
  FrameHeader header;
  header.type = FrameType::kAllReduce;
  header.sequence = sequence;
  header.payload_bytes = bytes;
  header.total = total;
  return header;
}

TEST(CollectiveScheduleTest,
     Operations_AnyTimingInHalfPrecision_GiveTheSameResults) {
  for (const WireDtype dtype : {WireDtype::kBfloat16, WireDtype::kFloat16}) {
    for (int size = 1; size <= 5; ++size) {
      for (uint32_t seed = 0; seed < 6; ++seed) {
        PlayHistory(size, Algorithm::kAuto, seed, dtype);
        PlayHistory(size, Algorithm::kRing, seed, dtype);
      }
    }
  }
}

// The bytes of data that one all-reduce has on the wire.
uint64_t MovedBytes(int size, size_t count, WireDtype dtype) {
  Network network(size, Algorithm::kAuto, dtype, 1);
  std::vector<Data> data(size, Data(count, 1));
  for (int r = 0; r < size; ++r) {
    // Numbers travel in little-endian order.
    SwapToLittle(data[r].data(), sizeof(float), count);
    Call call;
    call.type = FrameType::kAllReduce;
    call.data = reinterpret_cast<uint8_t*>(data[r].data());
    call.bytes = count * sizeof(float);
    EXPECT_OK(network.Start(r, call));
  }
  bool moved = true;
  while (moved) EXPECT_OK(network.Step(&moved));
  for (int r = 0; r < size; ++r) {
    SwapToLittle(data[r].data(), sizeof(float), count);
    EXPECT_EQ(data[r], Data(count, static_cast<float>(size)));
  }
  return network.payload_bytes();
}

TEST(CollectiveScheduleTest,
     AllReduce_LongVectorInHalfPrecision_SendsHalfTheBytes) {
  for (int size = 2; size <= 5; ++size) {
    // Bytes of all ranks, per element.
    const uint64_t ring = 2 * (size - 1) * 4;
    EXPECT_EQ(MovedBytes(size, 100001, WireDtype::kFloat32), ring * 100001);
    EXPECT_EQ(MovedBytes(size, 100001, WireDtype::kBfloat16),
              ring * 100001 / 2);
    EXPECT_EQ(MovedBytes(size, 100001, WireDtype::kFloat16), ring * 100001 / 2);
    EXPECT_EQ(MovedBytes(size, 2048, WireDtype::kFloat16),
              MovedBytes(size, 2048, WireDtype::kFloat32));
  }
}

TEST(CollectiveScheduleTest, Frames_NotExpected_AreRejected) {
  Void wire;
  CollectiveSchedule rank(0, 2, Algorithm::kAuto, WireDtype::kFloat32, &wire);
  ReceiveTarget receive_target;
  const auto code = [&](const FrameHeader& header) {
    return rank.OnHeader(1, header, &receive_target).code();
  };
  EXPECT_EQ(code(DataFrame(0, 4, 4)), Code::kCorruption);    // too early
  EXPECT_EQ(code(DataFrame(100, 4, 4)), Code::kCorruption);  // far ahead
  EXPECT_EQ(code(DataFrame(1, kEagerBytes + 4, 100000)),
            Code::kCorruption);  // long, and no place was offered
  FrameHeader ready = DataFrame(1, 0, 4);
  ready.type = FrameType::kReady;
  ready.chunk = 99;
  EXPECT_EQ(code(ready), Code::kCorruption);

  std::vector<float> v(100000);
  rank.Start({FrameType::kAllReduce, reinterpret_cast<uint8_t*>(v.data()),
              v.size() * sizeof(float), 0});
  ASSERT_OK(rank.Progress());
  FrameHeader good = DataFrame(1, kSegmentBytes, v.size() * sizeof(float));
  EXPECT_EQ(code(good), Code::kOk);
  FrameHeader bad = good;
  bad.payload_bytes -= 4;
  EXPECT_EQ(code(bad), Code::kCorruption);
  bad = good;
  bad.chunk = 1;
  EXPECT_EQ(code(bad), Code::kCorruption);
  bad = good;
  bad.total += 4;
  EXPECT_EQ(code(bad), Code::kInvalidArgument);
}

TEST(CollectiveScheduleTest, Header_SecondFrameBeforeTheOperation_IsRejected) {
  Void wire;
  CollectiveSchedule rank(0, 2, Algorithm::kAuto, WireDtype::kFloat32, &wire);
  ReceiveTarget receive_target;
  const uint8_t payload[4] = {};
  ASSERT_OK(rank.OnHeader(1, DataFrame(1, 4, 4), &receive_target));
  ASSERT_OK(rank.OnFrame(1, DataFrame(1, 4, 4), payload));
  EXPECT_FALSE(rank.OnHeader(1, DataFrame(1, 4, 4), &receive_target).ok());
}

// The operation begins between the header and the end of a peer's first frame;
// the peer receives kReady, and its second frame arrives in the same read.
TEST(CollectiveScheduleTest,
     Start_InTheMiddleOfAPeersFrame_CompletesWithTheSum) {
  Void wire;
  CollectiveSchedule rank(0, 2, Algorithm::kTree, WireDtype::kFloat32, &wire);
  constexpr size_t kCount = kEagerBytes / sizeof(float);
  std::vector<float> mine(2 * kCount, 1), theirs(kCount, 2);
  const size_t total = mine.size() * sizeof(float);
  SwapToLittle(mine.data(), sizeof(float), mine.size());
  SwapToLittle(theirs.data(), sizeof(float), theirs.size());
  ReceiveTarget receive_target;
  FrameHeader first = DataFrame(1, kEagerBytes, total);
  ASSERT_OK(rank.OnHeader(1, first, &receive_target));
  EXPECT_EQ(receive_target.mode, ReceiveTarget::kBuffer);
  rank.Start({FrameType::kAllReduce, reinterpret_cast<uint8_t*>(mine.data()),
              total, 0});
  ASSERT_OK(rank.Progress());
  const uint8_t* payload = reinterpret_cast<const uint8_t*>(theirs.data());
  ASSERT_OK(rank.OnFrame(1, first, payload));
  FrameHeader second = first;
  second.chunk = 1;
  ASSERT_OK(rank.OnHeader(1, second, &receive_target));
  EXPECT_EQ(receive_target.mode,
            ReceiveTarget::kBuffer);  // this rank sends its own second first
  ASSERT_OK(rank.OnFrame(1, second, payload));
  ASSERT_OK(rank.Progress());
  EXPECT_EQ(rank.completed(), 1u);
  SwapToLittle(mine.data(), sizeof(float), mine.size());
  EXPECT_EQ(mine, Data(mine.size(), 3));
}

TEST(CollectiveScheduleTest,
     Frame_OtherCallStartedInItsMiddle_IsInvalidArgument) {
  Void wire;
  CollectiveSchedule rank(0, 2, Algorithm::kAuto, WireDtype::kFloat32, &wire);
  std::vector<float> mine(4), theirs(4);
  ReceiveTarget receive_target;
  FrameHeader other = DataFrame(1, 16, 16);
  other.type = FrameType::kAllGather;
  ASSERT_OK(rank.OnHeader(1, other, &receive_target));
  rank.Start(
      {FrameType::kAllReduce, reinterpret_cast<uint8_t*>(mine.data()), 16, 0});
  ASSERT_OK(rank.Progress());
  const Status status =
      rank.OnFrame(1, other, reinterpret_cast<const uint8_t*>(theirs.data()));
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
}

}  // namespace
}  // namespace ringlet
