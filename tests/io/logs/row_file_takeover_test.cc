// RowFile: another chief writes on.

#include "io/logs/row_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "core/base/solo_collective.h"
#include "row_file_jobs.h"

namespace ringlet {
namespace {

// The chief is lost when its file has only the first `bytes` of a header and
// two rows. Another worker, which has the state with these rows, opens it.
struct TakenOver {
  std::string file, printed;
  int64_t offset;
};

TakenOver TakeOverAfter(size_t bytes, const std::vector<std::string>& rows) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  SoloCollective solo;
  RowFile chief("some_logger", path), next("some_logger", path);
  EXPECT_OK(chief.Open(&solo, /*append=*/false));
  for (const std::string& row : rows) chief.Write(row);
  CopyState(&chief, &next);
  chief.Close();
  WriteWhole(path, ReadWhole(path).substr(0, bytes));
  testing::internal::CaptureStderr();
  EXPECT_OK(next.Open(&solo, /*append=*/false));
  const std::string printed = testing::internal::GetCapturedStderr();
  next.Close();
  return {ReadWhole(path), printed, next.offset()};
}

TEST(RowFileTest, LastRow_LostInWholeOrInPart_IsWrittenByTheNextChief) {
  const std::vector<std::string> rows = {"head\n", "0,1.5\n", "1,1.25\n"};
  const std::string all = rows[0] + rows[1] + rows[2];
  for (const size_t bytes : {all.size(), all.size() - 1, all.size() - 3,
                             rows[0].size() + rows[1].size()}) {
    SCOPED_TRACE(bytes);
    const TakenOver taken = TakeOverAfter(bytes, rows);
    EXPECT_EQ(taken.file, all);
    EXPECT_EQ(taken.printed, "");
    EXPECT_EQ(taken.offset, static_cast<int64_t>(all.size()));
  }
}

// The state has the last row alone.
TEST(RowFileTest, LastTwoRows_LostInWholeOrInPart_OneIsMissingWithAMessage) {
  const std::vector<std::string> rows = {"head\n", "0,1.5\n", "1,1.25\n"};
  for (const size_t bytes :
       {rows[0].size() + rows[1].size() - 1, rows[0].size()}) {
    SCOPED_TRACE(bytes);
    const TakenOver taken = TakeOverAfter(bytes, rows);
    EXPECT_EQ(taken.file, rows[0] + rows[2]);
    EXPECT_NE(taken.printed, "");
    EXPECT_EQ(taken.offset, static_cast<int64_t>(taken.file.size()));
  }
}

// time  event                            log.csv        log.worker-0.csv
// 1     A writes rows 0 and 1            0, 1           -
// 2     B opens it with the state of A   0, 1           1
// 3     A writes row 2                   0, 1, 2        1
// 4     B writes rows 2 and 3            0, 1, 2        1, 2, 3
// 5     A closes; B goes on              0, 1, 2, 3     1, 2, 3
// 6     B writes row 4                   0, 1, 2, 3, 4  1, 2, 3
TEST(RowFileTest, Open_AnotherWriterHoldsTheLog_WritesBesideItUntilItIsFree) {
  TempFolder folder;
  const std::string path = folder / "log.csv",
                    beside = folder / "log.worker-0.csv";
  ElasticSolo parts[2];
  RowFile a("some_logger", path), b("some_logger", path);
  ASSERT_OK(a.Open(parts[0].get(), /*append=*/false));
  for (const char* row : {"head\n", "0,1.5\n", "1,1.25\n"}) a.Write(row);
  CopyState(&a, &b);
  testing::internal::CaptureStderr();
  ASSERT_OK(b.Open(parts[1].get(), /*append=*/false));
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(printed, "note: some_logger: another process writes " +
                                    path + "; this one writes " + beside));
  ASSERT_EQ(b.offset(), 0);
  b.Write("head\n");
  EXPECT_EQ(ReadWhole(beside), "head\n1,1.25\n");
  a.Write("2,1\n");
  for (const char* row : {"2,1\n", "3,0.75\n"}) b.Write(row);
  a.Close();
  RowFile next("some_logger", path);
  CopyState(&b, &next);
  b.Close();
  testing::internal::CaptureStderr();
  ASSERT_OK(next.Open(parts[1].get(), /*append=*/false));
  testing::internal::GetCapturedStderr();
  next.Write("4,0.5\n");
  EXPECT_EQ(ReadWhole(path), "head\n0,1.5\n1,1.25\n2,1\n3,0.75\n4,0.5\n");
  EXPECT_EQ(ReadWhole(beside), "head\n1,1.25\n2,1\n3,0.75\n");
}

