// Dates are of the proleptic Gregorian calendar. gmtime_r takes a lock in the C
// library, which a signal handler must not.

#include "event_words.h"

#include <algorithm>

#include "../../core/base/text.h"

namespace ringlet {
namespace {

// A millisecond in nanoseconds, and a day in milliseconds.
constexpr int64_t kMilli = 1000000, kDay = 86400000;

// The days since 1970 of a year's first day of March.
int64_t DaysToMarch(int64_t year) {
  return 365 * year + year / 4 - year / 100 + year / 400 - 719468;
}

// Counts the days from the first of March to the first of the month after
// `months` months.
int64_t DaysOfMonths(int64_t months) { return (153 * months + 2) / 5; }

void WriteDigits(int64_t number, int digits, char* out) {
  for (; digits > 0; --digits, number /= 10) {
    out[digits - 1] = static_cast<char>('0' + number % 10);
  }
}

}  // namespace

std::string WorkerName(int worker) {
  return worker < 0 ? "an unknown worker" : "worker " + std::to_string(worker);
}

void WriteTime(int64_t wall, char (&out)[kTimeBytes]) {
  const int64_t millis = std::max<int64_t>(wall / kMilli, 0);
  const int64_t day = millis / kDay, rest = millis % kDay;
  int64_t year = (day + 719468) * 400 / 146097 + 1;  // may be too great
  while (DaysToMarch(year) > day) --year;
  const int64_t of_year = day - DaysToMarch(year);
  const int64_t months = (5 * of_year + 2) / 153;
  std::copy_n("0000-00-00T00:00:00.000Z", kTimeBytes, out);
  WriteDigits(year + (months >= 10 ? 1 : 0), 4, out);
  WriteDigits(months >= 10 ? months - 9 : months + 3, 2, out + 5);
  WriteDigits(of_year - DaysOfMonths(months) + 1, 2, out + 8);
  WriteDigits(rest / 3600000, 2, out + 11);
  WriteDigits(rest / 60000 % 60, 2, out + 14);
  WriteDigits(rest / 1000 % 60, 2, out + 17);
  WriteDigits(rest % 1000, 3, out + 20);
}

bool ParseTime(const std::string& text, int64_t* wall) {
  static constexpr char kForm[] = "0000-00-00T00:00:00.000Z";
  if (text.size() + 1 != kTimeBytes) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !digit : text[i] != kForm[i]) return false;
  }
  const auto number = [&text](size_t at, size_t digits) {
    return static_cast<int64_t>(std::stoi(text.substr(at, digits)));
  };
  const int64_t month = number(5, 2);
  const int64_t year = number(0, 4) - (month < 3 ? 1 : 0);
  if (month < 1 || month > 12 || year < 1969 || year > 2261) return false;
  const int64_t day = DaysToMarch(year) +
                      DaysOfMonths(month < 3 ? month + 9 : month - 3) +
                      number(8, 2) - 1;
  *wall = (day * kDay + number(11, 2) * 3600000 + number(14, 2) * 60000 +
           number(17, 2) * 1000 + number(20, 3)) *
          kMilli;
  return true;
}

std::string TimeText(int64_t wall) {
  char text[kTimeBytes];
  WriteTime(wall, text);
  text[10] = ' ';
  return std::string(text, kTimeBytes - 2);
}

std::string SecondsText(int64_t nanos) {
  const double seconds = static_cast<double>(nanos) / 1e9;
  return FormatText("%.*f s", seconds < 10 ? 2 : 0, seconds);
}

}  // namespace ringlet
