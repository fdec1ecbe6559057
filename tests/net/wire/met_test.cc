#include "net/wire/met.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringlet {
namespace {

Met Example(bool fell) {
  Met met;
  met.level = 5;
  met.missing = 17;
  met.generation = 0x01020304;
  met.fell = fell;
  if (fell) met.why = {Code::kPeerLost, 3, -1, "rank 3 was lost"};
  return met;
}

TEST(MetTest, BytesAreFixed) {
  std::vector<uint8_t> bytes = {5, 0, 17, 0, 4, 3, 2, 1};
  EXPECT_EQ(EncodeMet(Example(false)), bytes);
  bytes.insert(bytes.end(),
               {static_cast<uint8_t>(Code::kPeerLost), 0, 3, 0, 0xff, 0xff});
  for (const char c : std::string("rank 3 was lost")) {
    bytes.push_back(static_cast<uint8_t>(c));
  }
  EXPECT_EQ(EncodeMet(Example(true)), bytes);
}

TEST(MetTest, DecodesWhatItEncodes) {
  for (const bool fell : {false, true}) {
    for (const int missing : {-1, 0, 17}) {
      Met met = Example(fell);
      met.missing = missing;
      const std::vector<uint8_t> bytes = EncodeMet(met);
      Met back;
      ASSERT_TRUE(DecodeMet(bytes.data(), bytes.size(), 18, 2, &back).ok());
      EXPECT_EQ(EncodeMet(back), bytes);
      EXPECT_EQ(back.missing, missing);
      EXPECT_EQ(back.why.rank, fell ? 3 : -1);
    }
  }
}

TEST(MetTest, NonsenseIsRejectedAndNothingIsReadBeyond) {
  const std::vector<uint8_t> good = EncodeMet(Example(true));
  for (size_t n = 0; n <= good.size(); ++n) {
    const std::vector<uint8_t> cut(good.begin(),
                                   good.begin() + static_cast<long>(n));
    Met back;
    EXPECT_EQ(DecodeMet(cut.data(), n, 18, 2, &back).ok(), n >= 8) << n;
    EXPECT_EQ(back.fell, n >= 14) << n;
  }
  Met back;
  EXPECT_FALSE(DecodeMet(good.data(), good.size(), 17, 2, &back).ok());
  std::vector<uint8_t> bad = good;
  bad[1] = 1;
  EXPECT_FALSE(DecodeMet(bad.data(), bad.size(), 18, 2, &back).ok());
}

}  // namespace
}  // namespace ringlet