// Both workers roll back to the backup that the run began with. In the first
// case there is no last row, in the second the last row of another time. On one
// disk the other worker may be the chief then.
TEST(RowFileTest, Rollback_ToTheBackup_NextChiefWritesNoRowTwice) {
  const std::string all = "head\n0,1.5\n1,1.25\n2,1\n3,0.75\n";
  constexpr int64_t kSaved = 18;  // bytes
  for (const bool stale : {false, true}) {
    SCOPED_TRACE(stale);
    TempFolder folder;
    const std::string path = folder / "log.csv";
    WriteWhole(path, all);
    ElasticJob job;
    for (int w = 0; w < 2; ++w) job.Arrive(w);
    RunThreads(2, [&](int w) {
      ElasticCollective collective(&job, w);
      RowFile file("some_logger", path);
      std::vector<StateSpan> spans, live;
      file.AppendState(&spans);
      file.AppendLiveState(&live);
      const auto restore = [&] {
        file.Reset(/*after_loss=*/true);
        *static_cast<int64_t*>(spans[0].data) = kSaved;
        if (!stale) return;
        std::memcpy(live[0].data, "0,1.5\n", 6);
        *static_cast<int64_t*>(live[1].data) = 6;
        *static_cast<int64_t*>(live[2].data) = 11;
      };
      restore();
      ASSERT_OK(file.Open(&collective, /*append=*/false, /*in_memory=*/false));
      for (const char* row : {"2,1\n", "3,0.75\n"}) file.Write(row);
      file.Close();
      if (w == 0) return;
      ASSERT_EQ(collective.Barrier().code(), Code::kPeerLost);
      ASSERT_OK(collective.Reform());
      restore();
      ASSERT_OK(file.Open(&collective, /*append=*/false));
      for (const char* row : {"2,1\n", "3,0.75\n"}) file.Write(row);
      EXPECT_EQ(file.offset(), static_cast<int64_t>(all.size()));
    });
    EXPECT_EQ(ReadWhole(path), all);
  }
}

// How the chief of a view ends.
enum class ChiefEnds : uint8_t {
  kCloses,       // lost after its last row
  kOneRowAhead,  // lost, and its file has a row that no other worker has
  kCutRow,       // lost before its last row is written whole
  kRollback,     // not lost, and all roll back to the view's start
};

// Three workers with own disks, or with one disk, go through kViews views. In
// each a worker is the chief, which writes up to 3 rows, and another worker has
// the same state. Then the chief ends, and each worker is started again or
// continues. The seed chooses all of it.
class RandomTakeovers {
 public:
  explicit RandomTakeovers(uint32_t seed)
      : random_(seed), shared_(seed % 2 == 1), append_(seed / 2 % 2 == 1) {
    for (int w = 0; w < kWorkers; ++w) Start(w);
  }

  void RunViews() {
    for (int w = 0; append_ && w < kWorkers; ++w) {
      const char* const more = random_() % 2 == 0 ? "-2,0.5\n" : "";
      WriteWhole(paths_[w], std::string("step,loss\n") + more + "-1,0.5\n");
    }
    ASSERT_OK(files_[0]->Open(solo_.get(), append_));
    CopyToOthers(0);
    for (int view = 0; view < kViews && !testing::Test::HasFailure(); ++view) {
      RunView();
    }
    // A row of the lost chief may wait for the header.
    if (files_[chief_]->offset() == 0) files_[chief_]->Write("step,loss\n");
  }

