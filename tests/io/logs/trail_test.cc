#include "../../support/threads.h"
#include "ringlet/loggers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/fake_clock.h"
#include "../../support/temp_folder.h"
#include "core/base/byte_order.h"
#include "core/base/crc32c.h"
#include "io/checkpoint/checkpoint_directory.h"
#include "io/logs/trail_file.h"
#include "io/logs/trail_report.h"

namespace ringlet {
namespace {

class TrailTest : public testing::Test {
 protected:
  void Open(int worker = 2) {
    trail_.reset();
    ASSERT_OK(Trail::Open(folder_.path(), worker, 3, "10.0.0.3:7000", &trail_));
  }
  std::string PathOf(int worker = 2) const {
    return folder_ / ("worker-" + std::to_string(worker) + ".trail");
  }
  void ExpectRefused(int worker, Code code, const std::string& why) {
    std::unique_ptr<Trail> refused;
    const Status status = Trail::Open(folder_.path(), worker, 3, "", &refused);
    EXPECT_EQ(status.code(), code);
    EXPECT_TRUE(Contains(status, why));
  }
  TrailContent Read(int worker = 2) const {
    TrailContent content;
    EXPECT_OK(ParseTrail(ReadWhole(PathOf(worker)), &content));
    return content;
  }

  TempFolder folder_;
  std::unique_ptr<Trail> trail_;
};

TEST_F(TrailTest, Event_Noted_IsInTheFileImmediately) {
  RecordEvent(TrailKind::kStepBegan, 1);  // there is no trail
  Open();
  TrailEvent lost;
  lost.kind = TrailKind::kLost;
  lost.peer = 1;
  lost.other = 0;
  lost.step = 7;
  lost.operation = 53;
  lost.generation = 4;
  lost.nanos = 20000000;
  lost.text = "exited\x1b[31m";
  RecordEvent(lost);
  RecordEvent(TrailKind::kStepBegan, 8);
  const TrailContent content = Read();
  EXPECT_EQ(content.worker, 2);
  EXPECT_EQ(content.workers, 3);
  EXPECT_EQ(content.damaged, 0);
  ASSERT_EQ(content.records.size(), 3u);
  EXPECT_EQ(content.records[0].text, "10.0.0.3:7000");
  const TrailRecord& record = content.records[1];
  EXPECT_EQ(record.event.kind, TrailKind::kLost);
  EXPECT_EQ(record.event.peer, 1);
  EXPECT_EQ(record.event.other, 0);
  EXPECT_EQ(record.event.step, 7u);
  EXPECT_EQ(record.event.operation, 53u);
  EXPECT_EQ(record.event.generation, 4u);
  EXPECT_EQ(record.event.nanos, 20000000);
  EXPECT_EQ(record.text, "exited?[31m");
  EXPECT_EQ(content.records[2].event.step, 8u);
}

TEST_F(TrailTest, RecordEvent_ManySteps_DisplaceOnlySteps) {
  Open();
  for (uint64_t step = 1; step <= 3 * kNumTrailShorts + 5; ++step) {
    RecordEvent(TrailKind::kStepBegan, step);
  }
  const TrailContent content = Read();
  ASSERT_EQ(content.records.size(), 1 + kNumTrailShorts);
  EXPECT_EQ(content.records[0].event.kind, TrailKind::kBegan);
  EXPECT_EQ(content.records[1].event.step, 2 * kNumTrailShorts + 6);
  EXPECT_EQ(content.records.back().event.step, 3 * kNumTrailShorts + 5);
}

TEST_F(TrailTest, RecordEvent_ManyBackups_DisplaceNoLoss) {
  Open();
  TrailEvent lost;
  lost.kind = TrailKind::kLost;
  RecordEvent(lost);
  std::unique_ptr<CheckpointDirectory> backups;
  ASSERT_TRUE(CheckpointDirectory::Open(folder_ / "backup", {}, &backups).ok());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(backups->Save(Saveables(), Metadata()).ok());
  }
  TrailContent content = Read();
  EXPECT_EQ(content.records[0].event.kind, TrailKind::kBegan);
  EXPECT_EQ(content.records[1].event.kind, TrailKind::kLost);
  EXPECT_EQ(content.records.back().event.kind, TrailKind::kSaved);
  EXPECT_EQ(content.records.back().event.operation, 100u);
  EXPECT_EQ(content.records.size(), 202u);
  // A save that fails is recorded with its reason.
  std::filesystem::remove_all(folder_ / "backup");
  EXPECT_FALSE(backups->Save(Saveables(), Metadata()).ok());
  content = Read();
  EXPECT_NE(content.records.back().event.code, 0);
  EXPECT_TRUE(Contains(content.records.back().text, "backup"));
}

TEST_F(TrailTest, Open_LaterProcess_AppendsToTheTrail) {
  for (int life = 0; life < 3; ++life) {
    Open();
    RecordEvent(TrailKind::kStepBegan, 100 + static_cast<uint64_t>(life));
    trail_->SetResult(life == 1 ? InvalidArgument("no room") : Status(),
                      life == 1 ? 2 : 0);
  }
  trail_.reset();
  const TrailContent content = Read();
  ASSERT_EQ(content.records.size(), 9u);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(content.records[i].number, i + 1);
  }
  EXPECT_EQ(content.records[5].text, "no room");
  EXPECT_EQ(content.records[5].event.code, 2);
}

