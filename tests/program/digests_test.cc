// The samples' first steps have the digests of tests/digests.txt, with every
// number of threads and every set of kernels that this machine can run. If the
// digests are to change, the failures print the new lines of the file, and the
// commit gives the reason.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/expect_ok.h"
#include "../support/program.h"
#include "../support/tiny_networks.h"
#include "core/base/text.h"
#include "ringlet/checkpoint.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

std::string Source(const std::string& path) {
  return EnvironmentOr("RINGLET_SOURCE", ".") + "/" + path;
}

// "network steps" -> the digests where multiply-adds are fused, and where not.
std::map<std::string, std::vector<std::string>> Table() {
  std::map<std::string, std::vector<std::string>> table;
  std::istringstream lines(ReadWhole(Source("tests/digests.txt")));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string network, steps, fused, unfused;
    if (line[0] == '#' || !(words >> network >> steps >> fused >> unfused)) {
      continue;
    }
    table[network] = {steps, fused, unfused};
  }
  return table;
}

constexpr char kLeNet[] =
    R"({"class_name": "Conv2D", "config": {"filters": 6, "kernel_size": 5,
          "padding": "same", "activation": "tanh"}},
        {"class_name": "AveragePooling2D"},
        {"class_name": "Conv2D", "config": {"filters": 16, "kernel_size": 5,
          "activation": "tanh"}},
        {"class_name": "AveragePooling2D"}, {"class_name": "Flatten"},
        {"class_name": "Dense", "config": {"units": 120, "activation": "tanh"}},
        {"class_name": "Dense", "config": {"units": 84, "activation": "tanh"}})";
constexpr char kLora[] =
    R"({"class_name": "Flatten"},
        {"class_name": "Dense", "config": {"units": 128, "activation": "relu",
          "lora_rank": 4, "lora_alpha": 7}})";
constexpr char kMlp[] =
    R"({"class_name": "Flatten"},
        {"class_name": "Dense", "config": {"units": 128, "activation": "relu"}},
        {"class_name": "Dropout", "config": {"rate": 0.2}})";
constexpr char kRecurrent[] =
    R"({"class_name": "Reshape", "config": {"target_shape": [28, 28]}},
        {"class_name": "Bidirectional", "config": {"layer": {
          "class_name": "GRU", "config": {"units": 12,
            "return_sequences": true, "recurrent_dropout": 0.1}}}},
        {"class_name": "TimeDistributed", "config": {"layer": {
          "class_name": "Dense", "config": {"units": 9}}}},
        {"class_name": "SimpleRNN", "config": {"units": 11,
          "return_sequences": true, "go_backwards": true}},
        {"class_name": "LSTM", "config": {"units": 10, "dropout": 0.2}})";
constexpr char kTransposed[] =
    R"({"class_name": "Conv2D", "config": {"filters": 8, "kernel_size": 3,
          "strides": 2, "padding": "same", "activation": "relu"}},
        {"class_name": "Conv2DTranspose", "config": {"filters": 5,
          "kernel_size": 3, "strides": 2, "padding": "same",
          "activation": "tanh"}},
        {"class_name": "Conv2DTranspose", "config": {"filters": 2,
          "kernel_size": [2, 4], "strides": [1, 2]}},
        {"class_name": "AveragePooling2D", "config": {"pool_size": 4}},
        {"class_name": "Flatten"})";
// A Functional: rows of an image see those above them.
constexpr char kAttention[] = R"({"class_name": "Functional", "config": {
    "layers": [
      {"class_name": "InputLayer", "name": "x", "config": {"name": "x",
        "batch_input_shape": [null, 28, 28]}, "inbound_nodes": []},
      {"class_name": "Dense", "name": "rows", "config": {"name": "rows",
        "units": 12}, "inbound_nodes": [[["x", 0, 0, {}]]]},
      {"class_name": "PositionEmbedding", "name": "places", "config": {
        "name": "places", "sequence_length": 28},
        "inbound_nodes": [[["rows", 0, 0, {}]]]},
      {"class_name": "Add", "name": "sum", "config": {"name": "sum"},
        "inbound_nodes": [[["rows", 0, 0, {}], ["places", 0, 0, {}]]]},
      {"class_name": "MultiHeadAttention", "name": "heads", "config": {
        "name": "heads", "num_heads": 3, "key_dim": 5, "dropout": 0.1},
        "inbound_nodes": [[["sum", 0, 0, {"value": ["sum", 0, 0],
          "use_causal_mask": true}]]]},
      {"class_name": "Attention", "name": "plain", "config": {
        "name": "plain", "use_scale": true},
        "inbound_nodes": [[["heads", 0, 0, {}], ["sum", 0, 0, {}]]]},
      {"class_name": "LayerNormalization", "name": "normal", "config": {
        "name": "normal"}, "inbound_nodes": [[["plain", 0, 0, {}]]]},
      {"class_name": "GlobalAveragePooling1D", "name": "mean", "config": {
        "name": "mean"}, "inbound_nodes": [[["normal", 0, 0, {}]]]},
      {"class_name": "Dense", "name": "logits", "config": {"name": "logits",
        "units": 10}, "inbound_nodes": [[["mean", 0, 0, {}]]]}],
    "input_layers": [["x", 0, 0]], "output_layers": [["logits", 0, 0]]}})";

