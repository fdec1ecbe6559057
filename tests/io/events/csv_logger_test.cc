#include "io/events/loggers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "../../support/elastic_collective.h"
#include "../../support/full_disk.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/base/text.h"
#include "core/fit/callback.h"
#include "io/events/row_file.h"

namespace ringlet {
namespace {

TEST(CSVLoggerTest, WritesTheExcelDialectWithSortedColumns) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  auto model = TinyModel(SGD(0.0f));
  FitOptions options = Quiet(2);
  options.callbacks = {CSVLogger(path)};
  auto history = model->Fit(Points(8).Batch(8), options);
  ASSERT_TRUE(history.ok());
  const std::string text = ReadWhole(path);
  EXPECT_EQ(text.find("epoch,accuracy,loss,val_accuracy,val_loss\r\n0,"), 0u)
      << text;
  EXPECT_NE(text.find(",NA,NA\r\n1,"), std::string::npos) << text;
  // Full precision: the value read back is the value.
  const size_t loss = text.find(',', text.find("\r\n0,") + 4) + 1;
  EXPECT_EQ(std::stod(text.substr(loss)), history->Values("loss")[0]);
}

TEST(CSVLoggerTest, AppendWritesNoSecondHeader) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  for (int i = 0; i < 2; ++i) {
    auto model = TinyModel();
    FitOptions options = Quiet(1);
    options.callbacks = {CSVLogger(path, ';', /*append=*/true)};
    ASSERT_TRUE(model->Fit(Points(8).Batch(8), options).ok());
  }
  const std::string text = ReadWhole(path);
  EXPECT_EQ(text.find("epoch;"), text.rfind("epoch;"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST(CSVLoggerTest, WithoutAppendItBeginsAnew) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  WriteWhole(path, "old\r\n");
  auto model = TinyModel();
  FitOptions options = Quiet(1);
  options.callbacks = {CSVLogger(path)};
  ASSERT_TRUE(model->Fit(Points(8).Batch(8), options).ok());
  EXPECT_EQ(ReadWhole(path).find("epoch,"), 0u);
}

TEST(CSVLoggerTest, ResumeGoesBackToTheRowsOfItsBackup) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  auto model = TinyModel();
  auto logger = CSVLogger(path);
  FitState fit;
  fit.model = model.get();
  Logs logs;
  logs.Set("loss", 0.5);
  ASSERT_TRUE(logger->OnSetup(fit).ok());
  ASSERT_TRUE(logger->OnEpochBegin(fit).ok());
  ASSERT_TRUE(logger->OnEpochEnd(fit, &logs).ok());
  std::vector<StateSpan> spans;
  logger->AppendState(&spans);
  ASSERT_EQ(spans.size(), 1u);
  const int64_t saved = *static_cast<int64_t*>(spans[0].data);
  const std::string first = ReadWhole(path);
  // An epoch that the backup does not know, torn in its row.
  fit.epoch = 1;
  ASSERT_TRUE(logger->OnEpochEnd(fit, &logs).ok());
  logger.reset();
  WriteWhole(path, ReadWhole(path).substr(0, first.size() + 2));

  logger = CSVLogger(path);
  ASSERT_TRUE(logger->OnSetup(fit).ok());
  spans.clear();
  logger->AppendState(&spans);
  *static_cast<int64_t*>(spans[0].data) = saved;
  ASSERT_TRUE(logger->StateLoaded().ok());
  ASSERT_TRUE(logger->OnEpochBegin(fit).ok());
  ASSERT_TRUE(logger->OnEpochEnd(fit, &logs).ok());
  ASSERT_TRUE(logger->OnTrainEnd(fit, logs).ok());
  EXPECT_EQ(ReadWhole(path), first + "1,0.5,NA\r\n");
}

// As a fit is set up that goes on from a backup with `saved` bytes of rows.
void Restore(Callback* logger, Model* model, int64_t saved, FitState* fit) {
  fit->model = model;
  fit->epoch = 2;
  ASSERT_TRUE(logger->OnSetup(*fit).ok());
  std::vector<StateSpan> spans;
  logger->AppendState(&spans);
  *static_cast<int64_t*>(spans[0].data) = saved;
  ASSERT_TRUE(logger->StateLoaded().ok());
}

// The log was removed, or a power cut took its end, which is not synced.
TEST(CSVLoggerTest, ResumeWithoutItsRowsKeepsTheWholeOnesThatAreThere) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  const std::string header = "epoch,loss,val_loss\r\n";
  const std::string first = header + "0,0.5,NA\r\n";
  for (const auto& [left, kept] : {std::pair<std::string, std::string>{"", ""},
                                   {header.substr(0, 7), ""},
                                   {header + "0,0.", header},
                                   {first, first}}) {
    WriteWhole(path, left);
    auto model = TinyModel();
    auto logger = CSVLogger(path);
    const int64_t saved = static_cast<int64_t>(first.size()) + 10;
    FitState fit;
    Restore(logger.get(), model.get(), saved, &fit);
    Logs logs;
    logs.Set("loss", 0.25);
    testing::internal::CaptureStderr();
    ASSERT_TRUE(logger->OnEpochBegin(fit).ok());
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(path + " has " + std::to_string(left.size()) +
                        " of the " + std::to_string(saved) + " bytes"),
              std::string::npos)
        << said;
    ASSERT_TRUE(logger->OnEpochEnd(fit, &logs).ok());
    ASSERT_TRUE(logger->OnTrainEnd(fit, logs).ok());
    EXPECT_EQ(ReadWhole(path),
              (kept.empty() ? header : kept) + "2,0.25,NA\r\n");
  }
}

