#include "net/strategy/strategy.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "../../support/map_environment.h"
#include "../../support/temp_folder.h"

namespace ringlet {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(StrategyTest, WithoutAClusterItIsOneWorkerAlone) {
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(
      {}, MapEnvironment(Variables{}));
  ASSERT_TRUE(strategy.status().ok()) << strategy.status().message();
  EXPECT_EQ(strategy.num_workers(), 1);
  EXPECT_TRUE(strategy.is_chief());
  EXPECT_EQ(strategy.collective(), nullptr);
  const CompileOptions options = strategy;
  EXPECT_EQ(options.collective, nullptr);
}

TEST(StrategyTest, WrongEnvironmentFailsTheCompileThatUsesIt) {
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(
      {}, MapEnvironment(Variables{{"TF_CONFIG", "{\"cluster\": 3}"}}));
  EXPECT_EQ(strategy.status().code(), Code::kInvalidArgument);
  Sequential model({Input({2}), Dense(3)});
  model.Compile(SGD(), MeanSquaredError(), {}, strategy);
  EXPECT_STREQ(model.status().message(), strategy.status().message());
}

TEST(StrategyTest, WorkersThatDoNotComeAreNamed) {
  StrategyOptions options;
  options.start_timeout_seconds = 0.3;
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(
      options, MapEnvironment(Variables{
                   {"TF_CONFIG",
                    "{\"cluster\": {\"worker\": [\"127.0.0.1:29871\", "
                    "\"127.0.0.1:29872\"]}, \"task\": {\"type\": "
                    "\"worker\", \"index\": 0}}"}}));
  EXPECT_EQ(strategy.status().code(), Code::kDeadlineExceeded);
  EXPECT_NE(std::string(strategy.status().message()).find("127.0.0.1:29872"),
            std::string::npos)
      << strategy.status().message();
}

TEST(StrategyTest, CommunicationThatIsNotBuiltInIsRefusedWithTheReason) {
  ClusterConfig cluster;
  StrategyOptions options;
  ASSERT_TRUE(CommunicationImplementationFromName(
                  "NCCL", &options.communication.implementation)
                  .ok());
  const Status nccl =
      MultiWorkerMirroredStrategy::FromCluster(cluster, options).status();
  EXPECT_EQ(nccl.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(nccl.message()).find("GPU"), std::string::npos);
  CommunicationImplementation none;
  EXPECT_FALSE(CommunicationImplementationFromName("smoke", &none).ok());
  options = {};
  options.communication.bytes_per_pack = -1;
  EXPECT_FALSE(
      MultiWorkerMirroredStrategy::FromCluster(cluster, options).status().ok());
}

TEST(StrategyTest, MpiIsThereOrTheBuildThatHasItIsNamed) {
  StrategyOptions options;
  ASSERT_TRUE(CommunicationImplementationFromName(
                  "mpi", &options.communication.implementation)
                  .ok());
  options.communication.wire_dtype = WireDtype::kFloat16;
  const auto half = MultiWorkerMirroredStrategy::FromEnvironment(
      options, MapEnvironment(Variables{}));
  EXPECT_NE(std::string(half.status().message()).find("float16"),
            std::string::npos);
  options.communication.wire_dtype = WireDtype::kFloat32;
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(
      options, MapEnvironment(Variables{}));
  if (strategy.status().ok()) {
    EXPECT_EQ(strategy.num_workers(), 1);
    return;
  }
  EXPECT_EQ(strategy.status().code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(strategy.status().message()).find("-Dmpi=enabled"),
            std::string::npos);
}

TEST(StrategyTest, OtherWorkersWriteBesideTheChief) {
  TempFolder folder;
  ClusterConfig chief, worker;
  worker.is_chief = false;
  worker.task_index = 2;
  const std::string path = folder / "model.safetensors";
  EXPECT_EQ(WorkerPath(chief, path), path);
  EXPECT_EQ(WorkerPath(worker, path),
            folder / "workertemp_2/model.safetensors");
  EXPECT_EQ(WorkerPath(worker, "m"), "workertemp_2/m");
  std::filesystem::create_directory(folder / "workertemp_2");
  WriteWhole(WorkerPath(worker, path), "x");
  WriteWhole(path, "chief's");
  EXPECT_TRUE(RemoveWorkerTemp(worker, path).ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "workertemp_2"));
  EXPECT_TRUE(RemoveWorkerTemp(worker, path).ok());
  EXPECT_TRUE(RemoveWorkerTemp(chief, path).ok());
  EXPECT_EQ(ReadWhole(path), "chief's");
}

}  // namespace
}  // namespace ringlet
