// One worker of a ring, as a process. The process tests kill and stop it, and
// tools/bench.py times it.
//
//   ring_worker RANK ADDRESS,ADDRESS,... COUNT ROUNDS [key=value ...]
//
// Sums COUNT floats ROUNDS times (0: without end). Prints "up" when the ring is
// formed, "made ROUND" after rounds 1, 2, 4, 8 and so on, and one line at the
// end or "failed: why". Its exit code is from ExitCode(). Keys:
//
//   timeout, start      seconds
//   job, dtype          as in RingOptions
//   key=TEXT            the key of the job
//   relay=HOST:PORT
//   tcp=1               no local sockets
//   socket=1            no shared memory
//   implementation=ring|tree
//   pause               milliseconds between two rounds
//   until=FILE          ends after the round in which rank 0 finds FILE
//   hold=FILE           at the end keeps the ring until FILE exists
//   abort               the round in which this rank aborts
//   quit=1              with abort: the process ends there
//   reform=1            after a loss forms the ring again, any number of times;
//                       all ranks continue from the greatest round of any rank
//   bench=1|broadcast   prints the seconds of each round in a line (broadcast:
//                       of a broadcast); reads further COUNT and ROUNDS from
//                       stdin, line by line
//   soak=1              checks several sums together, of random lengths up to
//                       COUNT; prints its progress and its resources

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/collective_numbers.h"
#include "core/base/crc32c.h"
#include "net/ring/ring_collective.h"
#include "net/ring/withdrawal.h"
#include "net/wire/wire_dtype.h"

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

struct Ends {
  long abort_round = -1;
  bool quit = false;
  bool reform = false;
  std::string hold, until;
};

bool Exists(const std::string& file) { return access(file.c_str(), F_OK) == 0; }