// Everything in the file is of epochs that are yet to come, its header too.
TEST(CSVLoggerTest, ResumeBeforeTheFirstRowWritesTheHeader) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  WriteWhole(path, "epoch,accuracy,loss\r\n0,1,0.5\r\n");
  auto model = TinyModel();
  auto logger = CSVLogger(path);
  FitState fit;
  fit.model = model.get();
  Logs logs;
  logs.Set("loss", 0.25);
  ASSERT_TRUE(logger->OnSetup(fit).ok());
  std::vector<StateSpan> spans;
  logger->AppendState(&spans);
  *static_cast<int64_t*>(spans[0].data) = 0;
  ASSERT_TRUE(logger->OnEpochBegin(fit).ok());
  ASSERT_TRUE(logger->OnEpochEnd(fit, &logs).ok());
  ASSERT_TRUE(logger->OnTrainEnd(fit, logs).ok());
  EXPECT_EQ(ReadWhole(path), "epoch,loss,val_loss\r\n0,0.25,NA\r\n");
}

// A pipe, a terminal or a device has no rows to go back to, and no first line
// to read: whoever reads it now gets a header.
TEST(CSVLoggerTest, ResumeInAPipeOrADeviceWritesOn) {
  TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDWR | O_NONBLOCK);
  for (const std::string& log :
       {path, std::string("/dev/null"), std::string("/dev/full")}) {
    auto model = TinyModel();
    auto logger = CSVLogger(log);
    FitState fit;
    Restore(logger.get(), model.get(), /*saved=*/300, &fit);
    Logs logs;
    logs.Set("loss", 0.25);
    const Status begun = logger->OnEpochBegin(fit);
    ASSERT_TRUE(begun.ok()) << begun.message();
    ASSERT_TRUE(logger->OnEpochEnd(fit, &logs).ok());
    ASSERT_TRUE(logger->OnTrainEnd(fit, logs).ok());
  }
  char text[256];
  const ssize_t n = read(reader, text, sizeof(text));
  close(reader);
  EXPECT_EQ(std::string(text, static_cast<size_t>(std::max<ssize_t>(n, 0))),
            "epoch,loss,val_loss\r\n2,0.25,NA\r\n");
}

// A row that a power cut tore is not the beginning of the next one, whose
// epoch would then be another number.
TEST(CSVLoggerTest, AppendBeginsARowOfItsOwn) {
  const std::string whole = "epoch,loss\r\n0,1\r\n";
  for (const std::string end : {"", "1", "1,0", "1,0.5", "1,0.5\r"}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    WriteWhole(path, whole + end);
    auto model = TinyModel();
    FitOptions options = Quiet(1);
    options.callbacks = {CSVLogger(path, ',', /*append=*/true)};
    testing::internal::CaptureStderr();
    ASSERT_TRUE(model->Fit(Points(8).Batch(8), options).ok());
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("its last row has no end") != std::string::npos,
              !end.empty())
        << said;
    const std::string kept = whole + (end.empty() ? end : end + "\n");
    const std::string text = ReadWhole(path);
    EXPECT_EQ(text.find(kept + "0,"), 0u) << text;
    EXPECT_EQ(text.find('\n', kept.size()), text.size() - 1) << text;
  }
}

TEST(StepLoggerTest, ResumeWithoutItsRowsKeepsTheWholeOnesThatAreThere) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  const std::string header = "epoch,step,loss,accuracy\n";
  const std::string first = header + "0,0,0.5,1\n";
  const std::string last = "0,1,0,0\n";  // nothing was counted
  for (const auto& [left, kept] :
       {std::pair<std::string, std::string>{"", header},
        {header.substr(0, 7), header},
        {header + "0,0,0.", header},
        {first + "0,1,0.2", first}}) {
    std::filesystem::remove(path);
    if (!left.empty()) WriteWhole(path, left);
    auto model = TinyModel();
    auto logger = StepLogger(path);
    FitState fit;
    fit.model = model.get();
    fit.step = 1;
    ASSERT_TRUE(logger->OnSetup(fit).ok());
    std::vector<StateSpan> spans;
    logger->AppendState(&spans);
    const bool all = left == first + "0,1,0.2";
    *static_cast<int64_t*>(spans[0].data) =
        static_cast<int64_t>(first.size()) + (all ? 0 : 10);
    ASSERT_TRUE(logger->StateLoaded().ok());
    testing::internal::CaptureStderr();
    const Status begun = logger->OnTrainBatchBegin(fit);
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(begun.ok()) << begun.message();
    EXPECT_EQ(said.empty(), all) << said;
    ASSERT_TRUE(logger->OnTrainBatchEnd(fit, {}).ok());
    ASSERT_TRUE(logger->OnTrainEnd(fit, {}).ok());
    EXPECT_EQ(ReadWhole(path), kept + last);
  }
}

