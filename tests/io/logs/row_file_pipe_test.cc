// RowFile: pipes, and disks that are full.

#include "io/logs/row_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/full_disk.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "core/base/solo_collective.h"
#include "row_file_jobs.h"

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
  ASSERT_OK(file.Open(&solo, /*append=*/false));
  file.Write(before);
  const std::string row = std::string(9999, 'r') + "\n";
  const size_t most = RowWriter::kMaxKept / row.size() + 1;
  testing::internal::CaptureStderr();
  {
    FullDisk full(before.size() + 3);
    for (size_t i = 0; i < 3 * most; ++i) file.Write(row);
  }
  file.Write("last\n");
  const std::string printed = testing::internal::GetCapturedStderr();
  std::string want = before;
  for (size_t i = 0; i < most; ++i) want += row;
  EXPECT_TRUE(ReadWhole(path) == want + "last\n") << ReadWhole(path).size();
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 2) << printed;
  EXPECT_TRUE(Contains(printed, "too many rows wait"));
  // Dropped rows count: the other ranks have no error of the full disk.
  EXPECT_EQ(file.offset(),
            static_cast<int64_t>(before.size() + 3 * most * row.size() + 5));
}

// Each operation fails in turn, once, with writes of any length: in the end the
// file has all rows, each once.
TEST(RowFileTest, Write_AnyOperationFails_NoRowIsLostOrDoubled) {
  SoloCollective solo;
  std::string expected;
  for (int i = 0; i < 8; ++i) expected += std::to_string(i) + ",row\n";
  for (int64_t fail = 0; fail < 40; ++fail) {
    for (const size_t longest : {0, 1, 3}) {
      SimulatedFileSystem files;
      ASSERT_OK(files.MakeFolder("logs"));
      files.set_longest_write(longest);
      RowFile file("some_logger", "logs/log.csv", &files);
      ASSERT_OK(file.Open(&solo, /*append=*/false));
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
      ASSERT_OK(files.MakeFolder("logs"));
      ElasticSolo solo;
      RowFile file("some_logger", "logs/log.csv", &files);
      RowFile state("some_logger", "logs/log.csv", &files);
      testing::internal::CaptureStderr();
      ASSERT_OK(file.Open(solo.get(), /*append=*/false));
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
      ASSERT_OK(file.Open(solo.get(), /*append=*/false));
      file.Write(next);
      file.Close();
      const std::string printed = testing::internal::GetCapturedStderr();
      EXPECT_EQ(*files.Content("logs/log.csv"), expected + next);
      EXPECT_FALSE(Contains(printed, "lost"));
    }
  }
}

// The log has its header, and the file is closed after a loss. A row waits,
// since the disk was full; now it has room.
struct WaitingRow {
  WaitingRow() {
    EXPECT_OK(files.MakeFolder("logs"));
    EXPECT_OK(file.Open(solo.get(), /*append=*/false));
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
  ASSERT_OK(log.file.Open(log.solo.get(), /*append=*/false));
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(printed, "its last 6 bytes are lost"));
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
  ASSERT_OK(file.Open(&solo, /*append=*/false));
  const std::string row = std::string(9999, 'r') + "\n";
  const size_t count = 3 * RowWriter::kMaxKept / row.size();
  for (size_t i = 0; i < count; ++i) file.Write(row);
  file.Close();
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(
      Contains(printed, path + ": writing a row: nothing reads the pipe"));
  EXPECT_TRUE(Contains(printed, "bytes are lost"));
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
  ASSERT_OK(file.Open(&solo, /*append=*/false));
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
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(printed, "nothing reads the pipe"));
}

// A reader that is slower than the writer gets all rows.
TEST(RowFileTest, Pipe_SlowReader_GetsEveryRow) {
  TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  SoloCollective solo;
  RowFile file("some_logger", path);
  ASSERT_OK(file.Open(&solo, /*append=*/false));
  std::string read_back;
  std::thread reader([&] { read_back = ReadWhole(path); });
  std::string all;
  for (int i = 0; i < 60000; ++i) {
    const std::string row = std::to_string(i) + ",0.123456789\n";
    file.Write(row);
    all += row;
  }
  file.Close();
  reader.join();
  EXPECT_TRUE(read_back == all) << read_back.size() << " of " << all.size();
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
  ASSERT_OK(file.Open(&solo, /*append=*/false));
  std::string all;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 20000; ++i) {
    const std::string row = std::to_string(i) + ",0.123456789\n";
    file.Write(row);
    all += row;
  }
  std::string read_back;
  std::thread reads([&] { read_back = ReadWhole(path); });
  file.Close();
  close(reader);
  reads.join();
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(read_back == all) << read_back.size() << " of " << all.size();
  EXPECT_TRUE(Contains(printed, "nothing reads the pipe"));
  EXPECT_FALSE(Contains(printed, "lost"));
}

// The pipe has no reader yet, and its name may be a link.
TEST(RowFileTest, Pipe_RollbackBeforeAReaderComes_RowsWaitForIt) {
  TempFolder folder;
  const std::string fifo = folder / "fifo", path = folder / "log.csv";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(symlink(fifo.c_str(), path.c_str()), 0);
  SoloCollective solo;
  RowFile file("some_logger", path);
  ASSERT_OK(file.Open(&solo, /*append=*/false));
  file.Write("head\n");
  file.Write("0,1.5\n");
  file.Close(/*keep_rows=*/true);
  ASSERT_OK(file.Open(&solo, /*append=*/false));
  file.Write("1,1.25\n");
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  file.Close();
  char text[64];
  const ssize_t n = read(reader, text, sizeof(text));
  close(reader);
  EXPECT_EQ(std::string(text, static_cast<size_t>(std::max<ssize_t>(n, 0))),
            "head\n0,1.5\n1,1.25\n");
}

// The rows wait for space while the log cannot be opened once.
TEST(RowFileTest, Rollback_OpenFailsOnce_RowsThatWaitAreWritten) {
  testing::internal::CaptureStderr();
  WaitingRow log;
  log.files.FailAfter(1, EMFILE);
  for (int i = 0; i < 2; ++i) {  // the first time it is not opened
    ASSERT_OK(log.file.Open(log.solo.get(), /*append=*/false));
    log.file.Close(/*keep_rows=*/true);
  }
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(*log.files.Content("logs/log.csv"), "head\n0,1.5\n");
}

}  // namespace
}  // namespace ringlet
