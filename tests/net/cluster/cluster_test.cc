#include "ringlet/strategy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/map_environment.h"
#include "net/cluster/address.h"

namespace ringlet {
namespace {

using Pairs = std::map<std::string, std::string>;

ClusterConfig Resolve(const Pairs& variables,
                      const std::string& host_name = "laptop") {
  ClusterConfig config;
  EXPECT_OK(
      ClusterFromEnvironment(MapEnvironment(variables, host_name), &config));
  return config;
}

ClusterConfig ResolveTf(const std::string& text) {
  return Resolve({{"TF_CONFIG", text}});
}

std::vector<std::string> Addresses(const ClusterConfig& config) {
  std::vector<std::string> all;
  for (const Address& address : config.addresses) {
    all.push_back(ToString(address));
  }
  return all;
}

using Strings = std::vector<std::string>;

// One wrong input and the parts of its message.
struct Wrong {
  Pairs variables;
  Strings message_parts;
  std::string host_name = "laptop";
};

void ExpectRefused(const std::vector<Wrong>& cases) {
  for (const Wrong& wrong : cases) {
    std::string input;
    for (const auto& [name, value] : wrong.variables) {
      input += name + "=" + value.substr(0, 200) + " ";
    }
    SCOPED_TRACE(input);
    ClusterConfig config;
    config.worker = 77;  // not to be touched
    const Status status = ClusterFromEnvironment(
        MapEnvironment(wrong.variables, wrong.host_name), &config);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(config.worker, 77);
    for (const std::string& text : wrong.message_parts) {
      EXPECT_TRUE(Contains(status, text));
    }
    EXPECT_LT(std::string(status.message()).size(), 600u);
  }
}

// --- TF_CONFIG ---------------------------------------------------------------

TEST(TfConfigTest, UnknownKeys_BesideAClusterOrKnownOnes_AreIgnored) {
  for (const char* text :
       {R"({"cluster": {"worker": ["a:1"]}, "x": 1,
            "task": {"type": "worker", "index": 0}})",
        R"({"task": {"type": "evaluator", "index": 0}, "environment": "x"})",
        R"({"environment": "cloud", "job": {}})", "{}"}) {
    EXPECT_EQ(ResolveTf(text).world_size, 1) << text;
  }
}

// --- addresses ---------------------------------------------------------------

TEST(AddressTest, Parse_NamesAndNumbers_AreLowerCaseAndCanonical) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"localhost:12345", "localhost:12345"},
      {"Node-1.Example.ORG:1", "node-1.example.org:1"},
      {"my_host:65535", "my_host:65535"},
      {"10.0.0.1:2222", "10.0.0.1:2222"},
      {"[::1]:2222", "[::1]:2222"},
      {"[0:0:0:0:0:0:0:1]:2222", "[::1]:2222"},
      {"[2001:DB8::A]:80", "[2001:db8::a]:80"},
      {"[fe80::1%eth0]:80", "[fe80::1%eth0]:80"},
  };
  for (const auto& [text, expected] : cases) {
    SCOPED_TRACE(text);
    Address address, again;
    ASSERT_OK(ParseAddress(text, &address));
    EXPECT_EQ(ToString(address), expected);
    ASSERT_OK(ParseAddress(ToString(address), &again));
    EXPECT_EQ(again, address);
  }
}

TEST(AddressTest, Parse_NotHostAndPort_IsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no port"},
      {"localhost", "no port"},
      {"localhost:", "port '' is not a number from 1 to 65535"},
      {"localhost:0", "from 1 to 65535"},
      {"localhost:65536", "from 1 to 65535"},
      {"localhost:-1", "from 1 to 65535"},
      {"localhost:+80", "from 1 to 65535"},
      {"localhost: 80", "from 1 to 65535"},
      {"localhost:80 ", "from 1 to 65535"},
      {"localhost:http", "from 1 to 65535"},
      {"localhost:99999999999999999999", "from 1 to 65535"},
      {":2222", "host is empty"},
      {"::1:2222", "several colons"},
      {"a:1:2", "several colons"},
      {"[::1]", "write [IPv6 address]:port"},
      {"[::1", "write [IPv6 address]:port"},
      {"[::1]2222", "write [IPv6 address]:port"},
      {"[localhost]:1", "only an IPv6 address has brackets"},
      {"[:::1]:1", "not an IPv6 address"},
      {"[::1%]:1", "not an IPv6 address"},
      {"[::1%a/b]:1", "not an IPv6 address"},
      {"[::]:1", "means every address"},
      {"0.0.0.0:1", "means every address"},
      {"1.2.3:1", "not an IPv4 address"},
      {"1.2.3.256:1", "not an IPv4 address"},
      {"a..b:1", "not a name"},
      {".a:1", "not a name"},
      {"a b:1", "not a name"},
      {"a/b:1", "not a name"},
      {"h\xc3\xb6st:1", "not a name"},
      {std::string(254, 'a') + ":1", "not a name"},
      {std::string(64, 'a') + ".b:1", "not a name"},
      {"grpc://localhost:2222", "without a scheme"},
  };
  for (const auto& [text, message_parts] : cases) {
    SCOPED_TRACE(text);
    Address address;
    address.port = 7;
    const Status status = ParseAddress(text, &address);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, message_parts));
    EXPECT_EQ(address.port, 7);
  }
}

// --- TF_CONFIG ---------------------------------------------------------------

