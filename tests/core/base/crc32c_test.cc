#include "core/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace ringlet {
namespace {

TEST(Crc32cTest, Crc32c_Rfc3720Vectors_EqualTheKnownAnswers) {
  // RFC 3720, appendix B.4.
  EXPECT_EQ(Crc32c("123456789", 9), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0').data(), 32), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff').data(), 32), 0x62A8AB43u);
  EXPECT_EQ(Crc32c("", 0), 0u);
}

TEST(Crc32cTest, Crc32c_AnyLengthAlignmentAndCut_EqualsThePortableOne) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) bytes += static_cast<char>(i * 37 + i / 7);
  for (size_t from = 0; from < 9; ++from) {
    for (size_t n = 0; n < 130; ++n) {
      const uint32_t whole = PortableCrc32c(bytes.data() + from, n);
      ASSERT_EQ(Crc32c(bytes.data() + from, n), whole);
      const size_t cut = n / 3;
      const uint32_t head = Crc32c(bytes.data() + from, cut);
      ASSERT_EQ(Crc32c(bytes.data() + from + cut, n - cut, head), whole);
    }
  }
}

TEST(Crc32cTest, Crc32c_LengthsAroundWholeBlocks_EqualsThePortableOne) {
  std::string bytes;
  for (int i = 0; i < 10000; ++i) bytes += static_cast<char>(i * 37 + i / 7);
  for (size_t n : {255, 256, 511, 512, 513, 767, 768, 1023, 3071, 3072, 3073,
                   6143, 6144, 6151, 9216, 9999}) {
    ASSERT_EQ(Crc32c(bytes.data() + 1, n, 12345),
              PortableCrc32c(bytes.data() + 1, n, 12345))
        << n;
  }
}

}  // namespace
}  // namespace ringlet
