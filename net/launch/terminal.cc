#include "terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>

namespace ringlet {

int TerminalColumns(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                              : 80;
}

bool SameTerminal(int a, int b) {
  struct stat info_a, info_b;
  return isatty(a) != 0 && isatty(b) != 0 && fstat(a, &info_a) == 0 &&
         fstat(b, &info_b) == 0 && info_a.st_rdev == info_b.st_rdev;
}

bool OpenPseudoTerminal(int like, int* ends) {
  ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends[0] < 0) return false;
  char name[64];
  ends[1] = -1;
  if (grantpt(ends[0]) == 0 && unlockpt(ends[0]) == 0 &&
      ptsname_r(ends[0], name, sizeof(name)) == 0) {
    ends[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  termios raw;
  if (ends[1] >= 0 && tcgetattr(ends[1], &raw) == 0) {
    cfmakeraw(&raw);
    winsize size = {};
    if (tcsetattr(ends[1], TCSANOW, &raw) == 0) {
      if (ioctl(like, TIOCGWINSZ, &size) == 0) {
        ioctl(ends[1], TIOCSWINSZ, &size);
      }
      return true;
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (ends[i] >= 0) close(ends[i]);
  }
  return false;
}

}  // namespace ringlet