TEST(CSVLoggerTest, AFullDiskEndsNoTrainingAndLosesNoRow) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  // Longer than what is said meanwhile, which goes to a file too.
  std::string before = "epoch,loss,val_loss\r\n";
  while (before.size() < 4096) before += "0,0.5,NA\r\n";
  WriteWhole(path, before);
  auto model = TinyModel();
  auto logger = CSVLogger(path, ',', /*append=*/true);
  FitState fit;
  fit.model = model.get();
  Logs logs;
  logs.Set("loss", 0.5);
  ASSERT_TRUE(logger->OnSetup(fit).ok());
  ASSERT_TRUE(logger->OnEpochBegin(fit).ok());
  testing::internal::CaptureStderr();
  const auto rows = [&](int count) {
    for (int i = 0; i < count; ++i, ++fit.epoch) {
      ASSERT_TRUE(logger->OnEpochEnd(fit, &logs).ok());
    }
  };
  {
    FullDisk full(before.size() + 3);
    rows(2);
    EXPECT_EQ(ReadWhole(path), before + "0,0");
  }
  rows(1);
  const std::string three = before + "0,0.5,NA\r\n1,0.5,NA\r\n2,0.5,NA\r\n";
  EXPECT_EQ(ReadWhole(path), three);
  std::string said = testing::internal::GetCapturedStderr();
  const std::string warning = path + ": writing a row: ";
  ASSERT_NE(said.find(warning), std::string::npos) << said;
  EXPECT_EQ(said.find(warning, said.find(warning) + 1), std::string::npos);
  testing::internal::CaptureStderr();
  {
    FullDisk full(three.size());
    rows(1);
    ASSERT_TRUE(logger->OnTrainEnd(fit, logs).ok());
  }
  said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("its last 10 bytes are lost"), std::string::npos) << said;
  EXPECT_EQ(ReadWhole(path), three);
}

// Many rows, while nothing can be written: the newest are dropped, and once
// there is room again, the log goes on with whole rows.
TEST(RowFileTest, RowsThatWaitAreBounded) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  SoloCollective solo;
  RowFile file("some_logger", path);
  std::string before = "head\n";
  before.append(4095, 'x').append("\n");
  ASSERT_TRUE(file.Open(&solo, false).ok());
  file.Write(before);
  const std::string row = std::string(9999, 'r') + "\n";
  const size_t most = RowFile::kMostKept / row.size() + 1;
  testing::internal::CaptureStderr();
  {
    FullDisk full(before.size() + 3);
    for (size_t i = 0; i < 3 * most; ++i) file.Write(row);
  }
  file.Write("last\n");
  const std::string said = testing::internal::GetCapturedStderr();
  std::string want = before;
  for (size_t i = 0; i < most; ++i) want += row;
  EXPECT_TRUE(ReadWhole(path) == want + "last\n") << ReadWhole(path).size();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
  EXPECT_NE(said.find("too many rows wait"), std::string::npos) << said;
  // Dropped rows count: other ranks know nothing of a full disk.
  EXPECT_EQ(file.offset(),
            static_cast<int64_t>(before.size() + 3 * most * row.size() + 5));
}

// The offsets of all ranks' loggers, noted at every save point.
class OffsetNotes : public Callback {
 public:
  const char* name() const override { return "notes"; }
  Status OnSavePoint(FitState& fit, bool) override {
    for (const auto& callback : *fit.callbacks) {
      std::vector<StateSpan> spans;
      callback->AppendState(&spans);
      for (const StateSpan& span : spans) {
        notes.push_back(*static_cast<int64_t*>(span.data));
      }
    }
    return Status();
  }
  std::vector<int64_t> notes;
};

TEST(RowFileTest, EveryRankCountsTheBytesOfTheRows) {
  for (const bool append : {false, true}) {
    TempFolder folder;
    const std::string path = folder / "0.csv";
    if (append) WriteWhole(path, "epoch,loss,other\r\n0,1,NA\r\n");
    std::vector<int64_t> notes[3];
    RunRanks(3, [&](Collective* collective) {
      const std::string own = folder / std::to_string(collective->rank());
      const auto noter = std::make_shared<OffsetNotes>();
      auto model = TinyModel(SGD(0.1f), 0, collective);
      FitOptions options = Quiet(2);
      options.callbacks = {CSVLogger(own + ".csv", ',', append),
                           StepLogger(own + ".steps"), noter};
      const auto history = model->Fit(Points(24).Batch(6), options);
      EXPECT_TRUE(history.ok()) << history.status().message();
      notes[collective->rank()] = noter->notes;
    });
    EXPECT_EQ(notes[0].size(), 2u * (2 * 4 + 2));
    EXPECT_EQ(notes[1], notes[0]);
    EXPECT_EQ(notes[2], notes[0]);
    ASSERT_FALSE(notes[0].empty());
    EXPECT_EQ(notes[0].back(),
              static_cast<int64_t>(ReadWhole(folder / "0.steps").size()));
    EXPECT_EQ(notes[0][notes[0].size() - 2],
              static_cast<int64_t>(ReadWhole(path).size()));
    EXPECT_FALSE(std::filesystem::exists(folder / "1.csv"));
    EXPECT_FALSE(std::filesystem::exists(folder / "1.steps"));
  }
}

// A chief that lost its last rows goes on with what it has, and so do the
// counts of the others.
TEST(RowFileTest, RowsThatTheChiefLostAreLostOnEveryRank) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  testing::internal::CaptureStderr();
  for (const std::string left :
       {"head\n1,2\n1,", "head\n1,2\n1,2345678\n1,2\n"}) {
    WriteWhole(path, left);
    int64_t offsets[2] = {};
    RunRanks(2, [&](Collective* collective) {
      RowFile file("some_logger", path);
      std::vector<StateSpan> spans;
      file.AppendState(&spans);
      *static_cast<int64_t*>(spans[0].data) = 13;
      EXPECT_TRUE(file.Open(collective, false, /*in_memory=*/false).ok());
      file.Write("3,4\n");
      offsets[collective->rank()] = file.offset();
    });
    EXPECT_EQ(ReadWhole(path), "head\n1,2\n3,4\n");
    EXPECT_EQ(offsets[0], 13);
    EXPECT_EQ(offsets[1], 13);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("has 11 of the 13 bytes"), std::string::npos) << said;
  EXPECT_NE(said.find("no row of " + path + " ends at byte 13"),
            std::string::npos)
      << said;
}

