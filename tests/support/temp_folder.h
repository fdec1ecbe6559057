// A new folder that is removed with its owner, and small functions for files.

#ifndef RINGLET_TESTS_SUPPORT_TEMP_FOLDER_H_
#define RINGLET_TESTS_SUPPORT_TEMP_FOLDER_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ringlet {

class TempFolder {
 public:
  TempFolder() : TempFolder(std::filesystem::temp_directory_path()) {}
  explicit TempFolder(const std::filesystem::path& parent) {
    std::string name = (parent / "ringlet-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  // A file system in memory if there is one: syncing costs nothing there. For
  // tests that kill processes and cut no power.
  static std::filesystem::path InMemory() {
    std::error_code none;
    return std::filesystem::is_directory("/dev/shm", none)
               ? "/dev/shm"
               : std::filesystem::temp_directory_path();
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

inline std::string ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void WriteWhole(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// WriteWhole, for a reader that must find the old bytes or the new ones, never
// an empty file.
inline void ReplaceWhole(const std::string& path, const std::string& bytes) {
  WriteWhole(path + ".new", bytes);
  std::filesystem::rename(path + ".new", path);
}

// The value of an environment variable, by which the build passes paths to a
// test. `other` if the test is run by hand.
inline std::string EnvironmentOr(const char* name, const std::string& other) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : other;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_TEMP_FOLDER_H_
