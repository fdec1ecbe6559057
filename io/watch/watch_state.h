// WatchState: the position of `ringlet train --watch`, in one file.
//
// The file is a checkpoint (docs/checkpoint_format.md), replaced as one: after
// a kill or a power cut it is the state before or after a save.

#ifndef RINGLET_IO_WATCH_WATCH_STATE_H_
#define RINGLET_IO_WATCH_WATCH_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../files/file_system.h"
#include "ringlet/status.h"

namespace ringlet {

// The number of an example, by the name of its file below the folder and the
// file's length. Two of a million examples have one number with a probability
// of 3e-8; the second would not be trained on.
uint64_t ExampleKey(const std::string& path, int64_t bytes);

// The file of the state, and the file that is locked while a process watches,
// for the model in `model`.
inline std::string WatchStatePath(const std::string& model) {
  return model + ".watch";
}
inline std::string WatchLockPath(const std::string& model) {
  return model + ".watch.lock";
}

struct WatchState {
  // A checksum of the settings that decide which examples are held out.
  uint64_t settings = 0;
  int64_t round = 0;     // the last round that has begun; 0 if there is none
  bool is_open = false;  // that round has not ended
  // A model was installed, by a round or before the first one.
  bool has_model = false;
  // Keys of examples, ascending. `fresh` has the keys that are new in the open
  // round, and `seen` the keys of rounds that have ended.
  std::vector<uint64_t> fresh, seen;

  bool IsFresh(uint64_t key) const;
  bool IsSeen(uint64_t key) const;
  // Begins the next round with these new examples, in any order.
  void OpenRound(std::vector<uint64_t> keys);
  void CloseRound();
  // Ends the open round as if it had not begun, but for its number.
  void AbandonRound();
  // Forgets the seen examples that are not there, if they are more than half of
  // many. (A folder may be away for a while.)
  void DropRemoved(const std::vector<bool>& is_there);
  // Identifies the round by its number and all examples so far. The model's
  // file has it, so that a restart knows whether the round's model was written.
  std::string RoundId() const;
};

Status SaveWatchState(FileSystem* files, const std::string& path,
                      WatchState* state);
// state->settings must be set: a file with other settings is kInvalidArgument.
// kNotFound if there is no file, kCorruption for a damaged one. The file is not
// trusted.
Status LoadWatchState(FileSystem* files, const std::string& path,
                      WatchState* state);

}  // namespace ringlet

#endif  // RINGLET_IO_WATCH_WATCH_STATE_H_