TEST(RowFileTest, WhereTheChiefCannotWriteNoRankWaits) {
  RunRanks(2, [&](Collective* collective) {
    auto model = TinyModel(SGD(0.1f), 0, collective);
    FitOptions options = Quiet(1);
    options.callbacks = {CSVLogger("/nowhere/log.csv")};
    const auto history = model->Fit(Points(8).Batch(4), options);
    EXPECT_NE(std::string(history.status().message()).find("/nowhere/log.csv"),
              std::string::npos)
        << history.status().message();
  });
}

// A job that goes on without who is lost, of one worker.
struct ElasticSolo {
  ElasticSolo() : collective(Arrived(&job), 0, 1 << 30) {}
  static ElasticJob* Arrived(ElasticJob* job) {
    job->Arrive(0);
    return job;
  }
  Collective* get() { return &collective; }
  ElasticJob job;
  ElasticCollective collective;
};

// A row that the other ranks' state counts, and that rank 0 was lost before it
// had written, in whole or in part.
TEST(RowFileTest, TheLastRowIsWrittenByWhoeverOpensTheFileAgain) {
  const std::string rows[] = {"head\n", "0,1.5\n", "1,1.25\n"};
  const std::string all = rows[0] + rows[1] + rows[2];
  for (const size_t there :
       {all.size(), all.size() - 1, all.size() - 3,
        rows[0].size() + rows[1].size(), rows[0].size() + rows[1].size() - 1,
        rows[0].size()}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    SoloCollective solo;
    RowFile others("some_logger", path), own("some_logger", path);
    ASSERT_TRUE(others.Open(&solo, false).ok());
    for (const std::string& row : rows) others.Write(row);
    std::vector<StateSpan> from, to;
    others.AppendState(&from);
    others.AppendLiveState(&from);
    own.AppendState(&to);
    own.AppendLiveState(&to);
    for (size_t i = 0; i < from.size(); ++i) {
      std::memcpy(to[i].data, from[i].data, from[i].bytes());
    }
    ASSERT_TRUE(own.StateLoaded().ok());
    WriteWhole(path, all.substr(0, there));
    testing::internal::CaptureStderr();
    ASSERT_TRUE(own.Open(&solo, false).ok());
    const std::string said = testing::internal::GetCapturedStderr();
    own.Close();
    const bool one_missing = there >= rows[0].size() + rows[1].size();
    EXPECT_EQ(ReadWhole(path), one_missing ? all : rows[0] + rows[2]) << there;
    EXPECT_EQ(said.empty(), one_missing) << said;
    EXPECT_EQ(own.offset(), static_cast<int64_t>(ReadWhole(path).size()));
  }
}

void CopyState(RowFile* from, RowFile* to) {
  std::vector<StateSpan> theirs, own;
  from->AppendState(&theirs);
  from->AppendLiveState(&theirs);
  to->AppendState(&own);
  to->AppendLiveState(&own);
  for (size_t i = 0; i < own.size(); ++i) {
    std::memcpy(own[i].data, theirs[i].data, own[i].bytes());
  }
  EXPECT_TRUE(to->StateLoaded().ok());
}

// A chief that stood still ends its step when it wakes up, and another has been
// the chief meanwhile.
TEST(RowFileTest, WhoDoesNotKnowThatItWasLostWritesNoRowTwice) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  ElasticSolo solo, others;
  RowFile stale("some_logger", path), next("some_logger", path);
  ASSERT_TRUE(stale.Open(solo.get(), false).ok());
  for (const char* row : {"head\n", "0,1.5\n"}) stale.Write(row);
  CopyState(&stale, &next);
  ASSERT_TRUE(next.Open(others.get(), false).ok());
  for (const char* row : {"1,1.25\n", "2,1\n"}) next.Write(row);
  const std::string all = "head\n0,1.5\n1,1.25\n2,1\n";
  stale.Write("1,1.25\n");
  EXPECT_EQ(ReadWhole(path), all);
  stale.Write("2,1\n");
  EXPECT_EQ(ReadWhole(path), all);
  stale.Write("3,0.75\n");
  EXPECT_EQ(ReadWhole(path), all + "3,0.75\n");
  EXPECT_EQ(stale.offset(), static_cast<int64_t>(all.size()) + 7);
}

// The chiefs of two parts, with one file, compute the same rows.
TEST(RowFileTest, TwoChiefsWriteEachRowOnce) {
  for (int round = 0; round < 20; ++round) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    ElasticSolo solos[2];
    RowFile first("some_logger", path), second("some_logger", path);
    ASSERT_TRUE(first.Open(solos[0].get(), false).ok());
    std::string all = "head\n";
    first.Write(all);
    CopyState(&first, &second);
    std::atomic<int> ready{0};
    const auto writes = [&](RowFile* file, Collective* collective) {
      if (file == &second) {
        ASSERT_TRUE(file->Open(collective, false).ok());
      }
      ++ready;
      while (ready < 2) std::this_thread::yield();
      for (int i = 0; i < 500; ++i) {
        file->Write(std::to_string(i) + std::string(i % 40, ',') + "\n");
      }
      file->Close();
    };
    std::thread other(writes, &second, solos[1].get());
    writes(&first, solos[0].get());
    other.join();
    for (int i = 0; i < 500; ++i) {
      all += std::to_string(i) + std::string(i % 40, ',') + "\n";
    }
    ASSERT_EQ(ReadWhole(path), all);
  }
}

