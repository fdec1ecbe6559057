#include "net/wire/formation_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringlet {
namespace {

FormationReport Example(bool lowered) {
  FormationReport report;
  report.level = 5;
  report.missing = 17;
  report.generation = 0x01020304;
  report.lowered = lowered;
  if (lowered) report.why = {Code::kPeerLost, 3, -1, "rank 3 was lost"};
  return report;
}

TEST(FormationReportTest, Encode_FormationReport_HasTheFixedBytes) {
  std::vector<uint8_t> bytes = {5, 0, 17, 0, 4, 3, 2, 1};
  EXPECT_EQ(EncodeFormationReport(Example(false)), bytes);
  bytes.insert(bytes.end(),
               {static_cast<uint8_t>(Code::kPeerLost), 0, 3, 0, 0xff, 0xff});
  for (const char c : std::string("rank 3 was lost")) {
    bytes.push_back(static_cast<uint8_t>(c));
  }
  EXPECT_EQ(EncodeFormationReport(Example(true)), bytes);
}

TEST(FormationReportTest, Decode_EncodedReport_GivesTheSameReport) {
  for (const bool lowered : {false, true}) {
    for (const int missing : {-1, 0, 17}) {
      FormationReport report = Example(lowered);
      report.missing = missing;
      const std::vector<uint8_t> bytes = EncodeFormationReport(report);
      FormationReport back;
      ASSERT_TRUE(
          DecodeFormationReport(bytes.data(), bytes.size(), 18, 2, &back).ok());
      EXPECT_EQ(EncodeFormationReport(back), bytes);
      EXPECT_EQ(back.missing, missing);
      EXPECT_EQ(back.why.worker, lowered ? 3 : -1);
    }
  }
}

TEST(FormationReportTest, Decode_WrongReport_IsRejectedAndReadsNothingBeyond) {
  const std::vector<uint8_t> good =
      EncodeFormationReport(Example(/*lowered=*/true));
  for (size_t n = 0; n <= good.size(); ++n) {
    const std::vector<uint8_t> cut(good.begin(),
                                   good.begin() + static_cast<long>(n));
    FormationReport back;
    EXPECT_EQ(DecodeFormationReport(cut.data(), n, 18, 2, &back).ok(), n >= 8)
        << n;
    EXPECT_EQ(back.lowered, n >= 14) << n;
  }
  FormationReport back;
  EXPECT_FALSE(
      DecodeFormationReport(good.data(), good.size(), 17, 2, &back).ok());
  std::vector<uint8_t> bad = good;
  bad[1] = 1;
  EXPECT_FALSE(
      DecodeFormationReport(bad.data(), bad.size(), 18, 2, &back).ok());
}

}  // namespace
}  // namespace ringlet
