// What must be known to change this file: a snapshot is valid from its Take
// to the next change of the weights on this rank (StepTaken, Replicas::Join),
// and Restore needs the callbacks set up as they were at Plan. A rank that
// receives another's state invalidates its own first: a transfer that is cut
// off leaves a mix.

#include "recovery.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <tuple>

#include "../base/collective.h"
#include "../base/message.h"
#include "../model/model_impl.h"

namespace ringlet {

bool Recovery::enabled() const {
  const Collective& collective = *model_.collective();
  return collective.elastic() ||
         (collective.size() > 1 && AnyRestoresAfterLoss(*fit_.callbacks));
}

// Travels as numbers of 64 bits.
struct Recovery::Offer {
  int64_t lived;  // it has trained, and not from a start of its own now
  int64_t whole;  // its state is
  int64_t epoch;
  int64_t step;
  int64_t rounds;              // the digest of their state
  int64_t model;               // that of the weights and the optimizer's slots
  UncomparedSteps uncompared;  // in these
  UncomparedSteps kept;        // in what it would go back to
  bool SameState(const Offer& other) const {
    return std::tie(whole, epoch, step, rounds) ==
           std::tie(other.whole, other.epoch, other.step, other.rounds);
  }
};

// The first of the ranks that have gone furthest with a whole state; with one
// in doubt where there is no other. -1: none.
int Recovery::Furthest(const std::vector<Offer>& offers) const {
  const Replicas& replicas = model_.impl_->replicas;
  const auto order = [&](const Offer& offer) {
    return std::make_tuple(!replicas.Doubts(offer.uncompared), offer.epoch,
                           offer.step);
  };
  int best = -1;
  for (size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].whole == 0) continue;
    if (best < 0 || order(offers[r]) > order(offers[best])) {
      best = static_cast<int>(r);
    }
  }
  return best;
}

// What the giver of a state has kept, and what the others have of itself, who
// go by that when they name it.
UncomparedSteps Recovery::KeptWith(const std::vector<Offer>& offers,
                                   int source) {
  UncomparedSteps kept = offers[source].kept, least;
  for (const Offer& offer : offers) least.TakeLess(offer.kept);
  kept.FillFrom(least);
  return kept;
}

Status Recovery::TakeUpState() {
  fit_.in_memory = fit_.lost = false;
  Collective* const collective = model_.collective();
  if (collective->size() == 1 && !collective->elastic()) return Status();
  if (!snapshot_.valid() && proven_ != nullptr) Replaced();
  const bool whole = snapshot_.valid();
  RunState state(&fit_, /*live=*/true);
  if (whole) RINGLET_RETURN_IF_ERROR(snapshot_.Restore(&state));
  Replicas& replicas = model_.impl_->replicas;
  const bool lived = begun_ || replicas.torn() || replicas.holds_others();
  Offer mine = {};
  mine.lived = lived ? 1 : 0;
  mine.whole = whole ? 1 : 0;
  mine.epoch = fit_.epoch;
  mine.step = fit_.step;
  mine.model = replicas.StateDigest();
  mine.uncompared = replicas.uncompared();
  mine.kept = proven_uncompared_;
  // Those who name this worker do not go by what it kept alone.
  mine.kept.DropUncompared(collective->worker());
  if (whole && model_.local_updates().scatters()) {
    mine.rounds =
        static_cast<int64_t>(model_.impl_->stepper.round_state()->Digest());
  }
  constexpr size_t kNumbers = sizeof(Offer) / sizeof(int64_t);
  std::vector<Offer> offers(static_cast<size_t>(collective->size()));
  RINGLET_RETURN_IF_ERROR(GatherNumbers(collective, &mine, sizeof(int64_t),
                                        kNumbers, offers.data()));
  const int source = Furthest(offers);
  fit_.in_memory = source >= 0;
  fit_.lost = source < 0 &&
              std::any_of(offers.begin(), offers.end(),
                          [](const Offer& offer) { return offer.lived != 0; });
  if (source < 0) return Status();
  begun_ = unproven_ = true;
  // One's own, where it is the same, is not changed by the other's.
  if (!offers[source].SameState(mine)) snapshot_.Invalidate();
  // That of rounds, which is long, goes only where somebody lacks it.
  const bool rounds = !std::all_of(
      offers.begin(), offers.end(),
      [&](const Offer& offer) { return offer.SameState(offers[source]); });
  // Nor does what all have since they met, unless one has gone back.
  const bool model = !std::all_of(
      offers.begin(), offers.end(),
      [&](const Offer& offer) { return offer.model == offers[source].model; });
  RunState given(&fit_, /*live=*/true, rounds, model);
  RINGLET_RETURN_IF_ERROR(BroadcastState(collective, {&given}, source));
  replicas.SetUncompared(offers[source].uncompared);
  // Of no use once that is here of those who doubt it.
  if (replicas.Doubts(proven_uncompared_)) proven_.reset();
  if (proven_ == nullptr) proven_uncompared_ = KeptWith(offers, source);
  Begin();
  snapshot_.Complete();  // callbacks may change their memory in OnTrainBegin
  return Status();
}