  // No row is lost, none is in a file twice, and each file has a header and is
  // in order.
  void CheckFiles() {
    std::set<int> seen;
    for (int w = 0; w < kWorkers; ++w) CheckFile(w, &seen);
    for (int row = 0; row < rows_; ++row) {
      EXPECT_EQ(seen.count(row), 1u) << row;
    }
    EXPECT_LE(seen.size(), static_cast<size_t>(most_rows_) + 1);
  }

 private:
  static constexpr int kWorkers = 3, kViews = 12;

  void Start(int w) {
    paths_[w] = folder_ / (shared_ ? "log" : std::to_string(w));
    files_[w] = std::make_unique<RowFile>("some_logger", paths_[w]);
  }
  void CopyToOthers(int from) {
    for (int w = 0; w < kWorkers; ++w) {
      if (w != from) CopyState(files_[from].get(), files_[w].get());
    }
  }

  void RunView() {
    const int donor = (chief_ + 1) % kWorkers;
    RowFile begin("some_logger", ""), end("some_logger", "");
    CopyState(files_[donor].get(), &begin);
    const int rows_before = rows_;
    const int count = static_cast<int>(random_() % 4);
    WriteRows(donor, count);
    auto ends = static_cast<ChiefEnds>(random_() % 4);
    // A file of its own keeps the rows of a worker that was started again and
    // is the chief once more, before any row was verified.
    if (ends == ChiefEnds::kRollback && append_ && !shared_ &&
        rows_before == 0) {
      ends = ChiefEnds::kCloses;
    }
    if (ends == ChiefEnds::kOneRowAhead && files_[chief_]->offset() > 0) {
      files_[chief_]->Write(std::to_string(rows_) + ",0.5\n");
    }
    CopyState(files_[donor].get(), &end);
    const std::string text = ReadWhole(paths_[chief_]);
    files_[chief_]->Close();
    if (ends == ChiefEnds::kCutRow && count > 0) {
      const size_t cut = random_() % 4;
      WriteWhole(paths_[chief_], text.substr(0, text.size() - 1 - cut));
    }
    if (ends == ChiefEnds::kRollback) rows_ = rows_before;
    NextChief(ends == ChiefEnds::kRollback ? &begin : &end);
  }
  void WriteRows(int donor, int count) {
    if (count > 0 && files_[chief_]->offset() == 0) {
      for (const int w : {chief_, donor}) files_[w]->Write("step,loss\n");
    }
    for (int i = 0; i < count; ++i) {
      const std::string row = std::to_string(rows_++) + ",0.5\n";
      files_[chief_]->Write(row);
      files_[donor]->Write(row);  // the donor only counts the row
    }
    most_rows_ = std::max(most_rows_, rows_);
  }
  void NextChief(RowFile* state) {
    for (int w = 0; w < kWorkers; ++w) {
      if (random_() % 2 == 0) {
        Start(w);
      } else {
        files_[w]->Reset(/*after_loss=*/true);
      }
      CopyState(state, files_[w].get());
    }
    chief_ = static_cast<int>(random_() % kWorkers);
    ASSERT_OK(files_[chief_]->Open(solo_.get(), append_));
    CopyToOthers(chief_);
  }

  void CheckFile(int w, std::set<int>* seen) {
    files_[w]->Close();
    if (!std::filesystem::exists(paths_[w])) return;
    std::istringstream lines(ReadWhole(paths_[w]));
    std::string line;
    // A chief that has written no row leaves an empty file.
    if (!std::getline(lines, line)) return;
    EXPECT_EQ(line, "step,loss");
    int before = -1;
    for (bool first = true; std::getline(lines, line); first = false) {
      // The row is cut off, and worker w was not the chief again.
      if (lines.eof()) break;
      const int step = std::stoi(line);
      EXPECT_EQ(line, std::to_string(step) + ",0.5");
      if (append_ && first) before = step - 1;
      EXPECT_GT(step, before);
      if (shared_) {
        EXPECT_EQ(step, before + 1);
      }
      before = step;
      if (step >= 0) seen->insert(step);
    }
  }

