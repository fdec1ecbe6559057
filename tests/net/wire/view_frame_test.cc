#include "net/wire/view_frame.h"
#include "../../support/expect_ok.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringlet {
namespace {

ViewFrame Example(ViewMessage word) {
  ViewFrame frame;
  frame.message = word;
  frame.workers = 0x0106;
  frame.generation = ViewGeneration(0x0203, 2);
  return frame;
}

std::vector<uint8_t> Bytes(const ViewFrame& frame, int size = 9) {
  std::vector<uint8_t> out(kViewBytes);
  EncodeView(frame, out.data());
  out.resize(ViewBytes(size));
  return out;
}

bool Decodes(const std::vector<uint8_t>& bytes, int size, int sender) {
  ViewFrame back;
  return DecodeView(bytes.data(), bytes.size(), size, sender, &back).ok();
}

TEST(ViewTest, Encode_ViewFrame_HasTheFixedBytes) {
  EXPECT_EQ(Bytes(Example(ViewMessage::kPropose)),
            (std::vector<uint8_t>{2, 0, 6, 1, 0x32, 0x20, 0, 0}));
  ViewFrame hears = Example(ViewMessage::kHears);
  hears.generation = 0;
  hears.waited_enough = true;
  EXPECT_EQ(Bytes(hears), (std::vector<uint8_t>{1, 1, 6, 1, 0, 0, 0, 0}));
  hears.acknowledges = true;
  EXPECT_EQ(Bytes(hears), (std::vector<uint8_t>{1, 3, 6, 1, 0, 0, 0, 0}));
}

TEST(ViewTest, Decode_EncodedViewFrame_GivesTheSameFrame) {
  for (const ViewMessage word :
       {ViewMessage::kHears, ViewMessage::kPropose, ViewMessage::kAck,
        ViewMessage::kStart, ViewMessage::kRuns}) {
    const std::vector<uint8_t> bytes = Bytes(Example(word));
    ViewFrame back;
    ASSERT_OK(DecodeView(bytes.data(), bytes.size(), 9, 2, &back));
    EXPECT_EQ(Bytes(back), bytes);
    EXPECT_EQ(ViewProposer(back.generation), 2);
    EXPECT_EQ(ViewCount(back.generation), 0x0203u);
  }
}

// A list of 17 to 64 workers has bits and proposers that a list of 16 lacks.
TEST(ViewTest, Encode_LargeList_HasMoreBits) {
  ViewFrame frame;
  frame.message = ViewMessage::kStart;
  frame.workers = 0xa6b5948372615043;
  frame.generation = ViewGeneration(kGreatestViewCount, 63);
  const std::vector<uint8_t> bytes = Bytes(frame, 64);
  EXPECT_EQ(bytes, (std::vector<uint8_t>{4, 0, 0x43, 0x50, 0x0f, 0, 0, 0xe0,
                                         0x61, 0x72, 0x83, 0x94, 0xb5, 0xa6}));
  ViewFrame back;
  ASSERT_OK(DecodeView(bytes.data(), bytes.size(), 64, 63, &back));
  EXPECT_EQ(back.workers, frame.workers);
  EXPECT_EQ(back.generation, frame.generation);
  EXPECT_FALSE(Decodes(bytes, 63, 62));  // a worker beyond the list
  EXPECT_FALSE(Decodes(bytes, 65, 63));  // no elastic ring is so large
  EXPECT_FALSE(Decodes(bytes, 64, 62));  // not the proposer
  EXPECT_FALSE(Decodes(bytes, 16, 15));
  for (const int proposer : {0, 15, 16, 31, 47, 63}) {
    for (const uint32_t count : {1u, 77u, kGreatestViewCount}) {
      const uint32_t generation = ViewGeneration(count, proposer);
      EXPECT_EQ(ViewProposer(generation), proposer);
      EXPECT_EQ(ViewCount(generation), count);
    }
  }
  EXPECT_EQ(AllWorkersMask(1), 1u);
  EXPECT_EQ(AllWorkersMask(64), ~uint64_t{0});
}

TEST(ViewTest, Decode_WrongViewFrame_IsRejectedAndReadsNothingBeyond) {
  const std::vector<uint8_t> good = Bytes(Example(ViewMessage::kStart));
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(
        Decodes({good.begin(), good.begin() + static_cast<long>(n)}, 9, 2));
  }
  EXPECT_TRUE(Decodes(good, 9, 2));
  EXPECT_TRUE(Decodes(good, 16, 2));
  EXPECT_FALSE(Decodes(good, 8, 2));   // a worker beyond the list
  EXPECT_FALSE(Decodes(good, 17, 2));  // a list of 17 needs more bytes
  EXPECT_FALSE(Decodes(good, 9, 1));   // not the proposer
  EXPECT_TRUE(Decodes(Bytes(Example(ViewMessage::kAck)), 9, 1));
  EXPECT_FALSE(Decodes(Bytes(Example(ViewMessage::kAck)), 9, 3));  // no member
  for (const size_t at : {size_t{0}, size_t{1}}) {
    std::vector<uint8_t> bad = good;
    bad[at] = 1;  // a generation of its own, or flags, where none may be
    EXPECT_EQ(Decodes(bad, 9, 2), at == 0);
    bad[at] = 6;
    EXPECT_FALSE(Decodes(bad, 9, 2));
    bad[at] = static_cast<uint8_t>(-1);
    EXPECT_FALSE(Decodes(bad, 9, 2));
  }
  ViewFrame none = Example(ViewMessage::kRuns);
  none.generation = 0;
  EXPECT_FALSE(Decodes(Bytes(none), 9, 2));
  none.generation = ViewGeneration(kGreatestViewCount + 1, 2);
  EXPECT_FALSE(Decodes(Bytes(none), 9, 2));
}

}  // namespace
}  // namespace ringlet
