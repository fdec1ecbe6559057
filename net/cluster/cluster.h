// ClusterConfig: who takes part in a job, and which of them this process is.
//
// Public. Read from the environment, so that the launcher, a cluster scheduler
// or two terminals start the same program unchanged. The first of these that
// is present decides:
//
// 1. TF_CONFIG, as TensorFlow reads it:
//      {"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"],
//                   "evaluator": ["d:2222"]},
//       "task": {"type": "worker", "index": 0}}
//    A job is a list of addresses or an object {"0": "b:2222", "1": ...} with
//    every index from 0. `index` is a number or a string of digits. Other keys
//    are ignored, with a warning on stderr where there is no "cluster". {} asks
//    for one worker alone, whatever else is set.
// 2. torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. Ranks on one host
//    (LOCAL_WORLD_SIZE is WORLD_SIZE, or MASTER_ADDR is a loopback address)
//    take MASTER_PORT + 1 + rank, since torchrun itself listens on
//    MASTER_PORT; several hosts are given by RINGLET_HOSTS.
// 3. MPI: OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), or PMI_RANK and PMI_SIZE
//    (MPICH and relatives). Hosts by RINGLET_HOSTS, which may be left out
//    where all ranks run on one host (OMPI_COMM_WORLD_LOCAL_SIZE or
//    MPI_LOCALNRANKS says so). PMI under Slurm with Slurm's own rank and size
//    is left to 4.
// 4. Slurm (srun): SLURM_PROCID, SLURM_NTASKS, SLURM_JOB_NODELIST and where
//    set the step's own SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST,
//    SLURM_STEP_TASKS_PER_NODE or SLURM_TASKS_PER_NODE ("2(x3),1"; equal
//    blocks otherwise), SLURM_DISTRIBUTION (block or cyclic).
// 5. Kubernetes: a StatefulSet's pod, host name NAME-<ordinal>, with
//    RINGLET_WORLD_SIZE and RINGLET_SERVICE (the headless service); rank i is
//    at NAME-i.SERVICE.
// None: one worker alone, without an address.
//
// RINGLET_HOSTS names hosts in rank order, "a,b" or "node[01-03,7]": one for
// each rank, each with a port of its own (a:2222) or without, or one for each
// machine, whose ranks then are consecutive and equally many. RINGLET_PORT
// (8888 where unset) is the port of a host's first rank in 3 to 5, the next
// rank of that host takes the next.

#ifndef RINGLET_NET_CLUSTER_CLUSTER_H_
#define RINGLET_NET_CLUSTER_CLUSTER_H_

#include <string>
#include <vector>

#include "../../core/base/status.h"

namespace ringlet {

constexpr int kMaxWorldSize = 1024;

struct Address {
  std::string host;  // a name in lower case, or IPv4 or IPv6 as inet_ntop
  int port = 0;      // 1..65535
  bool operator==(const Address& other) const {
    return host == other.host && port == other.port;
  }
};

// "host:port", "1.2.3.4:port" or "[v6]:port" (with a zone: "[fe80::1%eth0]").
// Names are not looked up. kInvalidArgument: not of this form, or an address
// that no peer could connect to (0.0.0.0, [::]).
Status ParseAddress(const std::string& text, Address* address);
std::string ToString(const Address& address);

struct ClusterConfig {
  // By rank: the chief, if there is one, then the workers. Empty where this
  // process is alone and has no address.
  std::vector<Address> addresses;
  int rank = 0;
  // Chief and workers. 1 for an evaluator, which is a cluster of its own.
  int world_size = 1;
  std::string task_type = "worker";  // or "chief" or "evaluator"
  int task_index = 0;
  // Writes checkpoints and summaries, and its initial values are everyone's:
  // the chief, worker 0 where there is no chief, or an evaluator.
  bool is_chief = true;
  bool is_evaluator = false;
};

// The seam to the process's environment.
class Environment {
 public:
  virtual ~Environment() = default;
  // The variable's value, or null where it is not set. Valid until the
  // environment changes.
  virtual const char* Get(const char* name) const = 0;
  virtual std::string HostName() const = 0;

  static const Environment& Process();  // getenv and gethostname
};

// As described above. Errors are kInvalidArgument and name the variable, the
// field and what to do; *config is then unchanged.
Status ClusterFromEnvironment(const Environment& environment,
                              ClusterConfig* config);

}  // namespace ringlet

#endif  // RINGLET_NET_CLUSTER_CLUSTER_H_