class DigestsTest : public ProgramTest {
 protected:
  // Ten classes of Fashion-MNIST's images, of which the repository has some.
  std::string FashionRun(const std::string& layers) {
    return FashionRunOf(R"({"class_name": "Sequential",
      "config": {"layers": [{"class_name": "InputLayer",
        "config": {"batch_shape": [null, 28, 28]}},
        {"class_name": "Reshape", "config": {"target_shape": [28, 28, 1]}}, )" +
                        layers + R"(,
        {"class_name": "Dense", "config": {"units": 10}}]}})");
  }
  std::string FashionRunOf(const std::string& model) {
    const std::string stem = Source("data/fashion-mnist-mini/train-");
    WriteWhole(folder_ / "run.json", R"({"model": )" + model + R"(,
      "compile": {"optimizer": "adam", "loss": {
        "class_name": "SparseCategoricalCrossentropy",
        "config": {"from_logits": true}}},
      "data": {"train": {"images": ")" + stem +
                                         R"(images-idx3-ubyte.gz",
        "labels": ")" + stem + R"(labels-idx1-ubyte.gz", "scale": 0.00390625}},
      "fit": {"batch_size": 32}})");
    return "run.json";
  }
  std::string RunOf(const std::string& network) {
    if (network == "tutorials") return Source("samples/mnist.json");
    if (network == "activity") return Source("samples/activity.json");
    if (network == "forecast") return Source("samples/forecast.json");
    if (network == "pictures") return Source("samples/pictures.json");
    if (network == "words") return Source("samples/words.json");
    if (network == "hum") return Source("samples/hum.json");
    if (network == "reviews") return Source("samples/reviews.json");
    if (network == "keywords") return Source("samples/keywords.json");
    if (network == "characters") return Source("samples/characters.json");
    if (network == "lora") return FashionRun(kLora);
    if (network == "lenet5") return FashionRun(kLeNet);
    if (network == "mlp") return FashionRun(kMlp);
    if (network == "recurrent") return FashionRun(kRecurrent);
    if (network == "transposed") return FashionRun(kTransposed);
    if (network == "attention") return FashionRunOf(kAttention);
    for (const TinyNetwork& tiny : kTinyNetworks) {
      if (tiny.name == network) WriteTinyRun(tiny, 16, folder_.path());
    }
    return "run.json";
  }
  // Without "_bfloat16", the end of a row with mixed_bfloat16.
  static std::string NameOf(const std::string& row) {
    return row.substr(0, row.find("_bfloat16"));
  }
  // The large networks are tested with a batch of 4.
  Strings LineOf(const std::string& network, const std::string& run,
                 const std::string& steps) {
    Strings line = {"verify", run, "--steps", steps};
    if (network != NameOf(network)) line.push_back("--mixed-bfloat16");
    for (const TinyNetwork& tiny : kTinyNetworks) {
      if (tiny.name == NameOf(network)) {
        line.insert(line.end(), {"--batch-size", "4"});
      }
    }
    return line;
  }

  std::vector<std::string> KernelSets() {
    EXPECT_EQ(Run({"--version", "--verbose"}), 0) << err_;
    if (out_.find(" (RING") == std::string::npos) return {};
    const size_t at = out_.find("  of ") + 5;
    std::istringstream list(out_.substr(at, out_.find(" (RING") - at));
    std::vector<std::string> names;
    for (std::string name; std::getline(list >> std::ws, name, ',');) {
      names.push_back(name);
    }
    return names;
  }

  // Returns the digest in the program's last line.
  std::string Digest(Strings line, int threads) {
    line.insert(line.end(), {"--threads", std::to_string(threads)});
    EXPECT_EQ(Run(line), 0) << err_;
    const size_t at = out_.rfind(": ");
    return at == std::string::npos ? "" : out_.substr(at + 2, 16);
  }
};

