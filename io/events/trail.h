// Trail: a file that keeps a worker's last events, however the worker ends.
//
// Public. The file is memory that the system writes back: what was noted before
// a SIGKILL is there, and costs no system call. After a loss of power it may be
// half a minute old. `ringlet inspect` says what the trails of a job's workers
// tell together; docs/trail.md has the format.

#ifndef RINGLET_IO_EVENTS_TRAIL_H_
#define RINGLET_IO_EVENTS_TRAIL_H_

#include <memory>
#include <string>

#include "../../core/base/clock.h"
#include "../../core/base/status.h"

namespace ringlet {

class Trail {
 public:
  // Keeps the process's events in "<folder>/worker-<worker>.trail" until it is
  // destroyed: one in a process. The folder is made where it is missing; what
  // the file holds of an earlier process of that worker stays until newer
  // events need the place. `address` is for messages. Make it before, and
  // destroy it after, all that computes and talks to other workers. One that
  // `out` holds is destroyed before.
  //   kInvalidArgument  there is another file of that name, one of another
  //                     user, or a trail of another version
  //   kUnavailable      another process keeps its trail there
  //   kAlreadyExists    this process keeps another trail
  static Status Open(const std::string& folder, int worker, int workers,
                     const std::string& address, std::unique_ptr<Trail>* out,
                     Clock* clock = Clock::System());
  virtual ~Trail() = default;
  Trail(const Trail&) = delete;
  Trail& operator=(const Trail&) = delete;

  // How the process ends, for the last event, which the destructor notes; 0
  // where nobody says.
  virtual void Ends(const Status& status, int exit_code) = 0;

 protected:
  Trail() = default;
};

}  // namespace ringlet

#endif  // RINGLET_IO_EVENTS_TRAIL_H_
