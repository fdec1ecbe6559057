#include "ringlet/strategy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "../../support/map_environment.h"
#include "../../support/temp_folder.h"
#include "core/base/key_file.h"

namespace ringlet {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(StrategyTest, FromEnvironment_NoCluster_IsOneWorkerAlone) {
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(
      {}, MapEnvironment(Variables{}));
  ASSERT_OK(strategy.status());
  EXPECT_EQ(strategy.num_workers(), 1);
  EXPECT_TRUE(strategy.is_chief());
  EXPECT_EQ(strategy.collective(), nullptr);
  const CompileOptions options = strategy;
  EXPECT_EQ(options.collective, nullptr);
}

TEST(StrategyTest, Compile_WrongEnvironment_FailsWithItsStatus) {
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(
      {}, MapEnvironment(Variables{{"TF_CONFIG", "{\"cluster\": 3}"}}));
  EXPECT_EQ(strategy.status().code(), Code::kInvalidArgument);
  Sequential model({Input({2}), Dense(3)});
  model.Compile(SGD(), MeanSquaredError(), {}, strategy);
  EXPECT_STREQ(model.status().message(), strategy.status().message());
}

TEST(StrategyTest, Reduction_GivenToTheStrategy_IsUsedByTheModel) {
  StrategyOptions options;
  options.reduction = Reduction::kExact;
  const Environment& alone = MapEnvironment(Variables{});
  const auto strategy =
      MultiWorkerMirroredStrategy::FromEnvironment(options, alone);
  EXPECT_EQ(CompileOptions(strategy).reduction, Reduction::kExact);
  options.communication.wire_dtype = WireDtype::kBfloat16;
  const auto rounded =
      MultiWorkerMirroredStrategy::FromEnvironment(options, alone);
  EXPECT_TRUE(Contains(rounded.status(), "reduction exact"));
}

TEST(StrategyTest, FromEnvironment_WorkersDoNotCome_NamesThem) {
  StrategyOptions options;
  options.start_timeout_seconds = 0.3;
  const std::vector<std::string> addresses = FreeAddresses(2);
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(
      options, MapEnvironment(Variables{
                   {"TF_CONFIG", "{\"cluster\": {\"worker\": [\"" +
                                     addresses[0] + "\", \"" + addresses[1] +
                                     "\"]}, \"task\": {\"type\": "
                                     "\"worker\", \"index\": 0}}"}}));
  EXPECT_EQ(strategy.status().code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(Contains(strategy.status(), addresses[1]));
}

TEST(StrategyTest, Communication_NotBuiltIn_IsRefusedWithTheReason) {
  ClusterConfig cluster;
  StrategyOptions options;
  options.communication.implementation = CommunicationImplementation::kNccl;
  const Status nccl =
      MultiWorkerMirroredStrategy::FromCluster(cluster, options).status();
  EXPECT_EQ(nccl.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(nccl, "GPU"));
  options = {};
  options.communication.bytes_per_pack = -1;
  EXPECT_FALSE(
      MultiWorkerMirroredStrategy::FromCluster(cluster, options).status().ok());
}

ClusterConfig TwoWorkers(const std::string& host) {
  ClusterConfig cluster;
  const std::vector<int> ports = FreePorts(2);
  cluster.addresses = {{"127.0.0.1", ports[0]}, {host, ports[1]}};
  cluster.world_size = 2;
  return cluster;
}

TEST(StrategyTest, QuorumOverlapOrRelay_WhereItDoesNotApply_IsRefused) {
  const auto refused = [](const StrategyOptions& options) {
    return std::string(
        MultiWorkerMirroredStrategy::FromCluster(ClusterConfig(), options)
            .status()
            .message());
  };
  StrategyOptions options;
  options.local.steps = 5;
  options.local.quorum = 2;
  EXPECT_TRUE(Contains(refused(options), "\"policy\": \"shrink\""));
  options = {};
  options.min_workers = 1;
  options.local.steps = 5;
  options.local.overlap = true;
  EXPECT_TRUE(Contains(refused(options), "overlap with policy shrink"));
  options = {};
  options.relay = "127.0.0.1:7000";
  options.communication.implementation = CommunicationImplementation::kMpi;
  EXPECT_TRUE(Contains(refused(options), "a relay with implementation MPI"));
}

TEST(StrategyTest, FromCluster_NoKey_TakesLoopbackAddressesOnly) {
  unsetenv("RINGLET_KEY_FILE");
  StrategyOptions options;
  options.start_timeout_seconds = 0.2;
  const auto status_of = [&](const std::string& host) {
    return MultiWorkerMirroredStrategy::FromCluster(TwoWorkers(host), options)
        .status();
  };
  const char* const kRefused[] = {"192.0.2.7", "a.invalid", "127.a.invalid",
                                  "2001:db8::1", "10.0.0.1"};
  for (const char* host : kRefused) {
    const Status status = status_of(host);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    for (const char* part : {host, "ringlet keygen", "RINGLET_KEY_FILE",
                             "--insecure", "worker 1"}) {
      EXPECT_TRUE(Contains(status, part));
    }
  }
  for (const char* host : {"127.0.0.2", "::1", "localhost"}) {
    EXPECT_EQ(status_of(host).code(), Code::kDeadlineExceeded) << host;
  }
  options.insecure = true;
  EXPECT_EQ(status_of("192.0.2.7").code(), Code::kDeadlineExceeded);
  options.insecure = false;
  setenv("RINGLET_INSECURE", "1", 1);
  EXPECT_EQ(status_of("192.0.2.7").code(), Code::kDeadlineExceeded);
  setenv("RINGLET_INSECURE", "0", 1);
  EXPECT_EQ(status_of("192.0.2.7").code(), Code::kInvalidArgument);
  unsetenv("RINGLET_INSECURE");
}

// The option reaches the ring, which refuses it.
TEST(StrategyTest, Patience_BelowZero_IsRefused) {
  StrategyOptions options;
  options.start_timeout_seconds = 0.2;
  options.patience_seconds = -1;
  const Status status =
      MultiWorkerMirroredStrategy::FromCluster(TwoWorkers("127.0.0.2"), options)
          .status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  EXPECT_TRUE(Contains(status, "patience_seconds is -1"));
}

TEST(StrategyTest, Options_OfTwoWorkersDiffer_ErrorNamesThem) {
  struct Case {
    const char* message;
    void (*change)(StrategyOptions*);
  };
  const Case cases[] = {
      {"a timeout of", [](StrategyOptions* o) { o->timeout_seconds = 7; }},
      {"the communication implementation TREE",
       [](StrategyOptions* o) {
         o->communication.implementation = CommunicationImplementation::kTree;
       }},
      {"the wire dtype bfloat16",
       [](StrategyOptions* o) {
         o->communication.wire_dtype = WireDtype::kBfloat16;
       }},
      {"bytes_per_pack 4096",
       [](StrategyOptions* o) { o->communication.bytes_per_pack = 4096; }},
  };
  for (const Case& c : cases) {
    const std::vector<int> ports = FreePorts(2);
    ClusterConfig cluster;
    cluster.addresses = {{"127.0.0.1", ports[0]}, {"127.0.0.1", ports[1]}};
    cluster.world_size = 2;
    ClusterConfig second = cluster;
    second.worker = second.task_index = 1;
    second.is_chief = false;
    StrategyOptions options, other;
    c.change(&other);
    std::thread worker([&] {
      (void)MultiWorkerMirroredStrategy::FromCluster(second, other).status();
    });
    const Status status =
        MultiWorkerMirroredStrategy::FromCluster(cluster, options).status();
    worker.join();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    EXPECT_TRUE(Contains(status, c.message));
  }
}

// A launcher may start one worker of a job with workers of other launchers.
TEST(StrategyTest, LauncherKey_WorkersOnOtherHosts_IsNotEnough) {
  TempFolder folder;
  const std::string path = folder / "launcher.key";
  WriteWhole(path, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  unsetenv("RINGLET_KEY_FILE");
  setenv(kLauncherKeyVariable, path.c_str(), 1);
  StrategyOptions options;
  options.start_timeout_seconds = 0.2;
  const Status status =
      MultiWorkerMirroredStrategy::FromCluster(TwoWorkers("192.0.2.7"), options)
          .status();
  unsetenv(kLauncherKeyVariable);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  EXPECT_TRUE(Contains(status, "ringlet keygen"));
}

TEST(StrategyTest, KeyFile_OfTheOptionOrTheVariable_IsUsed) {
  TempFolder folder;
  const std::string path = folder / "job.key";
  StrategyOptions options;
  options.start_timeout_seconds = 0.2;
  const auto status = [&] {
    return MultiWorkerMirroredStrategy::FromCluster(TwoWorkers("192.0.2.7"),
                                                    options)
        .status();
  };
  options.key_file = path;
  EXPECT_EQ(status().code(), Code::kNotFound);
  WriteWhole(path, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_TRUE(Contains(status(), "chmod 600"));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
#ifdef RINGLET_SECURE
  EXPECT_EQ(status().code(), Code::kDeadlineExceeded) << status().message();
  options.key_file.clear();
  setenv("RINGLET_KEY_FILE", path.c_str(), 1);
  EXPECT_EQ(status().code(), Code::kDeadlineExceeded) << status().message();
  unsetenv("RINGLET_KEY_FILE");
#else
  EXPECT_EQ(status().code(), Code::kUnimplemented) << status().message();
#endif
}

TEST(StrategyTest, Mpi_NotBuiltIn_NamesTheBuildThatHasIt) {
  StrategyOptions options;
  options.communication.implementation = CommunicationImplementation::kMpi;
  options.communication.wire_dtype = WireDtype::kFloat16;
  const auto half = MultiWorkerMirroredStrategy::FromEnvironment(
      options, MapEnvironment(Variables{}));
  EXPECT_TRUE(Contains(half.status(), "float16"));
  options.communication.wire_dtype = WireDtype::kFloat32;
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(
      options, MapEnvironment(Variables{}));
  if (strategy.status().ok()) {
    EXPECT_EQ(strategy.num_workers(), 1);
    return;
  }
  EXPECT_EQ(strategy.status().code(), Code::kUnimplemented);
  EXPECT_TRUE(Contains(strategy.status(), "-Dmpi=enabled"));
}

TEST(StrategyTest, WorkerPath_NotTheChief_IsBesideTheChiefs) {
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
  EXPECT_OK(RemoveWorkerTemp(worker, path));
  EXPECT_FALSE(std::filesystem::exists(folder / "workertemp_2"));
  EXPECT_OK(RemoveWorkerTemp(worker, path));
  EXPECT_OK(RemoveWorkerTemp(chief, path));
  EXPECT_EQ(ReadWhole(path), "chief's");
}

}  // namespace
}  // namespace ringlet
