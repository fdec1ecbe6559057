// The files of a watched folder: which are new examples, and which of them a
// round trains on.
//
// The choices are functions of the seed, the names of the files and which of
// them are damaged, so a round that is repeated has the same files. No choice
// depends on the time of day.

#ifndef RINGLET_IO_WATCH_WATCHED_FILES_H_
#define RINGLET_IO_WATCH_WATCHED_FILES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "watch_state.h"

namespace ringlet {

struct WatchOptions {
  uint64_t seed = 0;
  double validation_split = 0;  // the part of the examples that is held out
  int64_t round_examples = 32;  // new examples that begin a round
  // After this time a round begins with fewer new examples. Zero means never.
  double round_seconds = 0;
  // The most examples of earlier rounds that a round trains on. It evaluates at
  // most as many, but up to kLeastHeldOut in any case.
  int64_t replay = 1000;
  static constexpr int64_t kLeastHeldOut = 100;
  double scan_seconds = 2;  // the least time between two scans

  // A checksum of what decides which examples are held out, for
  // WatchState::settings.
  uint64_t SettingsChecksum() const;
  bool IsHeldOut(const std::string& path) const;
};

struct WatchedFile {
  std::string path;  // below the folder; begins with the folder of its class
  int32_t label = 0;
  int64_t bytes = 0;
  // These times are only compared with earlier times of the same file, since
  // the clock may be wrong.
  int64_t written_ns = 0;
  int64_t changed_ns = 0;  // the last change, also of its permissions

  // Changes when the file is written to, or gets other permissions.
  uint64_t Stamp() const;
};

// A file in a random order by seed and name.
struct OrderedFile {
  uint64_t order = 0;
  WatchedFile file;
  bool operator<(const OrderedFile& other) const;
};

// The results of a process's scans that are not in the durable state.
struct KnownFiles {
  // Stamps of the new files of the last scan, ascending. A file with the same
  // stamp in two scans is complete.
  std::vector<uint64_t> last_scan;
  std::set<uint64_t> damaged;  // stamps of complete files that are not examples
  bool IsDamaged(const WatchedFile& file) const;
};

// The new files of a folder. Files are added in any order, then Finish.
class FolderScan {
 public:
  // All arguments outlive the scan.
  FolderScan(const WatchOptions& options, const WatchState& state,
             const KnownFiles& known);
  void Add(const WatchedFile& file);
  // Returns what is known from now on.
  KnownFiles Finish();

  // The number of new files that were the same in two scans.
  int64_t complete() const { return complete_; }
  // Returns up to round_examples of the complete files. If no earlier example
  // is held out, one of the returned files is a held-out example; without such
  // a file the result is empty.
  std::vector<WatchedFile> Chosen() const;
  // WatchState::DropRemoved needs it.
  const std::vector<bool>& is_there() const { return is_there_; }

 private:
  const WatchOptions& options_;
  const WatchState& state_;
  const KnownFiles& known_;
  KnownFiles found_;
  std::vector<OrderedFile> first_;           // a heap
  std::vector<OrderedFile> first_held_out_;  // has at most one file
  int64_t complete_ = 0;
  bool has_held_out_ = false;  // an example seen is held out
  std::vector<bool> is_there_;
};

struct WatchRound {
  int64_t number = 0;
  std::string id;  // WatchState::RoundId
  // Sorted by path.
  std::vector<WatchedFile> fresh, replay, held_out;
  bool has_model = false;  // WatchState::has_model
};

// The files of the open round. Files are added in any order, then Finish.
class RoundFiles {
 public:
  RoundFiles(const WatchOptions& options, const WatchState& state,
             const KnownFiles& known)
      : options_(options), state_(state), known_(known) {}
  void Add(const WatchedFile& file);
  WatchRound Finish();

 private:
  const WatchOptions& options_;
  const WatchState& state_;
  const KnownFiles& known_;
  WatchRound round_;
  // Heaps of the files with the smallest hashes: random samples without
  // replacement.
  std::vector<OrderedFile> replay_, held_out_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_WATCH_WATCHED_FILES_H_
