// A window's number decides its rows, so nothing is stored for it. Windows are
// numbered through the group runs, each of consecutive rows of one group.

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "../base/fnv1a.h"
#include "../base/guarded.h"
#include "../base/text.h"
#include "dataset_parts.h"
#include "ringlet/dataset.h"

namespace ringlet {
namespace {

// Returns the shape of `length` rows of this shape.
Shape ShapeOfRows(int64_t length, const Shape& row) {
  Shape shape = {length};
  for (int i = 0; i < row.rank(); ++i) shape.Append(row[i]);
  return shape;
}

// Consecutive rows of one group.
struct GroupRun {
  int64_t group = 0;
  int64_t first = 0;  // row
  int64_t rows = 0;
  int64_t first_window = 0;
};

// Returns the group of each row. Without groups each file is one: a file need
// not continue the file before it.
std::vector<int64_t> GroupsOf(const TimeseriesOptions& o, const Source& rows) {
  const std::vector<int64_t> files = rows.FileStarts();
  if (!o.groups.empty() || files.size() < 2) return o.groups;
  std::vector<int64_t> groups(static_cast<size_t>(rows.size()));
  for (size_t i = 0; i < files.size(); ++i) {
    std::fill(groups.begin() + files[i], groups.end(), static_cast<int64_t>(i));
  }
  return groups;
}

// The runs of `size` rows, in the order in which their groups begin.
std::vector<GroupRun> FindGroupRuns(const TimeseriesOptions& o, int64_t size) {
  const int64_t end = o.end_index < 0 ? size : std::min(o.end_index, size);
  std::vector<GroupRun> runs;
  if (o.groups.empty()) {
    return {{0, o.start_index, std::max<int64_t>(0, end - o.start_index), 0}};
  }
  std::map<int64_t, size_t> order;  // the groups' order
  for (int64_t row = o.start_index; row < end; ++row) {
    const int64_t group = o.groups[static_cast<size_t>(row)];
    if (group < 0) continue;
    order.emplace(group, order.size());
    const bool goes_on = !runs.empty() && runs.back().group == group &&
                         runs.back().first + runs.back().rows == row;
    if (!goes_on) runs.push_back({group, row, 0, 0});
    ++runs.back().rows;
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [&](const GroupRun& a, const GroupRun& b) {
                     return order[a.group] < order[b.group];
                   });
  return runs;
}

class WindowedSource final : public Source {
 public:
  WindowedSource(std::shared_ptr<Source> rows, const TimeseriesOptions& options)
      : rows_(std::move(rows)), options_(options) {
    options_.groups = GroupsOf(options, *rows_);
    in_groups_ = !options_.groups.empty();
    std::set<int64_t> groups, with_windows;
    for (GroupRun run : FindGroupRuns(options_, rows_->size())) {
      groups.insert(run.group);
      ++num_runs_;
      longest_ = std::max(longest_, run.rows);
      const int64_t starts = run.rows - span() + 1;
      if (starts < 1) continue;
      with_windows.insert(run.group);
      run.first_window = size_;
      size_ += (starts - 1) / options.sequence_stride + 1;
      runs_.push_back(run);
    }
    options_.groups.clear();
    num_groups_ = groups.size();
    num_with_windows_ = with_windows.size();
  }

  // Returns an error if there is no window. A note has the number of groups
  // without one.
  Status CheckHasWindows() const {
    if (size_ == 0) return NoWindowError();
    if (num_with_windows_ < num_groups_) {
      Notice("note: %s: %zu of %zu groups have no window, which needs %" PRId64
             " rows of one group that follow each other",
             name().c_str(), num_groups_ - num_with_windows_, num_groups_,
             span());
    }
    return Status();
  }