// So too where the disk is full for both, and has space again.
TEST(RowFileTest, TwoChiefsOnAFullDiskWriteEachRowOnce) {
  for (const size_t space : {0, 3, 6, 9}) {
    SCOPED_TRACE(space);
    TempFolder folder;
    const std::string path = folder / "log.csv";
    ElasticSolo solos[2];
    RowFile first("some_logger", path), second("some_logger", path);
    ASSERT_TRUE(first.Open(solos[0].get(), false).ok());
    std::string all = "head\n";
    first.Write(all);
    CopyState(&first, &second);
    ASSERT_TRUE(second.Open(solos[1].get(), false).ok());
    testing::internal::CaptureStderr();
    const auto write = [&](RowFile* file, int row) {
      file->Write(std::to_string(row) + ",0.5\n");
    };
    {
      FullDisk full(all.size() + space);
      for (const int row : {0, 1, 2}) {
        write(&first, row);
        write(&second, row);
      }
    }
    for (const int row : {3, 4}) write(&first, row);
    for (const int row : {3, 4, 5}) write(&second, row);
    write(&first, 5);
    testing::internal::GetCapturedStderr();
    for (int row = 0; row < 6; ++row) all += std::to_string(row) + ",0.5\n";
    EXPECT_EQ(ReadWhole(path), all);
  }
}

// One stands still while it writes.
TEST(RowFileTest, AHeldLogIsNotWaitedForAgainAndAgain) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  ElasticSolo solo;
  RowFile file("some_logger", path);
  ASSERT_TRUE(file.Open(solo.get(), false).ok());
  std::unique_ptr<HeldLock> held;
  ASSERT_TRUE(FileSystem::Posix()->LockFile(path, &held).ok());
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    file.Write("row\n");
    all += "row\n";
  }
  EXPECT_EQ(ReadWhole(path), all);
}

// A part of the job goes on from where it was, in the file of one that has gone
// further: its rows are there, and stay; those of another run do not.
TEST(RowFileTest, WhoIsBehindTakesNoRowsAway) {
  const std::string head = "head\n0,1.5\n", more = "1,1.25\n2,1\n";
  for (const bool same : {true, false}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    ElasticSolo solo;
    RowFile behind("some_logger", path);
    ASSERT_TRUE(behind.Open(solo.get(), false).ok());
    for (const char* row : {"head\n", "0,1.5\n"}) behind.Write(row);
    behind.Close();
    WriteWhole(path, head + more + "3,0.");
    ASSERT_TRUE(behind.Open(solo.get(), false).ok());
    EXPECT_EQ(ReadWhole(path), head + more);
    behind.Write(same ? "1,1.25\n" : "1,7\n");
    EXPECT_EQ(ReadWhole(path), head + (same ? more : "1,7\n"));
    behind.Write("2,1\n");
    behind.Write("3,0.75\n");
    EXPECT_EQ(ReadWhole(path),
              head + (same ? more : "1,7\n2,1\n") + "3,0.75\n");
  }
}

// Nor do those of a chief that goes on with a wrong machine's numbers, and has
// not heard that it was named.
TEST(RowFileTest, RowsOfBeforeAVerdictDoNotStay) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  ElasticSolo solos[2];
  RowFile right("some_logger", path), wrong("some_logger", path);
  ASSERT_TRUE(right.Open(solos[0].get(), false).ok());
  std::string all = "head\n";
  right.Write(all);
  CopyState(&right, &wrong);
  ASSERT_TRUE(wrong.Open(solos[1].get(), false).ok());
  for (int i = 0; i < 9; ++i) wrong.Write(std::to_string(i) + ",7\n");
  right.Close();
  ASSERT_TRUE(right.Open(solos[0].get(), false, true, /*named=*/true).ok());
  for (const char* row : {"0,1\n", "1,1.5\n", "2,1.25\n"}) {
    right.Write(row);
    all += row;
    EXPECT_EQ(ReadWhole(path), all);
    wrong.Write("9,7\n");
  }
  right.Write("3,1\n");
  EXPECT_EQ(ReadWhole(path), all + "3,1\n");
}

// So too where it goes back to before its first row.
TEST(RowFileTest, WhoGoesBackToTheBeginTakesNoRowsAway) {
  for (const bool append : {false, true}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    WriteWhole(path, "of a run before\n");
    const std::string before = append ? "of a run before\n" : "";
    ElasticSolo solo;
    RowFile file("some_logger", path);
    ASSERT_TRUE(file.Open(solo.get(), append).ok());
    for (const char* row : {"head\n", "0,1.5\n"}) file.Write(row);
    file.Reset(/*goes_on=*/true);
    ASSERT_TRUE(file.Open(solo.get(), append).ok());
    EXPECT_EQ(ReadWhole(path), before + "head\n0,1.5\n");
    for (const char* row : {"head\n", "0,1.5\n", "1,1.25\n"}) file.Write(row);
    const std::string all = before + "head\n0,1.5\n1,1.25\n";
    EXPECT_EQ(ReadWhole(path), all);
    file.Reset();  // of another fit
    ASSERT_TRUE(file.Open(solo.get(), append).ok());
    EXPECT_EQ(ReadWhole(path), append ? all : "");
  }
}