TEST_F(TrailTest, Open_FileOfAnother_IsRefusedAndUnchanged) {
  Open();
  trail_.reset();
  const int other = open(PathOf().c_str(), O_RDWR);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  ExpectRefused(2, Code::kUnavailable, "worker-2.trail: another process");
  close(other);
  const std::string bytes = ReadWhole(PathOf());
  for (const std::string& letter :
       {std::string("a letter"), bytes.substr(1),
        std::string(kTrailBytes, '\0') + "a letter"}) {
    WriteWhole(PathOf(1), letter);
    ExpectRefused(1, Code::kInvalidArgument, "worker-1.trail: exists, and");
    EXPECT_EQ(ReadWhole(PathOf(1)), letter);
  }
}

TEST_F(TrailTest, Open_TrailOfAnotherVersion_IsRefusedAndUnchanged) {
  Open();
  trail_.reset();
  std::string bytes = ReadWhole(PathOf());
  bytes[12] = 2;
  auto* const header = reinterpret_cast<unsigned char*>(&bytes[0]);
  StoreLittle<uint32_t>(MaskCrc32c(Crc32c(header + 12, 12)), header + 8);
  WriteWhole(PathOf(), bytes);
  ExpectRefused(2, Code::kInvalidArgument,
                "is a trail of version 2, and this ringlet reads 1; give "
                "another folder, or remove the file");
  EXPECT_EQ(ReadWhole(PathOf()), bytes);
}