TEST(TfConfigTest, TfConfig_UnsetOrEmptyObject_IsOneWorkerAlone) {
  for (const Pairs& variables :
       {Pairs{}, Pairs{{"TF_CONFIG", "{}"}}, Pairs{{"TF_CONFIG", " {\n} "}},
        Pairs{{"TF_CONFIG", R"({"cluster": {}})"}},
        Pairs{
            {"TF_CONFIG",
             R"({"cluster": {}, "task": {"type": "worker", "index": 0}})"}}}) {
    const ClusterConfig config = Resolve(variables);
    EXPECT_TRUE(config.addresses.empty());
    EXPECT_EQ(config.world_size, 1);
    EXPECT_EQ(config.worker, 0);
    EXPECT_TRUE(config.is_chief);
    EXPECT_FALSE(config.is_evaluator);
  }
}

TEST(TfConfigTest, ParameterServers_EmptyList_IsPassedOver) {
  for (const char* none : {"[]", "{}"}) {
    const ClusterConfig config = ResolveTf(
        std::string(R"({"cluster": {"worker": ["a:1", "b:1"], "ps": )") + none +
        R"(}, "task": {"type": "worker", "index": 1}})");
    EXPECT_EQ(Addresses(config), (Strings{"a:1", "b:1"}));
    EXPECT_EQ(config.worker, 1);
  }
}

TEST(TfConfigTest, TfConfig_EmptyObjectUnderAScheduler_IsOneWorkerAlone) {
  const ClusterConfig config =
      Resolve({{"TF_CONFIG", "{}"}, {"SLURM_PROCID", "3"}});
  EXPECT_EQ(config.world_size, 1);
}

TEST(TfConfigTest, Cluster_TwoWorkersOfTheTutorial_HaveTheirRanks) {
  for (int index : {0, 1}) {
    const ClusterConfig config = ResolveTf(
        R"({"cluster": {"worker": ["localhost:12345", "localhost:23456"]},
            "task": {"type": "worker", "index": )" +
        std::to_string(index) + "}}");
    EXPECT_EQ(Addresses(config),
              (Strings{"localhost:12345", "localhost:23456"}));
    EXPECT_EQ(config.worker, index);
    EXPECT_EQ(config.world_size, 2);
    EXPECT_EQ(config.task_type, "worker");
    EXPECT_EQ(config.task_index, index);
    EXPECT_EQ(config.is_chief, index == 0);
  }
}

std::string WithChief(const std::string& type, const std::string& index) {
  return R"({"cluster": {"worker": ["w0:1", "w1:1"], "chief": ["c:1"],
             "evaluator": ["e:1"]}, "task": {"type": ")" +
         type + R"(", "index": )" + index + R"(}, "rpc_layer": "grpc",
             "environment": "cloud"})";
}

TEST(TfConfigTest, Chief_BesideWorkers_ComesFirst) {
  const ClusterConfig chief = ResolveTf(WithChief("chief", "0"));
  EXPECT_EQ(Addresses(chief), (Strings{"c:1", "w0:1", "w1:1"}));
  EXPECT_EQ(chief.worker, 0);
  EXPECT_EQ(chief.world_size, 3);
  EXPECT_TRUE(chief.is_chief);
  const ClusterConfig worker = ResolveTf(WithChief("worker", "0"));
  EXPECT_EQ(worker.addresses, chief.addresses);
  EXPECT_EQ(worker.worker, 1);
  EXPECT_EQ(worker.task_index, 0);
  EXPECT_FALSE(worker.is_chief);
  EXPECT_EQ(ResolveTf(WithChief("worker", "\"1\"")).worker, 2);
}

// Kubeflow's training operator (tensorflow.go): a service name for each pod
// and "environment" beside cluster and task.
TEST(TfConfigTest, Addresses_OfTheTrainingOperatorsPods_AreNames) {
  const ClusterConfig config = Resolve(
      {{"TF_CONFIG",
        R"({"cluster":{"worker":["ringlet-worker-0.lab.svc:2222",)"
        R"("ringlet-worker-1.lab.svc:2222"]},)"
        R"("task":{"type":"worker","index":1},"environment":"cloud"})"}});
  EXPECT_EQ(Addresses(config), (Strings{"ringlet-worker-0.lab.svc:2222",
                                        "ringlet-worker-1.lab.svc:2222"}));
  EXPECT_EQ(config.worker, 1);
  EXPECT_FALSE(config.is_chief);
}

TEST(TfConfigTest, Evaluator_ListedOrNot_IsAClusterOfItsOwn) {
  const ClusterConfig listed = ResolveTf(WithChief("evaluator", "0"));
  EXPECT_EQ(Addresses(listed), Strings{"e:1"});
  EXPECT_EQ(listed.world_size, 1);
  EXPECT_EQ(listed.worker, 0);
  EXPECT_TRUE(listed.is_chief);
  EXPECT_TRUE(listed.is_evaluator);
  EXPECT_TRUE(listed.has_evaluator);
  EXPECT_TRUE(ResolveTf(WithChief("worker", "0")).has_evaluator);
  const ClusterConfig unlisted = ResolveTf(R"({"cluster": {"worker": ["a:1"]},
                    "task": {"type": "evaluator", "index": 0}})");
  EXPECT_TRUE(unlisted.addresses.empty());
  EXPECT_TRUE(unlisted.is_evaluator);
  EXPECT_FALSE(unlisted.has_evaluator);
  EXPECT_TRUE(
      ResolveTf(R"({"task": {"type": "evaluator", "index": 0}})").is_evaluator);
}

