#include "io/logs/row_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/full_disk.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/base/solo_collective.h"
#include "ringlet/fit.h"
#include "ringlet/loggers.h"

namespace ringlet {
namespace {

// Many rows come while none can be written. The oldest are kept, and the newest
// dropped. When there is room again, the log continues with whole rows.
TEST(RowFileTest, Write_DiskIsFullForLong_WaitingRowsAreBounded) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  SoloCollective solo;
  RowFile file("some_logger", path);
  std::string before = "head\n";
  before.append(4095, 'x').append("\n");
  ASSERT_TRUE(file.Open(&solo, false).ok());
  file.Write(before);
  const std::string row = std::string(9999, 'r') + "\n";
  const size_t most = RowWriter::kMaxKept / row.size() + 1;
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
  EXPECT_TRUE(Contains(said, "too many rows wait"));
  // Dropped rows count: the other ranks have no error of the full disk.
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
// a whole one and a torn one 9 are whole     the torn row is cut
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
      EXPECT_TRUE(file.Open(collective, false, /*in_memory=*/false).ok());
      file.Write("3,4\n");
      offsets[collective->rank()] = file.offset();
    });
    EXPECT_EQ(ReadWhole(path), kept + "3,4\n");
    for (const int64_t offset : offsets) {
      EXPECT_EQ(offset, static_cast<int64_t>(kept.size()) + 4);
    }
  }
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* const size : {"11", "23"}) {
    EXPECT_TRUE(
        Contains(said, "no row of " + path + " ends at byte 13 of " + size));
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

// An elastic job of one worker.
struct ElasticSolo {
  ElasticSolo() : collective(Arrived(&job), 0) {}
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
TEST(RowFileTest, LastRow_LostWriter_IsWrittenByTheNextOne) {
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
    others.Close();
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
  ASSERT_TRUE(a.Open(parts[0].get(), false).ok());
  for (const char* row : {"head\n", "0,1.5\n", "1,1.25\n"}) a.Write(row);
  CopyState(&a, &b);
  testing::internal::CaptureStderr();
  ASSERT_TRUE(b.Open(parts[1].get(), false).ok());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(said, "note: some_logger: another process writes " +
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
  ASSERT_TRUE(next.Open(parts[1].get(), false).ok());
  testing::internal::GetCapturedStderr();
  next.Write("4,0.5\n");
  EXPECT_EQ(ReadWhole(path), "head\n0,1.5\n1,1.25\n2,1\n3,0.75\n4,0.5\n");
  EXPECT_EQ(ReadWhole(beside), "head\n1,1.25\n2,1\n3,0.75\n");
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
    ASSERT_TRUE(a.Open(parts[0].get(), false).ok());
    for (const char* row : {"head\n", "0,9\n", "1,9\n", "2,9\n"}) a.Write(row);
    ASSERT_TRUE(b.Open(parts[1].get(), false).ok());
    for (const char* row : {"head\n", "0,1\n", "1,1\n"}) b.Write(row);
    a.Close();
    CopyState(&b, &state);
    b.Reset(/*after_loss=*/true);
    if (!to_begin) CopyState(&state, &b);
    ASSERT_TRUE(b.Open(parts[1].get(), false).ok());
    testing::internal::GetCapturedStderr();
    if (b.offset() == 0) b.Write("head\n");
    b.Write(to_begin ? "0,1\n" : "2,1\n");
    const std::string beside =
        to_begin ? "head\n0,1\n" : "head\n0,1\n1,1\n2,1\n";
    EXPECT_EQ(ReadWhole(path), "head\n0,9\n1,9\n2,9\n");
    EXPECT_EQ(ReadWhole(folder / "log.worker-0.csv"), beside);
    b.Reset();
    ASSERT_TRUE(b.Open(parts[1].get(), false).ok());
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
      ASSERT_TRUE(a.Open(parts[0].get(), false).ok());
      for (const char* row : {"head\n", "0,1\n"}) a.Write(row);
      if (takes_over) CopyState(&a, &b);
      ASSERT_TRUE(b.Open(parts[1].get(), false).ok());
      const std::string kept = ReadWhole(beside);
      b.Write("1,1\n");
      const std::string whole = old.substr(0, old.rfind('\n') + 1);
      EXPECT_EQ(kept.find(whole.empty() ? old + "\n" : whole), 0u) << kept;
      EXPECT_EQ(ReadWhole(beside), kept + "1,1\n");
      b.Reset(/*after_loss=*/true);  // rolls back to the run's start
      ASSERT_TRUE(b.Open(parts[1].get(), false).ok());
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
    ASSERT_TRUE(file.Open(&solo, /*append=*/true, /*in_memory=*/false).ok());
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(Contains(said, "no row of " + path + " ends at byte 0"));
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
  ASSERT_TRUE(files[0].Open(&solo, false).ok());
  ASSERT_TRUE(files[1].Open(&solo, false).ok());
  const Status status = files[2].Open(&solo, false);
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
    ASSERT_TRUE(file.Open(solo.get(), append).ok());
    for (const char* row : {"head\n", "0,1.5\n"}) file.Write(row);
    file.Reset(/*after_loss=*/true);
    ASSERT_TRUE(file.Open(solo.get(), append).ok());
    EXPECT_EQ(ReadWhole(path), before);
    for (const char* row : {"head\n", "0,1.5\n", "1,1.25\n"}) file.Write(row);
    const std::string all = before + "head\n0,1.5\n1,1.25\n";
    EXPECT_EQ(ReadWhole(path), all);
    file.Reset();  // of another fit
    ASSERT_TRUE(file.Open(solo.get(), append).ok());
    EXPECT_EQ(ReadWhole(path), append ? all : "");
  }
}

// The state is that of step 1, and the file has gone further, as at a rollback.
TEST(RowFileTest, Rollback_ToAStep_CutsBehindItsRow) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  ElasticSolo solo;
  RowFile file("some_logger", path), verified("some_logger", "");
  ASSERT_TRUE(file.Open(solo.get(), false).ok());
  for (const char* row : {"head\n", "0,1.5\n"}) file.Write(row);
  CopyState(&file, &verified);
  for (const char* row : {"1,7\n", "2,7\n"}) file.Write(row);
  file.Reset(/*after_loss=*/true);
  CopyState(&verified, &file);
  ASSERT_TRUE(file.Open(solo.get(), false).ok());
  EXPECT_EQ(ReadWhole(path), "head\n0,1.5\n");
  file.Write("1,1.25\n");
  EXPECT_EQ(ReadWhole(path), "head\n0,1.5\n1,1.25\n");
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
    EXPECT_EQ(ReadWhole(path), all);
  }
}

