// LaunchFile: the files by which a service manager or a scheduler starts the
// workers of a job. SshCommand: the command that starts a worker on its host.
//
// Pure. Examples to start from are in docs/porting.md.

#ifndef RINGLET_TOOLS_RINGLET_RUN_LAUNCH_FILES_H_
#define RINGLET_TOOLS_RINGLET_RUN_LAUNCH_FILES_H_

#include <string>
#include <vector>

#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

struct JobToLaunch {
  int workers = 0;
  std::vector<Address> hosts;  // the value of --hosts, empty if it is not given
  std::vector<std::string> command;  // not empty
  std::string folder;                // the folder in which it is to run
  // The file on each host; empty if there is none.
  std::string key_file;
  // SshCommand: SIGKILL follows SIGTERM after this time.
  double grace_seconds = 5;
};

// Each line of `text` has a host, or a host and a port. "#" begins a comment. A
// host without a port gets the first free one from 8888 on. `where` names the
// file.
Status ReadHosts(const std::string& text, const std::string& where,
                 std::vector<Address>* hosts);

// `kind` is systemd, k8s, slurm, compose or ssh.
Status LaunchFile(const std::string& kind, const JobToLaunch& job,
                  std::string* text);

// Runs the job's command on the worker's host, with its environment. The end of
// stdin, also when the connection breaks, is SIGTERM for the command, and
// SIGKILL after grace_seconds.
std::vector<std::string> SshCommand(const JobToLaunch& job, int worker);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_LAUNCH_FILES_H_
