#include "net/doctor/peer_checks.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "../../support/contains.h"

namespace ringlet {
namespace {

using Reach = PeerReport::Reach;

PeerContext Self() {
  PeerContext self;
  self.addresses = {"10.0.0.1:7000", "10.0.0.2:7001"};
  self.facts.version = "1.2.3";
  self.facts.arithmetic = "fused";
  self.facts.byte_order = "little";
  self.facts.settings_sum = 77;
  self.facts.packet_bytes = 1500;
  self.settings = "fit.epochs\t2\nfit.seed\t1\n";
  return self;
}

PeerReport Sound() {
  PeerReport report;
  report.reach = Reach::kDoctor;
  report.reaches_this = true;
  report.facts = EncodeFacts(Self().facts);
  report.settings = Self().settings;
  report.round_trip = 1000000;
  report.data_bytes = 1000000;
  report.data_nanos = 100000000;
  return report;
}

struct Expected {
  const char* check;
  Severity severity;
  const char *text, *fix;
};

void ExpectOne(const PeerContext& self, const PeerReport& report,
               const Expected& expected) {
  Findings found;
  CheckPeerReport(self, 1, report, &found);
  int faults = 0;
  for (const Finding& finding : found) {
    if (finding.severity == Severity::kOk) continue;
    ++faults;
    EXPECT_STREQ(finding.check, expected.check);
    EXPECT_EQ(finding.severity, expected.severity) << finding.text;
    EXPECT_EQ(finding.worker, 1);
    EXPECT_TRUE(Contains(finding.text, expected.text));
    EXPECT_TRUE(Contains(finding.text, "worker 1 (10.0.0.2:7001)"));
    EXPECT_TRUE(Contains(finding.fix, expected.fix));
  }
  EXPECT_EQ(faults, 1);
}

TEST(PeerChecksTest, SoundPeer_OneLineWithItsFigures) {
  Findings found;
  CheckPeerReport(Self(), 1, Sound(), &found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::kOk);
  EXPECT_TRUE(Contains(found[0].text, "1 ms there and back, 80 Mbit/s"));
}

TEST(PeerChecksTest, Job_IsReachedAndNotMeasured) {
  PeerReport report;
  report.reach = Reach::kJob;
  Findings found;
  CheckPeerReport(Self(), 1, report, &found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::kOk);
}

TEST(PeerChecksTest, Unreached_EachWay_HasItsFix) {
  PeerReport report;
  report.reason = "cannot connect: Connection refused";
  ExpectOne(Self(), report,
            {"reach", Severity::kError, "refused", "start 'ringlet doctor'"});
  report.reason = "no answer within 3 s";
  ExpectOne(Self(), report,
            {"reach", Severity::kError, "no answer", "TCP port 7001"});
  report.reaches_this = true;
  ExpectOne(Self(), report,
            {"reach", Severity::kError, "but it reaches this worker",
             "TCP port 7001"});
  report.reach = Reach::kSilent;
  ExpectOne(Self(), report,
            {"reach", Severity::kError, "does not answer", "another program"});
  report.reach = Reach::kForeign;
  report.reason = "that is SSH";
  ExpectOne(Self(), report,
            {"reach", Severity::kError, "that is SSH", "end that program"});
  report.reach = Reach::kSealed;
  ExpectOne(Self(), report, {"key", Severity::kError, "key", "sha256sum"});
  report.reach = Reach::kRefused;
  report.reason = "other workers";
  ExpectOne(Self(), report,
            {"list", Severity::kError, "other workers", "same version, list"});
  report.reason = "it has no key, and this worker has one";
  ExpectOne(Self(), report,
            {"key", Severity::kError, "no key", "RINGLET_KEY_FILE"});
}

TEST(PeerChecksTest, ReachedOneWay_NamesThisHostsFirewall) {
  PeerReport report = Sound();
  report.reaches_this = false;
  ExpectOne(Self(), report,
            {"reach", Severity::kError, "does not reach this worker",
             "TCP port 7000"});
  PeerContext beside_a_job = Self();
  beside_a_job.listens = false;
  Findings found;
  CheckPeerReport(beside_a_job, 1, report, &found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::kOk);
}

TEST(PeerChecksTest, LargeFramesLost_NamesBothMtus) {
  PeerReport report = Sound();
  report.stalled = true;
  ExpectOne(
      Self(), report,
      {"mtu", Severity::kError, "1500 here, 1500 there", "tcp_mtu_probing"});
}

TEST(PeerChecksTest, LatencyNearTheTimeout_Warns) {
  PeerReport report = Sound();
  report.round_trip = 1300000000;
  ExpectOne(Self(), report,
            {"link", Severity::kWarning, "1.3e+03 ms", "\"timeout\""});
}

TEST(PeerChecksTest, OtherFacts_EachHasItsFix) {
  const PeerContext self = Self();
  PeerReport report = Sound();
  WorkerFacts theirs = self.facts;
  theirs.version = "1.2.4";
  report.facts = EncodeFacts(theirs);
  ExpectOne(self, report,
            {"version", Severity::kError, "1.2.4", "same version"});
  theirs = self.facts;
  theirs.arithmetic = "unfused";
  report.facts = EncodeFacts(theirs);
  ExpectOne(
      self, report,
      {"arithmetic", Severity::kWarning, "unfused", "RINGLET_KERNELS=unfused"});
  PeerContext exact = self;
  exact.same_arithmetic = true;
  ExpectOne(
      exact, report,
      {"arithmetic", Severity::kError, "unfused", "RINGLET_KERNELS=unfused"});
  theirs = self.facts;
  theirs.byte_order = "big";  // swapped bytes are no error
  report.facts = EncodeFacts(theirs);
  Findings found;
  CheckPeerReport(self, 1, report, &found);
  EXPECT_EQ(found.size(), 1u);
  theirs = self.facts;
  theirs.settings_sum = 78;
  report.facts = EncodeFacts(theirs);
  report.settings = "fit.epochs\t2\nfit.seed\t9\n";
  ExpectOne(self, report,
            {"settings", Severity::kError, "fit.seed is 1 here and 9 there",
             "RUN.json"});
  report.settings.clear();
  ExpectOne(self, report,
            {"settings", Severity::kError, "another RUN.json", "RUN.json"});
}

TEST(PeerChecksTest, ClockFarAheadOrBehind_Warns) {
  PeerReport report = Sound();
  report.clock_ahead = 90000000000;
  ExpectOne(Self(), report,
            {"clock", Severity::kWarning, "90 s ahead of", "timedatectl"});
  report.clock_ahead = INT64_MIN;
  ExpectOne(Self(), report,
            {"clock", Severity::kWarning, "behind", "timedatectl"});
}

TEST(PeerChecksTest, FirstDifference_AnyTexts_NamesTheFirst) {
  EXPECT_EQ(FirstDifference("a\t1\n", "a\t1\n"), "");
  EXPECT_EQ(FirstDifference("a\t1\nb\t2\n", "a\t1\nb\t3\n"),
            "b is 2 here and 3 there");
  EXPECT_EQ(FirstDifference("a\t1\nb\t2\n", "a\t1\n"),
            "b here, where it has nothing");
  EXPECT_EQ(FirstDifference("", "\x01\t2\n"), "nothing here, where it has ?");
}

TEST(PeerChecksTest, HostileTexts_AreHandled) {
  std::mt19937 draw(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (unsigned n = draw() % 200; n > 0; --n) {
      const char* const pieces[] = {"\n",   "\t",       "version", "packet",
                                    "\xff", "settings", "9"};
      text += pieces[draw() % 7];
    }
    PeerReport report = Sound();
    report.facts = report.settings = text;
    Findings found;
    CheckPeerReport(Self(), 1, report, &found);
    for (const Finding& finding : found) {
      EXPECT_EQ(finding.text.find_first_of("\n\t\xff"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ringlet