// How the chief of a view ends.
enum class ChiefEnds : uint8_t {
  kCloses,       // it is lost behind its last row
  kOneRowAhead,  // it is lost, and its file has a row that no other worker has
  kTornRow,      // it is lost before its last row is written whole
  kRollback,     // it is not lost, and all roll back to the view's start
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
    ASSERT_TRUE(files_[0]->Open(solo_.get(), append_).ok());
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
    if (ends == ChiefEnds::kTornRow && count > 0) {
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
      files_[donor]->Write(row);  // it only counts the row
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
    ASSERT_TRUE(files_[chief_]->Open(solo_.get(), append_).ok());
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
      if (lines.eof()) break;  // torn, and its worker never was chief again
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
  const bool append_;  // to rows of another run
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

std::string RowOf(int step, size_t bytes) {
  std::string row = std::to_string(step) + ",";
  return row + std::string(bytes - row.size() - 1, 'x') + "\n";
}

// The state in memory was of a time before the newer backup. It does not count.
TEST(RowFileTest, Resume_RowsBehindTheBackup_AreCutOff) {
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
TEST(RowFileTest, Takeover_RowsOfItsOwn_CutsOnlyBehindAKnownRow) {
  for (const size_t bytes : {50, 3000, 5000, 40000}) {
    TempFolder folder;
    const std::string path = folder / "log.csv";
    ElasticSolo solo;
    RowFile others("some_logger", folder / "other.csv");
    ASSERT_TRUE(others.Open(solo.get(), false).ok());
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
    ASSERT_TRUE(own.Open(solo.get(), false).ok());
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
  ASSERT_TRUE(first.Open(solo.get(), false).ok());
  for (const char* row : {"head\n", "0,1\n", "1,1\n"}) first.Write(row);
  CopyState(&first, &next);
  testing::internal::CaptureStderr();
  ASSERT_TRUE(next.Open(solo.get(), false).ok());
  next.Write("2,1\n");
  next.Close();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(said, "no row of " + path + " ends at byte 13 of 25"));
  EXPECT_EQ(ReadWhole(path), old + "1,1\n2,1\n");
}

TEST(RowFileTest, Takeover_LogCannotBeOpened_JobContinuesWithAWarning) {
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
  EXPECT_TRUE(own.ReadHeader(solo.get(), /*in_memory=*/true, &header).ok());
  own.Write("0,1\n");
  own.Close();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(said, "its rows are lost"));
  // At the start it is an error.
  EXPECT_FALSE(RowFile("some_logger", folder / "none/log.csv")
                   .Open(solo.get(), false)
                   .ok());
}

// A file with the attribute "append only" refuses to be truncated.
TEST(RowFileTest, Open_NothingToCut_DoesNotTruncate) {
  SoloCollective solo;
  for (const bool resumed : {false, true}) {
    for (int64_t fail = 1; fail < 20; ++fail) {
      SimulatedFileSystem files;
      ASSERT_TRUE(files.MakeDirectory("logs").ok());
      const int64_t rows = resumed ? 10 : 0;
      {
        RowFile file("some_logger", "logs/log.csv", &files);
        ASSERT_TRUE(file.Open(&solo, /*append=*/false).ok());
        if (resumed) file.Write("head\n0,1\n\n");
      }
      RowFile file("some_logger", "logs/log.csv", &files);
      std::vector<StateSpan> spans;
      file.AppendState(&spans);
      if (resumed) *static_cast<int64_t*>(spans[0].data) = rows;
      files.FailAfter(fail, EPERM);
      file.Open(&solo, false, /*in_memory=*/false).IgnoreError();
      EXPECT_FALSE(Contains(files.last_failed(), "truncate"));
      files.FailNoMore();
    }
  }
}

// The job's other ranks count on from the state's offset.
TEST(RowFileTest, Takeover_FileCannotBeCut_KeepsTheStatesOffset) {
  ElasticSolo solo;
  int truncates = 0;
  for (int64_t fail = 1; fail < 20; ++fail) {
    SimulatedFileSystem files;
    ASSERT_TRUE(files.MakeDirectory("logs").ok());
    RowFile others("some_logger", "logs/0", &files);
    RowFile older("some_logger", "logs/1", &files);
    RowFile own("some_logger", "logs/1", &files);
    ASSERT_TRUE(others.Open(solo.get(), false).ok());
    for (const char* row : {"head\n", "0,1\n", "1,1\n"}) others.Write(row);
    ASSERT_TRUE(older.Open(solo.get(), false).ok());
    older.Write("other head\n0,1\n1,1\n2,1\n");
    older.Close();
    CopyState(&others, &own);
    files.FailAfter(fail, EPERM);
    testing::internal::CaptureStderr();
    const Status opened = own.Open(solo.get(), false);
    const std::string said = testing::internal::GetCapturedStderr();
    if (files.last_failed().find("truncate") == std::string::npos) continue;
    files.FailNoMore();
    ++truncates;
    EXPECT_OK(opened);
    EXPECT_TRUE(Contains(said, "its rows are lost"));
    EXPECT_EQ(own.offset(), others.offset());
  }
  EXPECT_EQ(truncates, 1);
}

TEST(RowFileTest, ReadHeader_FirstLineIsTooLong_EndsNoElasticJob) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  const std::string text = std::string(70000, 'x') + "\n";
  WriteWhole(path, text);
  ElasticSolo solo;
  RowFile others("some_logger", folder / "other.csv");
  RowFile own("some_logger", path);
  ASSERT_TRUE(others.Open(solo.get(), false).ok());
  for (const char* row : {"head\n", "0,1\n"}) others.Write(row);
  CopyState(&others, &own);
  std::string header = "none read";
  testing::internal::CaptureStderr();
  ASSERT_TRUE(own.Open(solo.get(), false).ok());
  EXPECT_OK(own.ReadHeader(solo.get(), /*in_memory=*/true, &header));
  EXPECT_TRUE(own.is_open());
  own.Write("1,1\n");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(said, path + ": its first line is not a header"));
  EXPECT_EQ(header, "");
  EXPECT_EQ(ReadWhole(path).substr(0, text.size()), text);
  EXPECT_FALSE(Contains(ReadWhole(path), "1,1\n"));
  // At the start it is an error.
  RowFile first("some_logger", path);
  own.Close();
  ASSERT_TRUE(first.Open(solo.get(), /*append=*/true).ok());
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

// Each operation fails in turn, once, with writes of any length: the rows are
// all there in the end, each once.
TEST(RowFileTest, Write_AnyOperationFails_NoRowIsLostOrDoubled) {
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

// A worker is lost while the disk is full. Rows wait when the file is closed.
// The state from which the fit continues has counted `counted` of the rows.
TEST(RowFileTest, Rollback_RowsWaitOnAFullDisk_AreWrittenAfterIt) {
  const std::vector<std::string> rows = {"head\n", "0,1.5\n", "1,1.25\n",
                                         "2,1\n"};
  const std::string next = "9,0.5\n";
  for (size_t counted = 1; counted <= rows.size(); ++counted) {
    for (size_t room = 0; room < 24; ++room) {
      SCOPED_TRACE(std::to_string(counted) + " " + std::to_string(room));
      SimulatedFileSystem files;
      ASSERT_TRUE(files.MakeDirectory("logs").ok());
      ElasticSolo solo;
      RowFile file("some_logger", "logs/log.csv", &files);
      RowFile state("some_logger", "logs/log.csv", &files);
      testing::internal::CaptureStderr();
      ASSERT_TRUE(file.Open(solo.get(), false).ok());
      files.set_capacity(static_cast<int64_t>(room));
      std::string expected;
      for (size_t i = 0; i < rows.size(); ++i) {
        file.Write(rows[i]);
        if (i < counted) expected += rows[i];
        if (i + 1 == counted) CopyState(&file, &state);
      }
      file.Close(/*keep_rows=*/true);
      file.Reset(/*after_loss=*/true);
      CopyState(&state, &file);
      files.set_capacity(-1);
      ASSERT_TRUE(file.Open(solo.get(), false).ok());
      file.Write(next);
      file.Close();
      const std::string said = testing::internal::GetCapturedStderr();
      EXPECT_EQ(*files.Content("logs/log.csv"), expected + next);
      EXPECT_FALSE(Contains(said, "lost"));
    }
  }
}

// The log has its header, and the file is closed after a loss. A row waits,
// since the disk was full; now it has room.
struct WaitingRow {
  WaitingRow() {
    EXPECT_TRUE(files.MakeDirectory("logs").ok());
    EXPECT_TRUE(file.Open(solo.get(), false).ok());
    file.Write("head\n");
    files.set_capacity(5);
    file.Write("0,1.5\n");
    file.Close(/*keep_rows=*/true);
    files.set_capacity(-1);
  }
  SimulatedFileSystem files;
  ElasticSolo solo;
  RowFile file{"some_logger", "logs/log.csv", &files};
};

TEST(RowFileTest, Rollback_AnotherWroteMeanwhile_WaitingRowsAreReportedLost) {
  testing::internal::CaptureStderr();
  WaitingRow log;
  *log.files.Content("logs/log.csv") += "7,7\n";
  ASSERT_TRUE(log.file.Open(log.solo.get(), false).ok());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(said, "its last 6 bytes are lost"));
  // Open writes the last row, which the state has.
  EXPECT_EQ(*log.files.Content("logs/log.csv"), "head\n7,7\n0,1.5\n");
}

// More than a pipe and the file hold.
TEST(RowFileTest, Pipe_NothingReadsIt_HoldsUpNoTraining) {
  TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  SoloCollective solo;
  RowFile file("some_logger", path);
  testing::internal::CaptureStderr();
  ASSERT_TRUE(file.Open(&solo, false).ok());
  const std::string row = std::string(9999, 'r') + "\n";
  const size_t count = 3 * RowWriter::kMaxKept / row.size();
  for (size_t i = 0; i < count; ++i) file.Write(row);
  file.Close();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(said, path + ": writing a row: nothing reads the pipe"));
  EXPECT_TRUE(Contains(said, "bytes are lost"));
}

