// Launch: the lines of the workers, also on a terminal.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/temp_folder.h"
#include "launched_job.h"

namespace ringlet {
namespace {

using Strings = std::vector<std::string>;

// Waits until the pipe takes nothing more. The number of unread bytes does not
// show it: the pages of a full pipe may be partly filled.
void AwaitFullPipe(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int writer = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  EXPECT_TRUE(Eventually([&] {
    pollfd pipe = {writer, POLLOUT, 0};
    return poll(&pipe, 1, /*timeout=*/0) == 0;
  }));
  close(writer);
}

// --- output ------------------------------------------------------------------

TEST_F(LauncherTest, Output_ThreeWorkers_HasTheIndexBeforeEachLine) {
  EXPECT_EQ(RunScript(3, "echo one $i; echo; printf 'a\\tb\\nlast'"), 0);
  for (int i = 0; i < 3; ++i) {
    const std::string index = std::to_string(i);
    EXPECT_EQ(Of("[" + index + "] ", out()),
              (Strings{"one " + index, "", "a\tb", "last"}));
  }
  EXPECT_EQ(Lines(out()).size(), 12u);
  EXPECT_EQ(err(), "");
}

TEST_F(LauncherTest, Output_StdoutAndStderr_StayApart) {
  EXPECT_EQ(
      RunScript(2, "echo out $i; echo err $i >&2; echo dev > /dev/stderr"), 0);
  EXPECT_EQ(Of("[0] ", out()), Strings{"out 0"});
  EXPECT_EQ(Of("[1] ", out()), Strings{"out 1"});
  EXPECT_EQ(Of("[0] ", err()), (Strings{"err 0", "dev"}));
  EXPECT_EQ(Of("[1] ", err()), (Strings{"err 1", "dev"}));
}

TEST_F(LauncherTest, Line_WrittenInPieces_IsOneLine) {
  EXPECT_EQ(
      RunScript(2, "for p in a b c; do printf $p; sleep 0.05; done; echo"), 0);
  EXPECT_EQ(Of("[0] ", out()), Strings{"abc"});
  EXPECT_EQ(Of("[1] ", out()), Strings{"abc"});
}

TEST_F(LauncherTest, Lines_ManyOfThreeWorkers_AreNeitherLostNorMixed) {
  EXPECT_EQ(RunScript(3, "seq -f \"$i-%.0f\" 1 40000"), 0);
  for (const char* index : {"0", "1", "2"}) {
    const Strings lines = Of(std::string("[") + index + "] ", out());
    ASSERT_EQ(lines.size(), 40000u);
    for (size_t k = 0; k < lines.size(); ++k) {
      ASSERT_EQ(lines[k], index + ("-" + std::to_string(k + 1)));
    }
  }
  EXPECT_EQ(Lines(out()).size(), 120000u);
}

TEST_F(LauncherTest, Line_Endless_IsCutInPieces) {
  EXPECT_EQ(RunScript(1, "head -c 200000 /dev/zero | tr '\\0' x"), 0);
  const Strings pieces = Of("[0] ", out());
  ASSERT_EQ(pieces.size(), 4u);
  std::string joined;
  for (const std::string& piece : pieces) joined += piece;
  EXPECT_EQ(joined, std::string(200000, 'x'));
}

TEST_F(LauncherTest, Output_ReaderIsSlow_IsWhole) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Start({"-n", "2", "--", "seq", "1", "200000"}, ends[1]);
  close(ends[1]);
  std::string all;
  char buffer[65536];
  AwaitFullPipe(ends[0]);
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    all.append(buffer, static_cast<size_t>(n));
    if (all.size() < 600000) AwaitFullPipe(ends[0]);
  }
  close(ends[0]);
  EXPECT_EQ(Wait(), 0);
  EXPECT_EQ(Of("[0] ", all).size(), 200000u);
  EXPECT_EQ(Of("[1] ", all).size(), 200000u);
}

TEST_F(LauncherTest, Output_ReaderDoesNotRead_DoesNotHoldTheLauncher) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Start({"-n", "2", "--grace", "0.2", "--", "sh", "-c",
         "echo $$ >> $FOLDER/pids; exec yes"},
        ends[1]);
  close(ends[1]);
  const std::vector<pid_t> pids = Pids(2);
  AwaitFullPipe(ends[0]);
  kill(launcher_, SIGTERM);
  EXPECT_EQ(Wait(), 128 + SIGTERM);
  close(ends[0]);
  ExpectGone(pids);
}

