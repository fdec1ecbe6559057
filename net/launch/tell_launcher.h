// TellLauncher: a worker says to the launcher that started it that its part of
// the job is done.
//
// Internal to net/ and tools/. By a pipe that all workers of a job share, whose
// number is in the environment: a byte, the worker's index. What a worker does
// behind it, as to remove its backups, may take long and leaves the work as it
// is; one that has not said so may stand still, or go on alone.

#ifndef RINGLET_NET_LAUNCH_TELL_LAUNCHER_H_
#define RINGLET_NET_LAUNCH_TELL_LAUNCHER_H_

namespace ringlet {

constexpr char kLauncherPipeVariable[] = "RINGLET_LAUNCHER_PIPE";

// Nothing where no launcher asks for it.
void TellLauncher(int worker);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_TELL_LAUNCHER_H_