TEST(TfConfigTest, Workers_SparseJob_AreInOrderOfTheirIndexes) {
  const ClusterConfig config = ResolveTf(
      R"({"cluster": {"worker": {"1": "b:1", "10": "k:1", "0": "a:1",
          "2": "c:1", "3": "d:1", "4": "e:1", "5": "f:1", "6": "g:1",
          "7": "h:1", "8": "i:1", "9": "j:1"}, "chief": {"0": "z:1"}},
          "task": {"type": "worker", "index": 10}})");
  EXPECT_EQ(Addresses(config),
            (Strings{"z:1", "a:1", "b:1", "c:1", "d:1", "e:1", "f:1", "g:1",
                     "h:1", "i:1", "j:1", "k:1"}));
  EXPECT_EQ(config.worker, 11);
}

TEST(TfConfigTest, Index_StringOrWholeFloat_IsTaken) {
  for (const char* index : {"1", "\"1\"", "1.0", "10e-1", "\"01\""}) {
    EXPECT_EQ(ResolveTf(R"({"cluster": {"worker": ["a:1", "b:1"]},
                            "task": {"type": "worker", "index": )" +
                        std::string(index) + "}}")
                  .worker,
              1)
        << index;
  }
}

TEST(TfConfigTest, Workers_AsManyAsAllowed_AreTakenAndNoMore) {
  std::string list = "\"w0:1\"";
  for (int i = 1; i < kMaxWorldSize; ++i) {
    list += ", \"w" + std::to_string(i) + ":1\"";
  }
  const std::string task = R"(]}, "task": {"type": "worker", "index": 1023}})";
  EXPECT_EQ(ResolveTf(R"({"cluster": {"worker": [)" + list + task).worker,
            1023);
  ExpectRefused(
      {{{{"TF_CONFIG",
          R"({"cluster": {"worker": [)" + list + ", \"one-more:1\"" + task}},
        {"TF_CONFIG: cluster: worker", "more than 1024 tasks"}},
       {{{"TF_CONFIG",
          R"({"cluster": {"chief": ["c:1"], "worker": [)" + list + task}},
        {"TF_CONFIG: cluster", "more than 1024 tasks"}}});
}

Wrong Tf(const std::string& text, Strings message_parts) {
  message_parts.push_back("TF_CONFIG: ");
  return {{{"TF_CONFIG", text}}, message_parts, "laptop"};
}

std::string Cluster(const std::string& jobs) {
  return R"({"cluster": {)" + jobs +
         R"(}, "task": {"type": "worker", "index": 0}})";
}

std::string Task(const std::string& task) {
  return R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": )" + task + "}";
}

TEST(TfConfigTest, Text_NotJson_IsRefusedWithItsPlace) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += '[';
  ExpectRefused({
      Tf("", {"set but empty", "{}"}),
      Tf(" ", {"line 1"}),
      Tf("{", {"line 1, near column 2"}),
      Tf("{'cluster': 1}", {"line 1, near column 3"}),
      Tf("{\n \"cluster\": }", {"line 2, near column 13"}),
      Tf("{\"a\": 1,\n\n  }", {"line 3, near column 4"}),
      Tf("{} x", {"line 1, column 4: more after the end"}),
      Tf("{}{}", {"line 1, column 3: more after the end"}),
      Tf("{\"a\": \"b", {"closing quote"}),
      Tf("{\"a\": \"b\nc\"}", {"line 1, column 9", "closing quote"}),
      Tf("{\"a\": \"\\u0000\"}", {"\\u0000"}),
      Tf("{\"a\": \"\\x\"}", {"line 1"}),
      Tf("{\"a\" 1}", {"line 1, near column 6"}),
      Tf("{\"a\": tru}", {"line 1, near column 7"}),
      Tf("{\"a\": \x01}", {"control character"}),
      Tf(deep, {"column 17", "nested too deeply"}),
      Tf("{\"a\": \"" + std::string(1 << 20, 'x') + "\"}", {"1048576 allowed"}),
      Tf("[]", {"is a list, must be an object"}),
      Tf("null", {"is null, must be an object"}),
      Tf("\"worker\"", {"is a string, must be an object"}),
      Tf("3", {"is a number, must be an object"}),
  });
}

