#include "io/logs/row_file.h"

#include <gtest/gtest.h>

#include <memory>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/base/solo_collective.h"
#include "ringlet/fit.h"
#include "ringlet/loggers.h"
#include "row_file_jobs.h"

namespace ringlet {
namespace {

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

TEST(RowFileTest, Offset_EveryRank_CountsTheBytesOfTheRows) {
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
      EXPECT_OK(model->Fit(Points(24).Batch(6), options).status());
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

// The backup has 13 bytes of rows.
//
// rows in the file           of these bytes  expected
// a whole and a partial one  9 are whole     the partial row is cut
// others, none ends at 13    none is whole   nothing is cut
TEST(RowFileTest, Resume_FileWithoutTheBackupsRow_AllRanksCountWhatIsThere) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  testing::internal::CaptureStderr();
  const std::string others = "head\n1,2\n1,2345678\n1,2\n";
  for (const auto& [left, kept] :
       {std::pair<std::string, std::string>{"head\n1,2\n1,", "head\n1,2\n"},
        {others, others}}) {
    WriteWhole(path, left);
    int64_t offsets[2] = {};
    RunRanks(2, [&](Collective* collective) {
      RowFile file("some_logger", path);
      std::vector<StateSpan> spans;
      file.AppendState(&spans);
      *static_cast<int64_t*>(spans[0].data) = 13;
      EXPECT_OK(file.Open(collective, /*append=*/false, /*in_memory=*/false));
      file.Write("3,4\n");
      offsets[collective->rank()] = file.offset();
    });
    EXPECT_EQ(ReadWhole(path), kept + "3,4\n");
    for (const int64_t offset : offsets) {
      EXPECT_EQ(offset, static_cast<int64_t>(kept.size()) + 4);
    }
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  for (const char* const size : {"11", "23"}) {
    EXPECT_TRUE(
        Contains(printed, "no row of " + path + " ends at byte 13 of " + size));
  }
}

TEST(RowFileTest, Open_ChiefCannotWrite_EndsEveryRank) {
  RunRanks(2, [&](Collective* collective) {
    auto model = TinyModel(SGD(0.1f), 0, collective);
    FitOptions options = Quiet(1);
    options.callbacks = {CSVLogger("/nowhere/log.csv")};
    const auto history = model->Fit(Points(8).Batch(4), options);
    EXPECT_TRUE(Contains(history.status(), "/nowhere/log.csv"));
  });
}

// time  event                           log.csv  log.worker-0.csv
// 1     A writes rows 0 to 2            0, 1, 2  -
// 2     B, a second run, writes 0, 1    0, 1, 2  0, 1
// 3     A ends                          0, 1, 2  0, 1
// 4     B rolls back, and writes a row  0, 1, 2  0 or 0, 1, 2
// 5     B has another fit               -        0 or 0, 1, 2
TEST(RowFileTest, Rollback_LogIsFreeByThen_StaysWithTheFileBeside) {
  for (const bool to_begin : {true, false}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    ElasticSolo parts[2];
    RowFile a("some_logger", path), b("some_logger", path), state("some", "");
    testing::internal::CaptureStderr();
    ASSERT_OK(a.Open(parts[0].get(), /*append=*/false));
    for (const char* row : {"head\n", "0,9\n", "1,9\n", "2,9\n"}) a.Write(row);
    ASSERT_OK(b.Open(parts[1].get(), /*append=*/false));
    for (const char* row : {"head\n", "0,1\n", "1,1\n"}) b.Write(row);
    a.Close();
    CopyState(&b, &state);
    b.Reset(/*after_loss=*/true);
    if (!to_begin) CopyState(&state, &b);
    ASSERT_OK(b.Open(parts[1].get(), /*append=*/false));
    testing::internal::GetCapturedStderr();
    if (b.offset() == 0) b.Write("head\n");
    b.Write(to_begin ? "0,1\n" : "2,1\n");
    const std::string beside =
        to_begin ? "head\n0,1\n" : "head\n0,1\n1,1\n2,1\n";
    EXPECT_EQ(ReadWhole(path), "head\n0,9\n1,9\n2,9\n");
    EXPECT_EQ(ReadWhole(folder / "log.worker-0.csv"), beside);
    b.Reset();
    ASSERT_OK(b.Open(parts[1].get(), /*append=*/false));
    EXPECT_EQ(ReadWhole(path), "");
    EXPECT_EQ(ReadWhole(folder / "log.worker-0.csv"), beside);
  }
}

// The file beside the log may have rows of an earlier run, or be no log.
TEST(RowFileTest, Open_FileBesideIsNotEmpty_KeepsItsBytes) {
  for (const std::string old : {"head\n0,9\n", "head\n0,9\n1,", "a note"}) {
    for (const bool takes_over : {false, true}) {
      SCOPED_TRACE(old + (takes_over ? ": takes over" : ": begins"));
      TempFolder folder;
      const std::string path = folder / "log.csv",
                        beside = folder / "log.worker-0.csv";
      WriteWhole(beside, old);
      ElasticSolo parts[2];
      RowFile a("some_logger", path), b("some_logger", path);
      testing::internal::CaptureStderr();
      ASSERT_OK(a.Open(parts[0].get(), /*append=*/false));
      for (const char* row : {"head\n", "0,1\n"}) a.Write(row);
      if (takes_over) CopyState(&a, &b);
      ASSERT_OK(b.Open(parts[1].get(), /*append=*/false));
      const std::string kept = ReadWhole(beside);
      b.Write("1,1\n");
      const std::string whole = old.substr(0, old.rfind('\n') + 1);
      EXPECT_EQ(kept.find(whole.empty() ? old + "\n" : whole), 0u) << kept;
      EXPECT_EQ(ReadWhole(beside), kept + "1,1\n");
      b.Reset(/*after_loss=*/true);  // rolls back to the run's start
      ASSERT_OK(b.Open(parts[1].get(), /*append=*/false));
      EXPECT_EQ(ReadWhole(beside), takes_over ? kept + "1,1\n" : kept);
      testing::internal::GetCapturedStderr();
    }
  }
}

// The backup was made by a process that wrote a file beside the log. It was
// made before the first row.
TEST(RowFileTest, Resume_AppendWithABackupOfByteZero_CutsNothing) {
  for (const std::string old : {"head\n0,9\n1,9\n", "a note"}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    WriteWhole(path, old);
    SoloCollective solo;
    RowFile file("some_logger", path);
    std::vector<StateSpan> spans;
    file.AppendState(&spans);
    *static_cast<int64_t*>(spans[0].data) = 0;
    testing::internal::CaptureStderr();
    ASSERT_OK(file.Open(&solo, /*append=*/true, /*in_memory=*/false));
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(Contains(printed, "no row of " + path + " ends at byte 0"));
    const std::string kept = old.back() == '\n' ? old : old + "\n";
    EXPECT_EQ(file.offset(), static_cast<int64_t>(kept.size()));
    file.Write("0,1\n");
    EXPECT_EQ(ReadWhole(path), kept + "0,1\n");
  }
}

TEST(RowFileTest, Open_LogAndFileBesideItAreHeld_FailsByName) {
  TempFolder folder;
  SoloCollective solo;
  const std::string path = folder / "steps";
  RowFile files[] = {
      {"some_logger", path}, {"some_logger", path}, {"some_logger", path}};
  testing::internal::CaptureStderr();
  ASSERT_OK(files[0].Open(&solo, /*append=*/false));
  ASSERT_OK(files[1].Open(&solo, /*append=*/false));
  const Status status = files[2].Open(&solo, /*append=*/false);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_TRUE(Contains(status, path + ".worker-0"));
}

// A rollback to before the first row.
TEST(RowFileTest, Rollback_ToTheBeginOfTheRun_CutsItsRowsAlone) {
  for (const bool append : {false, true}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    WriteWhole(path, "of a run before\n");
    const std::string before = append ? "of a run before\n" : "";
    ElasticSolo solo;
    RowFile file("some_logger", path);
    ASSERT_OK(file.Open(solo.get(), append));
    for (const char* row : {"head\n", "0,1.5\n"}) file.Write(row);
    file.Reset(/*after_loss=*/true);
    ASSERT_OK(file.Open(solo.get(), append));
    EXPECT_EQ(ReadWhole(path), before);
    for (const char* row : {"head\n", "0,1.5\n", "1,1.25\n"}) file.Write(row);
    const std::string all = before + "head\n0,1.5\n1,1.25\n";
    EXPECT_EQ(ReadWhole(path), all);
    file.Reset();  // the next fit begins
    ASSERT_OK(file.Open(solo.get(), append));
    EXPECT_EQ(ReadWhole(path), append ? all : "");
  }
}

// The state is from step 1, and the file has later rows, as at a rollback.
TEST(RowFileTest, Rollback_ToAStep_CutsBehindItsRow) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  ElasticSolo solo;
  RowFile file("some_logger", path), verified("some_logger", "");
  ASSERT_OK(file.Open(solo.get(), /*append=*/false));
  for (const char* row : {"head\n", "0,1.5\n"}) file.Write(row);
  CopyState(&file, &verified);
  for (const char* row : {"1,7\n", "2,7\n"}) file.Write(row);
  file.Reset(/*after_loss=*/true);
  CopyState(&verified, &file);
  ASSERT_OK(file.Open(solo.get(), /*append=*/false));
  EXPECT_EQ(ReadWhole(path), "head\n0,1.5\n");
  file.Write("1,1.25\n");
  EXPECT_EQ(ReadWhole(path), "head\n0,1.5\n1,1.25\n");
}

// A rollback to step 1, and then the state of a worker that needed none.
TEST(RowFileTest, Rollback_ThenANewerState_RowsInBetweenAreThere) {
  for (const int written_again : {0, 1, 3}) {
    SCOPED_TRACE(written_again);
    TempFolder folder;
    const std::string path = folder / "log.csv";
    ElasticSolo solo;
    RowFile file("some_logger", path), old("some_logger", ""),
        newer("some_logger", "");
    ASSERT_OK(file.Open(solo.get(), /*append=*/false));
    const std::vector<std::string> rows = {"1,7\n", "2,7\n", "3,7\n"};
    for (const char* row : {"head\n", "0,1.5\n"}) file.Write(row);
    CopyState(&file, &old);
    for (const std::string& row : rows) file.Write(row);
    CopyState(&file, &newer);
    file.Write("4,7\n");
    file.Reset(/*after_loss=*/true);
    CopyState(&old, &file);
    ASSERT_OK(file.Open(solo.get(), /*append=*/false));
    for (int i = 0; i < written_again; ++i) file.Write(rows[i]);
    file.Reset(/*after_loss=*/true);
    CopyState(&newer, &file);
    ASSERT_OK(file.Open(solo.get(), /*append=*/false));
    EXPECT_EQ(ReadWhole(path), "head\n0,1.5\n1,7\n2,7\n3,7\n");
    file.Write("4,7\n");
    file.Write("5,7\n");
    file.Close();
    EXPECT_EQ(ReadWhole(path), "head\n0,1.5\n1,7\n2,7\n3,7\n4,7\n5,7\n");
  }
}

// The state in memory was of a time before the newer backup. It does not count.
TEST(RowFileTest, Resume_RowsBehindTheBackup_AreCutOff) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  ElasticSolo solo;
  RowFile others("some_logger", path), own("some_logger", path);
  ASSERT_OK(others.Open(solo.get(), /*append=*/false));
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
  ASSERT_OK(own.Open(solo.get(), /*append=*/false, /*in_memory=*/false));
  own.Close();
  EXPECT_EQ(ReadWhole(path), rows);
}

// A file with the attribute "append only" refuses to be truncated.
TEST(RowFileTest, Open_NothingToCut_DoesNotTruncate) {
  SoloCollective solo;
  for (const bool resumed : {false, true}) {
    for (int64_t fail = 1; fail < 20; ++fail) {
      SimulatedFileSystem files;
      ASSERT_OK(files.MakeFolder("logs"));
      const int64_t rows = resumed ? 10 : 0;
      {
        RowFile file("some_logger", "logs/log.csv", &files);
        ASSERT_OK(file.Open(&solo, /*append=*/false));
        if (resumed) file.Write("head\n0,1\n\n");
      }
      RowFile file("some_logger", "logs/log.csv", &files);
      std::vector<StateSpan> spans;
      file.AppendState(&spans);
      if (resumed) *static_cast<int64_t*>(spans[0].data) = rows;
      files.FailAfter(fail, EPERM);
      file.Open(&solo, /*append=*/false, /*in_memory=*/false).IgnoreError();
      EXPECT_FALSE(Contains(files.last_failed(), "truncate"));
      files.FailNoMore();
    }
  }
}

TEST(RowFileTest, ReadHeader_FirstLineIsTooLong_EndsNoElasticJob) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  const std::string text = std::string(70000, 'x') + "\n";
  WriteWhole(path, text);
  ElasticSolo solo;
  RowFile others("some_logger", folder / "other.csv");
  RowFile own("some_logger", path);
  ASSERT_OK(others.Open(solo.get(), /*append=*/false));
  for (const char* row : {"head\n", "0,1\n"}) others.Write(row);
  CopyState(&others, &own);
  std::string header = "none read";
  testing::internal::CaptureStderr();
  ASSERT_OK(own.Open(solo.get(), /*append=*/false));
  EXPECT_OK(own.ReadHeader(solo.get(), /*in_memory=*/true, &header));
  EXPECT_TRUE(own.is_open());
  own.Write("1,1\n");
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(printed, path + ": its first line is not a header"));
  EXPECT_EQ(header, "");
  EXPECT_EQ(ReadWhole(path).substr(0, text.size()), text);
  EXPECT_FALSE(Contains(ReadWhole(path), "1,1\n"));
  // At the start it is an error.
  RowFile first("some_logger", path);
  own.Close();
  ASSERT_OK(first.Open(solo.get(), /*append=*/true));
  EXPECT_EQ(first.ReadHeader(solo.get(), /*in_memory=*/false, &header).code(),
            Code::kInvalidArgument);
}

