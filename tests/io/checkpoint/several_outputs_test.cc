// Files of models of several inputs and outputs: how they are compiled, and
// going on from a saved model or a backup.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "../../support/two_by_two.h"
#include "io/keras/compile_arguments.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

TEST(SeveralOutputsTest, LoadModel_TwoOutputs_ContinuesWithTheSameBits) {
  const TwoByTwoData data;
  const Dataset batches = data.zipped.Shuffle(2).Batch(8);
  TempFolder folder;
  TwoByTwo undisturbed;
  ASSERT_OK(undisturbed.model.Fit(batches, Quiet(2)));
  const std::string path = folder / "m.safetensors";
  ASSERT_OK(SaveModel(&undisturbed.model, path));
  std::unique_ptr<Model> loaded;
  ASSERT_OK(LoadModel(path, &loaded));
  EXPECT_EQ(ToJson(*loaded), ToJson(undisturbed.model));
  EXPECT_EQ(CompileArgumentsToJson(*loaded),
            CompileArgumentsToJson(undisturbed.model));
  const auto a = undisturbed.model.Fit(batches, Quiet(2));
  const auto b = loaded->Fit(batches, Quiet(2));
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_EQ(WeightsOf(&undisturbed.model), WeightsOf(loaded.get()));
  for (int i = 0; i < undisturbed.model.num_metrics(); ++i) {
    const std::string& name = undisturbed.model.metric_name(i);
    EXPECT_EQ(loaded->metric_name(i), name);
    EXPECT_EQ(a->Values(name), b->Values(name)) << name;
  }
}

class FailureAtStep final : public Callback {
 public:
  explicit FailureAtStep(int64_t step) : step_(step) {}
  const char* name() const override { return "failure_at_step"; }
  Status OnSavePoint(FitState& fit, bool) override {
    if (fit.model->iterations() < step_) return Status();
    return Error(Code::kInternal, "the power went");
  }

 private:
  const int64_t step_;
};

TEST(SeveralOutputsTest, Resume_TwoOutputs_ContinuesWithTheSameBits) {
  const TwoByTwoData data;
  const Dataset batches = data.zipped.Shuffle(2).Batch(8);
  TwoByTwo undisturbed;
  const auto whole = undisturbed.model.Fit(batches, Quiet(3));
  ASSERT_OK(whole);
  for (const int64_t stop : {1, 7, 8, 13}) {  // there are 24 steps
    TempFolder folder;
    BackupAndRestoreOptions backup;
    backup.save_freq = 1;
    FitOptions options = Quiet(3);
    options.callbacks = {BackupAndRestore(folder.path(), backup)};
    FitOptions broken = options;
    broken.callbacks.push_back(std::make_shared<FailureAtStep>(stop));
    TwoByTwo first;
    ASSERT_FALSE(first.model.Fit(batches, broken).ok());
    TwoByTwo second;
    const auto rest = second.model.Fit(batches, options);
    ASSERT_OK(rest.status());
    EXPECT_EQ(WeightsOf(&second.model), WeightsOf(&undisturbed.model)) << stop;
    EXPECT_EQ(rest->Values("kind_loss").back(),
              whole->Values("kind_loss").back());
    EXPECT_EQ(rest->Values("kind_weighted_accuracy").back(),
              whole->Values("kind_weighted_accuracy").back());
  }
}

TEST(SeveralOutputsTest, Resume_OtherLossWeights_Warns) {
  const TwoByTwoData data;
  const Dataset batches = data.zipped.Batch(8);
  TempFolder folder;
  FitOptions options = Quiet(3);
  BackupAndRestoreOptions backup;
  backup.save_freq = 1;
  options.callbacks = {BackupAndRestore(folder.path(), backup)};
  const auto printed_by = [&](float weight, bool fails) {
    TwoByTwo made;
    std::vector<OutputLoss> losses = made.model.losses();
    losses[1].weight = weight;
    made.model.Compile(made.model.optimizer(), losses);
    FitOptions now = options;
    if (fails) now.callbacks.push_back(std::make_shared<FailureAtStep>(9));
    testing::internal::CaptureStderr();
    EXPECT_EQ(made.model.Fit(batches, now).ok(), !fails);
    return testing::internal::GetCapturedStderr();
  };
  const auto names_other_losses = [](const std::string& text) {
    return text.find("saved with other losses: ") != std::string::npos;
  };
  EXPECT_FALSE(names_other_losses(printed_by(1, /*fails=*/true)));
  EXPECT_FALSE(names_other_losses(printed_by(1, /*fails=*/true)));
  const std::string printed = printed_by(0.25f, /*fails=*/true);
  EXPECT_TRUE(names_other_losses(printed)) << printed;
  EXPECT_TRUE(Contains(printed, " times 0.25. Training"));
}

std::string CompiledAs(const std::string& json) {
  CompileArguments arguments;
  Status status = CompileArgumentsFromJson(json, &arguments);
  TwoByTwo made;
  if (status.ok()) status = Compile(arguments, {}, &made.model);
  return status.ok() ? CompileArgumentsToJson(made.model) : status.message();
}