TEST(TfConfigTest, Cluster_Wrong_IsRefusedByName) {
  ExpectRefused({
      Tf(R"({"cluster": []})", {"cluster", "is a list", "must be an object"}),
      Tf(R"({"cluster": null})", {"cluster", "is null"}),
      Tf(R"({"cluster": {}, "cluster": {}})", {"the key \"cluster\" is in "}),
      Tf(Cluster(R"("worker": ["a:1"], "worker": ["b:1"])"),
         {"the key \"worker\" is in \"cluster\" twice"}),
      Tf(Cluster(R"("worker": "a:1")"),
         {"cluster: worker", "is a string", "must be a list"}),
      Tf(Cluster(R"("worker": 2)"), {"cluster: worker", "is a number"}),
      Tf(Cluster(R"("worker": [1])"),
         {"cluster: worker: [0]", "is a number", "host:port"}),
      Tf(Cluster(R"("worker": ["a:1", null])"),
         {"cluster: worker: [1]", "is null"}),
      Tf(Cluster(R"("worker": ["a:1", "b"])"),
         {"cluster: worker: [1]", "'b' has no port"}),
      Tf(Cluster(R"("worker": ["a:1", "b:0"])"),
         {"cluster: worker: [1]", "'0'", "1 to 65535"}),
      Tf(Cluster(R"("worker": ["a:1", "A:1"])"),
         {"cluster", "a:1 is given twice"}),
      Tf(Cluster(R"("worker": ["[::1]:5"], "chief": ["[0:0::1]:5"])"),
         {"[::1]:5 is given twice"}),
      Tf(Cluster(R"("worker": ["a:1"], "evaluator": ["a:1"])"),
         {"a:1 is given twice"}),
      Tf(Cluster(R"("worker": {"0": "a:1", "2": "c:1"})"),
         {"cluster: worker", "index 2 but not 1"}),
      Tf(Cluster(R"("worker": {"x": "a:1"})"),
         {"cluster: worker", "key 'x'", "index"}),
      Tf(Cluster(R"("worker": {"-1": "a:1"})"), {"key '-1'"}),
      Tf(Cluster(R"("worker": {"4294967296": "a:1"})"), {"key '4294967296'"}),
      Tf(Cluster(R"("worker": {"0": "a:1", "00": "b:1"})"),
         {"index 0 is given twice"}),
      Tf(Cluster(R"("worker": {"0": 5})"),
         {"cluster: worker: [0]", "is a number"}),
      Tf(Cluster(R"("worker": ["a:1"], "master": ["b:1"])"),
         {"Unrecognized task_type: 'master', valid task types are: \"chief\"",
          "write 'chief'"}),
      Tf(Cluster(R"("worker": ["a:1"], "Worker": ["b:1"])"),
         {"Unrecognized task_type: 'Worker'"}),
      Tf(Cluster(R"("worker": ["a:1"], "ps": ["b:1"])"),
         {"cluster: 'ps'", "no parameter servers"}),
      Tf(Cluster(R"("worker": ["a:1"], "chief": ["b:1", "c:1"])"),
         {"There must be at most one 'chief' job."}),
      Tf(Cluster(R"("worker": ["a:1"], "evaluator": ["b:1", "c:1"])"),
         {"There must be at most one 'evaluator' job."}),
      Tf(Cluster("\"worker\": [\"\xc3\xa9\x1b[2J:1\"]"), {"control character"}),
      Tf(Cluster("\"worker\": [\"\xff\\u001b[2J:1\"]"),
         {"line 1, column 26", "not UTF-8"}),
      Tf(Cluster("\"worker\": [\"\xc3\xa9\\u001b[2J:1\"]"),
         {"'???[2J:1'", "not a name"}),
  });
}

TEST(TfConfigTest, Task_Wrong_IsRefusedByName) {
  ExpectRefused({
      Tf(R"({"cluster": {"worker": ["a:1"]}})",
         {"When `cluster_spec` is given, you must also specify `task_type` "
          "and `task_id`."}),
      Tf(Task("{}"), {"you must also specify `task_type` and `task_id`."}),
      Tf(Task(R"({"type": "worker"})"), {"you must also specify"}),
      Tf(Task(R"({"index": 0})"), {"you must also specify"}),
      Tf(Task("null"), {"task: is null, must be an object"}),
      Tf("'{\"cluster\": {\"worker\": [\"a:1\"]}}'",
         {"begins with a quote (')", "docker compose", "remove"}),
      Tf("\"{\\\"cluster\\\": {}}\"", {"begins with a quote (\")"}),
      Tf(Task("0"), {"task: is a number"}),
      Tf(Task(R"({"type": 1, "index": 0})"),
         {"task: type is a number, must be a string"}),
      Tf(Task(R"({"type": "boss", "index": 0})"),
         {"task: type", "Unrecognized task_type: 'boss', valid task types"}),
      Tf(Task(R"({"type": "ps", "index": 0})"), {"no parameter servers"}),
      Tf(Task(R"({"type": "chief", "index": 0})"),
         {"`task_type` 'chief' not found in cluster_spec."}),
      Tf(Task(R"({"type": "worker", "index": 2})"),
         {"The `task_id` 2 exceeds the maximum id of worker.",
          "the last is 1"}),
      Tf(Task(R"({"type": "worker", "index": 1000000000})"),
         {"The `task_id` 1000000000 exceeds the maximum id of worker."}),
      Tf(Task(R"({"type": "evaluator", "index": 1})"),
         {"The `task_id` 1 exceeds the maximum id of evaluator."}),
      Tf(Task(R"({"type": "worker", "index": -1})"),
         {"task: index is a number that is negative"}),
      Tf(Task(R"({"type": "worker", "index": 0.5})"), {"task: index"}),
      Tf(Task(R"({"type": "worker", "index": 1e300})"), {"task: index"}),
      Tf(Task(R"({"type": "worker", "index": 1e999})"), {"task: index"}),
      Tf(Task(R"({"type": "worker", "index": true})"),
         {"task: index is a boolean"}),
      Tf(Task(R"({"type": "worker", "index": null})"), {"task: index is null"}),
      Tf(Task(R"({"type": "worker", "index": "one"})"),
         {"task: index is 'one'", "whole number from 0"}),
      Tf(Task(R"({"type": "worker", "index": ""})"), {"task: index is ''"}),
      Tf(Task(R"({"type": "worker", "index": " 1"})"), {"task: index is ' 1'"}),
      Tf(Task(R"({"type": "worker", "index": 0, "index": 1})"),
         {"the key \"index\" is in \"task\" twice"}),
      Tf(R"({"task": {"type": "worker", "index": 1}})",
         {"task: index is 1 but there is no cluster"}),
      Tf(R"({"task": {"type": "worker", "index": 0}})",
         {"task: index is 0 but there is no cluster", "leave \"task\" out"}),
      Tf(R"({"task": {"index": 0}, "environment": "x"})",
         {"there is no cluster"}),
      Tf(R"({"clutser": {"worker": ["a:1"]}, "task": {"index": 0}})",
         {"no \"cluster\", and 'clutser' is not known", "rename it"}),
      Tf(R"({"sparseCluster": {"worker": ["a:1"]}})",
         {"'sparseCluster' is not known", "set TF_CONFIG to {}"}),
      Tf(R"({"task": {"type": "ps", "index": 0}})", {"no parameter servers"}),
  });
}

