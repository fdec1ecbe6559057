#include "net/strategy.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "map_environment.h"
#include "temp_folder.h"

namespace ringlet {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(StrategyTest, WithoutAClusterItIsOneWorkerAlone) {
  const auto strategy =
      MultiWorkerMirroredStrategy::FromEnvironment({}, MapEnvironment(Variables{}));
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
      options,
      MapEnvironment(Variables{{"TF_CONFIG",
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
  for (const auto& [name, reason] :
       {std::pair<const char*, const char*>{"NCCL", "GPU"}, {"mpi", "MPI"}}) {
    ASSERT_TRUE(CommunicationImplementationFromName(
                    name, &options.communication.implementation)
                    .ok());
    const auto strategy =
        MultiWorkerMirroredStrategy::FromCluster(cluster, options);
    EXPECT_EQ(strategy.status().code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(strategy.status().message()).find(reason),
              std::string::npos);
  }
  CommunicationImplementation none;
  EXPECT_FALSE(CommunicationImplementationFromName("smoke", &none).ok());
  options = {};
  options.communication.bytes_per_pack = -1;
  EXPECT_FALSE(MultiWorkerMirroredStrategy::FromCluster(cluster, options)
                   .status()
                   .ok());
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
