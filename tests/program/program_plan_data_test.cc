// ringlet plan --limit: the memory of pictures.

#include <gtest/gtest.h>

#include <string>

#include "../support/contains.h"
#include "../support/expect_ok.h"
#include "../support/picture_folder.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "core/base/json.h"

namespace ringlet {
namespace {

class ProgramPlanDataTest : public ProgramTest {
 protected:
  // The bytes of the data, with these fields of data.train.
  int64_t DataBytesOf(const std::string& fields, const Strings& more = {}) {
    WriteWhole(folder_ / "run.json",
               R"({"model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 4, 6, 1]}},
      {"class_name": "Flatten"},
      {"class_name": "Dense", "config": {"units": 2}}]}},
    "compile": {"optimizer": "sgd", "loss": {"class_name":
      "SparseCategoricalCrossentropy", "config": {"from_logits": true}}},
    "data": {"train": {"directory": "frames", )" +
                   fields + "}}, \"fit\": {\"batch_size\": 4}}");
    Strings words = {"plan", "run.json", "--limit", "1G", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(Run(words), 0) << err_;
    Json plan;
    EXPECT_OK(Json::Parse(out_, "plan", &plan));
    return static_cast<int64_t>(plan["data"].number());
  }
};

TEST_F(ProgramPlanDataTest, Pictures_LargeFile_CountsItsDecoding) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 3);
  constexpr int64_t kExample = 4 * 6, kLabel = 4;
  const auto file = [](int height, int width) {
    return static_cast<int64_t>(GrayPgm(height, width, 0).size());
  };
  const int64_t labels = 6 * kLabel, batch = 4 * (kExample + kLabel);
  EXPECT_EQ(DataBytesOf(R"("in_memory": false)"),
            labels + batch + kExample + file(4, 6));
  EXPECT_EQ(DataBytesOf(R"("in_memory": true)"),
            labels + batch + kExample + file(4, 6) + 6 * kExample);
  WriteWhole(folder_ / "frames/a/large.pgm", GrayPgm(400, 600, 7));
  const int64_t large = 400 * 600 + file(400, 600);
  EXPECT_EQ(DataBytesOf(R"("in_memory": false)"),
            labels + kLabel + batch + large);
  // Each thread decodes ahead.
  EXPECT_EQ(DataBytesOf(R"("memory": "1MB")"),
            labels + kLabel + batch + large + (1 << 20));
  WriteWhole(folder_ / "frames/b/cut.pgm", "P5 4");
  EXPECT_EQ(DataBytesOf(R"("in_memory": false)"),
            labels + 2 * kLabel + batch + large);
}

}  // namespace
}  // namespace ringlet
