// The texts equal Keras 3's progress bar, byte for byte
// (tests/core/fit/progress_test.cc). Update runs after every step, so nothing
// is allocated after the first: line_ keeps its capacity. A drawing that is
// shorter than the previous one is padded with blanks.

#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdlib>

#include "../base/time_units.h"

namespace ringlet {
namespace {

constexpr int kBarWidth = 20;
constexpr int64_t kDrawEvery = 50 * kMillisecond;

int Digits(int64_t n) {
  int digits = 1;
  for (; n >= 10; n /= 10) ++digits;
  return digits;
}

// Follows the convention of no-color.org.
bool WantsStyles() {
  const char* const no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

}  // namespace

Verbose Progress::Resolve(Verbose verbose, FILE* out) {
  if (verbose != Verbose::kAuto) return verbose;
  return isatty(fileno(out)) ? Verbose::kBar : Verbose::kLine;
}

Progress::Progress(Verbose verbose, FILE* out, int64_t target, Clock* clock,
                   int64_t done)
    : verbose_(Resolve(verbose, out)),
      styled_(WantsStyles()),
      target_(target),
      clock_(clock),
      start_(clock->MonotonicNanos()),
      done_(done),
      written_(out) {
  line_.reserve(4096);
}

void Progress::Append(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  const int n = std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  line_ += text;
  columns_ += std::min<int>(n, sizeof(text) - 1);
}

// Escapes take no column, and the bar's character of three bytes takes one.
void Progress::AppendBar(int64_t done) {
  if (target_ == 0) {
    Append("%7" PRId64 "/Unknown", done);
    return;
  }
  const int64_t full = std::min<int64_t>(kBarWidth, kBarWidth * done / target_);
  Style("\x1b[1m");
  Append("%*" PRId64 "/%" PRId64, Digits(target_), done, target_);
  Style("\x1b[0m");
  line_ += ' ';
  if (full > 0) {
    Style("\x1b[32m");
    for (int64_t i = 0; i < full; ++i) line_ += "\u2501";
    Style("\x1b[0m");
  }
  Style("\x1b[37m");
  for (int64_t i = full; i < kBarWidth; ++i) line_ += "\u2501";
  Style("\x1b[0m");
  columns_ += 1 + kBarWidth;
}

void Progress::AppendLogs(const Logs& logs) {
  // Sorted by name, as in Keras. Selection sort suffices for few names, and
  // does not allocate.
  const std::string* previous = nullptr;
  for (;;) {
    const std::pair<std::string, double>* next = nullptr;
    for (const auto& entry : logs.entries()) {
      if (previous != nullptr && entry.first <= *previous) continue;
      if (next == nullptr || entry.first < next->first) next = &entry;
    }
    if (next == nullptr) return;
    previous = &next->first;
    // The line's rule has no |.|, so negative values have an exponent there.
    const double size =
        verbose_ == Verbose::kLine ? next->second : std::fabs(next->second);
    Append(" - %s:", next->first.c_str());
    Append(size > 1e-3 ? " %.4f" : " %.4e", next->second);
  }
}

void Progress::AppendStepTime(double seconds) {
  if (seconds >= 1 || seconds == 0) {
    Append(" %.0fs/step", seconds);
  } else if (seconds >= 1e-3) {
    Append(" %.0fms/step", seconds * 1e3);
  } else {
    Append(" %.0fus/step", seconds * 1e6);
  }
}

void Progress::Update(int64_t done, const Logs& logs) {
  if (verbose_ == Verbose::kSilent) return;
  const int64_t now = clock_->MonotonicNanos();
  if (first_step_ == 0) {
    first_step_ = now;
    first_done_ = done;
  }
  if (verbose_ != Verbose::kBar) return;
  if (last_draw_ != 0 && now - last_draw_ < kDrawEvery) return;
  last_draw_ = now;
  Draw(done, logs, /*final=*/false);
}

void Progress::Finish(int64_t done, const Logs& logs) {
  if (verbose_ == Verbose::kSilent) return;
  Draw(done, logs, /*final=*/true);
}

// The first step includes set-up, so it counts only while it is the only one,
// as in Keras.
double Progress::StepSeconds(int64_t done, int64_t now) const {
  const bool first_known = first_step_ != 0 && done > first_done_;
  const int64_t steps_since = done - (first_known ? first_done_ : done_);
  if (steps_since < 1) return 0;
  return static_cast<double>(now - (first_known ? first_step_ : start_)) *
         1e-9 / static_cast<double>(steps_since);
}

void Progress::AppendTime(double elapsed, double remaining, bool final) {
  line_ += ' ';
  Style("\x1b[1m");
  ++columns_;
  const auto eta = static_cast<int64_t>(remaining);
  const int second = static_cast<int>(eta % 60);
  if (final || target_ == 0) {
    Append("%.0fs", elapsed);
  } else if (remaining > 3600) {
    Append("%" PRId64 ":%02d:%02d", eta / 3600,
           static_cast<int>(eta % 3600 / 60), second);
  } else if (remaining > 60) {
    Append("%" PRId64 ":%02d", eta / 60, second);
  } else {
    Append("%ds", static_cast<int>(eta));
  }
  Style("\x1b[0m");
}

void Progress::Draw(int64_t done, const Logs& logs, bool final) {
  const int64_t now = clock_->MonotonicNanos();
  const double elapsed = static_cast<double>(now - start_) * 1e-9;
  const double step_seconds = StepSeconds(done, now);
  line_.clear();
  columns_ = 0;
  if (verbose_ == Verbose::kBar) {
    line_.append(static_cast<size_t>(width_), '\b');
    line_ += '\r';
    AppendBar(done);
    AppendTime(elapsed, step_seconds * static_cast<double>(target_ - done),
               final);
    AppendStepTime(step_seconds);
    AppendLogs(logs);
    // The rest of a longer line.
    if (width_ > columns_) line_.append(width_ - columns_, ' ');
    width_ = columns_;
  } else {
    if (target_ > 0) {
      Append("%*" PRId64 "/%" PRId64, Digits(target_), done, target_);
    } else {
      Append("%" PRId64 "/Unknown", done);
    }
    Append(" - %.0fs -", elapsed);
    AppendStepTime(step_seconds);
    AppendLogs(logs);
  }
  if (final) line_ += '\n';
  written_.Write(line_, final);
}

}  // namespace ringlet