TEST_F(DigestsTest, Digest_EveryKernelSetAndThreadCount_EqualsTheTable) {
  const auto table = Table();
  ASSERT_EQ(table.size(), 22u);
  const std::vector<std::string> kernel_sets = KernelSets();
  ASSERT_FALSE(kernel_sets.empty());
  const bool emulated = std::getenv("RINGLET_EMULATED") != nullptr;
  for (const auto& [network, row] : table) {
    const Strings line = LineOf(network, RunOf(NameOf(network)), row[0]);
    for (const std::string& kernels : kernel_sets) {
      environment_ = {{"RINGLET_KERNELS", kernels}};
      for (int threads = 1; threads <= (emulated ? 2 : 4); ++threads) {
        const std::string digest = Digest(line, threads);
        const bool fuses = out_.find("no fused") == std::string::npos;
        EXPECT_EQ(digest, row[fuses ? 1 : 2])
            << network << ", " << (fuses ? "fused" : "not fused") << ", "
            << kernels << ", threads " << threads;
      }
    }
  }
}

// `verify` prints the digests that `train` logs, also after the end of an
// epoch. A digest depends only on the weights.
TEST_F(DigestsTest, Verify_SameRun_ComputesTheStepsOfTrain) {
  WriteTinyRun(kTinyNetworks[1], 10, folder_.path(),
               R"("callbacks": [{"class_name": "CSVLogger",
                  "config": {"filename": "log.csv"}}], )");
  const Strings batch = {"run.json", "--batch-size", "4"};
  const auto with = [&](Strings line) {
    line.insert(line.begin() + 1, batch.begin(), batch.end());
    return line;
  };
  const std::set<std::string> before = Files();
  ASSERT_EQ(Run(with({"verify", "--steps", "5", "--verbose"})), 0) << err_;
  EXPECT_EQ(Files(), before);
  const Strings printed = Lines(out_);
  ASSERT_EQ(printed.size(), 7u) << out_;
  EXPECT_EQ(printed[0].compare(0, 8, "kernels "), 0);
  EXPECT_TRUE(
      Contains(printed[0], "fused multiply-adds; seed 1, batch size 4"));
  ASSERT_EQ(Run(with({"train", "--epochs", "2", "--no-save", "--log-steps",
                      "s.csv", "--log-digests"})),
            0)
      << err_;
  const Strings rows = Lines(ReadWhole(folder_ / "s.csv"));
  ASSERT_EQ(rows.size(), 7u);  // a header and two epochs of three steps
  for (size_t step = 1; step <= 5; ++step) {
    EXPECT_EQ(printed[step], "step " + std::to_string(step) + ": " +
                                 rows[step].substr(rows[step].rfind(',') + 1));
  }
  const std::string last = printed[5].substr(printed[5].find(": ") + 2);
  EXPECT_EQ(printed[6], "digest after 5 steps: " + last);
  environment_ = {{"TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:2"]},
                                    "task": {"type": "worker", "index": 1}})"}};
  EXPECT_EQ(Run(with({"verify", "--steps", "5", "--expect", last})), 0) << err_;
  EXPECT_TRUE(Contains(err_, "works alone"));
  environment_.clear();
  EXPECT_EQ(
      Run(with({"verify", "--steps", "5", "--recompute", "--expect", last})), 0)
      << err_;
  EXPECT_EQ(Run(with({"verify", "--seed", "2", "--expect", last})), 1);
  EXPECT_TRUE(Contains(err_,
                       "error: run.json: after 10 steps the weights are not "
                       "those of --expect " +
                           last));
}

TEST_F(DigestsTest, Flags_Wrong_AreReportedBeforeAnythingElse) {
  ExpectError({"verify", "no.json", "--expect", "12"}, 2,
              {"--expect 12: is not a digest"});
  ExpectError({"verify", "no.json"}, 2, {"no.json"});
  ExpectError({"verify", "no.json", "--steps", "0"}, 2, {"--steps: 0"});
  WriteRun();
  ExpectError({"train", "run.json", "--log-digests"}, 2,
              {"--log-digests: needs --log-steps"});
}