  int64_t size() const override { return size_; }
  ExampleSpec x() const override {
    const ExampleSpec row = rows_->x();
    return {row.dtype, ShapeOfRows(options_.sequence_length, row.shape)};
  }
  ExampleSpec y() const override {
    ExampleSpec row = TargetOfRow();
    if (options_.target_length > 0 && has_targets()) {
      row.shape = ShapeOfRows(options_.target_length, row.shape);
    }
    return row;
  }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    if (x != nullptr) {
      RINGLET_RETURN_IF_ERROR(ReadRows(
          index, count, /*offset=*/0, options_.sequence_length,
          options_.sampling_rate,
          [&](const int64_t* rows, int n, int64_t done) {
            return CallRead(rows_.get(), rows, n,
                            At(x, done * BytesOf(rows_->x())), nullptr);
          }));
    }
    if (y == nullptr || !has_targets()) return Status();
    return ReadRows(index, count, options_.target_offset,
                    std::max<int64_t>(options_.target_length, 1), /*rate=*/1,
                    [&](const int64_t* rows, int n, int64_t done) {
                      return ReadTargets(rows, n,
                                         At(y, done * BytesOf(TargetOfRow())));
                    });
  }

  bool XRange(double* least, double* largest) const override {
    return rows_->XRange(least, largest);
  }
  std::optional<uint64_t> Digest() const override {
    const std::optional<uint64_t> rows_digest = rows_->Digest();
    if (!rows_digest) return std::nullopt;
    Fnv1a hash;
    hash.Add(HexText(*rows_digest) + y().shape.ToString());
    AddOptions(&hash);
    return hash.value();
  }
  DataDescription Description() const override {
    const DataDescription rows = rows_->Description();
    DataDescription windows;
    windows.columns = rows.columns;
    windows.encoding = rows.encoding;
    if (options_.target_columns.empty()) windows.classes = rows.classes;
    windows.windows = options_;
    windows.windows->start_index = 0;
    windows.windows->end_index = -1;
    return windows;
  }
  std::vector<int64_t> GroupStarts() const override {
    std::vector<int64_t> starts;
    if (!in_groups_) return starts;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (i == 0 || runs_[i].group != runs_[i - 1].group) {
        starts.push_back(runs_[i].first_window);
      }
    }
    return starts;
  }
  std::string name() const override { return rows_->name(); }
  std::string y_name() const override { return rows_->y_name(); }

  // Makes the weights of the windows from the weights of the rows.
  std::vector<float> WeightsOf(const std::vector<float>& row_weights) const {
    std::vector<float> weights(static_cast<size_t>(size_));
    const int64_t offset = has_targets() ? options_.target_offset : 0;
    for (int64_t i = 0; i < size_; ++i) {
      weights[static_cast<size_t>(i)] =
          row_weights[static_cast<size_t>(FirstRow(i) + offset)];
    }
    return weights;
  }

 private:
  // Rows of a window and its targets, from its first row on.
  int64_t span() const {
    const TimeseriesOptions& o = options_;
    const int64_t rows = (o.sequence_length - 1) * o.sampling_rate + 1;
    const int64_t length = std::max<int64_t>(o.target_length, 1);
    return has_targets() ? std::max(rows, o.target_offset + length) : rows;
  }

  Status NoWindowError() const {
    const bool is_cut = options_.start_index > 0 || options_.end_index >= 0;
    const std::string used =
        !is_cut ? ""
                : " from start_index " + std::to_string(options_.start_index) +
                      (options_.end_index < 0
                           ? ""
                           : " to before end_index " +
                                 std::to_string(options_.end_index));
    return InvalidArgument(
        "%s: no window: a window%s takes %" PRId64
        " rows that follow each other, but there are at most %" PRId64 "%s%s%s",
        name().c_str(), has_targets() ? " and its target" : "", span(),
        longest_, in_groups_ ? " of one group" : "", used.c_str(),
        num_runs_ > num_groups_
            ? "; put the rows of a group together, in the order of time"
            : "; give a smaller sequence_length, sampling_rate or "
              "target_offset");
  }