// … or to the backup that it began with, of which there is no last row, or that
// of another time; on one disk another may be the chief then.
TEST(RowFileTest, WhoGoesBackToABackupWritesNoRowTwice) {
  const std::string all = "head\n0,1.5\n1,1.25\n2,1\n3,0.75\n";
  constexpr int64_t kSaved = 18;  // bytes
  for (const bool stale : {false, true}) {
    SCOPED_TRACE(stale);
    TempFolder folder;
    const std::string path = folder / "log.csv";
    WriteWhole(path, all);
    ElasticJob job;
    for (int w = 0; w < 2; ++w) job.Arrive(w);
    std::vector<std::thread> threads;
    for (int w = 0; w < 2; ++w) {
      threads.emplace_back([&, w] {
        ElasticCollective collective(&job, w, 1 << 30);
        RowFile file("some_logger", path);
        std::vector<StateSpan> spans, live;
        file.AppendState(&spans);
        file.AppendLiveState(&live);
        const auto restore = [&] {
          file.Reset(/*goes_on=*/true);
          *static_cast<int64_t*>(spans[0].data) = kSaved;
          if (!stale) return;
          std::memcpy(live[2].data, "0,1.5\n", 6);
          *static_cast<int64_t*>(live[3].data) = 6;
          *static_cast<int64_t*>(live[4].data) = 11;
        };
        restore();
        ASSERT_TRUE(file.Open(&collective, false, /*in_memory=*/false).ok());
        for (const char* row : {"2,1\n", "3,0.75\n"}) file.Write(row);
        file.Close();
        if (w == 0) return;
        ASSERT_EQ(collective.Barrier().code(), Code::kPeerLost);
        ASSERT_TRUE(collective.Reform().ok());
        restore();
        ASSERT_TRUE(file.Open(&collective, false).ok());
        for (const char* row : {"2,1\n", "3,0.75\n"}) file.Write(row);
        EXPECT_EQ(file.offset(), static_cast<int64_t>(all.size()));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ReadWhole(path), all);
  }
}

// Workers with disks of their own, or with one, of whom another is the chief
// again and again, and who start anew: no row is lost, none is in a file twice,
// and each file has a header and is in order.
TEST(RowFileTest, TheRowsOfManyChiefsAreAllThere) {
  testing::internal::CaptureStderr();
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    TempFolder folder;
    const bool shared = seed % 2 == 1;
    std::string paths[3];
    std::unique_ptr<RowFile> files[3];
    const auto start = [&](int w) {
      paths[w] = folder / (shared ? "log" : std::to_string(w));
      files[w] = std::make_unique<RowFile>("some_logger", paths[w]);
    };
    for (const int w : {0, 1, 2}) start(w);
    int rows = 0, chief = 0;
    ElasticSolo solo;
    ASSERT_TRUE(files[0]->Open(solo.get(), false).ok());
    files[0]->Write("step,loss\n");
    for (const int w : {1, 2}) CopyState(files[0].get(), files[w].get());
    for (int view = 0; view < 12; ++view) {
      const int donor = (chief + 1) % 3;
      const int count = static_cast<int>(random() % 4);
      for (int i = 0; i < count; ++i) {
        const std::string row = std::to_string(rows++) + ",0.5\n";
        files[chief]->Write(row);
        // What the others count, without a file.
        RowFile* const other = files[donor].get();
        other->Write(row);
      }
      // The chief may write one more, or be lost before it wrote the last.
      const int how = static_cast<int>(random() % 3);
      if (how == 1) files[chief]->Write(std::to_string(rows) + ",0.5\n");
      const std::string text = ReadWhole(paths[chief]);
      files[chief]->Close();
      if (how == 2 && count > 0) {
        const size_t cut = random() % 4;
        WriteWhole(paths[chief], text.substr(0, text.size() - 1 - cut));
      }
      const int next = static_cast<int>(random() % 3);
      std::unique_ptr<RowFile> last = std::move(files[donor]);
      for (const int w : {0, 1, 2}) {
        start(w);
        CopyState(last.get(), files[w].get());
      }
      chief = next;
      ASSERT_TRUE(files[chief]->Open(solo.get(), false).ok());
      for (const int w : {0, 1, 2}) {
        if (w != chief) CopyState(files[chief].get(), files[w].get());
      }
    }
    std::set<int> seen;
    for (int w = 0; w < 3; ++w) {
      files[w]->Close();
      if (!std::filesystem::exists(paths[w])) continue;
      std::istringstream lines(ReadWhole(paths[w]));
      std::string line;
      std::getline(lines, line);
      EXPECT_EQ(line, "step,loss");
      for (int before = -1; std::getline(lines, line);) {
        if (lines.eof()) break;  // torn, and its worker never was chief again
        const int step = std::stoi(line);
        EXPECT_EQ(line, std::to_string(step) + ",0.5");
        EXPECT_GT(step, before);
        if (shared) {
          EXPECT_EQ(step, before + 1);
        }
        before = step;
        seen.insert(step);
      }
    }
    seen.erase(rows);  // one more
    EXPECT_EQ(seen.size(), static_cast<size_t>(rows));
  }
  testing::internal::GetCapturedStderr();
}

std::string RowOf(int step, size_t bytes) {
  std::string row = std::to_string(step) + ",";
  return row + std::string(bytes - row.size() - 1, 'x') + "\n";
}

// What the job's memory was at, before a newer backup, is of no account.
TEST(RowFileTest, ABackupCutsWhereItWasMade) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  ElasticSolo solo;
  RowFile others("some_logger", path), own("some_logger", path);
  ASSERT_TRUE(others.Open(solo.get(), false).ok());
  std::string rows = "head\n";
  others.Write(rows);
  int64_t saved = 0;
  for (int step = 0; step < 9; ++step) {
    if (step == 4) CopyState(&others, &own);
    if (step == 7) saved = others.offset();
    others.Write(RowOf(step, 20));
    if (step < 7) rows += RowOf(step, 20);
  }
  others.Close();
  std::vector<StateSpan> spans;
  own.AppendState(&spans);
  *static_cast<int64_t*>(spans[0].data) = saved;
  ASSERT_TRUE(own.Open(solo.get(), false, /*in_memory=*/false).ok());
  own.Close();
  EXPECT_EQ(ReadWhole(path), rows);
}

