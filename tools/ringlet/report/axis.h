// Axis: from a value to its place on a chart, with round numbers as ticks.
//
// Pure.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_AXIS_H_
#define RINGLET_TOOLS_RINGLET_REPORT_AXIS_H_

#include <string>
#include <vector>

namespace ringlet {

class Axis {
 public:
  enum class Kind {
    kNumber,
    kCount,    // whole numbers
    kSeconds,  // a duration: ticks at seconds, minutes, hours or days
    kLog,
  };

  struct Tick {
    double at = 0;  // the place from 0 to 1
    std::string text;
  };

  // From `low` to `high`, which are finite; for kLog above 0. An empty range is
  // widened.
  Axis(Kind kind, double low, double high);

  // From 0 at the axis's low end to 1, cut to this range.
  double At(double value) const;
  // About `wanted` ticks, in order.
  std::vector<Tick> Ticks(int wanted) const;
  Kind kind() const { return kind_; }

 private:
  double Step(int wanted) const;
  std::vector<Tick> LogTicks(int wanted) const;

  const Kind kind_;
  double low_, high_;
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_AXIS_H_
