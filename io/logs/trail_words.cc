#include "trail_words.h"

#include <cstdio>
#include <ctime>

namespace ringlet {

std::string WorkerName(int worker) {
  return worker < 0 ? "an unknown worker" : "worker " + std::to_string(worker);
}

std::string TimeText(int64_t wall) {
  int64_t seconds = wall / 1000000000, nanos = wall % 1000000000;
  if (nanos < 0) --seconds, nanos += 1000000000;
  const auto time = static_cast<time_t>(seconds);
  tm parts;
  if (time != seconds || gmtime_r(&time, &parts) == nullptr) return "?";
  char text[64], all[80];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  std::snprintf(all, sizeof(all), "%s.%03d", text,
                static_cast<int>(nanos / 1000000));
  return all;
}

std::string SecondsText(int64_t nanos) {
  char text[48];
  const double seconds = static_cast<double>(nanos) / 1e9;
  std::snprintf(text, sizeof(text), seconds < 10 ? "%.2f s" : "%.0f s",
                seconds);
  return text;
}

}  // namespace ringlet