  std::mt19937 random_;
  const bool shared_;  // all workers have one disk
  const bool append_;  // the file has rows of another run
  const TempFolder folder_;
  std::string paths_[kWorkers];
  std::unique_ptr<RowFile> files_[kWorkers];
  ElasticSolo solo_;
  int rows_ = 0, most_rows_ = 0, chief_ = 0;
};

TEST(RowFileTest, Takeovers_AtRandom_EachRowIsThereOnceAndInOrder) {
  testing::internal::CaptureStderr();
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomTakeovers takeovers(seed);
    takeovers.RunViews();
    takeovers.CheckFiles();
  }
  testing::internal::GetCapturedStderr();
}

// However long rows are, and however far back the last one is.
TEST(RowFileTest, Takeover_RowsOfItsOwn_CutsOnlyBehindAKnownRow) {
  for (const size_t bytes : {50, 3000, 5000, 40000}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    ElasticSolo solo;
    RowFile others("some_logger", folder / "other.csv");
    ASSERT_OK(others.Open(solo.get(), /*append=*/false));
    others.Write("head\n");
    for (int step = 90; step < 100; ++step) others.Write(RowOf(step, bytes));
    // Earlier rows of the file, and, after a break, later ones.
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
    ASSERT_OK(own.Open(solo.get(), /*append=*/false));
    own.Write("next\n");
    own.Close();
    testing::internal::GetCapturedStderr();
    EXPECT_TRUE(ReadWhole(path) == before + "next\n") << bytes;
  }
}

// A worker that becomes the chief has the log of an earlier run on its disk.
// The log is not cut.
TEST(RowFileTest, Takeover_LogOfAnOlderRun_AppendsBehindIt) {
  TempFolder folder;
  const std::string path = folder / "1.csv";
  const std::string old = "head\n0,9\n1,9\n2,9\n3,9\n4,9\n";
  WriteWhole(path, old);
  ElasticSolo solo;
  RowFile first("some_logger", folder / "0.csv"), next("some_logger", path);
  ASSERT_OK(first.Open(solo.get(), /*append=*/false));
  for (const char* row : {"head\n", "0,1\n", "1,1\n"}) first.Write(row);
  CopyState(&first, &next);
  testing::internal::CaptureStderr();
  ASSERT_OK(next.Open(solo.get(), /*append=*/false));
  next.Write("2,1\n");
  next.Close();
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(
      Contains(printed, "no row of " + path + " ends at byte 13 of 25"));
  EXPECT_EQ(ReadWhole(path), old + "1,1\n2,1\n");
}

TEST(RowFileTest, Takeover_LogCannotBeOpened_JobContinuesWithAWarning) {
  TempFolder folder;
  ElasticSolo solo;
  RowFile others("some_logger", folder / "other.csv");
  RowFile own("some_logger", folder / "none/log.csv");
  ASSERT_OK(others.Open(solo.get(), /*append=*/false));
  others.Write("head\n");
  CopyState(&others, &own);
  testing::internal::CaptureStderr();
  EXPECT_OK(own.Open(solo.get(), /*append=*/false));
  std::string header;
  EXPECT_OK(own.ReadHeader(solo.get(), /*in_memory=*/true, &header));
  own.Write("0,1\n");
  own.Close();
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(printed, "its rows are lost"));
  // At the start of a run such a log is an error.
  EXPECT_FALSE(RowFile("some_logger", folder / "none/log.csv")
                   .Open(solo.get(), /*append=*/false)
                   .ok());
}

