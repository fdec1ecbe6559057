// NameHash decides which examples are held out and which are replayed. It must
// not change: another function would divide every existing folder in another
// way.

#include "watched_files.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../../core/base/fnv1a.h"
#include "../../core/base/stable_sort.h"

namespace ringlet {
namespace {

// The output function of SplitMix64: FNV-1a alone differs in few high bits
// between names that differ in their last letters.
uint64_t Mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

uint64_t NameHash(uint64_t seed, const std::string& path) {
  unsigned char bytes[sizeof(seed)];
  StoreLittle(seed, bytes);
  Fnv1a hash;
  hash.Add(bytes, sizeof(bytes));
  hash.Add(path);
  return Mixed(hash.value());
}

// Keeps the `max_files` files that are first in their order.
void KeepFirst(OrderedFile file, int64_t max_files,
               std::vector<OrderedFile>* heap) {
  heap->push_back(std::move(file));
  std::push_heap(heap->begin(), heap->end());
  if (heap->size() <= static_cast<size_t>(max_files)) return;
  std::pop_heap(heap->begin(), heap->end());
  heap->pop_back();
}

void SortByPath(std::vector<WatchedFile>* files) {
  StableSort(files,
             [](const auto& a, const auto& b) { return a.path < b.path; });
}

std::vector<WatchedFile> ByPath(std::vector<OrderedFile> heap) {
  std::vector<WatchedFile> files;
  files.reserve(heap.size());
  for (OrderedFile& one : heap) files.push_back(std::move(one.file));
  SortByPath(&files);
  return files;
}

}  // namespace

uint64_t WatchOptions::SettingsChecksum() const {
  uint64_t split = 0;
  static_assert(sizeof(split) == sizeof(validation_split));
  std::memcpy(&split, &validation_split, sizeof(split));
  return NameHash(seed, std::to_string(split));
}

bool WatchOptions::IsHeldOut(const std::string& path) const {
  const uint64_t hash = NameHash(seed, path);
  return std::ldexp(static_cast<double>(hash >> 11), -53) < validation_split;
}

uint64_t WatchedFile::Stamp() const {
  return NameHash(
      static_cast<uint64_t>(written_ns),
      path + '\n' + std::to_string(bytes) + '\n' + std::to_string(changed_ns));
}

bool OrderedFile::operator<(const OrderedFile& other) const {
  return std::tie(order, file.path) < std::tie(other.order, other.file.path);
}

bool KnownFiles::IsDamaged(const WatchedFile& file) const {
  return !damaged.empty() && damaged.count(file.Stamp()) > 0;
}

FolderScan::FolderScan(const WatchOptions& options, const WatchState& state,
                       const KnownFiles& known)
    : options_(options),
      state_(state),
      known_(known),
      is_there_(state.seen.size()) {}

void FolderScan::Add(const WatchedFile& file) {
  const uint64_t key = ExampleKey(file.path, file.bytes);
  const auto& seen = state_.seen;
  const auto entry = std::lower_bound(seen.begin(), seen.end(), key);
  const bool is_seen = entry != seen.end() && *entry == key;
  if (is_seen) is_there_[static_cast<size_t>(entry - seen.begin())] = true;
  const bool is_damaged = known_.IsDamaged(file);
  const bool is_held_out = options_.IsHeldOut(file.path);
  if (is_damaged) found_.damaged.insert(file.Stamp());
  if (is_seen) {
    has_held_out_ |= is_held_out && !is_damaged;
    return;
  }
  const uint64_t stamp = file.Stamp();
  found_.last_scan.push_back(stamp);
  const bool is_complete = std::binary_search(known_.last_scan.begin(),
                                              known_.last_scan.end(), stamp);
  if (!is_complete || is_damaged) return;
  ++complete_;
  // The order is not the order of NameHash itself: its smallest values are all
  // held out.
  const OrderedFile ordered = {Mixed(NameHash(options_.seed, file.path)), file};
  KeepFirst(ordered, options_.round_examples, &first_);
  if (is_held_out) KeepFirst(ordered, 1, &first_held_out_);
}

KnownFiles FolderScan::Finish() {
  std::sort(found_.last_scan.begin(), found_.last_scan.end());
  return std::move(found_);
}

std::vector<WatchedFile> FolderScan::Chosen() const {
  std::vector<OrderedFile> sorted = first_;
  std::sort(sorted.begin(), sorted.end());
  std::vector<WatchedFile> chosen;
  bool has_held_out = has_held_out_;
  for (const OrderedFile& one : sorted) {
    chosen.push_back(one.file);
    has_held_out |= options_.IsHeldOut(one.file.path);
  }
  if (has_held_out) return chosen;
  if (first_held_out_.empty()) return {};
  chosen.back() = first_held_out_[0].file;
  return chosen;
}

void RoundFiles::Add(const WatchedFile& file) {
  const uint64_t key = ExampleKey(file.path, file.bytes);
  const bool is_fresh = state_.IsFresh(key);
  if ((!is_fresh && !state_.IsSeen(key)) || known_.IsDamaged(file)) return;
  const OrderedFile ordered = {NameHash(options_.seed, file.path), file};
  if (options_.IsHeldOut(file.path)) {
    KeepFirst(ordered, std::max(options_.replay, WatchOptions::kLeastHeldOut),
              &held_out_);
  } else if (is_fresh) {
    round_.fresh.push_back(file);
  } else {
    KeepFirst(ordered, options_.replay, &replay_);
  }
}

WatchRound RoundFiles::Finish() {
  round_.number = state_.round;
  round_.id = state_.RoundId();
  round_.has_model = state_.has_model;
  SortByPath(&round_.fresh);
  round_.replay = ByPath(std::move(replay_));
  round_.held_out = ByPath(std::move(held_out_));
  return std::move(round_);
}

}  // namespace ringlet