  bool has_targets() const { return TargetOfRow().shape.elements() > 0; }
  ExampleSpec TargetOfRow() const {
    const auto columns = static_cast<int64_t>(options_.target_columns.size());
    if (columns == 0) return rows_->y();
    return {rows_->x().dtype, columns == 1 ? Shape{} : Shape{columns}};
  }
  static int64_t BytesOf(const ExampleSpec& spec) {
    return static_cast<int64_t>(spec.bytes());
  }
  static unsigned char* At(void* data, int64_t bytes) {
    return static_cast<unsigned char*>(data) + bytes;
  }

  int64_t FirstRow(int64_t window) const {
    const auto after = std::upper_bound(
        runs_.begin(), runs_.end(), window,
        [](int64_t w, const GroupRun& s) { return w < s.first_window; });
    const GroupRun& run = *(after - 1);
    return run.first + (window - run.first_window) * options_.sequence_stride;
  }

  // Calls read(rows, n, done) for the rows of all windows, n at a time:
  // `length` of each, from its first row plus `offset` on, every rate-th.
  template <typename F>
  Status ReadRows(const int64_t* windows, int count, int64_t offset,
                  int64_t length, int64_t rate, F read) const {
    std::array<int64_t, 256> rows;
    size_t n = 0;
    int64_t done = 0;
    for (int i = 0; i < count; ++i) {
      const int64_t first = FirstRow(windows[i]) + offset;
      for (int64_t k = 0; k < length; ++k) {
        rows[n++] = first + k * rate;
        const bool last = i + 1 == count && k + 1 == length;
        if (n < rows.size() && !last) continue;
        RINGLET_RETURN_IF_ERROR(read(rows.data(), static_cast<int>(n), done));
        done += static_cast<int64_t>(n);
        n = 0;
      }
    }
    return Status();
  }

  Status ReadTargets(const int64_t* rows, int count, unsigned char* to) {
    if (options_.target_columns.empty()) {
      return CallRead(rows_.get(), rows, count, nullptr, to);
    }
    // Two loaders may read ahead at the same time, for training and validation.
    std::lock_guard<std::mutex> lock(mutex_);
    constexpr size_t kBlockBytes = 64 << 10;
    const size_t element = SizeOf(rows_->x().dtype), bytes = rows_->x().bytes();
    const auto block = static_cast<int>(
        std::clamp<size_t>(kBlockBytes / std::max<size_t>(bytes, 1), 1, 256));
    for (int i = 0; i < count; i += block) {
      const int n = std::min(block, count - i);
      block_.resize(static_cast<size_t>(n) * bytes);
      RINGLET_RETURN_IF_ERROR(
          CallRead(rows_.get(), rows + i, n, block_.data(), nullptr));
      for (int row = 0; row < n; ++row) {
        for (const int64_t column : options_.target_columns) {
          std::memcpy(to,
                      block_.data() + static_cast<size_t>(row) * bytes +
                          static_cast<size_t>(column) * element,
                      element);
          to += element;
        }
      }
    }
    return Status();
  }

  void AddOptions(Fnv1a* hash) const {
    const TimeseriesOptions& o = options_;
    for (const int64_t number :
         {o.sequence_length, o.sequence_stride, o.sampling_rate,
          o.target_offset, o.target_length}) {
      hash->Add(std::to_string(number));
    }
    for (const int64_t column : o.target_columns) {
      hash->Add(std::to_string(column));
    }
    for (const GroupRun& run : runs_) {
      hash->Add(std::to_string(run.first) + "+" + std::to_string(run.rows));
    }
  }

  const std::shared_ptr<Source> rows_;
  TimeseriesOptions options_;  // they have no groups, which runs_ replace
  std::vector<GroupRun> runs_;
  int64_t size_ = 0;
  bool in_groups_ = false;
  // The number of all runs, also of runs without a window, and the rows of the
  // longest run.
  size_t num_runs_ = 0;
  int64_t longest_ = 0;
  size_t num_groups_ = 0, num_with_windows_ = 0;
  std::mutex mutex_;
  std::vector<unsigned char> block_;
};