// The file must not be a reader itself: a print to the same pipe would wait for
// ever. SIGPIPE has its default effect here.
TEST(RowFileTest, Pipe_ReaderLeaves_TheWriterIsNoReaderAndContinues) {
  TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  SoloCollective solo;
  RowFile file("some_logger", path);
  ASSERT_TRUE(file.Open(&solo, false).ok());
  file.Write("head\n");
  close(reader);
  testing::internal::CaptureStderr();
  file.Write("0,1.5\n");
  EXPECT_EQ(open(path.c_str(), O_WRONLY | O_NONBLOCK), -1);
  EXPECT_EQ(errno, ENXIO);
  const int again = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  file.Write("1,1.25\n");
  char text[64];
  const ssize_t n = read(again, text, sizeof(text));
  close(again);
  EXPECT_EQ(std::string(text, static_cast<size_t>(std::max<ssize_t>(n, 0))),
            "head\n0,1.5\n1,1.25\n");
  file.Close();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(said, "nothing reads the pipe"));
}

// A reader that is slower than the writer gets all rows.
TEST(RowFileTest, Pipe_SlowReader_GetsEveryRow) {
  TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  SoloCollective solo;
  RowFile file("some_logger", path);
  ASSERT_TRUE(file.Open(&solo, false).ok());
  std::string got;
  std::thread reader([&] { got = ReadWhole(path); });
  std::string all;
  for (int i = 0; i < 60000; ++i) {
    const std::string row = std::to_string(i) + ",0.123456789\n";
    file.Write(row);
    all += row;
  }
  file.Close();
  reader.join();
  EXPECT_TRUE(got == all) << got.size() << " of " << all.size();
}

