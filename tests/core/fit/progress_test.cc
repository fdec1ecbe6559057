#include "core/fit/progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "../../support/contains.h"
#include "../../support/fake_clock.h"
#include "core/base/notice_now.h"

namespace ringlet {
namespace {

// Draws a progress bar into a file.
class ProgressTest : public ::testing::Test {
 protected:
  void SetUp() override { out_ = std::tmpfile(); }
  void TearDown() override { std::fclose(out_); }

  std::string Drawn() {
    std::fflush(out_);
    std::string text(static_cast<size_t>(std::ftell(out_)), '\0');
    std::rewind(out_);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), out_), text.size());
    std::rewind(out_);
    EXPECT_EQ(ftruncate(fileno(out_), 0), 0);
    return text;
  }

  static Logs TwoValues(double loss, double accuracy) {
    Logs logs;
    logs.Set("loss", loss);
    logs.Set("accuracy", accuracy);
    return logs;
  }

  static std::string Times(const char* text, int n) {
    std::string s;
    for (int i = 0; i < n; ++i) s += text;
    return s;
  }

  FakeClock clock_;
  FILE* out_ = nullptr;
};

TEST_F(ProgressTest, Bar_Updated_EqualsKerasByteForByte) {
  Progress progress(Verbose::kBar, out_, 70, &clock_);
  clock_.Advance(1);
  progress.Update(1, TwoValues(2.3, 0.125));
  EXPECT_EQ(Drawn(),
            "\r\x1b[1m 1/70\x1b[0m \x1b[37m" + Times("\u2501", 20) +
                "\x1b[0m \x1b[1m1:09\x1b[0m 1s/step - accuracy: 0.1250 - "
                "loss: 2.3000");
  clock_.Advance(6 * 0.196);
  progress.Update(7, TwoValues(2.1873, 0.3124));
  // 63 steps of 196 ms are 12.3 s; the first, slow step no longer counts.
  const int width = 74 - 1;
  EXPECT_EQ(Drawn(),
            Times("\b", width) + "\r\x1b[1m 7/70\x1b[0m \x1b[32m" +
                Times("\u2501", 2) + "\x1b[0m\x1b[37m" + Times("\u2501", 18) +
                "\x1b[0m \x1b[1m12s\x1b[0m 196ms/step - accuracy: 0.3124 - "
                "loss: 2.1873");
  clock_.Advance(63 * 0.0005);
  Logs logs = TwoValues(5e-4, 0.9124);
  logs.Set("val_loss", 0.31);
  progress.Finish(70, logs);
  const std::string last = Drawn();
  EXPECT_EQ(last.substr(last.find('\r')),
            "\r\x1b[1m70/70\x1b[0m \x1b[32m" + Times("\u2501", 20) +
                "\x1b[0m\x1b[37m\x1b[0m \x1b[1m2s\x1b[0m 18ms/step - "
                "accuracy: 0.9124 - loss: 5.0000e-04 - val_loss: 0.3100\n");
}

TEST_F(ProgressTest, Bar_NoColorIsSet_HasNoStyles) {
  for (const char* const set : {"1", ""}) {
    ASSERT_EQ(setenv("NO_COLOR", set, 1), 0);
    Progress progress(Verbose::kBar, out_, 70, &clock_);
    ASSERT_EQ(unsetenv("NO_COLOR"), 0);
    progress.Finish(70, TwoValues(2.3, 0.125));
    const std::string drawn = Drawn();
    EXPECT_EQ(drawn.find("\x1b[") == std::string::npos, *set != '\0') << drawn;
    EXPECT_TRUE(Contains(drawn, "accuracy: 0.1250"));
  }
}

TEST_F(ProgressTest, Bar_ShorterLine_ErasesTheLongerOne) {
  Progress progress(Verbose::kBar, out_, 2, &clock_);
  clock_.Advance(1);
  progress.Update(1, TwoValues(1e-5, 0.5));
  Drawn();
  clock_.Advance(1);
  progress.Finish(2, TwoValues(1, 0.5));
  const std::string text = Drawn();
  // "1.0000e-05" had four columns more.
  EXPECT_EQ(text.substr(text.size() - 11), "1.0000    \n");
}

TEST_F(ProgressTest, Bar_ManyUpdates_RedrawsEvery50MsAtMost) {
  Progress progress(Verbose::kBar, out_, 1000, &clock_);
  int drawings = 0;
  for (int step = 1; step <= 100; ++step) {
    clock_.Advance(0.01);
    progress.Update(step, {});
    drawings += Drawn().empty() ? 0 : 1;
  }
  EXPECT_EQ(drawings, 20);
}

TEST_F(ProgressTest, Bar_TargetUnknown_CountsSteps) {
  Progress progress(Verbose::kBar, out_, 0, &clock_);
  clock_.Advance(2);
  progress.Update(1, {});
  EXPECT_EQ(Drawn(), "\r      1/Unknown \x1b[1m2s\x1b[0m 2s/step");
}

TEST_F(ProgressTest, RemainingTime_MinutesOrHours_HasThoseUnits) {
  for (const auto& [steps, expected] :
       {std::pair<int64_t, const char*>{3, " \x1b[1m20s\x1b[0m"},
        {8, " \x1b[1m1:10\x1b[0m"},
        {401, " \x1b[1m1:06:40\x1b[0m"}}) {
    Progress progress(Verbose::kBar, out_, steps, &clock_);
    clock_.Advance(10);
    progress.Update(1, {});
    EXPECT_TRUE(Contains(Drawn(), expected)) << steps;
  }
}