Status CheckOptions(const Source& rows, const TimeseriesOptions& o) {
  constexpr int64_t kMaxRows = int64_t{1} << 30;  // the most rows of a window
  const std::string name = rows.name();
  const int64_t end = o.end_index == -1 ? rows.size() : o.end_index;
  const struct {
    const char* what;
    int64_t value, least, most;
  } numbers[] = {{"sequence_length", o.sequence_length, 1, kMaxRows},
                 {"sequence_stride", o.sequence_stride, 1, kMaxRows},
                 {"sampling_rate", o.sampling_rate, 1, kMaxRows},
                 {"start_index", o.start_index, 0, rows.size() - 1},
                 {"end_index", end, o.start_index + 1, rows.size()},
                 {"target_offset", o.target_offset, 0, kMaxRows},
                 {"target_length", o.target_length, 0, kMaxRows}};
  for (const auto& number : numbers) {
    if (number.value >= number.least && number.value <= number.most) continue;
    return InvalidArgument(
        "%s: %s: is %" PRId64 "; must be from %" PRId64 " to %" PRId64,
        name.c_str(), number.what, number.value, number.least, number.most);
  }
  if (!o.groups.empty() &&
      static_cast<int64_t>(o.groups.size()) != rows.size()) {
    return InvalidArgument("%s: groups of %zu rows, but there are %" PRId64
                           "; give one for each",
                           name.c_str(), o.groups.size(), rows.size());
  }
  const int64_t values = rows.x().shape.elements();
  for (const int64_t column : o.target_columns) {
    if (column >= 0 && column < values) continue;
    return InvalidArgument("%s: target_columns: %" PRId64
                           " must be from 0 to %" PRId64,
                           name.c_str(), column, values - 1);
  }
  if (rows.AugmentDigest() != 0) {
    return InvalidArgument(
        "%s: windows leave out background noise and shifts in time; give none",
        name.c_str());
  }
  if (rows.Inputs().size() > 1 || rows.Targets().size() > 1 ||
      std::max(rows.x().shape.rank(), rows.y().shape.rank()) ==
          Shape::kMaxRank) {
    return InvalidArgument(
        "%s: sequence_length: windows are of one input and one output, and get "
        "one more axis, up to %d",
        name.c_str(), Shape::kMaxRank);
  }
  return Status();
}

}  // namespace

Dataset TimeseriesDatasetFromArray(const Dataset& rows,
                                   const TimeseriesOptions& options) {
  const Status status = rows.Batch(1).status();
  if (!status.ok()) return Dataset(status);
  if (rows.parts().first != 0 || rows.size() != rows.source()->size() ||
      rows.parts().passes != 1 || rows.batch_size() != 0 ||
      rows.parts().shuffle_seed() >= 0 ||
      rows.parts().policy != AutoShardPolicy::kData ||
      !rows.parts().own_example_counts.empty() || rows.parts().memory != 0) {
    return Dataset(InvalidArgument(
        "%s: TimeseriesDatasetFromArray takes a dataset on which only Map and "
        "SampleWeight were called; call other methods on its result",
        rows.source()->name().c_str()));
  }
  if (rows.parts().weights_per_example > 1) {
    return Dataset(InvalidArgument("%s: sample_weight: has %" PRId64
                                   " numbers for each row; a window takes one",
                                   rows.source()->name().c_str(),
                                   rows.parts().weights_per_example));
  }
  const Status valid = CheckOptions(*rows.source(), options);
  if (!valid.ok()) return Dataset(valid);
  const auto source = std::make_shared<WindowedSource>(rows.source(), options);
  const Status has_windows = source->CheckHasWindows();
  if (!has_windows.ok()) return Dataset(has_windows);
  const Dataset windows = Dataset(source).Map(rows.scale());
  return rows.parts().weights == nullptr
             ? windows
             : windows.SampleWeight(source->WeightsOf(*rows.parts().weights));
}

}  // namespace ringlet
