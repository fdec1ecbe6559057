// ringlet plan: the memory of a step, to the byte.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/elastic_collective.h"
#include "../support/expect_ok.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "core/layers/layer_kind.h"
#include "io/keras/compile_json.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

std::string Layered(const std::string& shape, const std::string& layers) {
  return R"({"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, )" +
         shape + "]}}, " + layers + "]}}";
}

// The bytes that a step of training takes, by taking one.
size_t BytesOfAStep(const std::string& model_json, const std::string& optimizer,
                    const std::string& loss, int threads, int64_t batch) {
  std::unique_ptr<Model> model;
  EXPECT_OK(ModelFromJson(model_json, &model));
  Optimizer o;
  Loss l;
  EXPECT_OK(OptimizerFromJson(optimizer, &o));
  EXPECT_OK(LossFromJson(loss, &l));
  CompileOptions options;
  options.threads = threads;
  model->Compile(o, l, {}, options);
  EXPECT_OK(model->status());
  const int64_t examples = batch + 3;
  const std::vector<float> x(examples * model->input_shape().elements(), 0.5f),
      y(examples * l.targets(model->output_shape()), 1);
  FitOptions fit;
  fit.verbose = Verbose::kSilent;
  const Shape targets =
      l.takes_classes() ? Shape() : Shape(model->output_shape());
  EXPECT_OK(
      model
          ->Fit(Dataset(MemorySource({DType::kFloat32, model->input_shape()},
                                     x.data(), {DType::kFloat32, targets},
                                     y.data(), examples))
                    .Batch(batch),
                fit)
          .status());
  return model->BytesUsed();
}

constexpr int64_t kProgramBytes = 5 << 20;

int64_t NumberAfter(const std::string& text, const std::string& key) {
  const size_t at = text.find("\"" + key + "\":");
  EXPECT_NE(at, std::string::npos) << key << " in " << text;
  return at == std::string::npos ? -1
                                 : std::stoll(text.substr(at + key.size() + 3));
}

// Checks the parts that can be computed without the plan, and that all add up.
void ExpectParts(const std::string& plan, const std::string& model_json,
                 const std::string& optimizer, const std::string& loss,
                 int64_t batch) {
  std::unique_ptr<Model> model;
  ASSERT_OK(ModelFromJson(model_json, &model));
  Optimizer o;
  Loss l;
  ASSERT_OK(OptimizerFromJson(optimizer, &o));
  ASSERT_OK(LossFromJson(loss, &l));
  const auto lines = [](int64_t floats) { return (floats + 15) / 16 * 64; };
  const int64_t x = model->input_shape().elements(),
                y = l.targets(model->output_shape());
  int64_t activations = 0;
  for (int i = 1; i < model->num_nodes(); ++i) {
    const Layer::Kind kind = model->layer(i).kind;
    // Its output is its input's memory.
    if (kind == Layer::Kind::kFlatten) continue;
    activations += lines(batch * model->output_shape(i).elements());
  }
  EXPECT_EQ(NumberAfter(plan, "batches"), lines(batch * x) + lines(batch * y));
  // Some outputs lie over others.
  EXPECT_LE(NumberAfter(plan, "activations"), activations);
  EXPECT_GE(NumberAfter(plan, "activations"),
            lines(batch * model->output_shape().elements()));
  EXPECT_GE(NumberAfter(plan, "activation_gradients"), 0);
  EXPECT_GE(NumberAfter(plan, "scratch"), lines(batch));
  // After Compile the persistent memory is allocated.
  model->Compile(o, l);
  const int64_t kept = static_cast<int64_t>(model->BytesUsed());
  EXPECT_EQ(NumberAfter(plan, "weights"), lines(model->num_weights()));
  EXPECT_EQ(NumberAfter(plan, "gradients"), lines(model->num_weights()));
  EXPECT_EQ(NumberAfter(plan, "weights") + NumberAfter(plan, "gradients") +
                NumberAfter(plan, "slots"),
            kept);
  EXPECT_EQ(kept + NumberAfter(plan, "batches") +
                NumberAfter(plan, "activations") +
                NumberAfter(plan, "activation_gradients") +
                NumberAfter(plan, "scratch") - NumberAfter(plan, "shared"),
            NumberAfter(plan, "total"));
}