void HoldUntil(const std::string& file) {
  for (int i = 0; i < 60000 && !Exists(file); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// The greatest round of any rank.
Status AgreeOnRound(Collective* ring, long* round) {
  int64_t mine = *round;
  std::vector<int64_t> all(static_cast<size_t>(ring->size()));
  RINGLET_RETURN_IF_ERROR(
      AllGatherNumbers(ring, &mine, sizeof(mine), 1, all.data()));
  *round = static_cast<long>(*std::max_element(all.begin(), all.end()));
  return Status();
}

// Forms the ring again after a loss, until this succeeds or cannot.
Status FormAgain(Collective* ring, Status lost) {
  while (lost.code() == Code::kPeerLost) {
    std::printf("again: %s\n", lost.message());
    std::fflush(stdout);
    lost = ring->Reform();
  }
  return lost;
}

Status Rounds(Collective* ring, size_t count, long rounds, int pause_ms,
              const Ends& ends) {
  std::vector<float> v(count + 1);  // v[count]: rank 0 ends the job
  const size_t sent = ends.until.empty() ? count : count + 1;
  uint32_t digest = 0;
  bool agreed = !ends.reform;
  for (long round = 0; rounds == 0 || round < rounds; ++round) {
    if (!agreed) {
      const Status status = AgreeOnRound(ring, &round);
      agreed = status.ok();
      if (!agreed) {
        RINGLET_RETURN_IF_ERROR(FormAgain(ring, status));
        --round;
        continue;
      }
    }
    for (size_t i = 0; i < count; ++i) {
      v[i] = static_cast<float>((ring->rank() + 1) * 0.37 + i % 1009 * 0.011);
    }
    v[count] = 0;
    if (sent > count && ring->rank() == 0 && Exists(ends.until)) v[count] = 1;
    ring->SetStep(round);
    if (round == ends.abort_round) {
      Collective::Ticket ticket;  // a long vector is under way
      RINGLET_RETURN_IF_ERROR(ring->StartAllReduce(v.data(), count, &ticket));
      ring->Abort(Corruption("record 17 is damaged"));
      if (ends.quit) _exit(9);
    }
    const Status status = ring->AllReduce(v.data(), sent);
    if (ends.reform && status.code() == Code::kPeerLost) {
      RINGLET_RETURN_IF_ERROR(FormAgain(ring, status));
      agreed = false;
      --round;
      continue;
    }
    RINGLET_RETURN_IF_ERROR(status);
    digest = Crc32c(v.data(), count * sizeof(float), digest);
    if (v[count] != 0) break;
    const long made = round + 1;
    if ((made & (made - 1)) == 0) {
      std::printf("made %ld\n", made);
      std::fflush(stdout);
    }
    if (pause_ms > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    }
  }
  std::printf("digest %08" PRIx32 "\n", digest);
  std::fflush(stdout);
  if (!ends.hold.empty()) HoldUntil(ends.hold);
  return Status();
}

void Time(Collective* ring, size_t count, long rounds, bool broadcast,
          Status* status) {
  using Clock = std::chrono::steady_clock;
  std::vector<float> v(count);
  for (long round = 0; round < rounds && status->ok(); ++round) {
    *status = ring->Barrier();
    const Clock::time_point start = Clock::now();
    if (status->ok()) {
      *status = broadcast ? ring->Broadcast(v.data(), count * sizeof(float), 0)
                          : ring->AllReduce(v.data(), count);
    }
    std::printf("%.9f ",
                std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::printf("\n");
  std::fflush(stdout);
}

Status Bench(Collective* ring, size_t count, long rounds, bool broadcast) {
  Status status;
  if (rounds > 0) Time(ring, count, rounds, broadcast, &status);
  while (status.ok() && std::scanf("%zu %ld", &count, &rounds) == 2) {
    Time(ring, count, rounds, broadcast, &status);
  }
  return status;
}

// Prints the numbers that grow with a leak: resident kilobytes and open
// descriptors.
void PrintHeld(long round) {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  int descriptors = 0;
  for (int fd = 0; fd < 1024; ++fd) descriptors += fcntl(fd, F_GETFD) >= 0;
  std::printf("round %ld: %ld kB, %d descriptors\n", round,
              pages * (sysconf(_SC_PAGESIZE) / 1024), descriptors);
  std::fflush(stdout);
}

// Small whole numbers, so that the sums are exact.
float SoakValue(int rank, long round, size_t i) {
  return static_cast<float>((rank + 1) * (1 + (round + i) % 7));
}

Status Soak(Collective* ring, size_t most, long rounds) {
  std::mt19937 random(1);  // the same on every rank
  const int all = ring->size() * (ring->size() + 1) / 2;
  std::vector<std::vector<float>> vectors;
  std::vector<Collective::Ticket> tickets;
  for (long round = 0; round < rounds;) {
    const size_t at_once = std::min<long>(1 + random() % 6, rounds - round);
    vectors.resize(std::max(vectors.size(), at_once));
    tickets.resize(at_once);
    for (size_t k = 0; k < at_once; ++k) {
      const double power = static_cast<double>(random()) / 4294967296.0;
      const auto count = static_cast<size_t>(
          std::pow(static_cast<double>(most) + 1, power) - 1);
      vectors[k].resize(count);
      for (size_t i = 0; i < count; ++i) {
        vectors[k][i] = SoakValue(ring->rank(), round, i);
      }
      RINGLET_RETURN_IF_ERROR(
          ring->StartAllReduce(vectors[k].data(), count, &tickets[k]));
    }
    for (size_t k = 0; k < at_once; ++k) {
      RINGLET_RETURN_IF_ERROR(ring->Wait(tickets[k]));
      for (size_t i = 0; i < vectors[k].size(); ++i) {
        if (vectors[k][i] == all * SoakValue(0, round, i)) continue;
        return Corruption("round %ld: element %zu is %g", round, i,
                          static_cast<double>(vectors[k][i]));
      }
    }
    const long before = round;
    round += static_cast<long>(at_once);
    if (before / 50 != round / 50 || round == rounds) PrintHeld(round);
  }
  return Status();
}

// `withdrawal` sends the error to the other workers after it is printed here.
Status Main(int argc, char** argv, std::unique_ptr<Withdrawal>* withdrawal) {
  if (argc < 5) return InvalidArgument("RANK ADDRESSES COUNT ROUNDS");
  std::map<std::string, std::string> keys;
  for (int i = 5; i < argc; ++i) {
    const std::vector<std::string> pair = SplitAt(argv[i], '=');
    if (pair.size() == 2) keys[pair[0]] = pair[1];
  }
  RingOptions options;
  options.worker = std::atoi(argv[1]);
  options.addresses = SplitAt(argv[2], ',');
  options.insecure = true;  // networks of the tests' own
  if (keys.count("timeout")) {
    options.timeout_seconds = std::atof(keys["timeout"].c_str());
  }
  if (keys.count("start")) {
    options.start_timeout_seconds = std::atof(keys["start"].c_str());
  }
  if (keys.count("job")) options.job = keys["job"];
  if (keys.count("relay")) options.relay = keys["relay"];
  if (keys.count("key")) {
    auto job_keys = std::make_shared<JobKeys>();
    job_keys->count = 1;
    std::strncpy(reinterpret_cast<char*>(job_keys->keys[0].bytes),
                 keys["key"].c_str(), sizeof(JobKey::bytes));
    options.keys = std::move(job_keys);
  }
  options.local_sockets = keys.count("tcp") == 0;
  options.shared_memory = keys.count("socket") == 0;
  if (keys["implementation"] == "ring") {
    options.implementation = RingImplementation::kRing;
  }
  if (keys["implementation"] == "tree") {
    options.implementation = RingImplementation::kTree;
  }
  RINGLET_RETURN_IF_ERROR(WireDtypeFromName(
      keys.count("dtype") ? keys["dtype"] : "float32", &options.wire_dtype));
  std::unique_ptr<Collective> ring;
  Status opened = OpenRing(options, &ring, withdrawal);
  while (keys.count("reform") && opened.code() == Code::kPeerLost) {
    opened = OpenRing(options, &ring, withdrawal);
  }
  RINGLET_RETURN_IF_ERROR(opened);
  std::printf("up\n");
  std::fflush(stdout);
  const size_t count = std::strtoul(argv[3], nullptr, 10);
  const long rounds = std::atol(argv[4]);
  Ends ends;
  if (keys.count("abort")) ends.abort_round = std::atol(keys["abort"].c_str());
  ends.quit = keys.count("quit") > 0;
  ends.reform = keys.count("reform") > 0;
  ends.hold = keys["hold"];
  ends.until = keys["until"];
  const bool broadcast = keys["bench"] == "broadcast";
  const Status status =
      !keys["bench"].empty() ? Bench(ring.get(), count, rounds, broadcast)
      : keys.count("soak")   ? Soak(ring.get(), count, rounds)
                             : Rounds(ring.get(), count, rounds,
                                      std::atoi(keys["pause"].c_str()), ends);
  if (!status.ok()) {  // printed before the ring is closed
    std::printf("failed: %s\n", status.message());
    std::fflush(stdout);
  }
  return status;
}

}  // namespace
}  // namespace ringlet

int main(int argc, char** argv) {
  std::unique_ptr<ringlet::Withdrawal> withdrawal;
  return ringlet::ExitCode(ringlet::Main(argc, argv, &withdrawal));
}