void Recovery::Begin() {
  weights_.reset();
  if (!enabled()) return;
  begun_ = true;
  // Without a copy of where all had the state whole they need a backup.
  takes_snapshots_ =
      model_.collective()->elastic() || !model_.local_updates().scatters();
  if (!takes_snapshots_) return;
  RunState state(&fit_, /*live=*/true);
  snapshot_.Plan(&state);
  TakeSnapshot();
}

void Recovery::TakeSnapshot() {
  if (takes_snapshots_) snapshot_.Take();
}

void Recovery::TakeWholeSnapshot() {
  if (takes_snapshots_) snapshot_.TakeWhole();
}

// Callbacks may change the weights where an epoch and the training end. What
// is done again after a loss begins with those before. Where there is no memory
// for a copy it begins with those that there are.
void Recovery::CopyWeights() {
  if (!takes_snapshots_) return;
  const auto n = static_cast<size_t>(model_.num_weights());
  weights_.reset(new (std::nothrow) float[n]);
  if (weights_ != nullptr) std::copy_n(model_.weights(), n, weights_.get());
}

void Recovery::Preserve() {
  snapshot_.Complete();
  if (weights_ == nullptr) return;
  std::copy_n(weights_.get(), model_.num_weights(), model_.weights());
  weights_.reset();
}

std::vector<StateSpan> Recovery::ModelSpans() const {
  std::vector<StateSpan> spans;
  model_.weights_state()->AppendState(&spans);
  model_.optimizer_state()->AppendState(&spans);
  if (model_.local_updates().scatters()) {
    model_.impl_->stepper.round_state()->AppendState(&spans);
  }
  return spans;
}

void Recovery::Proven() {
  if (!takes_snapshots_ || !snapshot_.valid()) return;
  proven_uncompared_ = model_.impl_->replicas.uncompared();
  const std::vector<StateSpan> spans = ModelSpans();
  size_t bytes = 0;
  for (const StateSpan& span : spans) bytes += span.bytes();
  if (proven_ == nullptr) {
    proven_.reset(new (std::nothrow) unsigned char[bytes]);
    if (proven_ == nullptr) return;
  }
  unsigned char* to = proven_.get();
  for (const StateSpan& span : spans) {
    to = std::copy_n(static_cast<const unsigned char*>(span.data), span.bytes(),
                     to);
  }
  snapshot_.Complete();
  proven_snapshot_ = snapshot_;
  unproven_ = false;
}

void Recovery::GoBackInDoubt() {
  const Replicas& replicas = model_.impl_->replicas;
  const bool better =
      replicas.undecided() || !replicas.MayDoubt(proven_uncompared_);
  if (proven_ == nullptr || !better) return Preserve();
  GoBack();
}

bool Recovery::scattered() const {
  return begun_ && takes_snapshots_ && model_.local_updates().scatters() &&
         !(whole() && model_.impl_->stepper.round_state()->whole());
}

void Recovery::GoBack() {
  Replicas& replicas = model_.impl_->replicas;
  // Not where rounds have scattered it: whoever has more is right too.
  if (replicas.undecided() && proven_ != nullptr) {
    replicas.Doubt(proven_uncompared_);
  }
  if (!unproven_ && !scattered()) return Preserve();
  // No better off: that has as many of the wrong one's steps.
  if (replicas.spoiled() && whole() && !scattered() &&
      !replicas.FreesFrom(proven_uncompared_) &&
      !replicas.Disbelieves(replicas.uncompared())) {
    return Preserve();
  }
  if (proven_ == nullptr || replicas.Disbelieves(proven_uncompared_)) {
    replicas.Disbelieve(proven_uncompared_);
    return Forget();
  }
  const unsigned char* from = proven_.get();
  for (const StateSpan& span : ModelSpans()) {
    std::memcpy(span.data, from, span.bytes());
    from += span.bytes();
  }
  // These bytes were the model's own.
  Model::Impl& m = *model_.impl_;
  model_.optimizer_state()->StateLoaded().IgnoreError();
  m.stepper.round_state()->StateLoaded().IgnoreError();
  snapshot_ = proven_snapshot_;
  weights_.reset();
  m.replicas.WentBack(proven_uncompared_);
  m.replicas.Mend();
  m.replicas.ForgetLaterMarks();
}

void Recovery::Replaced() {
  StepTaken();
  GoBack();
}

void Recovery::Forget() {
  model_.impl_->replicas.Tear();
  snapshot_.Invalidate();
  weights_.reset();
}

Status Recovery::Rejoin(int lost_rank) {
  for (;;) {
    // One that came, and was to begin, comes again.
    const Status rejoined = model_.impl_->Rejoin(begun_ || !fit_.comes);
    // It does not go with another rank's weights.
    if (model_.impl_->replicas.changed()) snapshot_.Invalidate();
    if (model_.impl_->replicas.Disbelieves(proven_uncompared_)) proven_.reset();
    if (rejoined.code() == Code::kDeadlineExceeded) {  // it is still lost
      return PeerLost(lost_rank, "%s", rejoined.message());
    }
    if (rejoined.code() != Code::kPeerLost) return rejoined;
    Notice("warning: %s, while the workers met again; waiting on",
           rejoined.message());
  }
}

}  // namespace ringlet