// --- Slurm -------------------------------------------------------------------

Pairs Slurm(const std::string& rank, const std::string& tasks,
            const std::string& nodes, const Pairs& more = {}) {
  Pairs all = {{"SLURM_PROCID", rank},
               {"SLURM_NTASKS", tasks},
               {"SLURM_JOB_NODELIST", nodes}};
  for (const auto& pair : more) all[pair.first] = pair.second;
  return all;
}

TEST(SlurmTest, NodeList_BracketRanges_KeepTheirZeros) {
  const ClusterConfig config = Resolve(Slurm("2", "4", "node[01-03,7]"));
  EXPECT_EQ(Addresses(config), (Strings{"node01:8888", "node02:8888",
                                        "node03:8888", "node7:8888"}));
  EXPECT_EQ(config.worker, 2);
  EXPECT_EQ(config.task_index, 2);
  EXPECT_EQ(config.task_type, "worker");
  EXPECT_FALSE(config.is_chief);
}

TEST(SlurmTest, NodeList_AnyForm_GivesTheHosts) {
  EXPECT_EQ(Addresses(Resolve(Slurm("0", "1", "n1"))), Strings{"n1:8888"});
  EXPECT_EQ(Addresses(Resolve(Slurm("0", "5", "a,b[9-10]-x,c[1,3].org"))),
            (Strings{"a:8888", "b9-x:8888", "b10-x:8888", "c1.org:8888",
                     "c3.org:8888"}));
  EXPECT_EQ(Addresses(Resolve(Slurm("0", "4", "r[1-2]n[0-1]"))),
            (Strings{"r1n0:8888", "r1n1:8888", "r2n0:8888", "r2n1:8888"}));
  EXPECT_EQ(Resolve(Slurm("0", "1024", "n[0000-1023]")).addresses[1023].host,
            "n1023");
}

TEST(SlurmTest, Ranks_OfOneNode_TakePortsInTurn) {
  EXPECT_EQ(
      Addresses(Resolve(Slurm("4", "5", "n[1-2]", {{"RINGLET_PORT", "100"}}))),
      (Strings{"n1:100", "n1:101", "n1:102", "n2:100", "n2:101"}));
  EXPECT_EQ(Addresses(Resolve(Slurm("0", "7", "n[1-4]",
                                    {{"SLURM_TASKS_PER_NODE", "2(x3),1"}}))),
            (Strings{"n1:8888", "n1:8889", "n2:8888", "n2:8889", "n3:8888",
                     "n3:8889", "n4:8888"}));
  EXPECT_EQ(Addresses(Resolve(Slurm("0", "4", "n[1-2]",
                                    {{"SLURM_TASKS_PER_NODE", "3,1"},
                                     {"SLURM_DISTRIBUTION", "cyclic:block"}}))),
            (Strings{"n1:8888", "n2:8888", "n1:8889", "n1:8890"}));
}

// The script of docs/porting.md: --nodes=4 --ntasks-per-node=1.
TEST(SlurmTest, Ranks_OneTaskANode_AreAsInTheDocs) {
  const ClusterConfig config =
      Resolve(Slurm("3", "4", "board[1-4]",
                    {{"SLURM_TASKS_PER_NODE", "1(x4)"},
                     {"SLURM_STEP_NUM_TASKS", "4"},
                     {"SLURM_STEP_NODELIST", "board[1-4]"},
                     {"SLURM_STEP_TASKS_PER_NODE", "1(x4)"},
                     {"SLURM_DISTRIBUTION", "cyclic"},
                     {"RINGLET_PORT", "12345"}}));
  EXPECT_EQ(Addresses(config), (Strings{"board1:12345", "board2:12345",
                                        "board3:12345", "board4:12345"}));
  EXPECT_EQ(config.worker, 3);
}

