// SampledCurve: a series of points, kept in a bounded number of columns.
//
// Pure. A page shows at most about a thousand columns of pixels. So the points
// of a column are reduced to their least and largest value while they are read:
// a curve of any length takes the same memory, and no peak is lost.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_CURVE_H_
#define RINGLET_TOOLS_RINGLET_REPORT_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringlet {

class SampledCurve {
 public:
  static constexpr size_t kMaxColumns = 1024;

  struct Point {
    double x = 0, y = 0;
  };
  // Consecutive points. The last column of a curve may have fewer points.
  struct Column {
    double first_x = 0, last_x = 0;
    Point low, high;      // the first of the least and of the largest values
    double last = 0;      // the last value
    int64_t values = 0;   // finite values; the four above are of these
    int64_t missing = 0;  // NaN or infinite
  };

  // x must not decrease. A y that is not finite is a gap.
  void Add(double x, double y);

  const std::vector<Column>& columns() const { return columns_; }
  // Points in each column but the last: a power of two.
  int64_t points_per_column() const { return points_per_column_; }
  bool is_reduced() const { return points_per_column_ > 1; }

  // The number of points with a finite y.
  int64_t values() const { return total_.values; }
  int64_t missing() const { return total_.missing; }
  const Point& low() const { return total_.low; }
  const Point& high() const { return total_.high; }
  const Point& first() const { return first_; }
  const Point& last() const { return last_; }

 private:
  static void AddTo(Column* column, double x, double y);
  static void Merge(const Column& next, Column* column);
  void HalveColumns();

  std::vector<Column> columns_;
  int64_t points_per_column_ = 1;
  int64_t in_last_ = 0;  // points of the last column
  Column total_;
  Point first_, last_;
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_CURVE_H_
