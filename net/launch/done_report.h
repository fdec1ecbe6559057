// ReportDone: a worker reports to its launcher that its part of the job is
// done.
//
// All workers of a job share a pipe, with its number in the environment. The
// report is a byte, the worker's index. Work after it, such as removing
// backups, may take long and changes no result. A worker without a report may
// be stalled, or continue alone.

#ifndef RINGLET_NET_LAUNCH_DONE_REPORT_H_
#define RINGLET_NET_LAUNCH_DONE_REPORT_H_

namespace ringlet {

constexpr char kLauncherPipeVariable[] = "RINGLET_LAUNCHER_PIPE";

// Does nothing without a launcher that reads reports.
void ReportDone(int worker);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_DONE_REPORT_H_
