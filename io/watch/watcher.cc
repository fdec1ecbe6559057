// A phase ends only after its effect has succeeded (Advance), so a kill at any
// point repeats at most one effect.

#include "watcher.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace ringlet {
namespace {

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

std::string LossText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4f", value);
  return text;
}

}  // namespace

bool IsNotWorse(const WatchScores& scores) {
  if (!std::isfinite(scores.after)) return false;
  return !scores.has_before || !std::isfinite(scores.before) ||
         scores.after <= scores.before;
}

Watcher::Watcher(const WatchOptions& options, WatchState state,
                 const std::string& installed, WatchEnvironment* environment)
    : options_(options),
      environment_(environment),
      state_(std::move(state)),
      last_round_ns_(environment->MonotonicNanos()) {
  if (!state_.is_open) return;
  phase_ = Phase::kTrain;
  const bool is_installed = installed == state_.RoundId();
  if (is_installed) CloseRound("its model was written before a restart");
}

Status Watcher::Step(double* wait_seconds) {
  *wait_seconds = 0;
  switch (phase_) {
    case Phase::kScan:
      return Scan(wait_seconds);
    case Phase::kPlanned:
      return Advance(environment_->Save(&state_), Phase::kTrain, wait_seconds);
    case Phase::kTrain: {
      const Status status = Train();
      const bool may_be_damage =
          status.code() == Code::kCorruption || status.code() == Code::kIo;
      if (may_be_damage && FindDamaged()) return Status();
      return Advance(status, phase_, wait_seconds);
    }
    case Phase::kInstall: {
      const Status status = environment_->Install(round_);
      if (status.ok()) {
        state_.has_model = true;
        CloseRound(ScoresLine() + ": replaced");
      }
      return Advance(status, phase_, wait_seconds);
    }
    case Phase::kClosed:
      return Advance(environment_->Save(&state_), Phase::kScan, wait_seconds);
  }
  return Status();
}

// --- the folder --------------------------------------------------------------

Status Watcher::Scan(double* wait_seconds) {
  const int64_t begin = environment_->MonotonicNanos();
  FolderScan scan(options_, state_, known_);
  const Status listed =
      environment_->List([&](const WatchedFile& file) { scan.Add(file); });
  if (!listed.ok()) return Advance(listed, Phase::kScan, wait_seconds);
  problem_ = Code::kOk;
  const int64_t end = environment_->MonotonicNanos();
  known_ = scan.Finish();
  const auto waited = static_cast<double>(end - last_round_ns_) * 1e-9;
  const bool is_time =
      options_.round_seconds > 0 && waited >= options_.round_seconds;
  if (scan.complete() >= options_.round_examples ||
      (is_time && scan.complete() > 0)) {
    Plan(scan);
  }
  if (phase_ != Phase::kScan) return Status();
  // Scans of a large folder take at most a twentieth of the time.
  *wait_seconds =
      std::max(options_.scan_seconds, 19e-9 * static_cast<double>(end - begin));
  return Status();
}

void Watcher::NoteDamaged(const WatchedFile& file, const Status& status) {
  known_.damaged.insert(file.Stamp());
  environment_->Note("note: " + std::string(status.message()) +
                     "; it is left out until it changes (such files: " +
                     std::to_string(known_.damaged.size()) + ")");
}

void Watcher::Plan(const FolderScan& scan) {
  const std::vector<WatchedFile> chosen = scan.Chosen();
  if (chosen.empty()) {
    if (!noted_waiting_) {
      environment_->Note(
          "note: none of the new examples is one to hold out; the next round "
          "waits for one");
    }
    noted_waiting_ = true;
    return;
  }
  std::vector<uint64_t> keys;
  keys.reserve(chosen.size());
  for (const WatchedFile& file : chosen) {
    const Status status = environment_->Check(file);
    if (status.ok()) {
      keys.push_back(ExampleKey(file.path, file.bytes));
    } else if (status.code() != Code::kNotFound) {
      NoteDamaged(file, status);
    }
  }
  // Other files may take the place of files that are not examples.
  if (keys.size() < chosen.size()) return;
  noted_waiting_ = false;
  state_.DropRemoved(scan.is_there());
  state_.OpenRound(std::move(keys));
  phase_ = Phase::kPlanned;
}

// --- a round -----------------------------------------------------------------

Status Watcher::Train() {
  RoundFiles files(options_, state_, known_);
  RINGLET_RETURN_IF_ERROR(
      environment_->List([&](const WatchedFile& file) { files.Add(file); }));
  round_ = files.Finish();
  if (round_.held_out.empty()) {
    environment_->Log("round " + std::to_string(state_.round) +
                      ": no example to hold out is left: kept the last model; "
                      "the round's other examples are new again");
    state_.AbandonRound();
    phase_ = Phase::kClosed;
    return Status();
  }
  // All new examples may be held out, or gone or damaged meanwhile.
  if (round_.fresh.empty()) {
    CloseRound("no new example to train on: kept the last model");
    return Status();
  }
  scores_ = {};
  RINGLET_RETURN_IF_ERROR(environment_->Train(&round_, &scores_));
  if (IsNotWorse(scores_)) {
    phase_ = Phase::kInstall;
  } else {
    CloseRound(ScoresLine() + ": kept the last model");
  }
  return Status();
}

bool Watcher::FindDamaged() {
  std::vector<std::pair<const WatchedFile*, Status>> failed;
  bool any_is_whole = false;
  for (const auto* part : {&round_.fresh, &round_.replay, &round_.held_out}) {
    for (const WatchedFile& file : *part) {
      Status status = environment_->Check(file);
      any_is_whole |= status.ok();
      if (status.ok() || status.code() == Code::kNotFound) continue;
      failed.emplace_back(&file, std::move(status));
    }
  }
  bool found = false;
  for (const auto& [file, status] : failed) {
    // If no file can be read, it may be the disk.
    if (!any_is_whole && status.code() != Code::kCorruption) continue;
    found = true;
    NoteDamaged(*file, status);
  }
  return found;
}

void Watcher::CloseRound(const std::string& line) {
  environment_->Log("round " + std::to_string(state_.round) + ": " + line);
  state_.CloseRound();
  phase_ = Phase::kClosed;
  last_round_ns_ = environment_->MonotonicNanos();
}

std::string Watcher::ScoresLine() const {
  const auto fresh_held_out = std::count_if(
      round_.held_out.begin(), round_.held_out.end(), [&](const auto& file) {
        return state_.IsFresh(ExampleKey(file.path, file.bytes));
      });
  return std::to_string(round_.fresh.size()) + " new, " +
         std::to_string(round_.replay.size()) + " replayed, " +
         std::to_string(round_.held_out.size()) + " held out (" +
         std::to_string(fresh_held_out) + " new); val_loss " +
         (scores_.has_before ? LossText(scores_.before) : "none") + " -> " +
         LossText(scores_.after) + scores_.metrics;
}

Status Watcher::Advance(const Status& status, Phase next,
                        double* wait_seconds) {
  if (status.ok()) {
    problem_ = Code::kOk;
    phase_ = next;
    return status;
  }
  if (!MayPass(status)) return status;
  // A message may name a temporary file, with a different name each time.
  if (status.code() != problem_) {
    environment_->Note("warning: " + std::string(status.message()) +
                       "; the last model stays, and this is tried again");
  }
  problem_ = status.code();
  *wait_seconds = options_.scan_seconds;
  return Status();
}

}  // namespace ringlet