// However long rows are, and however far back the last one is.
TEST(RowFileTest, NoTakeoverCutsOffWhatItCannotPlace) {
  for (const size_t bytes : {50, 3000, 5000, 40000}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    ElasticSolo solo;
    RowFile others("some_logger", folder / "other.csv");
    ASSERT_TRUE(others.Open(solo.get(), false).ok());
    others.Write("head\n");
    for (int step = 90; step < 100; ++step) others.Write(RowOf(step, bytes));
    // Its own, of before; and, after a break, rows that are yet to come.
    std::string before = "head\n", later;
    for (int step = 0; step < 40; ++step) before += RowOf(step, bytes);
    const bool known = bytes <= 4096;
    if (known) {
      before += RowOf(99, bytes);
      while (later.size() < 600000) later += RowOf(100, 4000);
    }
    WriteWhole(path, before + later);
    RowFile own("some_logger", path);
    CopyState(&others, &own);
    testing::internal::CaptureStderr();
    ASSERT_TRUE(own.Open(solo.get(), false).ok());
    own.Write("next\n");
    own.Close();
    testing::internal::GetCapturedStderr();
    EXPECT_TRUE(ReadWhole(path) == before + "next\n") << bytes;
  }
}

// Which the chief of before would have begun anew.
TEST(RowFileTest, RowsOfAnOlderRunAreSetAside) {
  TempFolder folder;
  const std::string path = folder / "1.csv";
  const std::string old = "head\n0,9\n1,9\n2,9\n3,9\n4,9\n";
  WriteWhole(path, old);
  std::unique_ptr<RowFile> files[2];
  RunRanks(2, [&](Collective* collective) {
    const int rank = collective->rank();
    files[rank] = std::make_unique<RowFile>(
        "some_logger", folder / (std::to_string(rank) + ".csv"));
    RowFile& file = *files[rank];
    EXPECT_TRUE(file.Open(collective, false).ok());
    for (const char* row : {"head\n", "0,1\n", "1,1\n"}) file.Write(row);
  });
  EXPECT_EQ(ReadWhole(path), old);
  RowFile kept("some_logger", "");
  CopyState(files[1].get(), &kept);
  files[1]->Reset();
  CopyState(&kept, files[1].get());
  ElasticSolo solo;
  testing::internal::CaptureStderr();
  ASSERT_TRUE(files[1]->Open(solo.get(), false).ok());
  files[1]->Write("2,1\n");
  files[1]->Close();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("rows of another run"), std::string::npos) << said;
  EXPECT_EQ(ReadWhole(path), "head\n1,1\n2,1\n");
  EXPECT_EQ(ReadWhole(path + ".old"), old);
}

TEST(RowFileTest, ALogThatCannotBeOpenedEndsNoElasticJob) {
  TempFolder folder;
  ElasticSolo solo;
  RowFile others("some_logger", folder / "other.csv");
  RowFile own("some_logger", folder / "none/log.csv");
  ASSERT_TRUE(others.Open(solo.get(), false).ok());
  others.Write("head\n");
  CopyState(&others, &own);
  testing::internal::CaptureStderr();
  EXPECT_TRUE(own.Open(solo.get(), false).ok());
  std::string header;
  EXPECT_TRUE(own.ReadHeader(solo.get(), &header).ok());
  own.Write("0,1\n");
  own.Close();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("its rows are lost"), std::string::npos) << said;
  // At the start it is an error.
  EXPECT_FALSE(RowFile("some_logger", folder / "none/log.csv")
                   .Open(solo.get(), false)
                   .ok());
}

TEST(RowFileTest, NothingIsWrittenThroughALinkToAFile) {
  TempFolder folder;
  const std::string precious = folder / "precious", log = folder / "log.csv";
  WriteWhole(precious, "not a log\n");
  std::filesystem::create_symlink(precious, log);
  SoloCollective solo;
  for (const bool append : {false, true}) {
    RowFile file("some_logger", log);
    const Status status = file.Open(&solo, append);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find("is a symbolic link"),
              std::string::npos)
        << status.message();
    EXPECT_EQ(ReadWhole(precious), "not a log\n");
  }
  std::filesystem::create_symlink("loop", folder / "loop");
  RowFile loop("some_logger", folder / "loop");
  EXPECT_EQ(loop.Open(&solo, false).code(), Code::kInvalidArgument);
  // A folder's link, and one to what is no file, as /dev/stdout is.
  std::filesystem::create_directory(folder / "real");
  std::filesystem::create_directory_symlink(folder / "real", folder / "logs");
  RowFile within("some_logger", folder / "logs/log.csv");
  EXPECT_TRUE(within.Open(&solo, false).ok());
  std::filesystem::create_symlink("/dev/null", folder / "null");
  RowFile device("some_logger", folder / "null");
  EXPECT_TRUE(device.Open(&solo, false).ok());
}

// Each row is the step's own, whatever came before it.
TEST(StepLoggerTest, ARowIsTheStepAlone) {
  TempFolder folder;
  const std::string path = folder / "steps.csv";
  const float x[4] = {0, 0, 0, 0}, y[4] = {1e12f, 1e12f, 2, 2};
  Sequential model({Input({1}), Dense(1)});
  model.Compile(SGD(0.0f), MeanSquaredError());
  FitOptions options = Quiet(2);
  options.callbacks = {StepLogger(path)};
  const Dataset data(
      MemorySource({DType::kFloat32, {1}}, x, {DType::kFloat32, {1}}, y, 4));
  ASSERT_TRUE(model.Fit(data.Batch(2), options).ok());
  const std::string large = "1.0000000138484279e+24";  // float32's 1e24
  EXPECT_EQ(ReadWhole(path), "epoch,step,loss\n0,0," + large + "\n0,1,4\n1,0," +
                                 large + "\n1,1,4\n");
}

