// How much memory something takes at its peak.

#ifndef RINGLET_TESTS_SUPPORT_PEAK_MEMORY_H_
#define RINGLET_TESTS_SUPPORT_PEAK_MEMORY_H_

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ringlet {

// Runs `body` in a process of its own. Returns the KiB that became resident.
template <typename Body>
long PeakKiB(const Body& body) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    // Meson's MALLOC_PERTURB_ would make all that is allocated resident.
    mallopt(M_PERTURB, 0);
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    body();
    getrusage(RUSAGE_SELF, &after);
    const long grown = after.ru_maxrss - before.ru_maxrss;
    _exit(write(ends[1], &grown, sizeof(grown)) == sizeof(grown) ? 0 : 1);
  }
  close(ends[1]);
  long grown = -1;
  EXPECT_EQ(read(ends[0], &grown, sizeof(grown)),
            static_cast<ssize_t>(sizeof(grown)));
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return grown;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_PEAK_MEMORY_H_
