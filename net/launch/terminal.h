// Terminals: the properties of a descriptor, and a pseudo-terminal for a
// worker.

#ifndef RINGLET_NET_LAUNCH_TERMINAL_H_
#define RINGLET_NET_LAUNCH_TERMINAL_H_

namespace ringlet {

int TerminalColumns(int fd);  // 80 if unknown

// True if bytes written to both appear in one place.
bool SameTerminal(int a, int b);

// Opens a pseudo-terminal with the number of columns of `like`, which passes
// bytes on unchanged: ends[0] reads the bytes written to ends[1]. The caller
// closes both. False if there is none.
bool OpenPseudoTerminal(int like, int* ends);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_TERMINAL_H_
