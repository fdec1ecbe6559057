// CapturedOutput: the output of this process to stdout and stderr.

#ifndef RINGLET_TESTS_SUPPORT_CAPTURED_OUTPUT_H_
#define RINGLET_TESTS_SUPPORT_CAPTURED_OUTPUT_H_

#include <unistd.h>

#include <cstdio>
#include <string>

#include "contains.h"
#include "eventually.h"

namespace ringlet {

// Redirects stdout and stderr to a file while the object exists. The text can
// be read at any time.
class CapturedOutput {
 public:
  CapturedOutput() {
    std::fflush(stdout);
    dup2(fileno(file_), STDOUT_FILENO);
    dup2(fileno(file_), STDERR_FILENO);
  }
  ~CapturedOutput() {
    std::fflush(stdout);
    dup2(out_, STDOUT_FILENO);
    dup2(err_, STDERR_FILENO);
    close(out_);
    close(err_);
    std::fclose(file_);
  }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  std::string text() const {
    std::string text(1 << 16, '\0');
    const ssize_t n = pread(fileno(file_), text.data(), text.size(), 0);
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return text;
  }
  // Waits until the file has `part` that many `times`. Returns false after five
  // minutes.
  bool AwaitText(const std::string& part, int times = 1) const {
    return Eventually([&] { return CountOccurrences(text(), part) >= times; });
  }

 private:
  std::FILE* const file_ = std::tmpfile();
  const int out_ = dup(STDOUT_FILENO), err_ = dup(STDERR_FILENO);
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_CAPTURED_OUTPUT_H_