// Notes Model::weights_digest after each step.
class NotesDigests final : public Callback {
 public:
  const char* name() const override { return "notes_digests"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    rows += HexText(fit.model->weights_digest()) + "\n";
    return Status();
  }
  std::string rows;
};

TEST(StepLoggerTest, DigestsAreTheLastColumn) {
  TempFolder folder;
  const std::string path = folder / "steps.csv";
  auto model = TinyModel();
  FitOptions options = Quiet(2);
  const auto notes = std::make_shared<NotesDigests>();
  options.callbacks = {StepLogger(path, /*digests=*/true), notes};
  ASSERT_TRUE(model->Fit(Points(32).Batch(8), options).ok());
  std::string digests;
  std::istringstream rows(ReadWhole(path));
  for (std::string row; std::getline(rows, row);) {
    digests += row.substr(row.rfind(',') + 1) + "\n";
  }
  EXPECT_EQ(digests, "weights_digest\n" + notes->rows);
  EXPECT_NE(digests.substr(15, 16), digests.substr(32, 16));
}

TEST(StepLoggerTest, ALogThatIsGoneOnWithKeepsItsColumns) {
  TempFolder folder;
  for (const bool before : {false, true}) {
    const std::string path = folder / (before ? "with.csv" : "without.csv");
    const std::string header = std::string("epoch,step,loss,accuracy") +
                               (before ? ",weights_digest\n" : "\n");
    WriteWhole(path, header);
    auto model = TinyModel();
    const auto logger = StepLogger(path, !before);
    FitState fit;
    fit.model = model.get();
    ASSERT_TRUE(logger->OnSetup(fit).ok());
    std::vector<StateSpan> spans;
    logger->AppendState(&spans);
    *static_cast<int64_t*>(spans[0].data) = static_cast<int64_t>(header.size());
    ASSERT_TRUE(logger->StateLoaded().ok());
    ASSERT_TRUE(logger->OnTrainBatchBegin(fit).ok());
    ASSERT_TRUE(logger->OnTrainBatchEnd(fit, {}).ok());
    ASSERT_TRUE(logger->OnTrainEnd(fit, {}).ok());
    const std::string row =
        before ? "0,0,0,0," + HexText(model->weights_digest()) : "0,0,0,0";
    EXPECT_EQ(ReadWhole(path), header + row + "\n");
  }
}

TEST(StepLoggerTest, LossThatIsNotANumberHasNoSign) {
  TempFolder folder;
  auto model = TinyModel(SGD(1e30f));
  FitOptions options = Quiet(3);
  options.callbacks = {StepLogger(folder / "steps.csv")};
  ASSERT_TRUE(model->Fit(Points(32).Batch(4), options).ok());
  const std::string rows = ReadWhole(folder / "steps.csv");
  EXPECT_NE(rows.find(",nan"), std::string::npos) << rows;
  EXPECT_EQ(rows.find("-nan"), std::string::npos) << rows;
}

TEST(CSVLoggerTest, FileThatCannotBeWrittenIsNamed) {
  auto model = TinyModel();
  FitOptions options = Quiet(1);
  options.callbacks = {CSVLogger("/nowhere/log.csv")};
  const auto history = model->Fit(Points(8).Batch(8), options);
  EXPECT_NE(std::string(history.status().message()).find("/nowhere/log.csv"),
            std::string::npos);
}

TEST(CSVLoggerTest, LossThatIsNotANumberHasNoSign) {
  TempFolder folder;
  auto model = TinyModel(SGD(1e30f));
  FitOptions options = Quiet(3);
  options.callbacks = {CSVLogger(folder / "log.csv")};
  const auto history = model->Fit(Points(32).Batch(4), options);
  ASSERT_TRUE(history.ok());
  const double loss = history->Values("loss").back();
  ASSERT_TRUE(std::isnan(loss));
  EXPECT_FALSE(std::signbit(loss));
  const std::string rows = ReadWhole(folder / "log.csv");
  EXPECT_NE(rows.find(",nan"), std::string::npos) << rows;
  EXPECT_EQ(rows.find("-nan"), std::string::npos) << rows;
}

// Each operation fails in turn, once, with writes of any length: the rows are
// all there in the end, each once.
TEST(RowFileTest, NoRowIsLostOrDoubledByAFailedOperation) {
  SoloCollective solo;
  std::string expected;
  for (int i = 0; i < 8; ++i) expected += std::to_string(i) + ",row\n";
  for (int64_t fail = 0; fail < 40; ++fail) {
    for (const size_t longest : {0, 1, 3}) {
      SimulatedFileSystem files;
      ASSERT_TRUE(files.MakeDirectory("logs").ok());
      files.set_longest_write(longest);
      RowFile file("some_logger", "logs/log.csv", &files);
      ASSERT_TRUE(file.Open(&solo, /*append=*/false).ok());
      if (fail > 0) files.FailAfter(fail, fail % 2 == 0 ? ENOSPC : EINTR);
      for (int i = 0; i < 8; ++i) file.Write(std::to_string(i) + ",row\n");
      files.FailNoMore();
      file.Close();
      EXPECT_EQ(*files.Content("logs/log.csv"), expected) << fail;
      EXPECT_EQ(file.offset(), static_cast<int64_t>(expected.size()));
    }
  }
}

}  // namespace
}  // namespace ringlet