struct PlanCase {
  std::string model, optimizer, loss;
  int threads;
  int64_t batch;

  std::string RunJson() const {
    return "{\"model\": " + model +
           ", \"compile\": {\"optimizer\": " + optimizer +
           ", \"loss\": " + loss +
           "}, \"fit\": {\"batch_size\": 3, \"threads\": " +
           std::to_string(threads) + "}}";
  }
  int64_t StepBytes() const {
    return static_cast<int64_t>(
        BytesOfAStep(model, optimizer, loss, threads, batch));
  }
};

std::vector<PlanCase> PlanCases() {
  const std::string dense =
      R"({"class_name": "Dense", "config": {"units": 7}})";
  const std::string conv =
      R"({"class_name": "Conv2D", "config": {"filters": 5, "kernel_size": 3,
          "padding": "same", "activation": "relu"}})";
  const std::string pool = R"({"class_name": "MaxPooling2D"})";
  const std::string flatten = R"({"class_name": "Flatten"})";
  const std::string dropout =
      R"({"class_name": "Dropout", "config": {"rate": 0.25}})";
  const std::string softmax =
      R"({"class_name": "Dense", "config": {"units": 4,
          "activation": "softmax"}})";
  const std::string classes = "\"sparse_categorical_crossentropy\"";
  return {
      {Layered("3", dense), "\"sgd\"", "\"mse\"", 1, 1},
      {Layered("3", dense), "\"adam\"", "\"mse\"", 2, 5},
      {Layered("100", dense + "," + dropout + "," + softmax), "\"rmsprop\"",
       classes, 1, 33},
      {Layered("9, 9, 2", conv + "," + flatten + "," + softmax), "\"adam\"",
       classes, 1, 16},
      {Layered("9, 9, 2",
               conv + "," + pool + "," + conv + "," + flatten + "," + softmax),
       "\"adam\"", classes, 2, 16},
      {Layered("28, 28, 1", conv + "," + pool + "," + flatten + "," + dense +
                                "," + dropout + "," + softmax),
       R"({"class_name": "SGD", "config": {"momentum": 0.9}})", classes, 1, 64},
      {Layered("8, 8, 3", flatten + "," + dense),
       R"({"class_name": "Adam", "config": {"amsgrad": true}})", "\"mae\"", 1,
       2},
      {Layered("20", R"({"class_name": "Dense", "config": {"units": 50,
          "activation": "tanh"}}, )" +
                         softmax),
       R"({"class_name": "SGD", "config": {"clipnorm": 1.0}})",
       "\"categorical_crossentropy\"", 1, 10},
      {Layered("16", R"({"class_name": "Dense", "config": {"units": 1,
          "activation": "sigmoid"}})"),
       R"({"class_name": "RMSprop", "config": {"centered": true,
           "momentum": 0.5}})",
       "\"binary_crossentropy\"", 3, 17},
      {R"({"class_name": "Functional", "config": {"name": "m", "layers": [
          {"class_name": "InputLayer", "name": "in", "inbound_nodes": [],
           "config": {"name": "in", "batch_shape": [null, 12]}},
          {"class_name": "Dense", "name": "a", "inbound_nodes":
           [[["in", 0, 0, {}]]], "config": {"name": "a", "units": 6}},
          {"class_name": "Dense", "name": "b", "inbound_nodes":
           [[["in", 0, 0, {}]]], "config": {"name": "b", "units": 6,
           "activation": "relu"}},
          {"class_name": "Add", "name": "c", "inbound_nodes":
           [[["a", 0, 0, {}], ["b", 0, 0, {}]]], "config": {"name": "c"}}],
          "input_layers": [["in", 0, 0]], "output_layers": [["c", 0, 0]]}})",
       "\"adamw\"", "\"huber\"", 1, 40},
  };
}

