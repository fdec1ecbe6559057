#include "curve.h"

#include <cmath>

namespace ringlet {

void SampledCurve::AddTo(Column* column, double x, double y) {
  if (column->values + column->missing == 0) column->first_x = x;
  column->last_x = x;
  if (!std::isfinite(y)) {
    ++column->missing;
    return;
  }
  if (column->values == 0 || y < column->low.y) column->low = {x, y};
  if (column->values == 0 || y > column->high.y) column->high = {x, y};
  column->last = y;
  ++column->values;
}

void SampledCurve::Merge(const Column& next, Column* column) {
  column->last_x = next.last_x;
  column->missing += next.missing;
  if (next.values == 0) return;
  if (column->values == 0 || next.low.y < column->low.y) column->low = next.low;
  if (column->values == 0 || next.high.y > column->high.y) {
    column->high = next.high;
  }
  column->last = next.last;
  column->values += next.values;
}

void SampledCurve::HalveColumns() {
  for (size_t i = 0; i < columns_.size() / 2; ++i) {
    columns_[i] = columns_[2 * i];
    Merge(columns_[2 * i + 1], &columns_[i]);
  }
  columns_.resize(columns_.size() / 2);
  points_per_column_ *= 2;
}

void SampledCurve::Add(double x, double y) {
  if (columns_.empty() || in_last_ == points_per_column_) {
    if (columns_.size() == kMaxColumns) HalveColumns();
    columns_.emplace_back();
    in_last_ = 0;
  }
  ++in_last_;
  AddTo(&columns_.back(), x, y);
  AddTo(&total_, x, y);
  if (!std::isfinite(y)) return;
  if (total_.values == 1) first_ = {x, y};
  last_ = {x, y};
}

}  // namespace ringlet
