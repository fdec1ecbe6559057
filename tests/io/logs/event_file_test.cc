#include "io/logs/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/fake_clock.h"
#include "../../support/full_disk.h"
#include "../../support/python.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"

namespace ringlet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string Hex(const std::string& bytes) {
  std::string text;
  for (unsigned char c : bytes) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x ", c);
    text += digits;
  }
  return text;
}

// Made by a few lines of Python from the protobuf and TFRecord documents, the
// time being 1700000000.
const char* const kVersion =
    "18 00 00 00 00 00 00 00 a3 7f 4b 22 09 00 00 00 40 fc 54 d9 41 1a 0d 62 "
    "72 61 69 6e 2e 45 76 65 6e 74 3a 32 ec ed 8f 9d ";
const char* const kLoss =
    "1b 00 00 00 00 00 00 00 1a 0d 9e 13 09 00 00 00 40 fc 54 d9 41 10 ac 02 "
    "2a 0d 0a 0b 0a 04 6c 6f 73 73 15 00 00 00 3f a1 f0 7b 99 ";
const char* const kHistogram =
    "55 00 00 00 00 00 00 00 d7 df 0f c1 09 00 00 00 40 fc 54 d9 41 10 01 2a "
    "48 0a 46 0a 01 77 2a 41 09 00 00 00 00 00 00 00 40 11 00 00 00 00 00 00 "
    "00 40 19 00 00 00 00 00 00 08 40 21 00 00 00 00 00 00 18 40 29 00 00 00 "
    "00 00 00 28 40 32 08 00 00 00 00 00 00 00 40 3a 08 00 00 00 00 00 00 08 "
    "40 9f 0a d8 ce ";

class EventFileTest : public testing::Test {
 protected:
  FakeClock clock_;
  TempFolder folder_;
  EventFile file_;
};

TEST_F(EventFileTest, Bytes_ScalarAndHistogram_FollowTheFormat) {
  ASSERT_OK(file_.Open(folder_.path(), &clock_));
  EXPECT_EQ(Hex(ReadWhole(file_.path())), kVersion);
  ASSERT_OK(file_.AddScalar("loss", 300, 0.5));
  const float weights[] = {2, 2, 2};
  ASSERT_OK(file_.AddHistogram("w", 1, weights, 3));
  ASSERT_OK(file_.Close());
  EXPECT_EQ(Hex(ReadWhole(file_.path())),
            std::string(kVersion) + kLoss + kHistogram);
}

TEST_F(EventFileTest, Name_NewFile_HasTimeHostProcessAndNumber) {
  ASSERT_OK(file_.Open(folder_ / "a/b", &clock_));
  const std::string start = folder_ / "a/b/events.out.tfevents.1700000000.";
  EXPECT_EQ(file_.path().substr(0, start.size()), start);
  const std::string process = "." + std::to_string(getpid()) + ".";
  EXPECT_NE(file_.path().find(process, start.size()), std::string::npos);
}

TEST_F(EventFileTest, Name_TwoFilesOfOneSecond_Differ) {
  ASSERT_OK(file_.Open(folder_.path(), &clock_));
  EventFile other;
  ASSERT_OK(other.Open(folder_.path(), &clock_));
  EXPECT_NE(file_.path(), other.path());
}

// The number is the process's own, so another process may have left any.
TEST_F(EventFileTest, Open_NameIsTaken_LeavesThatFileAlone) {
  ASSERT_OK(file_.Open(folder_.path(), &clock_));
  const size_t dot = file_.path().rfind('.') + 1;
  const std::string stem = file_.path().substr(0, dot);
  const int number = std::stoi(file_.path().substr(dot));
  const std::string taken = stem + std::to_string(number + 1);
  WriteWhole(taken, "of another");
  EventFile other;
  ASSERT_OK(other.Open(folder_.path(), &clock_));
  EXPECT_EQ(other.path(), stem + std::to_string(number + 2));
  EXPECT_EQ(ReadWhole(taken), "of another");
}

TEST_F(EventFileTest, AddScalar_ExtremeValues_AreFoundByAnotherReader) {
  if (!HavePython()) GTEST_SKIP() << kPython << " is not here";
  ASSERT_OK(file_.Open(folder_.path(), &clock_));
  for (double value : {0.0, -0.0, 1.0 / 3, 1e300, -kInfinity, std::nan("")}) {
    ASSERT_OK(file_.AddScalar("v", 0, value));
  }
  const int64_t largest = std::numeric_limits<int64_t>::max();
  ASSERT_OK(file_.AddScalar(std::string(200, 't'), largest, 1));
  ASSERT_OK(file_.AddScalar("", -1, 1));
  ASSERT_OK(file_.Close());
  EXPECT_EQ(ReadEvents(folder_.path()),
            (std::vector<std::string>{
                "version brain.Event:2", "v 0 0", "v 0 -0", "v 0 0.333333343",
                "v 0 inf", "v 0 -inf", "v 0 nan",
                std::string(200, 't') + " 9223372036854775807 1", " -1 1"}));
}