TEST_F(ProgressTest, Line_SeveralUpdates_IsPrintedOnceAtTheEnd) {
  Progress progress(Verbose::kLine, out_, 70, &clock_);
  clock_.Advance(1);
  progress.Update(1, TwoValues(1, 1));
  EXPECT_EQ(Drawn(), "");
  clock_.Advance(69 * 0.0031);
  progress.Finish(70, TwoValues(-2, 0.5));
  // Keras's line has no |value| in its test for small values.
  EXPECT_EQ(Drawn(),
            "70/70 - 1s - 3ms/step - accuracy: 0.5000 - loss: -2.0000e+00\n");
}

// The first update may be of many steps, and steps may have been made before.
TEST_F(ProgressTest, StepTime_EarlierStepsOrRounds_CountsOnlyTheStepsMade) {
  const auto line = [this](int64_t before, const std::vector<int64_t>& rounds) {
    Progress progress(Verbose::kLine, out_, 70, &clock_, before);
    int64_t done = before;
    for (const int64_t end : rounds) {
      clock_.Advance(static_cast<double>(end - done) * 0.1);
      progress.Update(end, {});
      done = end;
    }
    progress.Finish(done, {});
    return Drawn();
  };
  EXPECT_EQ(line(0, {70}), "70/70 - 7s - 100ms/step\n");
  EXPECT_EQ(line(0, {30, 60, 70}), "70/70 - 7s - 100ms/step\n");
  EXPECT_EQ(line(69, {70}), "70/70 - 0s - 100ms/step\n");
  EXPECT_EQ(line(40, {41, 42, 70}), "70/70 - 3s - 100ms/step\n");
}

TEST_F(ProgressTest, Silent_AnyUpdate_PrintsNothing) {
  Progress progress(Verbose::kSilent, out_, 2, &clock_);
  progress.Update(1, TwoValues(1, 1));
  progress.Finish(2, TwoValues(1, 1));
  EXPECT_EQ(Drawn(), "");
}

// A message that would follow the bar in its line begins a line of its own.
TEST_F(ProgressTest, Message_WhileABarIsShown_BeginsItsOwnLine) {
  testing::internal::CaptureStderr();
  {
    Progress progress(Verbose::kBar, stderr, 2, &clock_);
    Notice("before %d", 1);
    clock_.Advance(1);
    progress.Update(1, {});
    Notice("during");
    Notice("again\n");
    clock_.Advance(1);
    progress.Update(1, {});
    NoticeNow("from a handler\n");
    clock_.Advance(1);
    progress.Update(1, {});
    Notice("\nwith its own");
    clock_.Advance(1);
    progress.Finish(2, {});
    Notice("after");
    Progress broken_off(Verbose::kBar, stderr, 2, &clock_);
    clock_.Advance(1);
    broken_off.Update(1, {});
  }
  Notice("%s", std::string(5000, 'x').c_str());
  Notice("%s", "");
  const std::string printed = testing::internal::GetCapturedStderr();
  std::string text;
  for (size_t i = 0; i < printed.size(); ++i) {  // each drawing is one '#'
    if (printed[i] == '\b') continue;
    if (printed[i] != '\r') {
      text += printed[i];
      continue;
    }
    text += '#';
    while (i + 1 < printed.size() && printed[i + 1] != '\n' &&
           printed[i + 1] != '\b') {
      ++i;
    }
  }
  EXPECT_EQ(text,
            "before 1\n#\nduring\nagain\n#\nfrom a handler\n#\nwith its "
            "own\n#\nafter\n#\n" +
                std::string(5000, 'x') + "\n\n");
}

// A bar in another file does not change a message.
TEST_F(ProgressTest, Message_BarIsInAnotherFile_LeavesTheBar) {
  testing::internal::CaptureStderr();
  Progress progress(Verbose::kBar, out_, 2, &clock_);
  clock_.Advance(1);
  progress.Update(1, {});
  const std::string drawn = Drawn();
  Notice("said");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "said\n");
  EXPECT_EQ(Drawn(), "");
  EXPECT_EQ(drawn.find('\n'), std::string::npos);
}

TEST_F(ProgressTest, Line_Printed_IsThereImmediately) {
  testing::internal::CaptureStdout();
  std::printf("a user's own, ");
  Print("%d lines\n", 2);
  Print("flushed");
  char text[64] = "";
  const ssize_t n = pread(STDOUT_FILENO, text, sizeof(text), 0);
  const std::string at_once(text, n > 0 ? static_cast<size_t>(n) : 0);
  testing::internal::GetCapturedStdout();
  if (n < 0) GTEST_SKIP() << "the captured file cannot be read here";
  EXPECT_EQ(at_once, "a user's own, 2 lines\nflushed\n");
}

TEST_F(ProgressTest, Auto_OutputIsNoTerminal_IsTheLine) {
  EXPECT_EQ(Progress::Resolve(Verbose::kAuto, out_), Verbose::kLine);
  EXPECT_EQ(Progress::Resolve(Verbose::kBar, out_), Verbose::kBar);
}

}  // namespace
}  // namespace ringlet
