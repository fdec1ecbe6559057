#include "net/membership/missing_peer_report.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/random_cases.h"
#include "core/base/time_units.h"
#include "net/transport/endpoint_list.h"

namespace ringlet {
namespace {

constexpr int64_t kTick = kSecond / 50;

std::vector<std::string> Addresses(int size) {
  std::vector<std::string> addresses;
  for (int r = 0; r < size; ++r) {
    addresses.push_back("10.0.0." + std::to_string(r) + ":7000");
  }
  return addresses;
}

TEST(MissingPeerReportTest,
     Due_RanksAreMissing_NamesThemAfterASecondAndThenEveryTen) {
  MissingPeerReport report(1, Addresses(3), 120);
  const int64_t begin = 5 * kSecond;
  report.Begin(begin);
  std::vector<double> at;
  std::string first;
  for (int64_t now = begin; now < begin + 35 * kSecond; now += kTick) {
    if (now == begin + 4 * kSecond) report.MarkConnected(2);
    if (now == begin + 4 * kSecond) report.SetReason(0, "cannot connect");
    const std::string line = report.DueLine(now);
    if (line.empty()) continue;
    if (first.empty()) first = line;
    at.push_back(static_cast<double>(now - begin) / 1e9);
  }
  EXPECT_EQ(at, (std::vector<double>{1, 11, 21, 31}));
  EXPECT_EQ(first,
            "worker 1 of 3 (10.0.0.1:7000) waits for worker 0 (10.0.0.0:7000), "
            "missing for 1 s: has not connected; worker 2 (10.0.0.2:7000), "
            "missing for 1 s: has not connected (it ends after 120 s)");
  EXPECT_EQ(report.MissingText(begin + 40 * kSecond),
            "worker 0 (10.0.0.0:7000), missing for 40 s: cannot connect");
  EXPECT_EQ(
      report.CompletionLine(begin + 41 * kSecond),
      "worker 1 of 3 (10.0.0.1:7000) has waited 41 s: all workers are present");
}

// A process that was stopped does not print the lines that it missed.
TEST(MissingPeerReportTest, Due_CalledLate_GivesOneLineAndKeepsTheSchedule) {
  MissingPeerReport report(0, Addresses(2), 120);
  report.Begin(0);
  EXPECT_NE(report.DueLine(47 * kSecond), "");
  EXPECT_EQ(report.DueLine(47 * kSecond + kTick), "");
  EXPECT_EQ(report.DueLine(51 * kSecond - 1), "");
  EXPECT_NE(report.DueLine(51 * kSecond), "");
}

TEST(MissingPeerReportTest, Complete_WithinASecond_PrintsNothing) {
  MissingPeerReport report(0, Addresses(2), 120);
  report.Begin(0);
  EXPECT_EQ(report.DueLine(kSecond - 1), "");
  EXPECT_EQ(report.CompletionLine(kSecond - 1), "");
}

TEST(MissingPeerReportTest, Missing_RankWasLost_CountsFromTheFirstLoss) {
  MissingPeerReport report(0, Addresses(3), 120);
  report.Begin(0);
  report.MarkConnected(1);
  report.MarkConnected(2);
  report.MarkMissing(1, 30 * kSecond);
  report.MarkMissing(1, 35 * kSecond);  // tried again
  report.SetReason(1, "it was connected and became silent");
  EXPECT_EQ(report.MissingText(40 * kSecond),
            "worker 1 (10.0.0.1:7000), missing for 10 s: it was connected and "
            "became silent");
}

TEST(MissingPeerReportTest, Due_ManyAreMissing_NamesTheFirst) {
  MissingPeerReport report(0, Addresses(1024), 120);
  report.Begin(0);
  const std::string line = report.DueLine(kSecond);
  EXPECT_LT(line.size(), 1000u);
  EXPECT_TRUE(Contains(line, "worker 8 ("));
  EXPECT_TRUE(Contains(line, "; and 11 more"));
}

TEST(MissingPeerReportTest, Missing_Several_NamesTheLongestFirst) {
  MissingPeerReport report(0, Addresses(16), 60);
  report.Begin(0);
  for (int r = 1; r < 15; ++r) {
    report.MarkConnected(r);
    report.MarkMissing(r, 60 * kSecond);
  }
  EXPECT_EQ(report.MissingText(60 * kSecond).find("worker 15 ("), 0u);
  EXPECT_TRUE(Contains(report.MissingText(60 * kSecond), "; and 7 more"));
}

// A rank with all its links waits for the reports of others.
// All give up at the deadline, the first a moment before the last.
TEST(MissingPeerReportTest, LargeRing_OneGivesUpFirst_HidesNoMissingRank) {
  MissingPeerReport report(0, Addresses(20), 60);
  report.Begin(0);
  for (int r = 1; r < 20; ++r) report.MarkConnected(r);
  report.SetMissedByOthers(11, kSecond);
  report.SetMissedByOthers(3, 60 * kSecond - kTick);  // which gave up before
  report.SetReason(2, "it was connected and aborted");
  report.MarkMissing(2, 60 * kSecond);
  report.SetMissedByOthers(2, 60 * kSecond);
  EXPECT_EQ(report.MissingText(60 * kSecond),
            "worker 2 (10.0.0.2:7000), missing for 0 s: it was connected and "
            "aborted; worker 11 (10.0.0.11:7000), which others missed before");
  report.MarkConnected(2);
  report.SetMissedByOthers(-1, 61 * kSecond);
  report.SetMissedByOthers(-1, 62 * kSecond);
  EXPECT_EQ(report.MissingText(60 * kSecond), "workers that others miss");
}

TEST(MissingPeerReportTest, Missing_LargeRing_NamesRanksThatOthersMiss) {
  MissingPeerReport report(0, Addresses(24), 120);
  report.Begin(0);
  for (int r = 1; r < 24; ++r) report.MarkConnected(r);
  EXPECT_EQ(report.MissingText(kSecond), "workers that others miss");
  report.SetMissedByOthers(11, kSecond);
  EXPECT_EQ(report.MissingText(kSecond),
            "worker 11 (10.0.0.11:7000), which others miss");
  report.MarkMissing(4, kSecond);
  EXPECT_EQ(report.MissingText(kSecond).find("worker 4 ("), 0u);
}

TEST(MissingPeerReportTest, Refusal_Same_IsReportedOnceAMinute) {
  MissingPeerReport report(0, Addresses(2), 120);
  report.Begin(0);
  EXPECT_EQ(report.RefusalLine("10.0.0.9:55000", "another list", kSecond),
            "warning: worker 0 of 2 (10.0.0.0:7000) refused a connection from "
            "10.0.0.9:55000: another list");
  // Each try comes from another port.
  for (int64_t now = kSecond; now < 60 * kSecond; now += kSecond) {
    EXPECT_EQ(report.RefusalLine("10.0.0.9:55001", "another list", now), "");
  }
  EXPECT_NE(report.RefusalLine("10.0.0.9:55002", "another list", 62 * kSecond),
            "");
  EXPECT_TRUE(Contains(report.MissingText(kSecond),
                       "; the last connection refused here, "
                       "from 10.0.0.9:55002: another list"));
  EXPECT_EQ(
      report.RefusedByLine(1, "another list", kSecond),
      "warning: worker 1 (10.0.0.1:7000) refused this worker, worker 0 of 2 "
      "(10.0.0.0:7000): another list");
}

TEST(MissingPeerReportTest, Refused_Quiet_IsRecordedAndNotPrinted) {
  MissingPeerReport report(0, Addresses(2), 120);
  report.Begin(0);
  EXPECT_EQ(report.RefusalLine("10.0.0.9:1", "not a ringlet frame", 0, true),
            "");
  EXPECT_TRUE(Contains(report.MissingText(0), "not a ringlet frame"));
}

// A stranger is refused for another reason each time. The lines are bounded in
// number and become rarer, and the number of suppressed lines is reported.
TEST(MissingPeerReportTest, Refused_Flood_IsAFewLines) {
  RandomCases cases("RINGLET_FLOOD", {}, /*part=*/1, /*share=*/0.1);
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    const auto seed = static_cast<unsigned>(cases.number());
    std::mt19937 random(seed);
    MissingPeerReport report(0, Addresses(2), 1e6);
    report.Begin(0);
    int64_t lines = 0, tried = 0, reported = 0;
    for (int64_t now = 0; now < 3600 * kSecond; now += 1 + random() % kTick) {
      ++tried;
      const std::string line =
          report.RefusalLine("x", "nonsense " + std::to_string(random()), now);
      if (line.empty()) continue;
      ++lines;
      const size_t at = line.find("(and ");
      reported +=
          1 + (at == std::string::npos ? 0 : std::stoll(line.substr(at + 5)));
    }
    EXPECT_GT(tried, 100000);
    EXPECT_LE(lines, 65) << seed;
    EXPECT_GE(lines, 5) << seed;
    EXPECT_LE(reported, tried);
    // The rest falls into the last window.
    EXPECT_GE(reported, tried / 2) << seed;
  }
}

TEST(MissingPeerReportTest, Due_FewerSuffice_PrintsHowMany) {
  MissingPeerReport report(0, {"a:1", "b:1", "c:1"}, 120, 2);
  report.Begin(0);
  EXPECT_TRUE(Contains(report.DueLine(MissingPeerReport::kFirst),
                       " (2 workers suffice, else it ends after 120 s)"));
}

// The pause grows with each attempt in vain, and no longer once it was reached.
TEST(EndpointListTest, Pause_AfterItWasReached_IsTheFirstAgain) {
  EndpointList endpoints;
  const auto pause = [&] {
    Endpoint endpoint;
    endpoints.SetEndpoints({Endpoint()});
    EXPECT_TRUE(endpoints.Next(&endpoint));
    endpoints.RecordFailure("connection refused", /*now=*/0);
    int64_t due = 0;
    while (!endpoints.IsDue(due)) due += kSecond / 1000;
    return due;
  };
  const int64_t first = pause();
  for (int i = 0; i < 9; ++i) pause();
  EXPECT_GT(pause(), 10 * first);
  endpoints.RecordSuccess();
  EXPECT_EQ(pause(), first);
}

}  // namespace
}  // namespace ringlet
