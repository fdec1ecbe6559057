#include "interval.h"

#include "text.h"

namespace ringlet {

std::string ToString(const Interval& interval) {
  const double low = interval.low, high = interval.high;
  const bool from = low > -FLT_MAX, to = high < FLT_MAX;
  if (!from && !to) return "a number";
  if (!to) {
    return FormatText("a number %s %g", interval.low_open ? ">" : ">=", low);
  }
  return FormatText("a number in %c%g, %g%c", interval.low_open ? '(' : '[',
                    low, high, interval.high_open ? ')' : ']');
}

}  // namespace ringlet
