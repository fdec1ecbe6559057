// Runs Python programs of a few lines, which read files of ringlet.

#ifndef RINGLET_TESTS_SUPPORT_PYTHON_H_
#define RINGLET_TESTS_SUPPORT_PYTHON_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "temp_folder.h"

namespace ringlet {

constexpr const char* kPython = "/usr/bin/python3";

// NumPy's sign of this program's byte order. Python's may be another sign: an
// emulated program's tests run the machine's own Python.
constexpr const char* kByteOrder =
    __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? ">" : "<";

inline bool HavePython() { return access(kPython, X_OK) == 0; }

// A program of tests/, as the shell takes it in a folder of any name.
inline std::string Script(const std::string& name) {
  return "'" + EnvironmentOr("RINGLET_SOURCE", ".") + "/tests/" + name + "' ";
}

// Returns the lines that `python3 arguments` prints. Its failure fails the
// test.
inline std::vector<std::string> RunPython(const std::string& arguments) {
  FILE* pipe = popen((std::string(kPython) + " " + arguments).c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "popen";
    return {};
  }
  std::string out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    out.append(buffer, n);
  }
  EXPECT_EQ(pclose(pipe), 0) << arguments << "\n" << out;
  std::vector<std::string> lines;
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the lines of tests/read_events.py for all files of `folder`, by name.
inline std::vector<std::string> ReadEvents(const std::string& folder) {
  return RunPython(Script("read_events.py") + folder +
                   "/events.out.tfevents.*");
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_PYTHON_H_
