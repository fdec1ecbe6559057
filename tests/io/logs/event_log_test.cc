// The file of an event log, and the events of a fit.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/fake_clock.h"
#include "../../support/temp_folder.h"
#include "../../support/threads.h"
#include "../../support/tiny_model.h"
#include "core/base/events.h"
#include "io/logs/event_lines.h"
#include "io/logs/step_times.h"
#include "ringlet/loggers.h"
#include "ringlet/optimizers.h"

namespace ringlet {
namespace {

class EventLogTest : public testing::Test {
 protected:
  Status Open() {
    log_.reset();
    options_.path = Path();
    options_.run = "run.json";
    options_.worker = 2;
    options_.workers = 3;
    options_.address = "10.0.0.3:7000";
    return EventLog::Open(options_, &log_);
  }
  std::string Path() const { return folder_ / "m.events"; }
  EventLogContent Read() const { return ParseEventLog(ReadWhole(Path())); }
  static void RecordStep(int step) {
    RecordEvent(Event("steps").Int("last_step", step));
  }
  void ExpectRefused(Code code, const std::string& why) {
    const Status status = Open();
    EXPECT_EQ(status.code(), code);
    EXPECT_TRUE(Contains(status, why));
  }

  TempFolder folder_;
  FakeClock clock_;
  EventLogOptions options_;
  std::unique_ptr<EventLog> log_;
};

// Writes of this process beyond `bytes` of a file fail while it exists.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit low = before_;
    low.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  }
  ~FileLimit() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*const handler_)(int);
  rlimit before_;
};

TEST_F(EventLogTest, Event_Recorded_IsInTheFileImmediately) {
  RecordStep(1);  // there is no log
  options_.clock = &clock_;
  ASSERT_OK(Open());
  clock_.Advance(12.3456);
  errno = ENOENT;
  RecordEvent(Event("loss").Workers("lost", {1}).Int("step", 7));
  EXPECT_EQ(errno, ENOENT);
  const std::string text = ReadWhole(Path());
  const size_t second = text.find('\n') + 1;
  EXPECT_TRUE(
      Contains(text.substr(0, second),
               "{\"time\":\"2023-11-14T22:13:20.000Z\",\"seconds\":0.000,"
               "\"worker\":\"2\",\"event\":\"start\",\"version\":"));
  EXPECT_EQ(
      text.substr(second),
      "{\"time\":\"2023-11-14T22:13:32.345Z\",\"seconds\":12.345,"
      "\"worker\":\"2\",\"event\":\"loss\",\"lost\":[\"1\"],\"step\":7}\n");
  const EventLogContent content = Read();
  EXPECT_EQ(content.worker, 2);
  EXPECT_EQ(content.workers, 3);
  EXPECT_EQ(content.records[0].text, "10.0.0.3:7000");
  EXPECT_EQ(content.records[1].peer, 1);
}

TEST_F(EventLogTest, Open_LaterProcess_AppendsAndEndsAnIncompleteLine) {
  for (int process = 0; process < 3; ++process) {
    ASSERT_OK(Open());
    RecordStep(100 + process);
    log_->SetResult(process == 1 ? InvalidArgument("no room") : Status(),
                    process == 1 ? 2 : 0);
  }
  log_.reset();
  EventLogContent content = Read();
  ASSERT_EQ(content.records.size(), 9u);
  EXPECT_EQ(content.records[5].text, "no room");
  EXPECT_EQ(content.records[5].code, 2);
  const std::string whole = ReadWhole(Path());
  WriteWhole(Path(), whole.substr(0, whole.size() - 20));
  ASSERT_OK(Open());
  content = Read();
  EXPECT_EQ(content.damaged, 1);
  EXPECT_EQ(content.records.size(), 9u);
}