TEST_F(ProgramTest, Plan_AnyModel_HasTheBytesOfAStep) {
  for (const PlanCase& c : PlanCases()) {
    SCOPED_TRACE(c.model);
    WriteWhole(folder_ / "run.json", c.RunJson());
    const std::string batch = std::to_string(c.batch);
    ASSERT_EQ(Run({"plan", "run.json", "--json", "--batch-size", batch}), 0)
        << err_;
    EXPECT_EQ(NumberAfter(out_, "total"), c.StepBytes());
    ExpectParts(out_, c.model, c.optimizer, c.loss, c.batch);
  }
}

// The program is counted beside the bytes of a step.
TEST_F(ProgramTest, Plan_BytesOfAStepAsLimit_GivesTheLargestBatchWithin) {
  for (const PlanCase& c : PlanCases()) {
    SCOPED_TRACE(c.model);
    WriteWhole(folder_ / "run.json", c.RunJson());
    const auto total = [&](int64_t batch) {
      EXPECT_EQ(Run({"plan", "run.json", "--json", "--batch-size",
                     std::to_string(batch)}),
                0);
      return NumberAfter(out_, "total");
    };
    const int64_t bytes = c.StepBytes();
    ASSERT_EQ(Run({"plan", "run.json", "--json", "--limit",
                   std::to_string(bytes + kProgramBytes)}),
              0)
        << err_;
    const int64_t largest = NumberAfter(out_, "largest_batch");
    EXPECT_GE(largest, c.batch);
    EXPECT_LE(total(largest), bytes);
    EXPECT_GT(total(largest + 1), bytes);
  }
}

TEST_F(ProgramTest, Plan_FourWorkers_CountsOperationsAndBytesSent) {
  WriteRun();
  ASSERT_EQ(Run({"plan", "run.json", "--json", "--workers", "4"}), 0) << err_;
  EXPECT_EQ(NumberAfter(out_, "forward_flops"), 2 * 16 * (784 * 8 + 8 * 10));
  EXPECT_EQ(NumberAfter(out_, "wire_bytes"), 6 * (785 * 8 + 9 * 10));
  ASSERT_EQ(Run({"plan", "run.json"}), 0);
  EXPECT_TRUE(Contains(out_, "batch of 16"));
  ExpectError({"plan", "run.json", "--limit", "1K"}, 1, {"run.json", "1024"});
  ExpectError({"plan", "run.json", "--limit", "64MB"}, 2,
              {"wrong number for --limit: 64MB", "64M"});
}

