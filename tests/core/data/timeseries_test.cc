#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "core/data/dataset_parts.h"
#include "ringlet/dataset.h"

namespace ringlet {
namespace {

// Row i has x (2i, 2i + 1) and y 1000 + i.
struct Rows {
  explicit Rows(int64_t count)
      : x(static_cast<size_t>(2 * count)), y(static_cast<size_t>(count)) {
    std::iota(x.begin(), x.end(), 0);
    std::iota(y.begin(), y.end(), 1000);
  }
  Dataset dataset() const {
    return Dataset(MemorySource({DType::kInt32, {2}}, x.data(),
                                {DType::kInt32, {}}, y.data(),
                                static_cast<int64_t>(y.size())));
  }
  std::vector<int32_t> x, y;
};

// The rows of a window and of its target.
struct Window {
  std::vector<int64_t> rows, targets;
  bool operator==(const Window& o) const {
    return rows == o.rows && targets == o.targets;
  }
};

std::vector<Window> WindowsOf(const Dataset& dataset) {
  std::vector<Window> windows;
  Source* const source = dataset.source().get();
  std::vector<int64_t> all(static_cast<size_t>(dataset.size()));
  std::iota(all.begin(), all.end(), 0);
  const auto x_size = static_cast<size_t>(source->x().shape.elements());
  const auto y_size = static_cast<size_t>(source->y().shape.elements());
  std::vector<int32_t> x(x_size * all.size()), y(y_size * all.size());
  EXPECT_OK(source->Read(all.data(), static_cast<int>(all.size()), x.data(),
                         y.data()));
  for (size_t w = 0; w < all.size(); ++w) {
    windows.emplace_back();
    for (size_t i = 0; i < x_size; i += 2) {
      const int32_t value = x[w * x_size + i];
      EXPECT_EQ(x[w * x_size + i + 1], value + 1);
      windows.back().rows.push_back(value / 2);
    }
    for (size_t i = 0; i < y_size; ++i) {
      windows.back().targets.push_back(y[w * y_size + i] - 1000);
    }
  }
  return windows;
}

// Keras's function, applied to each group, with targets that are the array from
// target_offset on.
std::vector<Window> OracleOf(int64_t size, const TimeseriesOptions& o) {
  const int64_t end = o.end_index < 0 ? size : o.end_index;
  const int64_t length = std::max<int64_t>(o.target_length, 1);
  std::map<int64_t, std::vector<Window>> by_group;
  std::vector<int64_t> order;
  const auto group = [&](int64_t row) {
    return o.groups.empty() ? 0 : o.groups[static_cast<size_t>(row)];
  };
  for (int64_t begin = o.start_index; begin < end;) {
    int64_t stop = begin;
    while (stop < end && group(stop) == group(begin)) ++stop;
    const bool is_new =
        std::find(order.begin(), order.end(), group(begin)) == order.end();
    if (is_new && group(begin) >= 0) order.push_back(group(begin));
    const int64_t rows = stop - begin;
    const int64_t num_seqs =
        std::min(rows - (o.sequence_length - 1) * o.sampling_rate,
                 rows - o.target_offset - (length - 1));
    for (int64_t at = 0; at < num_seqs; at += o.sequence_stride) {
      Window window;
      for (int64_t k = 0; k < o.sequence_length; ++k) {
        window.rows.push_back(begin + at + k * o.sampling_rate);
      }
      for (int64_t k = 0; k < length; ++k) {
        window.targets.push_back(begin + at + o.target_offset + k);
      }
      by_group[group(begin)].push_back(window);
    }
    begin = stop;
  }
  std::vector<Window> all;
  for (const int64_t g : order) {
    all.insert(all.end(), by_group[g].begin(), by_group[g].end());
  }
  return all;
}

TEST(TimeseriesTest, Windows_RandomOptions_EqualKerasInEachGroup) {
  RandomCases cases("RINGLET_TIMESERIES");
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    std::mt19937_64 random(cases.number());
    const auto draw = [&](int64_t least, int64_t most) {
      return least + static_cast<int64_t>(
                         random() % static_cast<uint64_t>(most - least + 1));
    };
    const int64_t size = draw(1, 60);
    TimeseriesOptions o;
    // Beyond 256 rows a read takes several pieces.
    o.sequence_length = draw(1, 8);
    o.sequence_stride = draw(1, 5);
    o.sampling_rate = draw(1, 4);
    o.start_index = draw(0, 1) * draw(0, size);
    if (draw(0, 2) == 0) o.end_index = draw(o.start_index, size);
    o.target_offset = draw(0, 1) * draw(0, 20);
    o.target_length = draw(0, 1) * draw(1, 4);
    const int64_t groups = draw(0, 4);
    for (int64_t i = 0; groups > 0 && i < size; ++i) {
      const bool stays = i > 0 && draw(0, 9) > 0;
      o.groups.push_back(stays ? o.groups.back() : draw(-1, groups));
    }
    const Rows rows(size);
    const std::vector<Window> wanted = OracleOf(size, o);
    const Dataset windows = TimeseriesDatasetFromArray(rows.dataset(), o);
    if (wanted.empty()) {
      ASSERT_FALSE(windows.Batch(1).status().ok());
      continue;
    }
    ASSERT_OK(windows.Batch(1).status());
    ASSERT_TRUE(WindowsOf(windows) == wanted);
  }
}

TEST(TimeseriesTest, Windows_TargetColumns_AreValuesOfLaterRows) {
  const Rows rows(10);
  TimeseriesOptions o;
  o.sequence_length = 3;
  o.target_offset = 3;
  o.target_columns = {1};
  const Dataset windows = TimeseriesDatasetFromArray(rows.dataset(), o);
  ASSERT_OK(windows.Batch(1).status());
  EXPECT_EQ(windows.size(), 7);
  EXPECT_EQ(windows.source()->x().shape, (Shape{3, 2}));
  EXPECT_EQ(windows.source()->y().shape, Shape{});
  const int64_t index[] = {0, 6};
  int32_t y[2];
  ASSERT_OK(windows.source()->Read(index, 2, nullptr, y));
  EXPECT_EQ(y[0], 2 * 3 + 1);
  EXPECT_EQ(y[1], 2 * 9 + 1);
}

// Windows of `length` rows in the groups, a number for each row.
Dataset InGroups(const Rows& rows, int64_t length,
                 const std::vector<int64_t>& groups) {
  TimeseriesOptions o;
  o.sequence_length = length;
  o.groups = groups;
  const Dataset windows = TimeseriesDatasetFromArray(rows.dataset(), o);
  EXPECT_OK(windows.Batch(1).status());
  return windows;
}

TEST(TimeseriesTest, Groups_RowsComeTwice_AreOnePieceEach) {
  const Rows rows(9);
  const Dataset windows = InGroups(rows, 2, {5, 5, 5, 2, 2, 2, 5, 5, 5});
  EXPECT_EQ(windows.source()->GroupStarts(), (std::vector<int64_t>{0, 4}));
  std::vector<int64_t> firsts;
  for (const Window& w : WindowsOf(windows)) firsts.push_back(w.rows[0]);
  EXPECT_EQ(firsts, (std::vector<int64_t>{0, 1, 6, 7, 3, 4}));
}

TEST(TimeseriesTest, Groups_OneHasWindows_IsNoSplitOfExamples) {
  const Rows rows(9);
  const Dataset windows = InGroups(rows, 3, {5, 5, 5, 5, 5, 5, 5, 2, 2});
  EXPECT_EQ(windows.source()->GroupStarts(), (std::vector<int64_t>{0}));
}

TEST(TimeseriesTest, Files_WithoutGroups_AreGroups) {
  const Rows a(4), b(3);
  const Dataset rows =
      Concatenate({a.dataset().source(), b.dataset().source()});
  TimeseriesOptions o;
  o.sequence_length = 3;
  const Dataset windows = TimeseriesDatasetFromArray(rows, o);
  ASSERT_OK(windows.Batch(1).status());
  EXPECT_EQ(windows.size(), 3);
  EXPECT_EQ(windows.source()->GroupStarts(), (std::vector<int64_t>{0, 2}));
  o.groups = std::vector<int64_t>(7, 0);
  EXPECT_EQ(TimeseriesDatasetFromArray(rows, o).size(), 5);
}

TEST(TimeseriesTest, SampleWeight_OfRows_IsTheTargetsWeight) {
  const Rows rows(5);
  TimeseriesOptions o;
  o.sequence_length = 2;
  o.target_offset = 2;
  const Dataset windows = TimeseriesDatasetFromArray(
      rows.dataset().Map(Scale(2)).SampleWeight({0, 1, 2, 3, 4}), o);
  ASSERT_OK(windows.Batch(1).status());
  EXPECT_EQ(*windows.parts().weights, (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(windows.scale().factor, 2);
}

TEST(TimeseriesTest, Windows_MoreRowsThanAPiece_AreRead) {
  const Rows rows(700);
  TimeseriesOptions o;
  o.sequence_length = 300;
  o.sequence_stride = 100;
  o.target_length = 300;
  const Dataset windows = TimeseriesDatasetFromArray(rows.dataset(), o);
  EXPECT_TRUE(WindowsOf(windows) == OracleOf(700, o));
}

TEST(TimeseriesTest, Options_OutOfRange_ErrorNamesThem) {
  const Rows rows(5);
  const auto message = [&](const TimeseriesOptions& o) {
    const Dataset windows = TimeseriesDatasetFromArray(rows.dataset(), o);
    return std::string(windows.Batch(1).status().message());
  };
  TimeseriesOptions o;
  EXPECT_NE(message(o).find("sequence_length: is 0"), std::string::npos);
  o.sequence_length = 6;
  EXPECT_NE(message(o).find("no window"), std::string::npos);
  o.sequence_length = 2;
  EXPECT_EQ(message(o), "");
  o.groups = {1};
  EXPECT_NE(message(o).find("groups of 1 rows"), std::string::npos);
  o.groups.clear();
  o.target_columns = {2};
  EXPECT_NE(message(o).find("target_columns: 2"), std::string::npos);
  o.target_columns.clear();
  for (const Dataset& used :
       {rows.dataset().Take(2), rows.dataset().AutoShard(AutoShardPolicy::kOff),
        rows.dataset().OwnExamples({5})}) {
    EXPECT_FALSE(TimeseriesDatasetFromArray(used, o).Batch(1).status().ok());
  }
}

TEST(TimeseriesTest, NoWindow_Message_SaysWhatToChange) {
  const Rows rows(8);
  const auto message = [&](const TimeseriesOptions& o) {
    const Dataset windows = TimeseriesDatasetFromArray(rows.dataset(), o);
    return std::string(windows.Batch(1).status().message());
  };
  TimeseriesOptions o;
  o.sequence_length = 9;
  EXPECT_EQ(message(o),
            "memory: no window: a window and its target takes 9 rows that "
            "follow each other, but there are at most 8; give a smaller "
            "sequence_length, sampling_rate or target_offset");
  o.sequence_length = 4;
  o.start_index = 1;
  o.end_index = 4;
  EXPECT_NE(message(o).find("at most 3 from start_index 1 to before end_index "
                            "4; give"),
            std::string::npos);
  o.end_index = 1;
  EXPECT_NE(message(o).find("end_index: is 1; must be from 2 to 8"),
            std::string::npos);
  o.end_index = -1;
  o.groups = {1, 2, 1, 2, 1, 2, 1, 2};
  EXPECT_NE(message(o).find("at most 1 of one group from start_index 1; put "
                            "the rows of a group together"),
            std::string::npos);
}

}  // namespace
}  // namespace ringlet
