#include "timed_lines.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
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
  char text[80];
  if (localtime_r(&seconds, &parts) == nullptr) return "?";
  std::snprintf(text, sizeof(text), "%04d-%02d-%02d %02d:%02d:%02d",
                parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                parts.tm_hour, parts.tm_min, parts.tm_sec);
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
  pace_.BeginFit();
  BeginEpoch(fit);
  return Status();
}

Status TimedLines::OnEpochBegin(FitState& fit) {
  BeginEpoch(fit);
  return Status();
}

void TimedLines::BeginEpoch(const FitState& fit) {
  last_line_ = clock_->MonotonicNanos();
  pace_.BeginEpoch(fit, last_line_);
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
  const int64_t now = clock_->MonotonicNanos();
  const double step_seconds = pace_.StepSeconds(done, now);
  if (step_seconds < 0) return;
  if (step_seconds < 1) {
    Append(" - %.1f steps/s", 1 / step_seconds);
  } else {
    Append(" - %.1f s/step", step_seconds);
  }
  const double seconds_left = pace_.SecondsLeftInEpoch(fit, done, now);
  if (seconds_left < 0) return;
  Append(" - %s left in the epoch",
         DurationText(static_cast<int64_t>(seconds_left)).c_str());
  const double in_all = pace_.SecondsLeftInAll(fit, done, now);
  const bool is_last = fit.epoch + 1 == fit.epochs;
  // Beyond a century the number means nothing.
  if (is_last || in_all < 0 || in_all > 3e9) return;
  Append(", %s in all", DurationText(static_cast<int64_t>(in_all)).c_str());
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
  pace_.EndEpoch(clock_->MonotonicNanos());
  BeginEpoch(fit);
  return Status();
}

}  // namespace ringlet
