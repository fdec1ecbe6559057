// Parses texts that are no JSON on several threads, as io and net do. Both use
// cJSON, which only one thread may enter at a time.

#include <cjson/cJSON.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/threads.h"
#include "core/base/json.h"
#include "net/cluster/environment.h"
#include "ringlet/strategy.h"

namespace ringlet {
namespace {

// The thread on which cJSON last allocated memory during a parse.
std::atomic<std::thread::id> parser;
std::atomic<int> overlaps{0}, allocations{0};

void* Take(size_t bytes) {
  const std::thread::id self = std::this_thread::get_id();
  parser = self;
  usleep(200);
  // If another thread has allocated meanwhile, both parse at the same time.
  overlaps += parser.load() != self;
  ++allocations;
  return std::malloc(bytes);
}

class BadTfConfig final : public Environment {
 public:
  const char* Get(const char* name) const override {
    return std::strcmp(name, "TF_CONFIG") == 0 ? "[1, [2, x]]" : nullptr;
  }
  std::string HostName() const override { return "host"; }
};

TEST(JsonTest, Parse_SeveralThreads_RunsOneAtATime) {
  cJSON_Hooks hooks = {Take, std::free};
  cJSON_InitHooks(&hooks);
  RunThreads(4, [&](int i) {
    for (int repeat = 0; repeat < 30; ++repeat) {
      Json json;
      ClusterConfig cluster;
      const Status status =
          i % 2 == 0 ? Json::Parse("[1, [2, x]]", "text", &json)
                     : ClusterFromEnvironment(BadTfConfig(), &cluster);
      EXPECT_TRUE(Contains(status, "column 9"));
    }
  });
  cJSON_InitHooks(nullptr);
  EXPECT_GT(allocations, 4 * 30);
  EXPECT_EQ(overlaps, 0);
}

}  // namespace
}  // namespace ringlet