TEST(SlurmTest, Step_HasValuesOfItsOwn_TheyComeFirst) {
  EXPECT_EQ(Addresses(Resolve(Slurm("1", "8", "n[1-8]",
                                    {{"SLURM_TASKS_PER_NODE", "1(x8)"},
                                     {"SLURM_STEP_NUM_TASKS", "2"},
                                     {"SLURM_STEP_NODELIST", "n[3-4]"},
                                     {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                     {"SLURM_DISTRIBUTION", "block"}}))),
            (Strings{"n3:8888", "n4:8888"}));
}

TEST(SlurmTest, Variables_Wrong_ErrorNamesThem) {
  const auto with = [](const Pairs& more) {
    return Slurm("0", "2", "n[1-2]", more);
  };
  ExpectRefused({
      {{{"SLURM_PROCID", "0"}}, {"SLURM_NTASKS is not set", "Slurm"}},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}},
       {"SLURM_JOB_NODELIST is not set"}},
      {Slurm("", "2", "n[1-2]"), {"SLURM_PROCID is empty"}},
      {Slurm("x", "2", "n[1-2]"), {"SLURM_PROCID is 'x'", "number"}},
      {Slurm("-1", "2", "n[1-2]"), {"SLURM_PROCID is '-1'"}},
      {Slurm("2", "2", "n[1-2]"), {"SLURM_PROCID is 2", "SLURM_NTASKS is 2"}},
      {Slurm("0", "0", "n[1-2]"), {"SLURM_NTASKS is '0'", "from 1 to 1024"}},
      {Slurm("0", "1025", "n[1-2]"), {"SLURM_NTASKS is '1025'"}},
      {Slurm("0", "2", "n[1-2"), {"SLURM_JOB_NODELIST", "do not pair"}},
      {Slurm("0", "2", "n1-2]"), {"SLURM_JOB_NODELIST", "do not pair"}},
      {Slurm("0", "2", "n[[1-2]]"), {"do not pair"}},
      {Slurm("0", "2", "n[]"), {"rising ranges"}},
      {Slurm("0", "2", "n[2-1]"), {"rising ranges"}},
      {Slurm("0", "2", "n[1-]"), {"rising ranges"}},
      {Slurm("0", "2", "n[a-b]"), {"rising ranges"}},
      {Slurm("0", "2", "n[1,,2]"), {"rising ranges"}},
      {Slurm("0", "2", "n[1-99999999999]"), {"rising ranges"}},
      {Slurm("0", "2", "n[0-999999999]"), {"more than 1024 hosts"}},
      {Slurm("0", "2", "n[0-999][0-999]"), {"more than 1024 hosts"}},
      {Slurm("0", "2", "n1,,n2"), {"a comma too many"}},
      {Slurm("0", "2", "n1,"), {"a comma too many"}},
      {Slurm("0", "2", ","), {"a comma too many"}},
      {Slurm("0", "2", "a b,c"), {"SLURM_JOB_NODELIST", "'a b' is not a name"}},
      {Slurm("0", "2", "n[1-3]"), {"fewer than the 3 nodes"}},
      {with({{"SLURM_TASKS_PER_NODE", "2"}}),
       {"SLURM_TASKS_PER_NODE is '2', 2 tasks on 1 nodes", "srun"}},
      {with({{"SLURM_TASKS_PER_NODE", "1(x3)"}}), {"3 tasks on 3 nodes"}},
      {with({{"SLURM_TASKS_PER_NODE", "1(x"}}), {"2(x3),1"}},
      {with({{"SLURM_TASKS_PER_NODE", "1(x)"}}), {"2(x3),1"}},
      {with({{"SLURM_TASKS_PER_NODE", "(x2)"}}), {"2(x3),1"}},
      {with({{"SLURM_TASKS_PER_NODE", "1(x9999)"}}), {"2(x3),1"}},
      {with({{"SLURM_TASKS_PER_NODE", "1,,1"}}), {"2(x3),1"}},
      {with({{"SLURM_DISTRIBUTION", "plane=2"}}),
       {"SLURM_DISTRIBUTION is 'plane=2'", "block"}},
      {with({{"RINGLET_PORT", "0"}}), {"RINGLET_PORT is '0'", "1 to 65535"}},
      {with({{"RINGLET_PORT", "http"}}), {"RINGLET_PORT is 'http'"}},
      {Slurm("0", "9", "n1", {{"RINGLET_PORT", "65530"}}),
       {"ports above 65535", "RINGLET_PORT"}},
  });
}

// --- MPI ---------------------------------------------------------------------

Pairs OpenMpi(const std::string& rank, const std::string& size,
              const Pairs& more = {}) {
  Pairs all = {{"OMPI_COMM_WORLD_RANK", rank}, {"OMPI_COMM_WORLD_SIZE", size}};
  for (const auto& pair : more) all[pair.first] = pair.second;
  return all;
}

TEST(MpiTest, Hosts_ByRankOrByMachine_GiveTheAddresses) {
  EXPECT_EQ(Addresses(Resolve(OpenMpi("1", "2", {{"RINGLET_HOSTS", "a,b"}}))),
            (Strings{"a:8888", "b:8888"}));
  const ClusterConfig blocks =
      Resolve(OpenMpi("3", "4", {{"RINGLET_HOSTS", "a,b"}}));
  EXPECT_EQ(Addresses(blocks),
            (Strings{"a:8888", "a:8889", "b:8888", "b:8889"}));
  EXPECT_EQ(blocks.worker, 3);
  EXPECT_EQ(Addresses(Resolve(
                OpenMpi("0", "3", {{"RINGLET_HOSTS", "a:1,a:2,[::1]:3"}}))),
            (Strings{"a:1", "a:2", "[::1]:3"}));
  EXPECT_EQ(
      Addresses(Resolve(
          OpenMpi("0", "4", {{"RINGLET_HOSTS", "10.0.0.[1-2],[fe80::1],n"}}))),
      (Strings{"10.0.0.1:8888", "10.0.0.2:8888", "[fe80::1]:8888", "n:8888"}));
  EXPECT_EQ(
      Addresses(Resolve(
          {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"RINGLET_HOSTS", "a"}})),
      Strings{"a:8888"});
}