TEST(SeveralOutputsTest, CompileArguments_ByOrderOrByName_AreTheSame) {
  const std::string start = R"({"optimizer": "sgd", )";
  const std::string ordered =
      CompiledAs(start + R"("loss": ["sparse_categorical_crossentropy", "mse"],
                 "loss_weights": [1, 0.5], "metrics": [["accuracy"], "mae"],
                 "weighted_metrics": [null, ["mse"]]})");
  const std::string named = CompiledAs(start + R"("loss": {"age": "mse",
                          "kind": {"class_name": "SparseCategoricalCrossentropy"}},
                 "loss_weights": {"age": 0.5},
                 "metrics": {"age": "mae", "kind": ["accuracy"]},
                 "weighted_metrics": {"age": ["mse"]}})");
  EXPECT_EQ(ordered, named);
  EXPECT_TRUE(Contains(ordered, R"("loss_weights":[1.0,0.5])"));
  EXPECT_EQ(CompiledAs(ordered), ordered);  // written and read
  const std::string none =
      CompiledAs(start + R"("loss": [null, "mse"], "metrics": []})");
  EXPECT_TRUE(Contains(none, R"("loss":[null,{)"));
  EXPECT_EQ(CompiledAs(none), none);
  EXPECT_TRUE(Contains(CompiledAs(start + R"("loss": "mse", "metrics": []})"),
                       R"("loss":[{)"));
  for (const auto& [json, expected] :
       std::vector<std::pair<std::string, std::string>>{
           {R"("loss": ["mse"], "metrics": []})", "loss: has 1 entries"},
           {R"("loss": {"kind": "mse"}, "metrics": []})",
            "has no entry for the output 'age'"},
           {R"("loss": {"kind": "mse", "ages": "mse"}, "metrics": []})",
            "unknown output 'ages'"},
           {R"("loss": "mse", "metrics": ["mae"]})", "metrics: has 1 entries"},
           {R"("loss": "mse", "metrics": "mae"})", "must be a list"},
           {R"("loss": "mse", "metrics": [], "loss_weights": [1, "2"]})",
            "loss_weights[1]"},
           {R"("loss": [null, null], "metrics": []})", "no output has a loss"},
           {R"("loss": [null, "mse"], "metrics": ["mae", null]})",
            "has metrics, but no loss"}}) {
    const std::string error = CompiledAs(start + json);
    EXPECT_TRUE(Contains(error, expected)) << json;
  }
}

// Siamese: a model of two inputs, called twice.
TEST(SeveralOutputsTest,
     ModelFromJson_NestedWithTwoInputs_GivesTheSameOutputs) {
  Functional inner;
  const auto a = inner.Add(Input({3}).Name("a"));
  const auto b = inner.Add(Input({4}).Name("b"));
  inner.Add(Add(), {inner.Add(Dense(2), {a}), inner.Add(Dense(2), {b})});
  Functional outer;
  const auto x = outer.Add(Input({3}).Name("x"));
  const auto y = outer.Add(Input({4}).Name("y"));
  const auto z = outer.Add(Input({3}).Name("z"));
  const auto once = outer.Add(inner.AsLayer().Name("pair"), {x, y});
  const auto twice = outer.CallAgain(once, {z, y});
  const auto far = outer.Add(Subtract().Name("far"), {once, twice});
  outer.Outputs({far, twice});
  std::unique_ptr<Model> read;
  const Status status = ModelFromJson(ToJson(outer), &read);
  ASSERT_OK(status);
  EXPECT_EQ(ToJson(*read), ToJson(outer));
  const Floats values = Values(10 * 6, 1);
  Floats outputs[2];
  int i = 0;
  for (Model* model : {static_cast<Model*>(&outer), read.get()}) {
    model->Compile(SGD(), MeanSquaredError());
    ASSERT_OK(model->status());
    ASSERT_OK(model->Forward(values.data(), 6, /*training=*/false));
    outputs[i].assign(model->output(0), model->output(0) + 12);
    outputs[i].insert(outputs[i].end(), model->output(1),
                      model->output(1) + 12);
    ++i;
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

TEST(SeveralOutputsTest, CompileArguments_OneOutput_ListIsOfItsMetrics) {
  for (const auto& [metrics, expected] :
       std::vector<std::pair<std::string, std::string>>{
           {R"(["mae", "mse"])", ""},
           {R"({"dense": ["mae", "mse"]})", ""},
           {R"([["mae"]])", "metrics: Expected all entries"},
           {R"({"other": "mae"})", "unknown output 'other'"}}) {
    Sequential model({Input({2}), Dense(1)});
    CompileArguments arguments;
    Status status = CompileArgumentsFromJson(
        R"({"optimizer": "sgd", "loss": "mse", "loss_weights": [0.5],
            "metrics": )" +
            metrics + "}",
        &arguments);
    if (status.ok()) status = Compile(arguments, {}, &model);
    EXPECT_EQ(status.ok(), expected.empty()) << metrics << status.message();
    EXPECT_TRUE(Contains(status, expected));
    if (status.ok()) {
      EXPECT_EQ(model.num_metrics(), 3);
    }
  }
}

}  // namespace
}  // namespace ringlet
