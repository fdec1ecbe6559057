// A phase ends only after its effect has succeeded (Advance), so a kill at any
// point repeats at most one effect. What is held out and replayed depends on
// NameHash: another function would divide every existing folder in another way.

#include "watcher.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../../core/base/fnv1a.h"
#include "../../core/base/text.h"

namespace ringlet {
namespace {

// Keys of removed files are kept, since a folder may be away for a while. Above
// this number they are dropped if they are more than half of all.
constexpr size_t kKeptKeys = 65536;

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

// Differs for a file that has been written to since, or that has other
// permissions.
uint64_t StampOf(const WatchedFile& file) {
  return NameHash(static_cast<uint64_t>(file.written_ns),
                  file.path + '\n' + std::to_string(file.bytes) + '\n' +
                      std::to_string(file.changed_ns));
}

// Keeps the `max_elements` elements that are first in their order.
template <typename T>
void KeepFirst(T element, size_t max_elements, std::vector<T>* heap) {
  heap->push_back(std::move(element));
  std::push_heap(heap->begin(), heap->end());
  if (heap->size() <= max_elements) return;
  std::pop_heap(heap->begin(), heap->end());
  heap->pop_back();
}

// The files with the smallest hashes: a random sample without replacement that
// depends on no order.
struct Sampled {
  uint64_t hash;
  WatchedFile file;
  bool operator<(const Sampled& other) const {
    return std::tie(hash, file.path) < std::tie(other.hash, other.file.path);
  }
};

void SortByPath(std::vector<WatchedFile>* files) {
  std::sort(files->begin(), files->end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
}

std::vector<WatchedFile> FilesOf(std::vector<Sampled> sample) {
  std::vector<WatchedFile> files;
  files.reserve(sample.size());
  for (Sampled& one : sample) files.push_back(std::move(one.file));
  SortByPath(&files);
  return files;
}

// Errors of disks and files, which may pass.
bool MayPass(const Status& status) {
  switch (status.code()) {
    case Code::kNotFound:
    case Code::kCorruption:
    case Code::kResourceExhausted:
    case Code::kUnavailable:
    case Code::kIo:
      return true;
    default:
      return false;
  }
}

std::string LossText(double value) { return FormatText("%.4f", value); }

}  // namespace

bool IsNotWorse(const WatchScores& scores) {
  if (!std::isfinite(scores.after)) return false;
  return !scores.has_before || !std::isfinite(scores.before) ||
         scores.after <= scores.before;
}

bool Watcher::Candidate::operator<(const Candidate& other) const {
  return std::tie(order, file.path) < std::tie(other.order, other.file.path);
}

Watcher::Watcher(const WatchOptions& options, WatchState state,
                 const std::string& installed, WatchEnvironment* environment)
    : options_(options),
      environment_(environment),
      state_(std::move(state)),
      last_round_ns_(environment->MonotonicNanos()) {
  if (!state_.is_open) return;
  const bool is_installed = installed == state_.RoundId();
  if (is_installed) LogRound(/*replaced=*/true);
  phase_ = is_installed ? Phase::kClose : Phase::kTrain;
}

uint64_t Watcher::SettingsOf(const WatchOptions& options) {
  uint64_t split = 0;
  static_assert(sizeof(split) == sizeof(options.validation_split));
  std::memcpy(&split, &options.validation_split, sizeof(split));
  return NameHash(options.seed, std::to_string(split));
}

bool Watcher::IsHeldOut(const WatchOptions& options, const std::string& path) {
  const uint64_t hash = NameHash(options.seed, path);
  return std::ldexp(static_cast<double>(hash >> 11), -53) <
         options.validation_split;
}

Status Watcher::Step(double* wait_seconds) {
  *wait_seconds = 0;
  switch (phase_) {
    case Phase::kScan:
      return Scan(wait_seconds);
    case Phase::kPlanned:
      return Advance(environment_->Save(&state_), Phase::kTrain, wait_seconds);
    case Phase::kTrain: {
      Status status = MakeRound();
      if (status.ok()) status = Train();
      return Advance(status, phase_, wait_seconds);
    }
    case Phase::kInstall: {
      const Status status = environment_->Install(round_);
      if (status.ok()) LogRound(/*replaced=*/true);
      return Advance(status, Phase::kClose, wait_seconds);
    }
    case Phase::kClose:
      state_.CloseRound();
      phase_ = Phase::kClosed;
      last_round_ns_ = environment_->MonotonicNanos();
      return Status();
    case Phase::kClosed:
      return Advance(environment_->Save(&state_), Phase::kScan, wait_seconds);
  }
  return Status();
}

// --- the folder --------------------------------------------------------------

void Watcher::AddNew(const WatchedFile& file, Scanned* scanned) const {
  const uint64_t stamp = StampOf(file);
  scanned->stamps.push_back(stamp);
  const bool is_complete =
      std::binary_search(stamps_.begin(), stamps_.end(), stamp);
  if (!is_complete || damaged_.count(stamp) > 0) return;
  ++scanned->complete;
  const Candidate candidate = {Mixed(NameHash(options_.seed, file.path)), stamp,
                               file};
  KeepFirst(candidate, static_cast<size_t>(options_.round_examples),
            &scanned->candidates);
  if (IsHeldOut(options_, file.path)) {
    KeepFirst(candidate, 1, &scanned->first_held_out);
  }
}

Status Watcher::ListNew(Scanned* scanned) {
  scanned->is_there.resize(state_.seen.size());
  RINGLET_RETURN_IF_ERROR(environment_->List([&](const WatchedFile& file) {
    const uint64_t key = ExampleKey(file.path, file.bytes);
    const auto seen =
        std::lower_bound(state_.seen.begin(), state_.seen.end(), key);
    if (seen == state_.seen.end() || *seen != key) return AddNew(file, scanned);
    scanned->is_there[static_cast<size_t>(seen - state_.seen.begin())] = true;
    scanned->has_held_out |= IsHeldOut(options_, file.path);
  }));
  std::sort(scanned->stamps.begin(), scanned->stamps.end());
  std::sort(scanned->candidates.begin(), scanned->candidates.end());
  return Status();
}

bool Watcher::IsDue(const Scanned& scanned) const {
  const int64_t waited = environment_->MonotonicNanos() - last_round_ns_;
  return scanned.complete >= options_.round_examples ||
         (options_.round_seconds > 0 && scanned.complete > 0 &&
          static_cast<double>(waited) >= options_.round_seconds * 1e9);
}

Status Watcher::Scan(double* wait_seconds) {
  const int64_t begin = environment_->MonotonicNanos();
  Scanned scanned;
  const Status listed = ListNew(&scanned);
  if (!listed.ok()) return Advance(listed, Phase::kScan, wait_seconds);
  problem_ = Code::kOk;
  const auto scan_seconds =
      static_cast<double>(environment_->MonotonicNanos() - begin) * 1e-9;
  stamps_ = std::move(scanned.stamps);
  for (auto it = damaged_.begin(); it != damaged_.end();) {
    const bool is_there =
        std::binary_search(stamps_.begin(), stamps_.end(), *it);
    it = is_there ? std::next(it) : damaged_.erase(it);
  }
  if (IsDue(scanned)) Plan(&scanned);
  if (phase_ != Phase::kScan) return Status();
  // Scans of a large folder take at most a twentieth of the time.
  *wait_seconds = std::max(options_.scan_seconds, 19 * scan_seconds);
  return Status();
}

void Watcher::KeepWhole(std::vector<Candidate>* candidates) {
  std::vector<Candidate> readable;
  for (Candidate& candidate : *candidates) {
    const Status status = environment_->Check(candidate.file);
    if (status.ok()) {
      readable.push_back(std::move(candidate));
      continue;
    }
    if (status.code() == Code::kNotFound) continue;
    damaged_.insert(candidate.stamp);
    environment_->Note("note: " + std::string(status.message()) +
                       "; it is left out until it changes (such files: " +
                       std::to_string(damaged_.size()) + ")");
  }
  *candidates = std::move(readable);
}

void Watcher::Plan(Scanned* scanned) {
  std::vector<Candidate>& chosen = scanned->candidates;
  const auto is_held_out = [&](const Candidate& candidate) {
    return IsHeldOut(options_, candidate.file.path);
  };
  // The first round needs an example to hold out.
  if (!scanned->has_held_out &&
      std::none_of(chosen.begin(), chosen.end(), is_held_out)) {
    if (scanned->first_held_out.empty()) {
      if (!noted_waiting_) {
        environment_->Note(
            "note: none of the new examples is one to hold out; the first "
            "round waits for one");
      }
      noted_waiting_ = true;
      return;
    }
    chosen.back() = scanned->first_held_out[0];
  }
  const size_t before = chosen.size();
  KeepWhole(&chosen);
  // Others may take the place of those that are no examples.
  if (chosen.size() < before) return;
  DropRemoved(scanned->is_there);
  std::vector<uint64_t> keys;
  keys.reserve(chosen.size());
  for (const Candidate& candidate : chosen) {
    keys.push_back(ExampleKey(candidate.file.path, candidate.file.bytes));
  }
  state_.OpenRound(std::move(keys));
  phase_ = Phase::kPlanned;
}

void Watcher::DropRemoved(const std::vector<bool>& is_there) {
  std::vector<uint64_t>& seen = state_.seen;
  const auto present =
      static_cast<size_t>(std::count(is_there.begin(), is_there.end(), true));
  if (seen.size() <= kKeptKeys || present > seen.size() / 2) return;
  size_t kept = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (is_there[i]) seen[kept++] = seen[i];
  }
  seen.resize(kept);
}

// --- a round -----------------------------------------------------------------

Status Watcher::MakeRound() {
  round_ = {};
  round_.number = state_.round;
  round_.id = state_.RoundId();
  const auto max_replay = static_cast<size_t>(options_.replay);
  const auto most_held_out = static_cast<size_t>(
      std::max(options_.replay, int64_t{WatchOptions::kLeastHeldOut}));
  std::vector<Sampled> replay, held_out;
  RINGLET_RETURN_IF_ERROR(environment_->List([&](const WatchedFile& file) {
    const uint64_t key = ExampleKey(file.path, file.bytes);
    const bool is_fresh = state_.IsFresh(key);
    if (!is_fresh && !state_.IsSeen(key)) return;
    const uint64_t hash = NameHash(options_.seed, file.path);
    const bool is_held_out = IsHeldOut(options_, file.path);
    round_.fresh_held_out += is_fresh && is_held_out ? 1 : 0;
    if (is_held_out) {
      KeepFirst(Sampled{hash, file}, most_held_out, &held_out);
    } else if (is_fresh) {
      round_.fresh.push_back(file);
    } else {
      KeepFirst(Sampled{hash, file}, max_replay, &replay);
    }
  }));
  SortByPath(&round_.fresh);
  round_.replay = FilesOf(std::move(replay));
  round_.held_out = FilesOf(std::move(held_out));
  return Status();
}

Status Watcher::Train() {
  scores_ = {};
  has_scores_ = false;
  // All new examples may be held out, or gone meanwhile.
  if (round_.fresh.empty() || round_.held_out.empty()) {
    LogRound(/*replaced=*/false);
    phase_ = Phase::kClose;
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(environment_->Train(round_, &scores_));
  has_scores_ = true;
  const bool replaces = IsNotWorse(scores_);
  if (!replaces) LogRound(/*replaced=*/false);
  phase_ = replaces ? Phase::kInstall : Phase::kClose;
  return Status();
}

void Watcher::LogRound(bool replaced) {
  std::string line = "round " + std::to_string(state_.round) + ": ";
  if (has_scores_) {
    line += std::to_string(round_.fresh.size()) + " new, " +
            std::to_string(round_.replay.size()) + " replayed, " +
            std::to_string(round_.held_out.size()) + " held out (" +
            std::to_string(round_.fresh_held_out) + " new); val_loss " +
            (scores_.has_before ? LossText(scores_.before) : "none") + " -> " +
            LossText(scores_.after) + scores_.metrics + ": ";
    line += replaced ? "replaced" : "kept the last model";
  } else {
    line += replaced ? "its model was written before a restart"
                     : "no new example to train on: kept the last model";
  }
  environment_->Log(line);
}

Status Watcher::Advance(const Status& status, Phase next,
                        double* wait_seconds) {
  if (status.ok()) {
    problem_ = Code::kOk;
    phase_ = next;
    return status;
  }
  if (!MayPass(status)) return status;
  // (A message may name a temporary file, with another name each time.)
  if (status.code() != problem_) {
    environment_->Note("warning: " + std::string(status.message()) +
                       "; the last model stays, and this is tried again");
  }
  problem_ = status.code();
  *wait_seconds = options_.scan_seconds;
  return Status();
}

}  // namespace ringlet
