// The checks of this worker's own host, as functions of what was observed.
//
// Pure, except GroupMemoryLeft: host_facts.h observes. Each function adds one
// or more findings, with the fix of each fault.

#ifndef RINGLET_NET_DOCTOR_HOST_CHECKS_H_
#define RINGLET_NET_DOCTOR_HOST_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "finding.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr uint64_t kUnlimited = UINT64_MAX;

// The name of a worker, as this host's resolver knows it.
struct NameFacts {
  int worker = 0;
  std::string host;
  bool numeric = false;
  bool answered = true;   // within the limit
  Status status;          // the resolver's error
  bool loopback = false;  // all its addresses are loopback addresses
  // Its first address, without the port; empty if there is none.
  std::string address;
};
// `self` is this worker. A lookup should take at most `seconds`.
void CheckNames(const std::vector<NameFacts>& names, int self, double seconds,
                Findings* out);

struct PortFacts {
  std::string address;  // "host:port" of this worker
  int port = 0;
  Status status;           // the result of binding and listening
  bool holds_job = false;  // a worker of this job answers at the address
};
void CheckPort(const PortFacts& port, Findings* out);

struct CpuFacts {
  int64_t threads = 1;
  int online = 1;    // processors of the host
  int allowed = 1;   // processors that sched_getaffinity permits
  double quota = 0;  // the control group's processors; zero without a quota
};
void CheckCores(const CpuFacts& cpu, Findings* out);

// Bytes that this process may still take.
struct MemoryFacts {
  // Bytes of the model, its data and the program.
  uint64_t needed = 0;
  uint64_t available = kUnlimited;  // bytes of the host: MemAvailable
  uint64_t group = kUnlimited;      // bytes left in the control group
  uint64_t limit = kUnlimited;      // bytes left of RLIMIT_AS
};
void CheckPlannedMemory(const MemoryFacts& memory, Findings* out);

// A folder to which this worker writes.
struct DiskFacts {
  std::string folder, use;  // use: "--save", "BackupAndRestore"
  Status writable;          // the result of making a file there
  uint64_t needed = 0;      // bytes
  uint64_t free_bytes = kUnlimited;
  uint64_t free_files = kUnlimited;
  bool synced = true;       // the test is over
  double sync_seconds = 0;  // the time to sync 1 MB
};
void CheckDisk(const DiskFacts& disk, Findings* out);

// The files of the data. They take `bytes` of memory.
struct DataFacts {
  Status status;  // the result of reading their sizes
  uint64_t bytes = 0;
};

// This process may still open `spare` descriptors, of `limit`.
void CheckDescriptors(int spare, int needed, int64_t limit, Findings* out);

// `seconds` is the time of day, in seconds since 1970.
void CheckDate(int64_t seconds, Findings* out);

// Reads the bytes that the control group of this process may still take,
// without its cache of files; kUnlimited if there is no limit. See GroupFolders
// (core/base/thread.h) for the arguments.
uint64_t GroupMemoryLeft(const std::string& memberships,
                         const std::string& root);

}  // namespace ringlet

#endif  // RINGLET_NET_DOCTOR_HOST_CHECKS_H_
