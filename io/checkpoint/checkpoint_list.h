// Lists the checkpoints in a directory: its files, and the text file
// `checkpoint`.
//
// The files are found by their names and verified. The text file is a hint: it
// has the time of each save and the files that max_to_keep counts.

#ifndef RINGLET_IO_CHECKPOINT_CHECKPOINT_LIST_H_
#define RINGLET_IO_CHECKPOINT_CHECKPOINT_LIST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../files/file_system.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr char kBadCheckpointSuffix[] = ".bad";
constexpr char kCheckpointStateName[] = "checkpoint";
constexpr int64_t kMaxCheckpointNumber = int64_t{1} << 53;

std::string CheckpointFileName(const std::string& name, int64_t number);
// 7 of "ckpt-7.safetensors"; 0 of any other name.
int64_t CheckpointNumber(const std::string& file_name, const std::string& name);

struct CheckpointListing {
  std::vector<int64_t> numbers;        // ascending
  std::vector<std::string> set_aside;  // names of files that end in ".bad"
  std::vector<std::string> temporary_files;
  int64_t highest = 0;  // the highest number, also in set_aside
};
Status ListCheckpoints(FileSystem* files, const std::string& directory,
                       const std::string& name, CheckpointListing* listing);

struct NewestCheckpoint {
  int64_t number = 0;  // zero if there is none
  // Newer files, each with its error.
  std::vector<std::pair<int64_t, Status>> damaged;
};
// Finds the newest checkpoint of `listing` that verifies. kCorruption if there
// are files and none verifies; the message has the error of the newest. An
// error of this machine, such as of the disk, is returned immediately.
Status FindNewestCheckpoint(FileSystem* files, const std::string& directory,
                            const std::string& name,
                            const CheckpointListing& listing,
                            NewestCheckpoint* newest);

// The text form of TensorFlow's CheckpointState.
struct CheckpointState {
  std::string latest;
  std::vector<std::string> paths;  // relative, oldest first
  std::vector<double> seconds;     // the time of each save, since 1970
  double last_preserved = 0;

  std::string ToText() const;
  // Ignores `latest` and unknown keys. False if a line has another format.
  static bool Parse(const std::string& text, CheckpointState* state);
  static std::string TimestampText(double seconds);
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_CHECKPOINT_LIST_H_
