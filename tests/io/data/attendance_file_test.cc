// Attendance from a file.

#include "io/data/attendance_file.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "../../support/data_files.h"

namespace ringlet {
namespace {

std::shared_ptr<const Attendance> Read(const std::string& path) {
  std::shared_ptr<const Attendance> attendance;
  const Status status = ReadAttendance(path, &attendance);
  EXPECT_TRUE(status.ok()) << status.message();
  return attendance;
}

// Random ones, against the table that the file was written from.
TEST(AttendanceFileTest, SaysWhatIsWritten) {
  const DataFiles files;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int replicas = 1 + static_cast<int>(random() % 40);
    std::map<int64_t, std::vector<Presence>> rounds;
    std::string text = seed % 2 == 0 ? "\xEF\xBB\xBF" : "";
    for (int64_t step = random() % 3; step < 200; step += 1 + random() % 9) {
      std::vector<int> order(static_cast<size_t>(replicas));
      for (int r = 0; r < replicas; ++r) order[static_cast<size_t>(r)] = r;
      std::shuffle(order.begin(), order.end(), random);
      std::vector<Presence>& round = rounds[step];
      round.assign(static_cast<size_t>(replicas), Presence::kAway);
      text += std::to_string(step);
      for (const int r : order) {
        if (random() % 2 == 0) continue;
        const bool late = random() % 4 == 0;
        round[static_cast<size_t>(r)] =
            late ? Presence::kLate : Presence::kThere;
        text += (random() % 2 == 0 ? "," : " , ") + std::to_string(r) +
                (late ? "  late" : "");
      }
      text += random() % 4 == 0 ? "\r\n" : random() % 4 == 0 ? "\n\n" : "\n";
    }
    const auto attendance = Read(files.Write("a.csv", text));
    for (int64_t step = 0; step < 210; ++step) {
      const auto round = rounds.find(step);
      EXPECT_EQ(attendance->Check(step, step + 1, replicas).ok(),
                round != rounds.end());
      for (int r = 0; r < replicas + 2; ++r) {
        const bool known = round != rounds.end() && r < replicas;
        EXPECT_EQ(
            attendance->Of(step, r),
            known ? round->second[static_cast<size_t>(r)] : Presence::kAway);
      }
    }
  }
}

TEST(AttendanceFileTest, TheDigestIsOfWhatItSays) {
  const DataFiles files;
  const auto digest = [&](const std::string& text) {
    return Read(files.Write("a.csv", text))->digest();
  };
  const uint64_t one = digest("0,1,2\n4,0\n");
  EXPECT_EQ(digest(" 0 , 2 ,\"1\"\r\n\r\n4,0"), one);
  for (const char* const other :
       {"0,1,2\n5,0\n", "0,1\n4,0\n", "0,1,2 late\n4,0\n", "0,1,2\n4\n",
        "0,1,2,4\n5,0\n", "0,1,2\n", "0,1\n2\n4,0\n"}) {
    EXPECT_NE(digest(other), one) << other;
  }
}

TEST(AttendanceFileTest, WrongOnesAreRefused) {
  const DataFiles files;
  const struct {
    const char *text, *says;
  } wrong[] = {
      {"", "no rounds"},
      {"\n \r\n", "no rounds"},
      {"step,replica\n0,1\n", "line 1: 'step' is no number of steps"},
      {"0,1\n-3,1\n", "line 2: '-3' is no number of steps"},
      {"0,1\n3.5,1\n", "line 2: '3.5' is no number of steps"},
      {"0,1\n99999999999999999999,1\n", "is no number of steps"},
      {"0,1\n,1\n", "line 2: '' is no number of steps"},
      {"0,1\n0,2\n", "line 2: the round after 0 steps, behind that after 0"},
      {"9,1\n\n7,2\n", "line 3: the round after 7 steps, behind that after 9"},
      {"0,one\n", "line 1: 'one' is no replica"},
      {"0,1,\n", "line 1: '' is no replica"},
      {"0,-1\n", "line 1: '-1' is no replica"},
      {"0,8192\n", "line 1: '8192' is no replica"},
      {"0,18446744073709551617\n", "is no replica"},
      {"0,1 lat\n", "line 1: '1 lat' is no replica"},
      {"0,late\n", "line 1: 'late' is no replica"},
      {"0, late\n", "line 1: 'late' is no replica"},
      {"0,1 late late\n", "line 1: '1 late' is no replica"},
      {"0,1;2\n", "line 1: '1;2' is no replica"},
      {"0,3,1,3\n", "line 1: replica 3 twice"},
      {"0,3\n4,3,1,3 late\n", "line 2: replica 3 twice"},
  };
  for (const auto& each : wrong) {
    SCOPED_TRACE(each.text);
    std::shared_ptr<const Attendance> attendance;
    const std::string path = files.Write("a.csv", each.text);
    ExpectError(ReadAttendance(path, &attendance), Code::kInvalidArgument, path,
                each.says);
    EXPECT_EQ(attendance, nullptr);
  }
  std::shared_ptr<const Attendance> attendance;
  const std::string none = files.Path("none.csv");
  ExpectError(ReadAttendance(none, &attendance), Code::kNotFound, none, "");
}

TEST(AttendanceFileTest, RoundsThatAreNotTheFilesAreRefused) {
  const DataFiles files;
  const std::string path = files.Write("a.csv", "0,0,2\n3,1 late\n\n8\n");
  const auto attendance = Read(path);
  EXPECT_TRUE(attendance->Check(0, 3, 3).ok());
  EXPECT_TRUE(attendance->Check(3, 8, 3).ok());
  EXPECT_TRUE(attendance->Check(8, 100, 3).ok());
  const auto refused = [&](int64_t begin, int64_t end, int replicas,
                           const char* says) {
    ExpectError(attendance->Check(begin, end, replicas), Code::kInvalidArgument,
                path, says);
  };
  refused(0, 3, 2, "line 1: replica 2, but there are 2");
  refused(0, 4, 3, "line 2: the round after 3 steps, but the one before it");
  refused(2, 5, 3, "no line of the round after 2 steps, up to 5 (line 2 is");
  refused(9, 12, 3, "no line of the round after 9 steps, up to 12 (line 4 is");
}

}  // namespace
}  // namespace ringlet
