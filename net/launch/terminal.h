// Terminals: what a descriptor is, and one of our own for a worker.
//
// Internal to net/.

#ifndef RINGLET_NET_LAUNCH_TERMINAL_H_
#define RINGLET_NET_LAUNCH_TERMINAL_H_

namespace ringlet {

int TerminalColumns(int fd);  // 80 where it does not say

// Whether what is written to both appears in one place.
bool SameTerminal(int a, int b);

// A pseudo-terminal of as many columns as `like` that passes bytes on as they
// are: ends[0] reads what is written to ends[1]; both are the caller's to
// close. False where there is none to be had, and then nothing is open.
bool OpenPseudoTerminal(int like, int* ends);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_TERMINAL_H_
