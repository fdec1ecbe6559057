// Examine: the checks of `ringlet doctor` on one worker.

#ifndef RINGLET_NET_DOCTOR_DOCTOR_H_
#define RINGLET_NET_DOCTOR_DOCTOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../cluster/ring_options.h"
#include "finding.h"
#include "host_checks.h"
#include "ringlet/status.h"

namespace ringlet {

// Every command ends within this time.
constexpr double kDoctorSeconds = 10;

struct DoctorPlan {
  double begun = 0;  // seconds of the monotonic clock as the command began
  RingOptions ring;  // one address or none: no other worker is looked for
  // With a RUN.json:
  bool has_run = false;
  std::string settings;  // what all workers must have in common, in lines
                         // "name\tvalue\n"
  bool same_arithmetic = false;  // see PeerContext
  int64_t threads = 1;
  uint64_t memory = 0;  // bytes, without the data
  // Finds the data; called on a thread that may outlive the command.
  std::function<DataFacts()> find_data;
  struct Folder {
    std::string path, use;
    uint64_t needed = 0;  // bytes of a save
  };
  std::vector<Folder> folders;
};

// Adds a finding for each check. An error: this build has no doctor.
Status Examine(const DoctorPlan& plan, Findings* out);

}  // namespace ringlet

#endif  // RINGLET_NET_DOCTOR_DOCTOR_H_