// The job's other ranks count on from the state's offset.
TEST(RowFileTest, Takeover_FileCannotBeCut_KeepsTheStatesOffset) {
  ElasticSolo solo;
  int truncates = 0;
  for (int64_t fail = 1; fail < 20; ++fail) {
    SimulatedFileSystem files;
    ASSERT_OK(files.MakeFolder("logs"));
    RowFile others("some_logger", "logs/0", &files);
    RowFile older("some_logger", "logs/1", &files);
    RowFile own("some_logger", "logs/1", &files);
    ASSERT_OK(others.Open(solo.get(), /*append=*/false));
    for (const char* row : {"head\n", "0,1\n", "1,1\n"}) others.Write(row);
    ASSERT_OK(older.Open(solo.get(), /*append=*/false));
    older.Write("other head\n0,1\n1,1\n2,1\n");
    older.Close();
    CopyState(&others, &own);
    files.FailAfter(fail, EPERM);
    testing::internal::CaptureStderr();
    const Status opened = own.Open(solo.get(), /*append=*/false);
    const std::string printed = testing::internal::GetCapturedStderr();
    if (files.last_failed().find("truncate") == std::string::npos) continue;
    files.FailNoMore();
    ++truncates;
    EXPECT_OK(opened);
    EXPECT_TRUE(Contains(printed, "its rows are lost"));
    EXPECT_EQ(own.offset(), others.offset());
  }
  EXPECT_EQ(truncates, 1);
}

// After a loss `file` continues from the state of `from`.
void ContinueFrom(RowFile* from, RowFile* file, Collective* collective,
                  bool append) {
  file->Reset(/*after_loss=*/true);
  CopyState(from, file);
  ASSERT_OK(file->Open(collective, append));
}

TEST(RowFileTest, Takeover_BeforeTheFirstRowOfAResumedRun_EachRowOnce) {
  for (const bool append : {false, true}) {
    TempFolder folder;
    ElasticSolo solo;
    WriteWhole(folder / "0.csv", "head\n0,1.5\n1,1.25\n");
    RowFile w0("some_logger", folder / "0.csv"),
        w1("some_logger", folder / "1.csv");
    std::vector<StateSpan> spans;
    w0.AppendState(&spans);
    *static_cast<int64_t*>(spans[0].data) = 18;
    ASSERT_OK(w0.Open(solo.get(), append, /*in_memory=*/false));
    CopyState(&w0, &w1);  // joined: the donor's state
    w0.Close();           // lost before the first row
    ContinueFrom(&w0, &w1, solo.get(), append);
    RowFile point("some_logger", "");
    CopyState(&w1, &point);  // verified at the view's start
    w1.Write("head\n");
    w1.Write("2,1\n");
    w1.Write("3,0.75\n");
    // Another worker is lost: rollback to the point.
    ContinueFrom(&point, &w1, solo.get(), append);
    if (w1.offset() == 0) w1.Write("head\n");
    w1.Write("2,1\n");
    w1.Write("3,0.75\n");
    w1.Close();
    EXPECT_EQ(ReadWhole(folder / "1.csv"), "head\n2,1\n3,0.75\n") << append;
  }
}

TEST(RowFileTest, Takeover_ThenAFileBeside_EachRowOnce) {
  TempFolder folder;
  ElasticSolo solo;
  const std::string path = folder / "log.csv";
  RowFile w0("some_logger", path), w1("some_logger", path);
  ASSERT_OK(w0.Open(solo.get(), /*append=*/false));
  CopyState(&w0, &w1);  // w0 is stalled, and keeps its lock
  ContinueFrom(&w0, &w1, solo.get(), /*append=*/false);
  RowFile point("some_logger", "");
  CopyState(&w1, &point);
  w1.Write("head\n");
  w1.Write("0,1\n");
  w1.Write("1,0.75\n");
  ContinueFrom(&point, &w1, solo.get(), /*append=*/false);
  if (w1.offset() == 0) w1.Write("head\n");
  w1.Write("0,1\n");
  w1.Write("1,0.75\n");
  w1.Close();
  EXPECT_EQ(ReadWhole(folder / "log.worker-0.csv"), "head\n0,1\n1,0.75\n");
}