TEST(RowFileTest, Open_LinkToAFile_IsRefused) {
  TempFolder folder;
  const std::string precious = folder / "precious", log = folder / "log.csv";
  WriteWhole(precious, "not a log\n");
  std::filesystem::create_symlink(precious, log);
  SoloCollective solo;
  for (const bool append : {false, true}) {
    RowFile file("some_logger", log);
    const Status status = file.Open(&solo, append);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "is a symbolic link"));
    EXPECT_EQ(ReadWhole(precious), "not a log\n");
  }
  std::filesystem::create_symlink("loop", folder / "loop");
  RowFile loop("some_logger", folder / "loop");
  EXPECT_EQ(loop.Open(&solo, /*append=*/false).code(), Code::kInvalidArgument);
  // A link to a folder, and a link to something that is no file, as
  // /dev/stdout.
  std::filesystem::create_directory(folder / "real");
  std::filesystem::create_directory_symlink(folder / "real", folder / "logs");
  RowFile within("some_logger", folder / "logs/log.csv");
  EXPECT_OK(within.Open(&solo, /*append=*/false));
  std::filesystem::create_symlink("/dev/null", folder / "null");
  RowFile device("some_logger", folder / "null");
  EXPECT_OK(device.Open(&solo, /*append=*/false));
}

}  // namespace
}  // namespace ringlet