// The reader pauses longer than training waits for it, and the log is closed
// meanwhile.
TEST(RowFileTest, Pipe_ReaderPausesUntilTheEnd_GetsEveryRow) {
  TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  SoloCollective solo;
  RowFile file("some_logger", path);
  ASSERT_TRUE(file.Open(&solo, false).ok());
  std::string all;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 20000; ++i) {
    const std::string row = std::to_string(i) + ",0.123456789\n";
    file.Write(row);
    all += row;
  }
  std::string got;
  std::thread reads([&] { got = ReadWhole(path); });
  file.Close();
  close(reader);
  reads.join();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(got == all) << got.size() << " of " << all.size();
  EXPECT_TRUE(Contains(said, "nothing reads the pipe"));
  EXPECT_FALSE(Contains(said, "lost"));
}

// The pipe has no reader yet, and its name may be a link.
TEST(RowFileTest, Pipe_RollbackBeforeAReaderComes_RowsWaitForIt) {
  TempFolder folder;
  const std::string fifo = folder / "fifo", path = folder / "log.csv";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(symlink(fifo.c_str(), path.c_str()), 0);
  SoloCollective solo;
  RowFile file("some_logger", path);
  ASSERT_TRUE(file.Open(&solo, false).ok());
  file.Write("head\n");
  file.Write("0,1.5\n");
  file.Close(/*keep_rows=*/true);
  ASSERT_TRUE(file.Open(&solo, false).ok());
  file.Write("1,1.25\n");
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  file.Close();
  char text[64];
  const ssize_t n = read(reader, text, sizeof(text));
  close(reader);
  EXPECT_EQ(std::string(text, static_cast<size_t>(std::max<ssize_t>(n, 0))),
            "head\n0,1.5\n1,1.25\n");
}