TEST_F(ProgramTest, Plan_WithALimit_CountsTheData) {
  const auto plan = [&](const std::string& data, const std::string& limit) {
    WriteRun("\"callbacks\": []", "\"callbacks\": []");
    const std::string run = ReadWhole(folder_ / "run.json");
    const size_t begin = run.find("\"data\": {"), end = run.find("\"fit\"");
    WriteWhole(folder_ / "data.json", run.substr(0, begin) + "\"data\": {" +
                                          data + "}, " + run.substr(end));
    EXPECT_EQ(Run({"plan", "data.json", "--json", "--limit", limit}), 0)
        << err_;
    return NumberAfter(out_, "data");
  };
  WriteRun();
  ASSERT_EQ(Run({"plan", "run.json", "--json", "--limit", "16M"}), 0) << err_;
  // 2,000 and 400 images of 784 bytes, with labels of a byte, unpacked.
  EXPECT_EQ(NumberAfter(out_, "data"), 2400 * 785);
  EXPECT_EQ(NumberAfter(out_, "program"), kProgramBytes);
  const int64_t with = NumberAfter(out_, "largest_batch");
  EXPECT_EQ(plan("", "16M"), 0);
  EXPECT_GT(NumberAfter(out_, "largest_batch"), with);

  const std::vector<float> x(10 * 784);
  const std::vector<int64_t> y(10);
  ASSERT_OK(WriteNpy(folder_ / "x.npy", DType::kFloat32, {10, 784}, x.data()));
  ASSERT_OK(WriteNpy(folder_ / "y.npy", DType::kInt64, {10}, y.data()));
  WriteWhole(folder_ / "t.csv", "a;b;c\n1;2;3\n\n4;5;6\n");
  EXPECT_EQ(plan(R"("train": {"x": "x.npy", "y": "y.npy"},
                     "validation": {"csv": "t.csv", "separator": ";"})",
                 "16M"),
            10 * (784 * 4 + 8) + 2 * 3 * 4);
  // The labels, and a place of the CSV's rows.
  EXPECT_EQ(plan(R"("train": {"x": "x.npy", "y": "y.npy", "in_memory": false},
                     "validation": {"csv": "t.csv", "separator": ";",
                                    "in_memory": false})",
                 "16M"),
            10 * 8 + 16);
  EXPECT_EQ(plan(R"("train": {"x": ["x.npy"], "y": ["y.npy"],
                              "in_memory": false})",
                 "16M"),
            0);
  EXPECT_EQ(plan(R"("train": {"x": "none.npy", "y": "y.npy"})", "16M"), 0);
  EXPECT_TRUE(Contains(err_, "note: data.json: the data are not counted: "));
  // Data that training refuses are none to count.
  WriteWhole(folder_ / "x.npy.gz", Gzip(ReadWhole(folder_ / "x.npy")));
  WriteWhole(folder_ / "i.gz", Gzip(std::string("\0\0\x08\1\0\0\0\1!", 9)));
  for (const char* data :
       {R"("x": "x.npy.gz", "y": "y.npy")", R"("x": "x.npy", "y": "x.npy.gz")",
        R"("x": ["x.npy.gz"], "y": ["y.npy"])",
        R"("x": ["x.npy"], "y": ["x.npy.gz"])",
        R"("images": "i.gz", "labels": "i.gz")"}) {
    SCOPED_TRACE(data);
    const std::string train = "\"train\": {" + std::string(data);
    EXPECT_EQ(plan(train + ", \"in_memory\": false}", "16M"), 0);
    EXPECT_TRUE(Contains(err_, ".gz: compressed files are read into memory"));
    plan(train + "}", "16M");
    EXPECT_FALSE(Contains(err_, "compressed"));
  }
  // Text is labels of a single file only.
  WriteWhole(folder_ / "t.npy",
             std::string("\x93NUMPY\1\0\x37\0", 10) +
                 "{'descr': '|S1', 'fortran_order': False, 'shape': (2,)}" +
                 "ab");
  EXPECT_EQ(plan(R"("train": {"x": ["x.npy"], "y": "t.npy"})", "16M"), 0);
  EXPECT_TRUE(Contains(err_, "t.npy: its elements are text"));
  EXPECT_EQ(plan(R"("train": {"x": "x.npy", "y": "t.npy"})", "16M"),
            10 * 784 * 4 + 2 * 4);
  ExpectError({"plan", "run.json", "--limit", "6M"}, 1,
              {"the data 1884000", "\"in_memory\": false"});
}

TEST_F(ProgramTest, Plan_LimitOfAnElasticJob_CountsTheCopiesOfTheState) {
  WriteRun("\"callbacks\": []", "\"strategy\": {\"policy\": \"shrink\"}");
  const auto value = [&](const std::string& key, const Strings& more) {
    Strings line = {"plan", "run.json", "--json", "--workers", "3"};
    line.insert(line.end(), more.begin(), more.end());
    EXPECT_EQ(Run(line), 0) << err_;
    return NumberAfter(out_, key);
  };
  const int64_t bytes = value("total", {});
  const int64_t others = kProgramBytes + value("data", {"--limit", "64M"});
  const int64_t largest =
      value("largest_batch", {"--limit", std::to_string(bytes + others)});
  EXPECT_LE(value("total", {"--batch-size", std::to_string(largest)}), bytes);
  EXPECT_GT(value("total", {"--batch-size", std::to_string(largest + 1)}),
            bytes);
}

