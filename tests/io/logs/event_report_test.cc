// The report on the event logs of a job.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/fake_clock.h"
#include "core/base/events.h"
#include "io/logs/event_report.h"
#include "io/logs/event_words.h"

namespace ringlet {
namespace {

TEST(EventTimes, AnyTime_Written_ReadsBack) {
  char text[kTimeBytes];
  WriteTime(1700000000000000000, text);
  EXPECT_STREQ(text, "2023-11-14T22:13:20.000Z");
  WriteTime(0, text);
  EXPECT_STREQ(text, "1970-01-01T00:00:00.000Z");
  WriteTime(1709164800123456789, text);
  EXPECT_STREQ(text, "2024-02-29T00:00:00.123Z");
  WriteTime(INT64_MAX, text);
  EXPECT_STREQ(text, "2262-04-11T23:47:16.854Z");
  WriteTime(INT64_MIN, text);
  EXPECT_STREQ(text, "1970-01-01T00:00:00.000Z");
  int64_t wall = 0;
  for (int64_t day = 0; day < 100000; day += 17) {
    const int64_t millis = day * 86400000 + day * 12345 % 86400000;
    WriteTime(millis * 1000000, text);
    ASSERT_TRUE(ParseTime(text, &wall)) << text;
    ASSERT_EQ(wall, millis * 1000000) << text;
  }
  for (const char* wrong :
       {"", "2023-11-14 22:13:20.000Z", "2023-00-14T22:13:20.000Z",
        "9999-11-14T22:13:20.000Z", "2023-11-14T22:13:20.000",
        "x023-11-14T22:13:20.000Z"}) {
    EXPECT_FALSE(ParseTime(wrong, &wall)) << wrong;
  }
}

class EventReportTest : public testing::Test {
 protected:
  EventReportTest() : logs_(3) {
    for (int w = 0; w < 3; ++w) Start(w);
  }
  void Start(int worker, int workers = 3) {
    Record(worker, Event("start").Int("workers", workers));
  }
  void Record(int worker, const Event& event) {
    char line[kMaxEventLine];
    const auto w = static_cast<size_t>(worker);
    if (w >= logs_.size()) logs_.resize(w + 1);
    logs_[w].append(line, MakeEventLine(clock_.wall, clock_.monotonic, worker,
                                        event.fields().data(),
                                        event.fields().size(), line));
    clock_.Advance(0.001);
  }
  static Event Loss(int step, int lost, const char* reason, int waited = -1) {
    Event event("loss");
    event.Int("view", 1).Int("step", step).Workers("lost", {lost});
    event.Text("reason", reason).Worker("waiting_for", waited);
    return event.Seconds("waited_seconds", 2000000000).Int("operation", 53);
  }
  static Event Reported(int step, int lost, const char* reason, int waited,
                        int reporter) {
    return Loss(step, lost, reason, waited).Worker("reported_by", reporter);
  }
  static Event View() { return Event("view").Int("view", 1).Int("step", 0); }
  static Event Fit(int step = 0) { return Event("fit").Int("step", step); }
  static Event Steps(int step) { return Event("steps").Int("last_step", step); }
  static Event Wait(int step, int peer, int last = -1) {
    Event event("wait");
    event.Int("step", step).Worker("for", peer).Worker("last", last);
    return event.Seconds("waited_seconds", 2000000000);
  }
  std::string ReportText() const {
    std::vector<EventLogContent> logs;
    for (const std::string& log : logs_) logs.push_back(ParseEventLog(log));
    return DescribeEventLogs(logs);
  }
  void ExpectReport(const std::string& part) const {
    EXPECT_TRUE(Contains(ReportText(), part));
  }