TEST_F(EventFileTest, AddHistogram_ThirtyBuckets_CountsTheFiniteValues) {
  if (!HavePython()) GTEST_SKIP() << kPython << " is not here";
  ASSERT_OK(file_.Open(folder_.path(), &clock_));
  // -1.25, -1.125 ... 2.5: each but the last begins a bucket of its own.
  std::vector<float> values;
  for (int i = 0; i <= 30; ++i) values.push_back((i - 10) * 0.125f);
  values.push_back(static_cast<float>(kInfinity));
  values.push_back(std::nanf(""));
  values.push_back(0.05f);
  ASSERT_OK(file_.AddHistogram("h", 7, values.data(), 34));
  ASSERT_OK(file_.AddHistogram("none", 7, nullptr, 0));
  ASSERT_OK(file_.AddHistogram("nan", 7, values.data() + 31, 2));
  ASSERT_OK(file_.Close());
  std::string limits, counts;
  for (int i = 0; i < 30; ++i) {
    char text[32];
    std::snprintf(text, sizeof(text), " %.9g", (i - 9) * 0.125);
    limits += text;
    counts += i == 10 || i == 29 ? " 2" : " 1";
  }
  EXPECT_EQ(
      ReadEvents(folder_.path()),
      (std::vector<std::string>{"version brain.Event:2",
                                "h 7 -1.25 2.5 32 19.425 50.861875 limits" +
                                    limits + " counts" + counts,
                                "none 7 0 0 0 0 0 limits counts",
                                "nan 7 0 0 0 0 0 limits counts"}));
}

TEST_F(EventFileTest, Open_FolderCannotBeMade_ErrorNamesIt) {
  WriteWhole(folder_ / "file", "");
  const Status status = file_.Open(folder_ / "file/logs", &clock_);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  EXPECT_TRUE(Contains(status, folder_ / "file"));
  EXPECT_FALSE(file_.is_open());
  EXPECT_FALSE(file_.Flush().ok());
}

TEST_F(EventFileTest, Flush_DiskWasFull_CutsNoRecord) {
  if (!HavePython()) GTEST_SKIP() << kPython << " is not here";
  ASSERT_OK(file_.Open(folder_.path(), &clock_));
  {
    const FullDisk full(100);  // within the second record
    for (int step = 1; step <= 3; ++step) {
      ASSERT_OK(file_.AddScalar("loss", step, step));
      const Status status = file_.Flush();
      EXPECT_EQ(status.ok(), step == 1) << status.message();
      if (step == 1) continue;
      EXPECT_TRUE(Contains(status, file_.path()));
    }
    EXPECT_EQ(ReadWhole(file_.path()).size(), 100u);
  }
  EXPECT_OK(file_.Close());
  EXPECT_EQ(ReadEvents(folder_.path()),
            (std::vector<std::string>{"version brain.Event:2", "loss 1 1",
                                      "loss 2 2", "loss 3 3"}));
}

TEST_F(EventFileTest, AddScalar_DiskIsFullForLong_WaitingEventsAreBounded) {
  if (!HavePython()) GTEST_SKIP() << kPython << " is not here";
  ASSERT_OK(file_.Open(folder_.path(), &clock_));
  const std::string tag(1000, 't');
  int64_t kept = 0;
  {
    const FullDisk full(100);
    for (int step = 1; step <= 3000; ++step) {
      if (file_.AddScalar(tag, step, step).ok()) kept = step;
    }
    EXPECT_GT(kept, 1000);
    EXPECT_LT(kept, 1100);
  }
  ASSERT_OK(file_.AddScalar("after", 3001, 0));
  ASSERT_OK(file_.Close());
  const auto lines = ReadEvents(folder_.path());
  ASSERT_EQ(lines.size(), static_cast<size_t>(kept) + 2);
  EXPECT_EQ(lines.back(), "after 3001 0");
}

// Each call fails once, in turn. Then the events are whole and in order, or
// Open fails and leaves no file.
TEST_F(EventFileTest, Write_AnyCallFails_LeavesNoPartialRecord) {
  std::string whole;
  int64_t count = 0, operations = 0;  // 0: none fails
  do {
    SimulatedFileSystem files;
    files.set_longest_write(7);
    if (count > 0) files.FailAfter(count, count % 2 == 0 ? EIO : ENOSPC);
    const Status opened = file_.Open("logs", &clock_, &files);
    if (!opened.ok()) {
      EXPECT_TRUE(Contains(opened, "logs"));
      EXPECT_EQ(files.Paths().size(), 0u) << files.last_failed();
      continue;
    }
    for (int step = 1; step <= 3; ++step) {
      ASSERT_OK(file_.AddScalar("loss", step, step));
      file_.Flush().IgnoreError();
    }
    const bool closed = file_.Close().ok();
    EXPECT_EQ(closed, files.last_failed().rfind("close", 0) != 0) << count;
    ASSERT_EQ(files.Paths().size(), 1u) << count;
    const std::string bytes = *files.Content(files.Paths()[0]);
    if (count == 0) {
      whole = bytes;
      operations = files.operations();
    }
    EXPECT_EQ(bytes, whole) << files.last_failed();
  } while (count++ < operations);
  EXPECT_GT(operations, 20);
}

// The tests above rely on the reader, so this one tests that the reader finds
// damage.
TEST_F(EventFileTest, ReaderOfTheTests_AFlippedByte_IsRefused) {
  if (!HavePython()) GTEST_SKIP() << kPython << " is not here";
  ASSERT_OK(file_.Open(folder_.path(), &clock_));
  ASSERT_OK(file_.AddScalar("loss", 1, 1));
  ASSERT_OK(file_.Close());
  EXPECT_EQ(ReadEvents(folder_.path()).size(), 2u);
  const std::string command =
      "-c 'import subprocess, sys\n"
      "reader, path = sys.argv[1:]\n"
      "good = open(path, \"rb\").read()\n"
      "for at in range(0, len(good), 9):\n"
      "  open(path, \"wb\").write(\n"
      "      good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])\n"
      "  code = subprocess.run([sys.executable, reader, path],\n"
      "      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode\n"
      "  if code == 0: print(at)\n'";
  EXPECT_EQ(RunPython(command + " " + Script("read_events.py") + file_.path()),
            std::vector<std::string>());
}

}  // namespace
}  // namespace ringlet