TEST_F(ProgramTest, Plan_Recompute_TakesLessMemory) {
  const std::string run = R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 16, 16, 4]}},
      {"class_name": "Conv2D", "config": {"filters": 8, "kernel_size": 3}},
      {"class_name": "BatchNormalization"},
      {"class_name": "Activation", "config": {"activation": "relu"}},
      {"class_name": "Conv2D", "config": {"filters": 8, "kernel_size": 3}},
      {"class_name": "BatchNormalization"},
      {"class_name": "Activation", "config": {"activation": "relu"}},
      {"class_name": "Flatten"},
      {"class_name": "Dense", "config": {"units": 10}}]}},
    "compile": {"optimizer": "sgd", "loss": "mse"},
    "fit": {"batch_size": 8}})";
  WriteWhole(folder_ / "run.json", run);
  WriteWhole(folder_ / "less.json",
             Replaced(run, "\"batch_size\": 8",
                      "\"batch_size\": 8, \"recompute\": true"));
  ASSERT_EQ(Run({"plan", "run.json", "--json"}), 0) << err_;
  const int64_t kept = NumberAfter(out_, "total");
  ASSERT_EQ(Run({"plan", "run.json", "--json", "--recompute"}), 0) << err_;
  const std::string less = out_;
  EXPECT_LT(NumberAfter(out_, "total"), kept);
  ASSERT_EQ(Run({"plan", "less.json", "--json"}), 0) << err_;
  EXPECT_EQ(out_, less);
}

TEST_F(ProgramTest, Plan_MoreWorkersThanReplicas_IsRefused) {
  WriteRun("\"callbacks\": []", "\"strategy\": {\"replicas\": 4}");
  EXPECT_EQ(Run({"plan", "run.json", "--workers", "4"}), 0) << err_;
  EXPECT_EQ(Run({"plan", "run.json", "--workers", "5"}), 2);
  EXPECT_TRUE(Contains(err_, "strategy.replicas: is 4, but --workers 5"));
}

// The memory of an elastic job's worker for its model: a worker that may be
// left alone keeps the memory of all replicas from the beginning.
TEST_F(ProgramTest, Plan_ElasticJob_CountsAWorkerLeftAlone) {
  const struct {
    const char* strategy;
    int workers, replicas;
    int64_t local_steps;
  } cases[] = {{"", 3, 3, 0},
               {", \"replicas\": 9", 3, 9, 0},
               {", \"mode\": \"local\"", 2, 2, 30},
               {", \"mode\": \"local\", \"replicas\": 5", 2, 5, 30}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.strategy);
    WriteRun("\"callbacks\": []", std::string("\"strategy\": {\"policy\": ") +
                                      "\"shrink\"" + c.strategy + "}");
    ASSERT_EQ(Run({"plan", "run.json", "--json", "--workers",
                   std::to_string(c.workers)}),
              0)
        << err_;
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    CompileOptions options(&collective);
    options.reduction = Reduction::kExact;
    options.replicas = c.replicas;
    options.local.steps = c.local_steps;
    Sequential model({Input({28, 28}), Flatten(), Dense(8), Dense(10)});
    model.Compile(Adam(), SparseCategoricalCrossentropy(kFromLogits), {},
                  options);
    ASSERT_OK(model.status());
    EXPECT_EQ(NumberAfter(out_, "weights") + NumberAfter(out_, "gradients") +
                  NumberAfter(out_, "slots") + NumberAfter(out_, "local"),
              static_cast<int64_t>(model.BytesUsed()));
  }
}

// Weights where an epoch ends, and the state of the last comparison.
TEST_F(ProgramTest, Plan_BackupOrElasticJob_CountsCopiesOfTheState) {
  constexpr int64_t kWeights = 6370 * 4;
  const auto copies = [&](const std::string& run, const char* workers) {
    WriteRun("\"callbacks\": []", run);
    EXPECT_EQ(Run({"plan", "run.json", "--json", "--workers", workers}), 0)
        << err_;
    return NumberAfter(out_, "copies");
  };
  const std::string shrink = "\"strategy\": {\"policy\": \"shrink\"";
  EXPECT_EQ(copies("\"callbacks\": []", "3"), 0);
  EXPECT_EQ(copies(shrink + "}", "1"), 0);
  EXPECT_EQ(copies(shrink + ", \"cross_check\": false}", "3"), kWeights);
  // Adam's two slots, iterations and learning rate, and a byte a block.
  EXPECT_EQ(copies(shrink + "}", "3"), 4 * kWeights + 12 + 28);
  EXPECT_EQ(copies(shrink + ", \"mode\": \"local\"}", "3"), 3 * kWeights + 12);
  EXPECT_EQ(copies("\"callbacks\": [{\"class_name\": \"BackupAndRestore\", "
                   "\"config\": {\"backup_dir\": \"b\"}}]",
                   "3"),
            kWeights);
  const int64_t total = NumberAfter(out_, "total");
  EXPECT_EQ(Run({"plan", "run.json", "--json"}), 0);
  EXPECT_EQ(NumberAfter(out_, "total"), total - kWeights);
  EXPECT_EQ(Run({"plan", "run.json", "--workers", "3"}), 0);
  EXPECT_TRUE(Contains(out_, "copies of the state"));
}

