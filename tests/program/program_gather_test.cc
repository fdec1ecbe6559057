// `ringlet gather`: the mean of states, and what it refuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "../support/contains.h"
#include "../support/expect_ok.h"
#include "../support/program.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

class GatherTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    WriteRun();
    for (const char* const seed : {"1", "2", "3"}) {
      ASSERT_EQ(
          Run({"train", "run.json", "--seed", seed, "--epochs", "1",
               "--steps-per-epoch", "2", "--save", std::string("m") + seed}),
          0)
          << err_;
    }
  }
  std::vector<float> WeightsOf(const std::string& name) {
    std::unique_ptr<Model> model;
    EXPECT_OK(LoadModel(folder_ / name, &model));
    return {model->weights(), model->weights() + model->num_weights()};
  }
  // Writes the state of a board: the trained weights of a model alone, with
  // slots and without steps.
  void WriteState(const std::string& from, const std::string& to,
                  float factor = 1,
                  const Optimizer& optimizer = SGD(0.1f, 0.9f)) {
    std::unique_ptr<Model> model;
    ASSERT_OK(LoadModel(folder_ / from, &model));
    ASSERT_OK(model->SetTrainable("dense", false));
    model->Compile(optimizer, model->losses());
    ASSERT_OK(model->status());
    for (int64_t i = 0; i < model->num_weights(); ++i) {
      model->weights()[i] *= factor;
    }
    std::vector<StateSpan> spans, chosen;
    model->weights_state()->AppendState(&spans);
    model->optimizer_state()->AppendState(&spans);
    for (const StateSpan& span : spans) {
      if (!Contains(span.name, "dense/") && !Contains(span.name, "learning")) {
        chosen.push_back(span);
      }
    }
    Spans saveable(chosen);
    ASSERT_OK(SaveCheckpoint(folder_ / to, {&saveable}));
  }

 private:
  struct Spans final : Saveable {
    explicit Spans(std::vector<StateSpan> some) : spans(std::move(some)) {}
    void AppendState(std::vector<StateSpan>* out) override {
      out->insert(out->end(), spans.begin(), spans.end());
    }
    std::vector<StateSpan> spans;
  };
};

TEST_F(GatherTest, Models_WithExamples_AreAveragedInAnyOrder) {
  ASSERT_EQ(Run({"gather", "m1", "m2", "m3", "m1", "--examples", "2,3,7",
                 "--out", "new"}),
            0)
      << err_;
  EXPECT_TRUE(Contains(out_, "wrote new: the model, of 3 states"));
  const std::vector<float> mean = WeightsOf("new"), a = WeightsOf("m2"),
                           b = WeightsOf("m3"), c = WeightsOf("m1");
  for (size_t i = 0; i < mean.size(); ++i) {
    ASSERT_NEAR(mean[i], (2 * a[i] + 3 * b[i] + 7 * c[i]) / 12,
                1e-6 * (1 + std::abs(mean[i])));
  }
  ASSERT_EQ(Run({"gather", "m1", "m1", "m3", "m2", "--examples", "7,3,2",
                 "--out", "again"}),
            0)
      << err_;
  EXPECT_EQ(WeightsOf("again"), mean);
  // The mean of one state is the state.
  ASSERT_EQ(Run({"gather", "m1", "m3", "--examples", "5", "-o", "new"}), 0);
  EXPECT_EQ(WeightsOf("new"), b);
}

TEST_F(GatherTest, States_OfBoards_ReplaceTheirWeightsAlone) {
  WriteState("m1", "a");
  WriteState("m1", "b", 3);
  ASSERT_EQ(Run({"gather", "m1", "a", "b", "-o", "new", "--state", "s"}), 0)
      << err_;
  const std::vector<float> before = WeightsOf("m1"), after = WeightsOf("new");
  std::unique_ptr<Model> model;
  ASSERT_OK(LoadModel(folder_ / "new", &model));
  for (const Variable& v : model->variables()) {
    for (int64_t i = v.offset; i < v.offset + v.size(); ++i) {
      const auto k = static_cast<size_t>(i);
      const float factor = Contains(v.path, "dense_1") ? 2 : 1;
      ASSERT_FLOAT_EQ(after[k], factor * before[k]) << v.path;
    }
  }
  // The state for the boards has the same header, and the mean alone.
  EXPECT_OK(VerifyCheckpoint(folder_ / "s"));
  WriteState("new", "expected");
  const std::string state = ReadWhole(folder_ / "s"),
                    expected = ReadWhole(folder_ / "expected");
  EXPECT_EQ(state.size(), expected.size());
  EXPECT_TRUE(state == expected);
}

TEST_F(GatherTest, Wrong_Files_AreNamedAndNothingIsWritten) {
  WriteState("m1", "a");
  WriteState("m1", "infinite", HUGE_VALF);
  WriteWhole(folder_ / "cut", ReadWhole(folder_ / "a").substr(0, 700));
  std::string damaged = ReadWhole(folder_ / "a");
  damaged[damaged.size() / 2] ^= 1;
  WriteWhole(folder_ / "damaged", damaged);
  WriteWhole(folder_ / "text", "a,b\n1,2\n");
  const auto expect = [&](const Strings& arguments, int code,
                          const Strings& parts) {
    Strings line = {"gather", "m1"};
    line.insert(line.end(), arguments.begin(), arguments.end());
    line.insert(line.end(), {"-o", "new"});
    ExpectError(line, code, parts);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
  };
  expect({"a", "cut"}, 1, {"cut"});
  expect({"damaged"}, 1, {"damaged"});
  expect({"text"}, 2, {"text"});
  expect({"a", "none"}, 2, {"none"});
  expect({"a", "m2"}, 2, {"m2: has other weights than a"});
  expect({"infinite"}, 2, {"infinite: weight 'model/dense_1/kernel' holds "});
  expect({"a", "--examples", "1,2"}, 2, {"2 numbers for 1 STATEs"});
  for (const char* const wrong : {"0", "1.5", "a", ",", "17000000", "-1"}) {
    expect({"a", "--examples", wrong}, 2, {"--examples: must be whole"});
  }
  expect({"m2", "--state", "s"}, 2, {"m2 is another one"});
  WriteState("m1", "plain", 1, SGD(0.1f));
  expect({"a", "plain", "--state", "s"}, 2, {"slots of another optimizer"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s"));
  ExpectError({"gather", "m1", "a", "-o", "a"}, 2, {"--out a"});
  ExpectError({"gather", "m1", "a"}, 2, {"--out is missing"});
  ExpectError({"gather", "m1", "a", "-o", "n", "--state", "n"}, 2,
              {"--state and --out are one file"});
  ExpectError({"gather", "m1", "a", "-o", "./n", "--state", "n"}, 2,
              {"--state and --out are one file"});
}

}  // namespace
}  // namespace ringlet