TEST(MpiTest, Ranks_OfOneMachine_NeedNoList) {
  EXPECT_EQ(Addresses(Resolve(
                OpenMpi("1", "2", {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}))),
            (Strings{"127.0.0.1:8888", "127.0.0.1:8889"}));
  EXPECT_EQ(Resolve(OpenMpi("0", "1")).world_size, 1);
  EXPECT_EQ(Addresses(Resolve({{"PMI_RANK", "1"},
                               {"PMI_SIZE", "2"},
                               {"MPI_LOCALNRANKS", "2"},
                               {"RINGLET_PORT", "5"}})),
            (Strings{"127.0.0.1:5", "127.0.0.1:6"}));
}

TEST(MpiTest, Mpirun_InsideASlurmJob_Decides) {
  Pairs all = Slurm("0", "2", "n[1-2]");
  all["OMPI_COMM_WORLD_RANK"] = "3";
  all["OMPI_COMM_WORLD_SIZE"] = "4";
  all["RINGLET_HOSTS"] = "a,b,c,d";
  EXPECT_EQ(Resolve(all).worker, 3);
}

TEST(MpiTest, Pmi_OfSlurmItself_IsLeftToSlurm) {
  Pairs all = Slurm("1", "2", "n[1-2]");
  all["PMI_RANK"] = "1";
  all["PMI_SIZE"] = "2";
  EXPECT_EQ(Addresses(Resolve(all)), (Strings{"n1:8888", "n2:8888"}));
}