TEST_F(ProgramTest, Plan_WithALink_PrintsTheSecondsOfAStep) {
  WriteRun();
  ASSERT_EQ(Run({"plan", "run.json"}), 0) << err_;
  EXPECT_FALSE(Contains(out_, "seconds"));
  ASSERT_EQ(Run({"plan", "run.json", "--workers", "3"}), 0) << err_;
  // 6,370 floats: 2 * 2/3 of 25,480 bytes.
  EXPECT_TRUE(
      Contains(out_,
               "  gradients, float32                           33972\n"
               "seconds per step for these, at least:\n"
               "  Ethernet of 100 Mbit/s                       0.003\n"
               "  Wi-Fi of 20 Mbit/s                           0.014\n"));
  WriteRun("\"callbacks\": []",
           "\"strategy\": {\"communication\": {\"wire_dtype\": "
           "\"bfloat16\"}}");
  ASSERT_EQ(Run({"plan", "run.json", "--workers", "3", "--link", "1M"}), 0);
  EXPECT_TRUE(
      Contains(out_,
               "  gradients, bfloat16                          16986\n"
               "seconds per step for these, at least:\n"
               "  --link                                       0.136\n"));
  ASSERT_EQ(Run({"plan", "run.json", "--workers=2", "--link=8K", "--json"}), 0);
  EXPECT_TRUE(Contains(out_,
                       "\"wire_dtype\":\"bfloat16\",\"wire_bytes\":12740,"
                       "\"wire_seconds\":[{\"bits_per_second\":8000,"
                       "\"seconds\":12.74}]"));
  // 20 ms to the next of 2: 2 hops.
  ASSERT_EQ(Run({"plan", "run.json", "--workers=2", "--link=8K", "--latency=20",
                 "--json"}),
            0);
  EXPECT_TRUE(Contains(out_, "\"seconds\":12.78}]"));
  ExpectError({"plan", "run.json", "--link", "fast"}, 2,
              {"wrong number for --link: fast; it takes bits a second"});
}

// A round's words hold four numbers each, and a byte of each 256 goes before.
TEST_F(ProgramTest, Plan_LocalUpdates_PrintsBytesAndTimeOfARound) {
  WriteRun("\"callbacks\": []",
           "\"strategy\": {\"mode\": \"local\", \"local_steps\": 10, "
           "\"replicas\": 4}");
  ASSERT_EQ(Run({"plan", "run.json", "--workers=2", "--link=8K", "--latency=20",
                 "--step-time=500"}),
            0)
      << err_;
  // 6,370 numbers: blocks of (784, 8), (8), (8, 10) and (10).
  constexpr int64_t kWords = 6272 / 4 + 2 + 20 + 3, kBlocks = 25 + 1 + 1 + 1;
  const std::string bytes = std::to_string(4 * kWords + kBlocks);
  EXPECT_TRUE(Contains(out_, "rounds of 10 steps:\n"));
  EXPECT_TRUE(Contains(out_, " " + bytes + "\n"));
  EXPECT_TRUE(Contains(out_, "local updates"));
  EXPECT_TRUE(Contains(out_, "local_steps that balance the two"));
  // Steps of any time give a number that local_steps accepts.
  for (const char* const step : {"--step-time=1e-5", "--step-time=1e-300"}) {
    ASSERT_EQ(
        Run({"plan", "run.json", "--workers=2", "--link=8K", "--json", step}),
        0);
    EXPECT_EQ(NumberAfter(out_, "balanced_steps"), 1000000) << out_;
  }
  ASSERT_EQ(Run({"plan", "run.json", "--workers=2", "--json"}), 0) << err_;
  EXPECT_EQ(NumberAfter(out_, "round_bytes"), 4 * kWords + kBlocks);
  // The weights, as many momenta, and the changes of one more replica.
  const int64_t weights = NumberAfter(out_, "weights");
  EXPECT_EQ(NumberAfter(out_, "local"), 3 * weights);
}