// The reader leaves as `| head -n 1` does, of stdout or of both outputs.
TEST_F(LauncherTest, Output_ReaderLeavesAfterALine_WorkersContinue) {
  for (const bool both : {false, true}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const std::string gate = folder_ / (both ? "gate-2" : "gate-1");
    ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
    StartScript(1,
                "echo first; cat " + gate +
                    "; echo second; "
                    "echo third >&2; echo done > " +
                    gate + ".done",
                {}, ends[1], both ? ends[1] : -1);
    close(ends[1]);
    char first;
    ASSERT_EQ(read(ends[0], &first, 1), 1);
    close(ends[0]);
    close(open(gate.c_str(), O_WRONLY | O_CLOEXEC));  // opens the gate
    EXPECT_EQ(Wait(), 0) << err();
    EXPECT_EQ(ReadWhole(gate + ".done"), "done\n");
    if (both) continue;
    EXPECT_EQ(Of("[0] ", err()), Strings{"third"});
  }
}

TEST_F(LauncherTest, Output_CannotBeWritten_IsAnErrorAfterTheJob) {
  for (const int code : {0, 7}) {
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_GE(full, 0);
    std::filesystem::remove(folder_ / "done");
    StartScript(1,
                "echo lost; echo kept >&2; echo done > $FOLDER/done; exit " +
                    std::to_string(code),
                {}, full);
    close(full);
    EXPECT_EQ(Wait(), code == 0 ? 1 : code);
    EXPECT_EQ(ReadWhole(folder_ / "done"), "done\n");
    EXPECT_EQ(Of("[0] ", err()), Strings{"kept"});
    EXPECT_EQ(Of("error: stdout cannot be written", err()).size(), 1u) << err();
  }
}

TEST_F(LauncherTest, Worker_LauncherIgnoresSigpipe_HasTheDefault) {
  EXPECT_EQ(RunScript(1, "(yes; echo $? >&2) | head -n 1"), 0);
  EXPECT_EQ(Of("[0] ", err()), Strings{std::to_string(128 + SIGPIPE)});
}

// --- a terminal --------------------------------------------------------------

// A terminal for the launcher, read on a thread until no process has it open.
class Terminal {
 public:
  explicit Terminal(int columns) {
    main_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_EQ(grantpt(main_), 0);
    EXPECT_EQ(unlockpt(main_), 0);
    end_ = open(ptsname(main_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    termios raw;
    tcgetattr(end_, &raw);
    cfmakeraw(&raw);
    tcsetattr(end_, TCSANOW, &raw);
    winsize size = {};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = 24;
    ioctl(end_, TIOCSWINSZ, &size);
    reader_ = std::thread([this] {
      char buffer[4096];
      for (;;) {
        const ssize_t n = read(main_, buffer, sizeof(buffer));
        if (n <= 0) return;  // EIO: all ends are closed
        const std::lock_guard<std::mutex> lock(mutex_);
        shown_.append(buffer, static_cast<size_t>(n));
      }
    });
  }
  ~Terminal() {
    if (reader_.joinable()) Shown();
    close(main_);
  }
  int end() const { return end_; }
  // Waits until it has shown the text; false after five minutes.
  bool Shows(const std::string& text) {
    return Eventually([&] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return shown_.find(text) != std::string::npos;
    });
  }
  // All that was written, once the launcher has ended.
  std::string Shown() {
    close(end_);
    reader_.join();
    return shown_;
  }

 private:
  int main_ = -1, end_ = -1;
  std::mutex mutex_;  // guards shown_ while the reader runs
  std::string shown_;
  std::thread reader_;
};

// Returns the lines that a terminal shows after these bytes, with carriage
// returns, erasures and line feeds.
Strings Screen(const std::string& bytes) {
  Strings lines(1);
  size_t column = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\r') {
      column = 0;
    } else if (bytes[i] == '\n') {
      lines.emplace_back();
      column = 0;
    } else if (bytes.compare(i, 3, "\x1b[K") == 0) {
      lines.back().resize(column);
      i += 2;
    } else if (bytes.compare(i, 4, "\x1b[0m") == 0) {
      i += 3;
    } else {
      lines.back().resize(std::max(lines.back().size(), column + 1), ' ');
      lines.back()[column++] = bytes[i];
    }
  }
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