// After a loss `file` continues from the state of `from`.
void ContinueFrom(RowFile* from, RowFile* file, Collective* collective,
                  bool append) {
  file->Reset(/*after_loss=*/true);
  CopyState(from, file);
  ASSERT_TRUE(file->Open(collective, append).ok());
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
    ASSERT_TRUE(w0.Open(solo.get(), append, /*in_memory=*/false).ok());
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
  ASSERT_TRUE(w0.Open(solo.get(), false).ok());
  CopyState(&w0, &w1);  // w0 stays: it stands still, and holds the lock
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
  ASSERT_TRUE(w0.Open(solo.get(), true).ok());
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
    ASSERT_TRUE(w0.Open(solo.get(), true, false).ok());
    RowFile point("some_logger", "");
    CopyState(&w0, &point);
    CopyState(&w0, &w1);
    w0.Write("1,1\n");
    w0.Write("2,0.75\n");
    w0.Close();
    w1.Reset(true);
    CopyState(&point, &w1);
    ASSERT_TRUE(w1.Open(solo.get(), true, in_memory).ok());
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
  ASSERT_TRUE(w0.Open(solo.get(), false, false).ok());
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
  ASSERT_TRUE(w0.Open(solo.get(), /*append=*/true).ok());
  CopyState(&w0, &w1);
  ASSERT_TRUE(w1.Open(solo.get(), /*append=*/true).ok());
  std::string header;
  EXPECT_OK(w1.ReadHeader(solo.get(), /*in_memory=*/true, &header));
}

// The rows wait for space while the log cannot be opened once.
TEST(RowFileTest, Rollback_OpenFailsOnce_RowsThatWaitAreWritten) {
  testing::internal::CaptureStderr();
  WaitingRow log;
  log.files.FailAfter(1, EMFILE);
  for (int i = 0; i < 2; ++i) {  // the first time it is not opened
    ASSERT_TRUE(log.file.Open(log.solo.get(), false).ok());
    log.file.Close(/*keep_rows=*/true);
  }
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(*log.files.Content("logs/log.csv"), "head\n0,1.5\n");
}

}  // namespace
}  // namespace ringlet