// Worker 1 computes as a CPU without fused multiply-adds does.
TEST_F(DigestsTest, Job_FusedAndUnfusedWorkers_IsReported) {
  const std::vector<std::string> sets = KernelSets();
  const bool both = std::count(sets.begin(), sets.end(), "sse2") > 0;
  const auto job = [&](bool mixed) {
    const std::string kernels = mixed ? "export RINGLET_KERNELS=sse2;" : "";
    return Run({"launch", "-n", "2", "--", "sh", "-c",
                "case $TF_CONFIG in *'\"index\": 1'*) " + kernels +
                    ":;; esac; exec " + Program("tools/ringlet/ringlet") +
                    " train run.json --no-save"});
  };
  WriteRun("\"callbacks\": []", R"("strategy": {"timeout": 20})");
  for (const bool mixed : {false, both}) {
    ASSERT_EQ(job(mixed), 0) << err_;
    const bool has_note =
        err_.find(
            "worker 1 computes with no fused "
            "multiply-adds, worker 0 with fused") != std::string::npos;
    EXPECT_EQ(has_note, mixed) << err_;
  }
  if (!both) GTEST_SKIP() << "this CPU has one class of arithmetic";
  WriteRun("\"callbacks\": []",
           R"("strategy": {"timeout": 20, "reduction": "exact"})");
  EXPECT_EQ(job(true), 2);
  EXPECT_TRUE(
      Contains(err_,
               "the arithmetic is no fused multiply-adds on rank 1, but "
               "fused multiply-adds on rank 0; it must be the same on "
               "every worker: start all of them with "
               "RINGLET_KERNELS=unfused"));
  // The kernels named in the message make the runs agree.
  environment_ = {{"RINGLET_KERNELS", "unfused"}};
  EXPECT_EQ(job(true), 0) << err_;
}

// `verify` computes all replicas of the run in one process, and gets the digest
// of the job.
TEST_F(DigestsTest, Verify_JobOfTwoWorkers_ComputesItsSteps) {
  WriteRun("\"callbacks\": []", R"("strategy": {"timeout": 20, "replicas": 2,
    "reduction": "exact"})");
  ASSERT_EQ(
      Run({"launch", "-n", "2", "--", Program("tools/ringlet/ringlet"), "train",
           "run.json", "--no-save", "--log-steps", "s.csv", "--log-digests"}),
      0)
      << err_;
  const Strings rows = Lines(ReadWhole(folder_ / "s.csv"));
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(Run({"verify", "run.json", "--steps", "6", "--expect",
                 rows[6].substr(rows[6].rfind(',') + 1)}),
            0)
      << err_;
  EXPECT_TRUE(Contains(out_, ", 2 replicas\n"));
}

// The digest includes the last round's changes, also if they are still sent
// when the last step is reported.
TEST_F(DigestsTest, Verify_Overlap_AppliesTheLastRound) {
  WriteRun("\"callbacks\": []", R"("strategy": {"mode": "local",
    "replicas": 2, "local_steps": 3, "overlap": true})");
  const auto after = [&](const char* steps) {
    return Digest({"verify", "run.json", "--steps", steps}, 1);
  };
  EXPECT_NE(after("3"),
            Digest({"verify", "run.json", "--steps", "3", "--no-shuffle"}, 1));
  ASSERT_EQ(Run({"train", "run.json", "--save", "m.safetensors"}), 0) << err_;
  std::unique_ptr<Model> model;
  ASSERT_OK(LoadModel(folder_ / "m.safetensors", &model));
  EXPECT_EQ(after("6"), HexText(model->DigestWeights()));
}

// In a job the number of replicas is the number of workers. `verify` has no
// workers, so it needs the number.
TEST_F(DigestsTest, Verify_QuorumWithoutReplicas_AsksForThem) {
  const std::string rounds =
      "\"strategy\": {\"mode\": \"local\", \"local_steps\": 3, "
      "\"policy\": \"shrink\", \"quorum\": 2";
  WriteRun("\"callbacks\": []", rounds + "}");
  ExpectError({"verify", "run.json", "--steps", "3"}, 2,
              {"run.json: strategy.quorum: is 2", "strategy.replicas"});
  WriteRun("\"callbacks\": []",
           Replaced(rounds, "\"quorum\": 2", "\"participation\": 3") + "}");
  ExpectError({"verify", "run.json", "--steps", "3"}, 2,
              {"run.json: strategy.participation: is 3", "strategy.replicas"});
  WriteRun("\"callbacks\": []", rounds + "}");
  ExpectError({"train", "run.json"}, 2,
              {"quorum 2 of 1 replica; give at most 1, or more workers"});
  WriteRun("\"callbacks\": []", rounds + ", \"replicas\": 2}");
  EXPECT_EQ(Run({"verify", "run.json", "--steps", "3"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, ", 2 replicas\n"));
}

}  // namespace
}  // namespace ringlet