// The chief draws as on a terminal of its own. Lines of others, on stdout and
// stderr, are whole and above its drawing.
TEST_F(LauncherTest, Terminal_ChiefDrawsABar_IsShownBelowTheLines) {
  Terminal terminal(40);
  StartScript(
      2,
      "if [ $i = 0 ]; then [ -t 1 ] && echo a terminal; "
      "for n in 1 2 3 4; do "
      "printf '\\b\\b\\b\\rstep %s of 4 a b c d e f g h i j k l m n o p' $n; "
      "[ $n != 2 ] || " +
          Until("[ -e $FOLDER/lines ]") +
          "done; echo; echo end; "
          "else [ -t 1 ] || echo a pipe; " +
          Until("[ -e $FOLDER/step2 ]") + "echo line; echo error >&2; fi",
      {}, terminal.end(), terminal.end());
  EXPECT_TRUE(terminal.Shows("step 2 of 4"));
  WriteWhole(folder_ / "step2", "");
  EXPECT_TRUE(terminal.Shows("[1] line") && terminal.Shows("[1] error"));
  WriteWhole(folder_ / "lines", "");
  EXPECT_EQ(Wait(), 0);
  const std::string shown = terminal.Shown();
  const Strings screen = Screen(shown);
  const auto at = [&](const std::string& line) {
    return std::count(screen.begin(), screen.end(), line);
  };
  EXPECT_EQ(at("[0] a terminal"), 1) << shown;
  EXPECT_EQ(at("[1] a pipe"), 1) << shown;
  EXPECT_EQ(at("[1] line"), 1) << shown;
  EXPECT_EQ(at("[1] error"), 1) << shown;
  // Drawn on the way, cut to the terminal's width less one, and left in full.
  EXPECT_TRUE(
      Contains(shown, "[0] step 2 of 4 a b c d e f g h i j k l\x1b[0m"));
  EXPECT_EQ(at("[0] step 4 of 4 a b c d e f g h i j k l m n o p"), 1) << shown;
  EXPECT_EQ(screen.back(), "[0] end") << shown;
  EXPECT_LE(screen.size(), 7u) << shown;  // a warning of few cores among them
}

// The chief's unfinished line becomes a line when the chief is killed.
TEST_F(LauncherTest, Terminal_ChiefIsKilled_ItsLineIsWhole) {
  Terminal terminal(80);
  StartScript(
      1, "printf 'step 1'; " + Until("[ -e $FOLDER/shown ]") + "kill -9 $$", {},
      terminal.end(), terminal.end());
  EXPECT_TRUE(terminal.Shows("step 1"));
  WriteWhole(folder_ / "shown", "");
  EXPECT_EQ(Wait(), 128 + SIGKILL);
  const Strings screen = Screen(terminal.Shown());
  ASSERT_EQ(screen.size(), 2u);
  EXPECT_EQ(screen[0], "[0] step 1");
  EXPECT_EQ(screen[1], "[launcher] worker 0 was ended by signal 9");
}

TEST_F(LauncherTest, Terminal_ManyLines_NoneIsLost) {
  Terminal terminal(80);
  StartScript(2, "seq -f \"$i-%.0f\" 1 20000", {}, terminal.end());
  EXPECT_EQ(Wait(), 0);
  std::string shown;
  for (const std::string& line : Screen(terminal.Shown())) shown += line + "\n";
  for (const char* index : {"0", "1"}) {
    const Strings lines = Of("[" + std::string(index) + "] ", shown);
    ASSERT_EQ(lines.size(), 20000u);
    for (size_t n = 0; n < lines.size(); ++n) {
      ASSERT_EQ(lines[n], index + ("-" + std::to_string(n + 1)));
    }
  }
}

// Each line when it is made, also where the launcher's stdout is a pipe.
TEST_F(LauncherTest, Output_OneLineWritten_IsThereBeforeTheNext) {
  StartScript(2, "echo first; while [ ! -e $FOLDER/go ]; do sleep 0.01; done");
  EXPECT_TRUE(Eventually([&] { return Lines(out()).size() == 2; })) << out();
  WriteWhole(folder_ / "go", "");
  EXPECT_EQ(Wait(), 0);
}

}  // namespace
}  // namespace ringlet
