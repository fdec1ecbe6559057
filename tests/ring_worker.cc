// One worker of a ring, as a process: what the process tests kill and stop, and
// what tools/bench.py times.
//
//   ring_worker RANK ADDRESS,ADDRESS,... COUNT ROUNDS [key=value ...]
//
// Sums COUNT floats ROUNDS times (0: for ever). Prints "up" when the ring is
// formed, one line at the end or "failed: why", and exits as ExitCode() says.
// Keys: timeout, start (seconds), job, tcp=1, implementation=ring|tree, pause
// (milliseconds between two rounds), bench=1 (COUNT and ROUNDS are read from
// stdin, line by line, and each line is answered by the seconds of each round).

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/crc32c.h"
#include "net/ring_collective.h"

namespace ringlet {
namespace {

std::vector<std::string> SplitAt(const std::string& text, char mark) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == mark) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Status Rounds(RingCollective* ring, size_t count, long rounds, int pause_ms) {
  std::vector<float> v(count);
  uint32_t digest = 0;
  for (long round = 0; rounds == 0 || round < rounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      v[i] = static_cast<float>((ring->rank() + 1) * 0.37 + i % 1009 * 0.011);
    }
    ring->SetStep(round);
    RINGLET_RETURN_IF_ERROR(ring->AllReduce(v.data(), count));
    digest = Crc32c(v.data(), count * sizeof(float), digest);
    if (pause_ms > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    }
  }
  std::printf("digest %08" PRIx32 "\n", digest);
  return Status();
}

Status Bench(RingCollective* ring) {
  using Clock = std::chrono::steady_clock;
  std::vector<float> v;
  size_t count = 0;
  long rounds = 0;
  while (std::scanf("%zu %ld", &count, &rounds) == 2) {
    v.assign(count, 0);
    for (long round = 0; round < rounds; ++round) {
      RINGLET_RETURN_IF_ERROR(ring->Barrier());
      const Clock::time_point start = Clock::now();
      RINGLET_RETURN_IF_ERROR(ring->AllReduce(v.data(), count));
      std::printf("%.9f ",
                  std::chrono::duration<double>(Clock::now() - start).count());
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return Status();
}

Status Main(int argc, char** argv) {
  if (argc < 5) return InvalidArgument("RANK ADDRESSES COUNT ROUNDS");
  std::map<std::string, std::string> keys;
  for (int i = 5; i < argc; ++i) {
    const std::vector<std::string> pair = SplitAt(argv[i], '=');
    if (pair.size() == 2) keys[pair[0]] = pair[1];
  }
  RingOptions options;
  options.rank = std::atoi(argv[1]);
  options.addresses = SplitAt(argv[2], ',');
  if (keys.count("timeout")) {
    options.timeout_seconds = std::atof(keys["timeout"].c_str());
  }
  if (keys.count("start")) {
    options.start_timeout_seconds = std::atof(keys["start"].c_str());
  }
  if (keys.count("job")) options.job = keys["job"];
  options.local_sockets = keys.count("tcp") == 0;
  if (keys["implementation"] == "ring") {
    options.implementation = RingImplementation::kRing;
  }
  if (keys["implementation"] == "tree") {
    options.implementation = RingImplementation::kTree;
  }
  std::unique_ptr<RingCollective> ring;
  RINGLET_RETURN_IF_ERROR(RingCollective::Open(options, &ring));
  std::printf("up\n");
  std::fflush(stdout);
  const Status status =
      keys.count("bench")
          ? Bench(ring.get())
          : Rounds(ring.get(), std::strtoul(argv[3], nullptr, 10),
                   std::atol(argv[4]), std::atoi(keys["pause"].c_str()));
  if (!status.ok()) {  // now, not after the ring's goodbyes
    std::printf("failed: %s\n", status.message());
    std::fflush(stdout);
  }
  return status;
}

}  // namespace
}  // namespace ringlet

int main(int argc, char** argv) {
  return ringlet::ExitCode(ringlet::Main(argc, argv));
}
