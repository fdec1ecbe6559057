#include "timed_lines.h"

#include <cinttypes>
#include <cstdarg>
#include <ctime>

namespace ringlet {
namespace {

constexpr int64_t kSecond = 1000000000;
constexpr int64_t kEvery = 30 * kSecond;

// "59:59" or "1:00:00".
std::string DurationText(int64_t seconds) {
  char text[48];
  const auto below_hour = static_cast<int>(seconds % 3600);
  if (seconds < 3600) {
    std::snprintf(text, sizeof(text), "%d:%02d", below_hour / 60,
                  below_hour % 60);
  } else {
    std::snprintf(text, sizeof(text), "%" PRId64 ":%02d:%02d", seconds / 3600,
                  below_hour / 60, below_hour % 60);
  }
  return text;
}

// The local time of day.
std::string TimeOfDay(int64_t wall) {
  const auto seconds = static_cast<time_t>(wall / kSecond);
  tm parts;
  char text[64];
  if (localtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts) == 0) {
    return "?";
  }
  return text;
}

}  // namespace

TimedLines::TimedLines(FILE* out, Clock* clock) : out_(out), clock_(clock) {
  line_.reserve(1024);
}

void TimedLines::Append(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  line_ += text;
}

Status TimedLines::OnTrainBegin(FitState& fit) {
  epoch_seconds_ = 0;
  BeginEpoch(fit);
  return Status();
}

Status TimedLines::OnEpochBegin(FitState& fit) {
  BeginEpoch(fit);
  return Status();
}

void TimedLines::BeginEpoch(const FitState& fit) {
  last_line_ = epoch_begin_ = clock_->MonotonicNanos();
  first_step_ = fit.step;
}

bool TimedLines::BeginLine(const FitState& fit) {
  if (out_ == nullptr || !fit.chief) return false;
  const int64_t now = clock_->MonotonicNanos();
  if (now - last_line_ < kEvery) return false;
  last_line_ = now;
  line_ = TimeOfDay(clock_->WallNanos());
  Append(" - epoch %" PRId64 "/%" PRId64, fit.epoch + 1, fit.epochs);
  return true;
}

void TimedLines::AppendRates(const FitState& fit, int64_t done) {
  const int64_t made = done - first_step_;
  const int64_t elapsed = clock_->MonotonicNanos() - epoch_begin_;
  if (made < 1 || elapsed < 1) return;
  const double seconds = static_cast<double>(elapsed) / kSecond;
  const double step_seconds = seconds / static_cast<double>(made);
  if (step_seconds < 1) {
    Append(" - %.1f steps/s", 1 / step_seconds);
  } else {
    Append(" - %.1f s/step", step_seconds);
  }
  if (fit.steps_per_epoch == 0) return;
  const auto left = static_cast<int64_t>(
      step_seconds * static_cast<double>(fit.steps_per_epoch - done));
  Append(" - %s left in the epoch", DurationText(left).c_str());
  const int64_t epochs = fit.epochs - fit.epoch - 1;
  if (epochs == 0 || epoch_seconds_ == 0) return;
  const double others =
      static_cast<double>(epochs) * static_cast<double>(epoch_seconds_);
  // Beyond a century the number means nothing.
  if (others > 3e9) return;
  Append(", %s in all",
         DurationText(left + static_cast<int64_t>(others)).c_str());
}

Status TimedLines::OnTrainBatchEnd(FitState& fit, const Logs& logs) {
  if (!BeginLine(fit)) return Status();
  const int64_t done = fit.step + 1;
  Append(" - %" PRId64, done);
  if (fit.steps_per_epoch > 0) Append("/%" PRId64, fit.steps_per_epoch);
  AppendRates(fit, done);
  for (const auto& entry : logs.entries()) {
    Append(" - %s: %.4g", entry.first.c_str(), entry.second);
  }
  PrintTo(out_, "%s", line_.c_str());
  return Status();
}

Status TimedLines::OnTestBegin(FitState&) {
  test_steps_ = 0;
  return Status();
}

Status TimedLines::OnTestBatchEnd(FitState& fit) {
  ++test_steps_;
  if (!BeginLine(fit)) return Status();
  Append(" - validation, batch %" PRId64, test_steps_);
  PrintTo(out_, "%s", line_.c_str());
  return Status();
}

Status TimedLines::OnEpochEnd(FitState& fit, Logs*) {
  const int64_t now = clock_->MonotonicNanos();
  if (first_step_ == 0) epoch_seconds_ = (now - epoch_begin_) / kSecond;
  BeginEpoch(fit);
  return Status();
}

}  // namespace ringlet
