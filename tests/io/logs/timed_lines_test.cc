#include "io/logs/timed_lines.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include "../../support/expect_ok.h"
#include "../../support/fake_clock.h"

namespace ringlet {
namespace {

// A fit of 10 epochs of 500 steps. A test gives the time of its steps.
class TimedLinesTest : public ::testing::Test {
 protected:
  TimedLinesTest() {
    setenv("TZ", "UTC", 1);
    tzset();
    fit_.epochs = 10;
    fit_.steps_per_epoch = 500;
    logs_.Set("loss", 0.25);
  }
  ~TimedLinesTest() override { std::fclose(out_); }

  void Steps(int count, double seconds) {
    for (int i = 0; i < count; ++i) {
      clock_.Advance(seconds);
      ASSERT_OK(lines_.OnTrainBatchEnd(fit_, logs_));
      ++fit_.step;
    }
  }
  void Epoch(int count, double seconds) {
    ASSERT_OK(lines_.OnEpochBegin(fit_));
    Steps(count, seconds);
    ASSERT_OK(lines_.OnEpochEnd(fit_, &logs_));
    ++fit_.epoch;
    fit_.step = 0;
  }
  std::string Printed() {
    std::fflush(out_);
    std::string text(1 << 16, '\0');
    std::rewind(out_);
    text.resize(std::fread(text.data(), 1, text.size(), out_));
    return text;
  }

  FILE* const out_ = std::tmpfile();
  FakeClock clock_;
  TimedLines lines_{out_, &clock_};
  FitState fit_;
  Logs logs_;
};

TEST_F(TimedLinesTest, Epoch_OfLessThan30Seconds_PrintsNothing) {
  ASSERT_OK(lines_.OnTrainBegin(fit_));
  Epoch(500, 0.05);
  Epoch(500, 0.05);
  EXPECT_EQ(Printed(), "");
}

TEST_F(TimedLinesTest, LongEpoch_EachHalfMinute_PrintsPositionAndRates) {
  ASSERT_OK(lines_.OnTrainBegin(fit_));
  ASSERT_OK(lines_.OnEpochBegin(fit_));
  Steps(250, 0.25);  // 62.5 s
  EXPECT_EQ(Printed(),
            "2023-11-14 22:13:50 - epoch 1/10 - 120/500 - 4.0 steps/s - 1:35 "
            "left in the epoch - loss: 0.25\n"
            "2023-11-14 22:14:20 - epoch 1/10 - 240/500 - 4.0 steps/s - 1:05 "
            "left in the epoch - loss: 0.25\n");
}

TEST_F(TimedLinesTest, Line_SecondEpoch_HasTimeOfWholeRun) {
  ASSERT_OK(lines_.OnTrainBegin(fit_));
  Epoch(500, 0.05);  // 25 s
  ASSERT_OK(lines_.OnEpochBegin(fit_));
  Steps(10, 3);
  // 490 steps of 3 s, and eight epochs of 25 s.
  EXPECT_EQ(Printed(),
            "2023-11-14 22:14:15 - epoch 2/10 - 10/500 - 3.0 s/step - 24:30 "
            "left in the epoch, 27:50 in all - loss: 0.25\n");
}

TEST_F(TimedLinesTest, Line_ResumedEpoch_RateIsOfStepsSinceTheResume) {
  fit_.step = 400;
  fit_.epoch = 9;
  ASSERT_OK(lines_.OnTrainBegin(fit_));
  Steps(30, 1);
  EXPECT_EQ(Printed(),
            "2023-11-14 22:13:50 - epoch 10/10 - 430/500 - 1.0 s/step - 1:10 "
            "left in the epoch - loss: 0.25\n");
}

TEST_F(TimedLinesTest, Validation_Long_PrintsItsBatch) {
  ASSERT_OK(lines_.OnTrainBegin(fit_));
  ASSERT_OK(lines_.OnTestBegin(fit_));
  for (int i = 0; i < 4; ++i) {
    clock_.Advance(10);
    ASSERT_OK(lines_.OnTestBatchEnd(fit_));
  }
  EXPECT_EQ(Printed(),
            "2023-11-14 22:13:50 - epoch 1/10 - validation, batch 3\n");
}

TEST_F(TimedLinesTest, Line_UnknownLength_HasNoTimeLeft) {
  fit_.steps_per_epoch = 0;
  ASSERT_OK(lines_.OnTrainBegin(fit_));
  Steps(3, 10);
  EXPECT_EQ(Printed(),
            "2023-11-14 22:13:50 - epoch 1/10 - 3 - 10.0 s/step - loss: "
            "0.25\n");
}

TEST_F(TimedLinesTest, Line_OtherRank_IsNotPrinted) {
  fit_.chief = false;
  ASSERT_OK(lines_.OnTrainBegin(fit_));
  Steps(3, 40);
  EXPECT_EQ(Printed(), "");
}

}  // namespace
}  // namespace ringlet