TEST_F(EventLogTest, Open_FileOfAnother_IsRefusedAndUnchanged) {
  ASSERT_OK(Open());
  std::unique_ptr<EventLog> second;
  EXPECT_EQ(EventLog::Open(options_, &second).code(), Code::kAlreadyExists);
  log_.reset();
  const int other = open(Path().c_str(), O_RDWR);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  ExpectRefused(Code::kUnavailable, "m.events: another process");
  close(other);
  WriteWhole(Path(), "a letter");
  ExpectRefused(Code::kInvalidArgument, "m.events: exists, and");
  EXPECT_EQ(ReadWhole(Path()), "a letter");
  std::filesystem::remove(Path());
  std::filesystem::create_symlink(folder_ / "elsewhere", Path());
  EXPECT_FALSE(Open().ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
  std::filesystem::remove(Path());
  ASSERT_EQ(mkfifo(Path().c_str(), 0600), 0);
  ExpectRefused(Code::kInvalidArgument, "m.events: exists, and");
}

TEST_F(EventLogTest, Open_NewFile_NoOtherUserReadsIt) {
  const mode_t before = umask(0);
  ASSERT_OK(Open());
  umask(before);
  struct stat info;
  ASSERT_EQ(stat(Path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(EventLogTest, Rotation_ManyEvents_KeepsTheNewestWithinTheLimit) {
  options_.max_bytes = 20000;
  ASSERT_OK(Open());
  for (int step = 1; step <= 1000; ++step) RecordStep(step);
  const std::string old = Path() + ".1";
  EXPECT_LE(std::filesystem::file_size(Path()), 10000u);
  EXPECT_LE(std::filesystem::file_size(old), 10000u);
  int64_t last = 0;
  for (const std::string& path : {old, Path()}) {
    const EventLogContent content = ParseEventLog(ReadWhole(path));
    EXPECT_EQ(content.damaged, 0);
    EXPECT_TRUE(content.records[0].is("start"));
    EXPECT_TRUE(content.records[0].continued);
    for (const EventRecord& record : content.records) {
      if (!record.is("steps")) continue;
      EXPECT_TRUE(last == 0 || record.step == last + 1) << record.step;
      last = record.step;
    }
  }
  EXPECT_EQ(last, 1000);
  // The next process keeps to the limit too.
  ASSERT_OK(Open());
  for (int step = 1; step <= 100; ++step) RecordStep(step);
  EXPECT_LE(std::filesystem::file_size(Path()), 10000u);
}

TEST_F(EventLogTest, Rotation_FileCannotBeRenamed_StopsWithAWarning) {
  options_.max_bytes = 2000;
  testing::internal::CaptureStderr();
  ASSERT_OK(Open());
  std::filesystem::create_directories(Path() + ".1/full");
  for (int step = 1; step <= 1000; ++step) RecordStep(step);
  log_.reset();
  EXPECT_EQ(
      CountOccurrences(testing::internal::GetCapturedStderr(), "warning: "), 1);
  EXPECT_LE(std::filesystem::file_size(Path()), 1000u);
}

TEST_F(EventLogTest, Open_OldFileIsNoLog_IsRefusedAndUnchanged) {
  WriteWhole(Path() + ".1", "a letter");
  ExpectRefused(Code::kInvalidArgument, "m.events.1: exists, and");
  EXPECT_EQ(ReadWhole(Path() + ".1"), "a letter");
  EXPECT_FALSE(std::filesystem::exists(Path()));
}

TEST_F(EventLogTest, Rotation_FileWasMoved_LeavesTheOneInItsPlace) {
  options_.max_bytes = 2000;
  testing::internal::CaptureStderr();
  ASSERT_OK(Open());
  std::filesystem::rename(Path(), Path() + ".moved");
  WriteWhole(Path(), "of another process");
  for (int step = 1; step <= 1000; ++step) RecordStep(step);
  log_.reset();
  EXPECT_EQ(
      CountOccurrences(testing::internal::GetCapturedStderr(), "warning: "), 1);
  EXPECT_EQ(ReadWhole(Path()), "of another process");
  EXPECT_FALSE(std::filesystem::exists(Path() + ".1"));
  EXPECT_LE(std::filesystem::file_size(Path() + ".moved"), 1000u);
}

TEST_F(EventLogTest, Rotation_FileWasRemoved_BeginsANewOne) {
  options_.max_bytes = 20000;
  ASSERT_OK(Open());
  std::filesystem::remove(Path());
  for (int step = 1; step <= 200; ++step) RecordStep(step);
  EXPECT_EQ(Read().records.back().step, 200);
}

TEST_F(EventLogTest, Threads_RecordAndRotate_LinesStayWhole) {
  options_.max_bytes = 40000;
  ASSERT_OK(Open());
  RunThreads(4, [](int t) {
    for (int i = 0; i < 200; ++i) RecordStep(1000 * t + i);
  });
  for (const std::string& path : {Path(), Path() + ".1"}) {
    EXPECT_EQ(ParseEventLog(ReadWhole(path)).damaged, 0);
  }
}

TEST_F(EventLogTest, FullDisk_LinesAreLost_WarnsOnceAndCountsThem) {
  ASSERT_OK(Open());
  RecordStep(1);
  testing::internal::CaptureStderr();
  {
    const FileLimit limit(std::filesystem::file_size(Path()) + 30);
    for (int step = 2; step <= 6; ++step) RecordStep(step);
  }
  RecordStep(7);
  EXPECT_EQ(
      CountOccurrences(testing::internal::GetCapturedStderr(),
                       "m.events: a line of the event log cannot be written"),
      1);
  const EventLogContent content = Read();
  EXPECT_EQ(content.damaged, 1);  // half a line
  EXPECT_EQ(content.records.size(), 4u);
  EXPECT_EQ(content.records[2].step, 7);
  EXPECT_TRUE(Contains(content.records[3].line, "\"lost_lines\":5"));
}

TEST(StepTimesTest, Quantiles_AnyTimes_AreWithinTwoPercent) {
  StepTimes times;
  EXPECT_EQ(times.Quantile(0.5), 0);
  for (int64_t nanos : {int64_t{0}, int64_t{31}, int64_t{32}, int64_t{1000},
                        int64_t{123456789}, INT64_MAX}) {
    times.Clear();
    times.Add(nanos, 3);
    times.Add(INT64_MAX, 1);
    const auto near = static_cast<double>(times.Quantile(0.5));
    EXPECT_NEAR(near, static_cast<double>(nanos),
                static_cast<double>(nanos) * 0.02);
    EXPECT_EQ(times.max(), INT64_MAX);
  }
  times.Clear();
  for (int i = 1; i <= 1000; ++i) times.Add(i * 1000, 1);
  EXPECT_NEAR(static_cast<double>(times.Quantile(0.5)), 500e3, 10e3);
  EXPECT_NEAR(static_cast<double>(times.Quantile(0.99)), 990e3, 20e3);
  EXPECT_EQ(times.count(), 1000);
}

TEST_F(EventLogTest, Fit_Recorded_HasItsEpochsAndSteps) {
  ASSERT_OK(Open());
  const auto model = TinyModel(SGD(0.1f));
  const Dataset data = Points(10);
  for (const int64_t batch : {1, 32, 4}) {
    FitOptions options;
    options.epochs = 2;
    options.verbose = Verbose::kSilent;
    options.callbacks = {EventLogger()};
    ASSERT_OK(model->Fit(data.Batch(batch), options).status());
  }
  log_.reset();
  std::string events;
  const EventLogContent content = Read();
  for (const EventRecord& record : content.records) {
    if (record.is("check")) continue;
    events += record.event + " " + std::to_string(record.step) + "; ";
  }
  EXPECT_EQ(
      events,
      "start -1; fit 0; epoch 10; epoch 20; steps 20; fit 20; epoch 21; "
      "epoch 22; steps 22; fit 22; epoch 25; epoch 28; steps 28; end 28; ");
  const std::string text = ReadWhole(Path());
  EXPECT_TRUE(
      Contains(text, "\"first_step\":1,\"last_step\":20,\"count\":20,"));
  EXPECT_TRUE(Contains(text, "\"logs\":{\"loss\":"));
  EXPECT_TRUE(Contains(text, "\"learning_rate\":0.1"));
}

}  // namespace
}  // namespace ringlet