  FakeClock clock_;
  std::vector<std::string> logs_;
};

TEST_F(EventReportTest, Loss_OneWorker_ReportNamesTheWaiters) {
  for (int w = 0; w < 3; ++w) {
    Record(w, View());
    Record(w, Fit());
  }
  Record(1, Steps(15));
  Record(2, Loss(17, 1, "silent for 2.00 s", 1));
  Record(0, Reported(17, 1, "rank 1 was lost", 2, 2));
  Record(0,
         Event("end").Int("exit_code", 75).Text("reason", "rank 1 was lost"));
  ExpectReport(
      "in step 17 worker 1 was lost: silent for 2.00 s; worker 2 waited "
      "for worker 1, for 2.00 s (operation 53); worker 0 waited for "
      "worker 2, for 2.00 s (operation 53)\n");
  ExpectReport("ended with exit code 75 in step 17: rank 1 was lost\n");
  ExpectReport("its log ends here, after step 15: it was killed");
}

TEST_F(EventReportTest, GivingUp_OneWorker_IsTheCause) {
  Record(0, Reported(3, 1, "rank 1 failed: no room", 1, 1));
  Record(1, Event("abort").Int("view", 1).Int("step", 3).Text("reason",
                                                              "no room"));
  ExpectReport(
      "in step 3 worker 1 ended: no room; worker 0 waited for worker 1");
}

// Each start counts its views from 1.
TEST_F(EventReportTest, Restart_SameJob_IsAnotherIncident) {
  for (int w = 0; w < 3; ++w) Record(w, View());
  Record(2, Loss(17, 1, "exited", 1));
  Record(0, Reported(17, 1, "rank 1 was lost", 2, 2));
  clock_.Advance(5);
  for (int w = 0; w < 3; ++w) Start(w);
  for (int w = 0; w < 3; ++w) Record(w, View());
  // The first incident has no record of worker 1.
  Record(1, Loss(5, 2, "silent for 2.00 s", 2));
  Record(0, Reported(5, 2, "rank 2 was lost", 2, 1));
  ExpectReport(
      "in step 17 worker 1 was lost: exited; worker 2 waited for worker "
      "1, for 2.00 s (operation 53); worker 0 waited for worker 2, for "
      "2.00 s (operation 53)\n");
  ExpectReport(
      "in step 5 worker 2 was lost: silent for 2.00 s; worker 1 waited "
      "for worker 2, for 2.00 s (operation 53); worker 0 waited for "
      "worker 2, for 2.00 s (operation 53)\n");
}

TEST_F(EventReportTest, Losses_OfTwoViewsOfOneProcess_AreTwoIncidents) {
  Record(0, View());
  Record(0, Loss(8, 1, "exited"));
  Record(0, View());
  // The replicas of the same view.
  Record(0, Event("view").Text("replicas", "any"));
  Record(0, Loss(9, 2, "silent"));
  ExpectReport("in step 8 worker 1 was lost: exited; worker 0 computed\n");
  ExpectReport("in step 9 worker 2 was lost: silent; worker 0 computed\n");
}

TEST_F(EventReportTest, Losses_SplitNetwork_AreReportedFromBothSides) {
  Record(1, Loss(3, 0, "silent for 2.00 s"));
  Record(0, Loss(3, 1, "silent for 2.01 s"));
  ExpectReport(
      "in step 3 worker 1 says that worker 0 was lost: silent for 2.00 "
      "s; worker 0 says that worker 1 was lost: silent for 2.01 s; "
      "worker 1 computed; worker 0 computed\n");
}

TEST_F(EventReportTest, Losses_WorkerWasSelfStalled_ReportsItself) {
  Record(1, Loss(3, 1, "held up for 7.00 s"));
  ExpectReport("in step 3 worker 1 was cut off: held up for 7.00 s\n");
}

TEST_F(EventReportTest, EndedView_Report_HasTheTime) {
  Record(0, Fit());
  Record(0, Wait(9, 1));
  Record(0, Loss(9, 1, "exited", 1));
  ExpectReport("its log ends here, in step 9, in no view since ");
  Record(0, View());
  Record(0, Fit(8));
  ExpectReport("its log ends here, after step 8: ");
}

TEST_F(EventReportTest, End_NoStepRecorded_ReportsHowFarItCame) {
  ExpectReport("its log ends here, before the first step: ");
  Record(0, Fit());
  ExpectReport("its log ends here, in its first second of training: ");
  Record(0, Event("check").Int("step", 100));
  ExpectReport("its log ends here, after step 100: ");
}

TEST_F(EventReportTest, End_StillWaiting_NamesTheWorkerWaitedFor) {
  Record(0, Steps(8));
  Record(0, Wait(9, 1, 2));
  Record(2, Steps(8));
  ExpectReport("in step 9, waiting for worker 1 since ");
  ExpectReport(", which waited in turn, at last for worker 2: it was");
  ExpectReport("after step 8: it was");
  Record(0, Event("waited").Int("step", 9).Worker("for", 1));
  EXPECT_FALSE(Contains(ReportText(), "waiting for"));
}

TEST_F(EventReportTest, End_AfterASignal_ReportsIt) {
  Record(0, Event("signal").Int("signal", 15));
  ExpectReport("; signal 15 came at 2023-11-14 22:13:20.003");
}

// A board without a battery gets the time from a server after its start.
TEST_F(EventReportTest, Times_ClockIsSetLater_AreRightBeforeItToo) {
  const int64_t right = clock_.wall + 10 * 1000000;
  clock_.wall = 1000000000;
  Record(0, Loss(1, 1, "exited"));
  clock_.Advance(0.009);
  clock_.wall = right;
  Record(0, Steps(64));
  ExpectReport("2023-11-14 22:13:20.003  in step 1 worker 1 was lost");
  ExpectReport("2023-11-14 22:13:20.013  its log ends here, after step 64");
}

TEST_F(EventReportTest, Report_MissingLogsAndOtherJobs_ErrorNamesThem) {
  EXPECT_FALSE(Contains(ReportText(), "no log of"));
  EXPECT_FALSE(Contains(ReportText(), "of a job of"));
  Start(4, 5);
  clock_.Advance(5);
  Start(3, 20);
  logs_ = {logs_[1], logs_[4], logs_[3]};
  ExpectReport(
      "worker 4's log is of a job of 5 workers, and the newest, worker "
      "3's, of 20\n");
  ExpectReport(
      "there is no log of worker 0, worker 2, worker 5, worker 6, "
      "worker 7, worker 8, worker 9, worker 10 and 9 more\n");
}

TEST_F(EventReportTest, Report_ManyProcessesAndRotation_CountsWhatIsLeftOut) {
  for (int i = 0; i < 10; ++i) Start(0);
  ExpectReport("the last 4 of 11 processes:\n");
  EXPECT_FALSE(Contains(ReportText(), "no longer in the log"));
  logs_[0].clear();
  Record(0, Event("start")
                .Int("workers", 3)
                .Add("continued", JsonWriter().Bool(true)));
  ExpectReport(
      "its events before 2023-11-14 22:13:20.013 are no longer in the log\n");
}

TEST_F(EventReportTest, Refused_SeveralTimes_TheLastOfEachWorkerIsNamed) {
  for (const char* reason : {"earlier", "other options"}) {
    Record(0, Event("refused").Worker("refused", 2).Text("reason", reason));
    Record(0, Event("refused").Text("reason", "not a key"));
  }
  Record(0, Event("refused_by").Worker("of", 2).Text("reason", "its options"));
  ExpectReport("  refused a connection: not a key\n");
  ExpectReport("  worker 2 refused this worker: its options\n");
  ExpectReport("  refused worker 2: other options\n");
  EXPECT_FALSE(Contains(ReportText(), "earlier"));
}

// A file may hold any numbers; sanitizers report an overflow.
TEST_F(EventReportTest, Report_AnyNumbers_DoNotOverflow) {
  for (const char* seconds : {"1e300", "-1e300", "9e9", "-9e9", "1e999"}) {
    for (const char* event : {"loss", "wait", "start", "end", "signal"}) {
      logs_[0] += std::string("{\"time\":\"2261-12-31T23:59:59.999Z\",") +
                  "\"seconds\":" + seconds + ",\"event\":\"" + event +
                  "\",\"lost\":[\"-7\"],\"for\":7,\"step\":1e30,\"waited_"
                  "seconds\":" +
                  seconds + ",\"exit_code\":1e12,\"workers\":-5}\n";
    }
  }
  logs_[1] = logs_[0];
  ExpectReport("an unknown worker was lost");
  EXPECT_FALSE(Contains(ReportText(), "worker -1"));
}

TEST_F(EventReportTest, Parse_DamagedLines_AreSkippedAndCounted) {
  for (int i = 1; i <= 10; ++i) Record(0, Steps(i));
  const std::string whole = logs_[0];
  for (size_t bytes = 0; bytes <= whole.size(); bytes += 7) {
    const EventLogContent log = ParseEventLog(whole.substr(0, bytes));
    EXPECT_LE(log.damaged, 1) << bytes;
    EXPECT_FALSE(DescribeEventLogs({log}).empty());
  }
  logs_[0] += "{\"time\":\"2023-11-14T22:13:2\n\n[1]\n" +
              std::string(100000, '[') + "\n{\"a\":{}}\n\"x\"\n" + '\0' + "\n";
  Record(0, Steps(11));
  ExpectReport("after step 11: ");
  ExpectReport("  6 damaged lines are skipped\n");
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string wild = whole;
    for (char& c : wild) {
      if (random() % 40 == 0) c = static_cast<char>(random());
    }
    logs_[0] = logs_[1] = wild;
    EXPECT_FALSE(ReportText().empty());
  }
}

TEST(EventTest, Fields_AnyText_AreValidAndBounded) {
  Event event("warning");
  event.Text("text", std::string("a\"b\\\n\x80\xff\0c\xC3\xA4", 11));
  EXPECT_EQ(event.fields(),
            "\"event\":\"warning\",\"text\":\"a\\\"b\\\\\\u000a???c\xC3\xA4\"");
  Event large("save");
  for (int i = 0; i < 10; ++i) large.Text("file", std::string(5000, 'x'));
  EXPECT_LE(large.fields().size(), Event::kMaxBytes);
  EXPECT_EQ(CountOccurrences(large.fields(), "file"), 3);
  large.Workers("members", std::vector<int>(2000, 17));  // no room
  EXPECT_FALSE(Contains(large.fields(), "members"));
}

}  // namespace
}  // namespace ringlet
