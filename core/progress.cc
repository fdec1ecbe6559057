#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdarg>

namespace ringlet {
namespace {

constexpr int kBarWidth = 20;
constexpr int64_t kDrawEvery = 50000000;  // nanoseconds

int Digits(int64_t n) {
  int digits = 1;
  for (; n >= 10; n /= 10) ++digits;
  return digits;
}

}  // namespace

Verbose Progress::Resolve(Verbose verbose, FILE* out) {
  if (verbose != Verbose::kAuto) return verbose;
  return isatty(fileno(out)) ? Verbose::kBar : Verbose::kLine;
}

Progress::Progress(Verbose verbose, FILE* out, int64_t target, Clock* clock)
    : verbose_(Resolve(verbose, out)),
      out_(out),
      target_(target),
      clock_(clock),
      start_(clock->MonotonicNanos()) {
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

// What is seen of a piece is less than its bytes: escapes take no column, and
// the bar's character three bytes.
void Progress::AppendBar(int64_t done) {
  const int before = columns_;
  int seen = 0;
  if (target_ > 0) {
    line_ += "\x1b[1m";
    Append("%*" PRId64 "/%" PRId64, Digits(target_), done, target_);
    seen += columns_ - before;
    line_ += "\x1b[0m \x1b[32m";
    const int64_t full =
        std::min<int64_t>(kBarWidth, kBarWidth * done / target_);
    for (int64_t i = 0; i < full; ++i) line_ += "\u2501";
    line_ += "\x1b[0m\x1b[37m";
    for (int64_t i = full; i < kBarWidth; ++i) line_ += "\u2501";
    line_ += "\x1b[0m";
    seen += 1 + kBarWidth;
  } else {
    Append("%7" PRId64 "/Unknown", done);
    seen += columns_ - before;
  }
  columns_ = before + seen;
}

void Progress::AppendLogs(const Logs& logs) {
  // Sorted by name, as Keras does; by selection, since they are few and nothing
  // may be allocated.
  const std::string* previous = nullptr;
  for (;;) {
    const std::pair<std::string, double>* next = nullptr;
    for (const auto& entry : logs.entries()) {
      if (previous != nullptr && entry.first <= *previous) continue;
      if (next == nullptr || entry.first < next->first) next = &entry;
    }
    if (next == nullptr) return;
    previous = &next->first;
    // The line's rule has no |.|, so negative values go by exponent there.
    const double size =
        verbose_ == Verbose::kLine ? next->second : std::fabs(next->second);
    Append(" - %s:", next->first.c_str());
    Append(size > 1e-3 ? " %.4f" : " %.4e",
           next->second);
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
  if (first_step_ == 0) first_step_ = now;
  if (verbose_ != Verbose::kBar) return;
  if (last_draw_ != 0 && now - last_draw_ < kDrawEvery) return;
  last_draw_ = now;
  Draw(done, logs, /*final=*/false);
}

void Progress::Finish(int64_t done, const Logs& logs) {
  if (verbose_ == Verbose::kSilent) return;
  Draw(done, logs, /*final=*/true);
}

void Progress::Draw(int64_t done, const Logs& logs, bool final) {
  const int64_t now = clock_->MonotonicNanos();
  line_.clear();
  columns_ = 0;
  if (verbose_ == Verbose::kBar) {
    line_.append(static_cast<size_t>(width_), '\b');
    line_ += '\r';
    AppendBar(done);
  } else if (target_ > 0) {
    Append("%" PRId64 "/%" PRId64, done, target_);
  } else {
    Append("%" PRId64 "/Unknown", done);
  }
  // The first step pays for set-up and is left out, as in Keras.
  const int64_t since = first_step_ == 0 || done <= 1 ? start_ : first_step_;
  const int64_t steps = std::max<int64_t>(1, done <= 1 ? done : done - 1);
  const double step_seconds =
      static_cast<double>(now - since) * 1e-9 / static_cast<double>(steps);
  const char* dash = verbose_ == Verbose::kLine ? " - " : " ";
  if (final || target_ == 0) {
    Append("%s%.0fs", dash, static_cast<double>(now - start_) * 1e-9);
  } else {
    const int64_t eta = std::llround(
        step_seconds * static_cast<double>(std::max<int64_t>(0, target_ - done)));
    line_ += "\x1b[1m";
    if (eta > 3600) {
      Append("%s%" PRId64 ":%02d:%02d", dash, eta / 3600,
             static_cast<int>(eta % 3600 / 60), static_cast<int>(eta % 60));
    } else if (eta > 60) {
      Append("%s%" PRId64 ":%02d", dash, eta / 60, static_cast<int>(eta % 60));
    } else {
      Append("%s%" PRId64 "s", dash, eta);
    }
    line_ += "\x1b[0m";
  }
  if (verbose_ == Verbose::kLine) Append(" -");
  AppendStepTime(step_seconds);
  AppendLogs(logs);
  const int drawn = columns_;
  if (verbose_ == Verbose::kBar) {
    // What a longer line has left behind.
    for (; columns_ < width_; ++columns_) line_ += ' ';
  }
  width_ = drawn;
  if (final) line_ += '\n';
  std::fwrite(line_.data(), 1, line_.size(), out_);
  std::fflush(out_);
}

}  // namespace ringlet