// The plan cannot measure the run. It derives the steps from --link and
// --step-time.
TEST_F(ProgramTest, Plan_LocalStepsAuto_PrintsTheStepsForTheLink) {
  WriteRun("\"callbacks\": []",
           "\"strategy\": {\"mode\": \"local\", \"local_steps\": \"auto\"}");
  const Strings plan = {"plan", "run.json", "--workers=2", "--link=8K"};
  const auto with = [&](const Strings& more) {
    Strings line = plan;
    line.insert(line.end(), more.begin(), more.end());
    EXPECT_EQ(Run(line), 0) << err_;
    return out_;
  };
  // 6,400 bytes: 6.4 s.
  std::string text = with({});
  EXPECT_FALSE(Contains(text, "30 steps"));
  EXPECT_TRUE(Contains(text,
                       "rounds of 8 to 512 steps, by what they\n"
                       "take as the run begins:\n"));
  EXPECT_TRUE(Contains(text, "seconds per round for these"));
  EXPECT_TRUE(Contains(with({"--json"}), "\"local\":{\"steps\":\"auto\","));
  const struct {
    const char* step;
    int64_t balanced, chosen;
  } cases[] = {{"--step-time=5000", 2, 8},
               {"--step-time=500", 13, 13},
               {"--step-time=1", 6400, 512}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.step);
    const std::string json = with({"--json", c.step});
    EXPECT_NEAR(static_cast<double>(NumberAfter(json, "balanced_steps")),
                static_cast<double>(c.balanced), 1);
    const std::string rounds = json.substr(json.find("balanced_steps"));
    EXPECT_EQ(NumberAfter(rounds, "steps"), c.chosen);
    text = with({c.step});
    char row[64];
    std::snprintf(row, sizeof(row), "  %-34s %15d\n", "local_steps \"auto\"",
                  static_cast<int>(c.chosen));
    EXPECT_TRUE(Contains(text, row));
  }
}

TEST_F(ProgramTest, Plan_SparseRounds_PrintsTheirBytes) {
  const std::string rounds =
      "\"strategy\": {\"mode\": \"local\", \"local_steps\": 10, "
      "\"replicas\": 4, \"delta\": \"sparse\", \"overlap\": true";
  WriteRun("\"callbacks\": []", rounds + "}");
  ASSERT_EQ(Run({"plan", "run.json", "--workers=3", "--json"}), 0) << err_;
  // The message has two blocks of (784, 8). It has 64 of the 80 numbers of
  // (8, 10), without low bits, and all of (8) and (10), with 4 bits a number. A
  // worker has two replicas, and sends to two workers.
  constexpr int64_t kMessages = 97 + (1 + 89) + (1 + 4) + (1 + 50) + (1 + 5);
  EXPECT_EQ(NumberAfter(out_, "round_bytes"), 2 * 2 * kMessages);
  // The state: weights and momentum, the second replica's weights and momentum,
  // the buffers to send, and the error feedback and start weights of four
  // replicas.
  const int64_t weights = NumberAfter(out_, "weights");
  EXPECT_NEAR(static_cast<double>(NumberAfter(out_, "local")),
              static_cast<double>((4 + 4 + 4) * weights), 1000);
  EXPECT_EQ(NumberAfter(out_, "copies"), 0);
  WriteRun("\"callbacks\": []", rounds + ", \"policy\": \"shrink\"}");
  ExpectError({"plan", "run.json", "--workers=3"}, 2,
              {"run.json: strategy: delta sparse and overlap with policy "
               "shrink",
               "policy wait with BackupAndRestore"});
}

}  // namespace
}  // namespace ringlet
