#include "interval.h"

#include <cstdio>

namespace ringlet {

std::string ToString(const Interval& interval) {
  const double low = interval.low, high = interval.high;
  const bool from = low > -FLT_MAX, to = high < FLT_MAX;
  if (!from && !to) return "a number";
  char text[80];
  if (!to) {
    snprintf(text, sizeof(text), "a number %s %g",
             interval.low_open ? ">" : ">=", low);
  } else {
    snprintf(text, sizeof(text), "a number in %c%g, %g%c",
             interval.low_open ? '(' : '[', low, high,
             interval.high_open ? ')' : ']');
  }
  return text;
}

}  // namespace ringlet