// A user that can open the trail could lock it and block the worker.
TEST_F(TrailTest, Open_AnyUmaskOrOldFile_NoOtherUserOpensIt) {
  const mode_t before = umask(0);
  Open();
  trail_.reset();
  umask(before);
  struct stat info;
  ASSERT_EQ(stat(PathOf().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(chmod(PathOf().c_str(), 0666), 0);
  Open();
  trail_.reset();
  ASSERT_EQ(stat(PathOf().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(TrailTest, Open_FileOfAnotherUser_IsRefused) {
  Open();
  trail_.reset();
  if (chown(PathOf().c_str(), 65534, 65534) != 0) GTEST_SKIP() << "needs root";
  ExpectRefused(2, Code::kInvalidArgument, "belongs to user 65534, and");
}

// A process that was killed at its start, and a disk that was full.
TEST_F(TrailTest, Open_FileOfZerosOrEmpty_IsNew) {
  for (const size_t bytes : {size_t{0}, size_t{4096}, kTrailBytes}) {
    WriteWhole(PathOf(), std::string(bytes, '\0'));
    Open();
    EXPECT_EQ(Read().records.size(), 1u) << bytes;
    trail_.reset();
  }
  std::filesystem::remove(PathOf());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit low = before;
  low.rlim_cur = 5000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  ExpectRefused(2, Code::kIo, "worker-2.trail: writing");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(ReadWhole(PathOf()), "");
  Open();
  EXPECT_EQ(Read().records.size(), 1u);
}

// A store to a mapped page without room on the disk would end the process.
TEST_F(TrailTest, Note_FileTakesNoWrite_EventIsLostAndProcessContinues) {
  Open();
  ASSERT_EQ(truncate(PathOf().c_str(), 0), 0);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  errno = ENOENT;
  RecordEvent(TrailKind::kStepBegan, 5);
  EXPECT_EQ(errno, ENOENT);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(ReadWhole(PathOf()), "");
  trail_.reset();
}

TEST_F(TrailTest, Open_SecondTrailOfAProcess_IsRefusedOrReplacesIt) {
  Open();
  ExpectRefused(1, Code::kAlreadyExists, "this process keeps a trail already");
  EXPECT_EQ(Read().records.size(), 1u);
  // In place of the former, which ends in its own file, before.
  ASSERT_TRUE(Trail::Open(folder_ / "other", 2, 3, "", &trail_).ok());
  EXPECT_EQ(Read().records.back().event.kind, TrailKind::kEnded);
  RecordEvent(TrailKind::kStepBegan, 5);
  TrailContent content;
  ASSERT_TRUE(
      ParseTrail(ReadWhole(folder_ / "other/worker-2.trail"), &content).ok());
  ASSERT_EQ(content.records.size(), 2u);
  EXPECT_EQ(content.records[0].event.kind, TrailKind::kBegan);
  EXPECT_EQ(content.records[1].event.step, 5u);
}

TEST_F(TrailTest, Threads_NoteAtTheSameTime_LoseNoEvent) {
  Open();
  RunThreads(4, [](int t) {
    for (int i = 0; i < 100; ++i) {
      RecordEvent(TrailKind::kStepBegan, static_cast<uint64_t>(1000 * t + i));
    }
  });
  const TrailContent content = Read();
  EXPECT_EQ(content.damaged, 0);
  EXPECT_EQ(content.records.size(), 401u);
}

TEST_F(TrailTest, ParseTrail_TornOrDamagedRecords_AreLeftOut) {
  Open();
  for (uint64_t step = 1; step <= 10; ++step) {
    RecordEvent(TrailKind::kStepBegan, step);
  }
  trail_.reset();
  const std::string whole = ReadWhole(PathOf());
  TrailContent content;
  // Half of the fourth record is that of a later one.
  std::string torn = whole;
  torn.replace(kTrailStepsBegin + 3 * kTrailShortBytes + 32, 32,
               whole.substr(kTrailStepsBegin + 5 * kTrailShortBytes + 32, 32));
  ASSERT_TRUE(ParseTrail(torn, &content).ok());
  EXPECT_EQ(content.damaged, 1);
  EXPECT_EQ(content.records.size(), 11u);
  // The record's text would reach beyond the file.
  std::string beyond = whole;
  beyond[kTrailRareBegin + 5] = '\xff';
  ASSERT_TRUE(ParseTrail(beyond, &content).ok());
  EXPECT_EQ(content.damaged, 1);
  for (size_t bytes = 0; bytes < whole.size(); bytes += 61) {
    const Status status = ParseTrail(whole.substr(0, bytes), &content);
    EXPECT_EQ(status.ok(), bytes >= kTrailStepsBegin) << bytes;
    EXPECT_FALSE(DescribeTrails({content}).empty());
  }
  // Any bytes behind a right header.
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string wild = whole;
    for (size_t k = 24; k < wild.size(); ++k) {
      if (random() % 3 == 0) wild[k] = static_cast<char>(random());
    }
    ASSERT_TRUE(ParseTrail(wild, &content).ok());
    EXPECT_FALSE(DescribeTrails({content, content}).empty());
  }
}

// A file of nonsense is started again by the next trail in it.
TEST_F(TrailTest, Open_DamagedHeader_BeginsAgain) {
  Open();
  trail_.reset();
  std::string bytes = ReadWhole(PathOf());
  bytes[17] ^= 1;
  WriteWhole(PathOf(), bytes);
  Open();
  EXPECT_EQ(Read().records.size(), 1u);
  trail_.reset();
  WriteWhole(PathOf(), bytes.substr(0, 10));
  Open();
  EXPECT_EQ(Read().records.size(), 1u);
}

// --- reports of several trails
// ------------------------------------------------

// A TrailRing on a temporary file.
class RingFile {
 public:
  RingFile(int worker, int workers, Clock* clock) : file_(std::tmpfile()) {
    Open(worker, workers, clock);
  }
  ~RingFile() { std::fclose(file_); }
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  // Opens the file again, as another process of the worker does.
  void Open(int worker, int workers, Clock* clock) {
    std::string bytes = Bytes();
    ring_ = std::make_unique<TrailRing>(
        fileno(file_), reinterpret_cast<unsigned char*>(&bytes[0]), worker,
        workers, clock);
    EXPECT_EQ(pwrite(fileno(file_), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(kTrailBytes));
  }
  int fd() const { return fileno(file_); }
  void Record(const TrailEvent& event) { ring_->Record(event); }
  std::string Bytes() const {
    std::string bytes(kTrailBytes, '\0');
    EXPECT_GE(pread(fileno(file_), &bytes[0], bytes.size(), 0), 0);
    return bytes;
  }

 private:
  std::FILE* const file_;
  std::unique_ptr<TrailRing> ring_;
};

// A refused write may take milliseconds, and a step notes several events.
TEST(TrailRingTest, FrequentEvents_FileTakesNoWrite_AreDroppedForASecond) {
  FakeClock clock;
  RingFile file(0, 1, &clock);
  const int closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::string bytes(kTrailBytes, '\0');
  TrailRing ring(closed, reinterpret_cast<unsigned char*>(&bytes[0]), 0, 1,
                 &clock);
  const auto step = [&](uint64_t number) {
    TrailEvent event;
    event.kind = TrailKind::kStepBegan;
    event.step = number;
    ring.Record(event);
  };
  step(1);
  ASSERT_EQ(dup2(file.fd(), closed), closed);  // from here on writes succeed
  step(2);
  clock.Advance(0.5);
  step(3);
  TrailEvent lost;
  lost.kind = TrailKind::kLost;
  ring.Record(lost);
  clock.Advance(0.5);
  step(4);
  TrailContent content;
  ASSERT_TRUE(ParseTrail(file.Bytes(), &content).ok());
  ASSERT_EQ(content.records.size(), 2u);
  EXPECT_EQ(content.records[0].event.kind, TrailKind::kLost);
  EXPECT_EQ(content.records[1].event.step, 4u);
  close(closed);
}

class TrailReportTest : public testing::Test {
 protected:
  TrailReportTest() {
    for (int w = 0; w < 3; ++w) {
      rings_.push_back(std::make_unique<RingFile>(w, 3, &clock_));
      Record(w, TrailKind::kBegan, 0);
    }
  }
  void Record(int worker, TrailKind kind, uint64_t step, int peer = -1,
              int other = -1, const char* text = "", int code = 0) {
    TrailEvent event;
    event.kind = kind;
    event.step = step;
    event.peer = peer;
    event.other = other;
    event.text = text;
    event.code = code;
    event.generation = 1;
    event.operation = 53;
    event.nanos = 2000000000;
    rings_[static_cast<size_t>(worker)]->Record(event);
    clock_.Advance(0.001);
  }
  std::string ReportText() {
    std::vector<TrailContent> trails(3);
    for (size_t w = 0; w < 3; ++w) {
      EXPECT_TRUE(ParseTrail(rings_[w]->Bytes(), &trails[w]).ok());
    }
    return DescribeTrails(trails);
  }

  FakeClock clock_;
  std::vector<std::unique_ptr<RingFile>> rings_;
};

TEST_F(TrailReportTest, Loss_OneWorker_ReportNamesTheWaiters) {
  for (int w = 0; w < 3; ++w) Record(w, TrailKind::kStepBegan, 17);
  Record(2, TrailKind::kLost, 17, 1, 1, "silent for 2.00 s");
  Record(0, TrailKind::kReported, 17, 1, 2, "rank 1 was lost", 2);
  Record(0, TrailKind::kEnded, 0, -1, -1, "rank 1 was lost", 75);
  const std::string told = ReportText();
  EXPECT_TRUE(Contains(
      told,
      "in step 17 worker 1 was lost: silent for 2.00 s; worker 2 waited "
      "for worker 1, for 2.00 s (operation 53); worker 0 waited for "
      "worker 2, for 2.00 s (operation 53)\n"));
  EXPECT_TRUE(
      Contains(told, "ended with exit code 75 in step 17: rank 1 was lost\n"));
  EXPECT_TRUE(Contains(
      told, "its trail ends here, in step 17, computing: it was killed"));
}

TEST_F(TrailReportTest, GivingUp_OneWorker_IsTheCause) {
  Record(0, TrailKind::kReported, 3, 1, 1, "rank 1 failed: no room", 1);
  Record(1, TrailKind::kAborted, 3, -1, -1, "no room");
  EXPECT_TRUE(Contains(ReportText(),
                       "in step 3 worker 1 ended: no room; worker 0 waited for "
                       "worker 1"));
}

// Each start counts its rings from 1.
TEST_F(TrailReportTest, Restart_SameJob_IsAnotherIncident) {
  for (int w = 0; w < 3; ++w) Record(w, TrailKind::kFormed, 0);
  Record(2, TrailKind::kLost, 17, 1, 1, "exited");
  Record(0, TrailKind::kReported, 17, 1, 2, "rank 1 was lost", 2);
  clock_.Advance(5);
  for (int w = 0; w < 3; ++w) Record(w, TrailKind::kBegan, 0);
  for (int w = 0; w < 3; ++w) Record(w, TrailKind::kFormed, 0);
  // The first incident has no record of worker 1.
  Record(1, TrailKind::kLost, 5, 2, 2, "silent for 2.00 s");
  Record(0, TrailKind::kReported, 5, 2, 2, "rank 2 was lost", 1);
  const std::string told = ReportText();
  EXPECT_TRUE(Contains(
      told,
      "in step 17 worker 1 was lost: exited; worker 2 waited for worker "
      "1, for 2.00 s (operation 53); worker 0 waited for worker 2, for "
      "2.00 s (operation 53)\n"));
  EXPECT_TRUE(Contains(
      told,
      "in step 5 worker 2 was lost: silent for 2.00 s; worker 1 waited "
      "for worker 2, for 2.00 s (operation 53); worker 0 waited for "
      "worker 2, for 2.00 s (operation 53)\n"));
}

TEST_F(TrailReportTest, Losses_OfTwoRingsOfOneProcess_AreTwoIncidents) {
  Record(0, TrailKind::kFormed, 0);
  Record(0, TrailKind::kLost, 8, 1, -1, "exited");
  Record(0, TrailKind::kFormed, 8);
  Record(0, TrailKind::kLost, 9, 2, -1, "silent");
  const std::string told = ReportText();
  EXPECT_TRUE(Contains(
      told, "in step 8 worker 1 was lost: exited; worker 0 computed\n"));
  EXPECT_TRUE(Contains(
      told, "in step 9 worker 2 was lost: silent; worker 0 computed\n"));
}

TEST_F(TrailReportTest, Losses_SplitNetwork_AreReportedFromBothSides) {
  Record(1, TrailKind::kLost, 3, 0, -1, "silent for 2.00 s");
  Record(0, TrailKind::kLost, 3, 1, -1, "silent for 2.01 s");
  EXPECT_TRUE(Contains(
      ReportText(),
      "in step 3 worker 1 says that worker 0 was lost: silent for 2.00 "
      "s; worker 0 says that worker 1 was lost: silent for 2.01 s; "
      "worker 1 computed; worker 0 computed\n"));
}

TEST_F(TrailReportTest, Losses_WorkerWasSelfStalled_ReportsItself) {
  Record(1, TrailKind::kLost, 3, 1, -1, "held up for 7.00 s");
  EXPECT_TRUE(Contains(ReportText(),
                       "in step 3 worker 1 was cut off: held up for 7.00 s\n"));
}

// A worker that waits for the lost one does not compute.
TEST_F(TrailReportTest, EndedRing_Report_HasTheTime) {
  Record(0, TrailKind::kStepBegan, 9);
  Record(0, TrailKind::kBlocked, 9);
  Record(0, TrailKind::kWaits, 9, 1);
  Record(0, TrailKind::kLost, 9, 1, 1, "exited");
  Record(0, TrailKind::kResumed, 9);
  Record(1, TrailKind::kStepEnded, 9);
  Record(1, TrailKind::kReported, 9, 1, 0, "rank 1 was lost");
  Record(1, TrailKind::kStepBegan, 10);  // and finds that it is over
  const std::string told = ReportText();
  EXPECT_TRUE(
      Contains(told, "its trail ends here, in step 9, in no ring since "));
  EXPECT_TRUE(
      Contains(told, "its trail ends here, in step 10, in no ring since "));
  EXPECT_FALSE(Contains(told, "computing"));
  Record(0, TrailKind::kFormed, 9);
  Record(0, TrailKind::kStepBegan, 9);
  EXPECT_TRUE(
      Contains(ReportText(), "its trail ends here, in step 9, computing: "));
}

TEST_F(TrailReportTest, End_FirstStepGivenUp_IsBeforeTheFirstStep) {
  Record(0, TrailKind::kStepBegan, 1);
  Record(0, TrailKind::kStepEnded, 0);
  EXPECT_TRUE(
      Contains(ReportText(), "its trail ends here, before the first step: "));
}

TEST_F(TrailReportTest, End_StillWaiting_NamesTheWorkerWaitedFor) {
  Record(0, TrailKind::kStepBegan, 9);
  Record(0, TrailKind::kBlocked, 9);
  Record(0, TrailKind::kWaits, 9, 1, 2);
  Record(1, TrailKind::kStepBegan, 9);
  Record(1, TrailKind::kBlocked, 9);
  Record(2, TrailKind::kStepEnded, 8);
  const std::string told = ReportText();
  EXPECT_TRUE(Contains(told, "in step 9, waiting for worker 1 since "));
  EXPECT_TRUE(
      Contains(told, ", which waited in turn, at last for worker 2: it was"));
  EXPECT_TRUE(Contains(told, "in step 9, waiting for the others: it was"));
  EXPECT_TRUE(Contains(told, "after step 8: it was"));
}

// Later processes of this worker take the places of its steps.
TEST_F(TrailReportTest, End_StepsOfTheProcessDisplaced_IsStillKnown) {
  Record(0, TrailKind::kStepBegan, 1);
  Record(0, TrailKind::kStepEnded, 1);
  clock_.Advance(100);  // 22:15:00
  Record(0, TrailKind::kStepBegan, 2);
  for (int life = 0; life < 3; ++life) {
    clock_.Advance(1000);
    rings_[0]->Open(0, 3, &clock_);
    Record(0, TrailKind::kBegan, 0);
    if (life == 1) continue;
    for (uint64_t i = 1; i <= kNumTrailShorts; ++i) {
      Record(0, TrailKind::kStepEnded, i);
    }
  }
  const std::string told = ReportText();
  EXPECT_TRUE(Contains(
      told, "2023-11-14 22:15:00.005  its trail ends here, in step 2: "));
  EXPECT_TRUE(Contains(told, "its trail ends here, after step 448: "));
  EXPECT_TRUE(Contains(told, "its trail ends here, before its first step: "));
  EXPECT_FALSE(Contains(told, "no longer"));
}

// The trail is of an older program, or of the newest process.
TEST_F(TrailReportTest, End_StepsDisplaced_ReportsThatTheyAreMissing) {
  Record(0, TrailKind::kStepBegan, 1);
  for (size_t i = 0; i < kNumTrailShorts; ++i)
    Record(0, TrailKind::kQuiet, 1, 2);
  EXPECT_TRUE(Contains(ReportText(),
                       "its trail ends here, its steps are no longer in the"));
}

// A board without a battery gets the time from a server after its start.
TEST_F(TrailReportTest, Times_ClockIsSetLater_AreRightBeforeItToo) {
  const int64_t right = clock_.wall + 10 * 1000000;
  clock_.wall = 1000000000;
  Record(0, TrailKind::kLost, 1, 1, -1, "exited");
  clock_.Advance(0.009);
  clock_.wall = right;
  for (uint64_t i = 1; i <= 64; ++i) Record(0, TrailKind::kStepBegan, i);
  const std::string told = ReportText();
  EXPECT_TRUE(
      Contains(told, "2023-11-14 22:13:20.003  in step 1 worker 1 was lost"));
  EXPECT_TRUE(Contains(
      told, "2023-11-14 22:13:20.076  its trail ends here, in step 64"));
}

TEST_F(TrailReportTest, Report_MissingTrailsAndOtherJobs_AreNamed) {
  EXPECT_FALSE(Contains(ReportText(), "no trail of"));
  EXPECT_FALSE(Contains(ReportText(), "of a job of"));
  const RingFile older(4, 5, &clock_);
  clock_.Advance(5);
  RingFile newer(3, 20, &clock_);
  TrailEvent began;
  newer.Record(began);
  std::vector<TrailContent> trails(3);
  ASSERT_TRUE(ParseTrail(rings_[1]->Bytes(), &trails[0]).ok());
  ASSERT_TRUE(ParseTrail(older.Bytes(), &trails[1]).ok());
  ASSERT_TRUE(ParseTrail(newer.Bytes(), &trails[2]).ok());
  const std::string told = DescribeTrails(trails);
  EXPECT_TRUE(Contains(
      told,
      "worker 4's trail is of a job of 5 workers, and the newest, worker "
      "3's, of 20\n"));
  EXPECT_TRUE(
      Contains(told,
               "there is no trail of worker 0, worker 2, worker 5, worker 6, "
               "worker 7, worker 8, worker 9, worker 10 and 9 more\n"));
}

// A file may hold any numbers; sanitizers report an overflow.
TEST_F(TrailReportTest, Report_TimesAndWorkersOutOfRange_DoNotOverflow) {
  for (const int64_t time : {INT64_MIN, INT64_MAX, int64_t{0}, INT64_MIN}) {
    for (const TrailKind kind :
         {TrailKind::kLost, TrailKind::kWaits, TrailKind::kBegan}) {
      clock_.monotonic = time / 2;
      clock_.wall = time == INT64_MAX ? INT64_MAX / 2 : 0;
      TrailEvent event;
      event.kind = kind;
      event.nanos = time;
      rings_[0]->Record(event);
      rings_[1]->Record(event);
    }
  }
  std::vector<TrailContent> trails(2);
  for (size_t w = 0; w < 2; ++w) {
    ASSERT_TRUE(ParseTrail(rings_[w]->Bytes(), &trails[w]).ok());
    for (TrailRecord& record : trails[w].records) {
      if (record.number % 2 == w) record.wall = record.event.nanos;
    }
  }
  const std::string told = DescribeTrails(trails);
  EXPECT_TRUE(Contains(told, "an unknown worker was lost"));
  EXPECT_FALSE(Contains(told, "worker -1"));
}

TEST_F(TrailReportTest, Report_ManyProcessesAndEvents_CountsWhatIsLeftOut) {
  for (int i = 0; i < 10; ++i) Record(0, TrailKind::kBegan, 0);
  EXPECT_TRUE(Contains(ReportText(), "the last 4 of 11 processes:\n"));
  EXPECT_FALSE(Contains(ReportText(), "no longer in the trail"));
  for (size_t i = 0; i < kNumTrailLongs; ++i)
    Record(0, TrailKind::kJoinerWaits, 0);
  EXPECT_TRUE(
      Contains(ReportText(),
               "its events before 2023-11-14 22:13:20.013 are no longer in the "
               "trail, except steps and waits\n"));
}

}  // namespace
}  // namespace ringlet