TEST(MpiTest, Variables_Wrong_ErrorNamesThem) {
  const auto hosts = [](const std::string& list) {
    return OpenMpi("0", "4", {{"RINGLET_HOSTS", list}});
  };
  ExpectRefused({
      {{{"OMPI_COMM_WORLD_RANK", "0"}}, {"OMPI_COMM_WORLD_SIZE is not set"}},
      {{{"OMPI_COMM_WORLD_SIZE", "2"}}, {"OMPI_COMM_WORLD_RANK is not set"}},
      {{{"PMI_RANK", "0"}}, {"PMI_SIZE is not set"}},
      {OpenMpi("4", "4"), {"OMPI_COMM_WORLD_RANK is 4"}},
      {OpenMpi("1.5", "4"), {"OMPI_COMM_WORLD_RANK is '1.5'"}},
      {OpenMpi("0", "4"), {"RINGLET_HOSTS is not set", "4 ranks"}},
      {OpenMpi("0", "4", {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
       {"RINGLET_HOSTS is not set"}},
      {OpenMpi("0", "4", {{"OMPI_COMM_WORLD_LOCAL_SIZE", "two"}}),
       {"OMPI_COMM_WORLD_LOCAL_SIZE is 'two'"}},
      {hosts(""), {"RINGLET_HOSTS is empty"}},
      {hosts("a,b,c"), {"RINGLET_HOSTS has 3 hosts for 4 ranks"}},
      {hosts("a,b,c,d,e"), {"RINGLET_HOSTS has 5 hosts for 4 ranks"}},
      {hosts("a:1,b:1"), {"RINGLET_HOSTS: 'a:1'", "2 ranks"}},
      {hosts("a:1,b:1,c:1,d"), {"RINGLET_HOSTS: 'd'", "with every host"}},
      {hosts("a:1,b:1,c:1,a:1"), {"RINGLET_HOSTS", "a:1 is given twice"}},
      {hosts("a:1,b:1,c:1,d:0"), {"RINGLET_HOSTS", "'d:0'"}},
      {hosts("a b,c"), {"RINGLET_HOSTS", "not a name"}},
      {hosts("fe80::1,b"), {"RINGLET_HOSTS", "'fe80::1'"}},
      {hosts("[::1"), {"RINGLET_HOSTS"}},
  });
}

// --- torchrun ----------------------------------------------------------------

Pairs Torchrun(const std::string& rank, const std::string& size,
               const std::string& host, const Pairs& more = {}) {
  Pairs all = {{"RANK", rank},
               {"WORLD_SIZE", size},
               {"MASTER_ADDR", host},
               {"MASTER_PORT", "29500"}};
  for (const auto& pair : more) all[pair.first] = pair.second;
  return all;
}

TEST(TorchrunTest, Ports_OneHost_FollowTheMasters) {
  EXPECT_EQ(Addresses(Resolve(Torchrun("1", "2", "localhost"))),
            (Strings{"localhost:29501", "localhost:29502"}));
  const ClusterConfig config =
      Resolve(Torchrun("1", "2", "Box", {{"LOCAL_WORLD_SIZE", "2"}}));
  EXPECT_EQ(Addresses(config), (Strings{"box:29501", "box:29502"}));
  EXPECT_EQ(config.worker, 1);
  EXPECT_FALSE(config.is_chief);
  EXPECT_EQ(Addresses(Resolve(Torchrun("0", "1", "::1"))),
            Strings{"[::1]:29501"});
}

TEST(TorchrunTest, Hosts_Several_AreListed) {
  EXPECT_EQ(Addresses(Resolve(Torchrun(
                "0", "4", "a",
                {{"LOCAL_WORLD_SIZE", "2"}, {"RINGLET_HOSTS", "a,b"}}))),
            (Strings{"a:29501", "a:29502", "b:29501", "b:29502"}));
}

TEST(TorchrunTest, Variables_Wrong_ErrorNamesThem) {
  Pairs no_port = Torchrun("0", "2", "localhost");
  no_port.erase("MASTER_PORT");
  ExpectRefused({
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, {"MASTER_ADDR is not set"}},
      {{{"MASTER_ADDR", "a"}}, {"WORLD_SIZE is not set", "torchrun"}},
      {no_port, {"MASTER_PORT is not set"}},
      {Torchrun("2", "2", "a"), {"RANK is 2", "WORLD_SIZE is 2"}},
      {Torchrun("", "2", "a"), {"RANK is empty"}},
      {Torchrun("0", "two", "a"), {"WORLD_SIZE is 'two'"}},
      {Torchrun("0", "2", "a!"), {"MASTER_ADDR", "'a!' is not a name"}},
      {Torchrun("0", "2", "a"), {"RINGLET_HOSTS is not set", "several hosts"}},
      {Torchrun("0", "2", "127.example.org"), {"RINGLET_HOSTS is not set"}},
      {Torchrun("0", "4", "localhost", {{"LOCAL_WORLD_SIZE", "2"}}),
       {"RINGLET_HOSTS is not set"}},
      {Torchrun("0", "2", "localhost", {{"LOCAL_WORLD_SIZE", "0"}}),
       {"LOCAL_WORLD_SIZE is '0'"}},
      {Torchrun("0", "2", "localhost", {{"MASTER_PORT", "65536"}}),
       {"MASTER_PORT is '65536'"}},
      {Torchrun("0", "3", "localhost", {{"MASTER_PORT", "65533"}}),
       {"MASTER_PORT", "ports above 65535"}},
  });
}

// --- Kubernetes --------------------------------------------------------------

Pairs Pods(const std::string& size, const std::string& service,
           const Pairs& more = {}) {
  Pairs all = {{"RINGLET_WORLD_SIZE", size}, {"RINGLET_SERVICE", service}};
  for (const auto& pair : more) all[pair.first] = pair.second;
  return all;
}

TEST(KubernetesTest, Rank_OfAPod_EqualsItsOrdinal) {
  const ClusterConfig config =
      Resolve(Pods("3", "mnist.lab.svc.cluster.local"), "mnist-train-2");
  EXPECT_EQ(Addresses(config),
            (Strings{"mnist-train-0.mnist.lab.svc.cluster.local:8888",
                     "mnist-train-1.mnist.lab.svc.cluster.local:8888",
                     "mnist-train-2.mnist.lab.svc.cluster.local:8888"}));
  EXPECT_EQ(config.worker, 2);
  EXPECT_FALSE(config.is_chief);
  const ClusterConfig first =
      Resolve(Pods("1", "svc", {{"RINGLET_PORT", "7"}}), "w-0.svc.lab.local");
  EXPECT_EQ(Addresses(first), Strings{"w-0.svc:7"});
  EXPECT_TRUE(first.is_chief);
}

// Kubernetes sets it beside a service that is named ringlet.
TEST(KubernetesTest, Port_LinkOfAServiceNamedRinglet_IsPassedOver) {
  for (const char* link : {"tcp://10.0.171.239:80", "udp://[fd00::7]:80"}) {
    const Pairs set = {{"RINGLET_PORT", link},
                       {"RINGLET_SERVICE_HOST", "10.0.171.239"},
                       {"RINGLET_SERVICE_PORT", "80"}};
    EXPECT_EQ(Addresses(Resolve(Pods("1", "svc", set), "w-0")),
              Strings{"w-0.svc:8888"});
  }
}

TEST(KubernetesTest, Variables_Wrong_ErrorNamesThem) {
  ExpectRefused({
      {{{"RINGLET_WORLD_SIZE", "2"}}, {"RINGLET_SERVICE is not set"}, "w-0"},
      {{{"RINGLET_SERVICE", "s"}}, {"RINGLET_WORLD_SIZE is not set"}, "w-0"},
      {Pods("0", "s"), {"RINGLET_WORLD_SIZE is '0'"}, "w-0"},
      {Pods("2", ""), {"RINGLET_SERVICE is empty"}, "w-0"},
      {Pods("2", "s"), {"'laptop'", "StatefulSet"}},
      {Pods("2", "s"), {"''", "StatefulSet"}, ""},
      {Pods("2", "s"), {"'w-'"}, "w-"},
      {Pods("2", "s"), {"'-1'"}, "-1"},
      {Pods("2", "s"), {"'w-x1'"}, "w-x1"},
      {Pods("2", "s"), {"'w-2'", "RINGLET_WORLD_SIZE is 2", "replicas"}, "w-2"},
      {Pods("2", "s"), {"'w-99999999999'"}, "w-99999999999"},
      {Pods("2", "a b"), {"RINGLET_SERVICE", "not a name"}, "w-1"},
      {Pods("2", "s:80"), {"RINGLET_SERVICE"}, "w-1"},
      {Pods("2", "s", {{"RINGLET_PORT", "65536"}}),
       {"RINGLET_PORT is '65536'"},
       "w-1"},
  });
}

TEST(EnvironmentTest, Environment_OfTheProcess_HasItsVariablesAndHostName) {
  ASSERT_EQ(setenv("RINGLET_CLUSTER_TEST", "here", 1), 0);
  EXPECT_STREQ(ProcessEnvironment().Get("RINGLET_CLUSTER_TEST"), "here");
  EXPECT_EQ(ProcessEnvironment().Get("RINGLET_CLUSTER_TEST_NOT"), nullptr);
  EXPECT_FALSE(ProcessEnvironment().HostName().empty());
}

}  // namespace
}  // namespace ringlet