TEST(RowFileTest, Takeover_SharedDiskBeforeTheFirstRow_EachRowOnce) {
  TempFolder folder;
  ElasticSolo solo;
  const std::string path = folder / "log.csv";
  WriteWhole(path, "head\n0,9\n");
  RowFile w0("some_logger", path), w1("some_logger", path);
  ASSERT_OK(w0.Open(solo.get(), /*append=*/true));
  CopyState(&w0, &w1);
  w0.Close();
  ContinueFrom(&w0, &w1, solo.get(), /*append=*/true);
  RowFile point("some_logger", "");
  CopyState(&w1, &point);
  w1.Write("1,1\n");
  w1.Write("2,0.75\n");
  ContinueFrom(&point, &w1, solo.get(), /*append=*/true);
  w1.Write("1,1\n");
  w1.Write("2,0.75\n");
  w1.Close();
  EXPECT_EQ(ReadWhole(path), "head\n0,9\n1,1\n2,0.75\n");
}

TEST(RowFileTest, Takeover_SharedDiskWithUnverifiedRows_TheyAreCut) {
  for (const bool in_memory : {true, false}) {
    TempFolder folder;
    ElasticSolo solo;
    const std::string path = folder / "log.csv";
    WriteWhole(path, "head\n0,9\n");
    RowFile w0("some_logger", path), w1("some_logger", path);
    std::vector<StateSpan> spans;
    w0.AppendState(&spans);
    *static_cast<int64_t*>(spans[0].data) = 9;
    ASSERT_OK(w0.Open(solo.get(), /*append=*/true, /*in_memory=*/false));
    RowFile point("some_logger", "");
    CopyState(&w0, &point);
    CopyState(&w0, &w1);
    w0.Write("1,1\n");
    w0.Write("2,0.75\n");
    w0.Close();
    w1.Reset(/*after_loss=*/true);
    CopyState(&point, &w1);
    ASSERT_OK(w1.Open(solo.get(), /*append=*/true, in_memory));
    w1.Write("1,1\n");
    w1.Write("2,0.75\n");
    w1.Close();
    EXPECT_EQ(ReadWhole(path), "head\n0,9\n1,1\n2,0.75\n") << in_memory;
  }
}

// The file has rows of another run, and one of them ends by chance where the
// run began in the lost chief's file.
TEST(RowFileTest, Takeover_RowOfAnotherRunEndsThere_NothingIsCut) {
  TempFolder folder;
  ElasticSolo solo;
  WriteWhole(folder / "0.csv", "head\n0,1.5\n");
  WriteWhole(folder / "1.csv", "head\n0,2.5\n1,2.5\n2,2.5\n");
  RowFile w0("some_logger", folder / "0.csv"),
      w1("some_logger", folder / "1.csv");
  std::vector<StateSpan> spans;
  w0.AppendState(&spans);
  *static_cast<int64_t*>(spans[0].data) = 11;
  ASSERT_OK(w0.Open(solo.get(), /*append=*/false, /*in_memory=*/false));
  ContinueFrom(&w0, &w1, solo.get(), /*append=*/false);
  w1.Write("1,1\n");
  w1.Close();
  EXPECT_EQ(ReadWhole(folder / "1.csv"), "head\n0,2.5\n1,2.5\n2,2.5\n1,1\n");
}

// The same, before the first row of the run.
TEST(RowFileTest, ReadHeader_TakeoverBeforeTheFirstRow_EndsNoElasticJob) {
  TempFolder folder;
  WriteWhole(folder / "1.csv", std::string(70000, 'x') + "\n");
  ElasticSolo solo;
  RowFile w0("some_logger", folder / "0.csv");
  RowFile w1("some_logger", folder / "1.csv");
  ASSERT_OK(w0.Open(solo.get(), /*append=*/true));
  CopyState(&w0, &w1);
  ASSERT_OK(w1.Open(solo.get(), /*append=*/true));
  std::string header;
  EXPECT_OK(w1.ReadHeader(solo.get(), /*in_memory=*/true, &header));
}

}  // namespace
}  // namespace ringlet
