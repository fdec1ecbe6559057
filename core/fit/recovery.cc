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

// Travels as six numbers.
struct Recovery::Offer {
  static constexpr int64_t kKeeps = 2;
  int64_t lived;  // it has trained, and not from a start of its own now;
                  // kKeeps: and it has what gives way (gives_way_)
  int64_t whole;  // its state is
  int64_t epoch;
  int64_t step;
  int64_t rounds;  // the digest of their state
  int64_t model;   // that of the weights and the optimizer's slots
  bool SameState(const Offer& other) const {
    return std::tie(whole, epoch, step, rounds) ==
           std::tie(other.whole, other.epoch, other.step, other.rounds);
  }
};

// The first of the ranks that have gone furthest with a whole state; -1: none.
int Recovery::Furthest(const std::vector<Offer>& offers) {
  int best = -1;
  for (size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].whole == 0) continue;
    if (best < 0 || std::tie(offers[r].epoch, offers[r].step) >
                        std::tie(offers[best].epoch, offers[best].step)) {
      best = static_cast<int>(r);
    }
  }
  return best;
}

Status Recovery::TakeUpState() {
  fit_.in_memory = fit_.lost = false;
  Collective* const collective = model_.collective();
  if (collective->size() == 1 && !collective->elastic()) return Status();
  const bool keeps = !snapshot_.valid() && proven_ != nullptr;
  if (keeps && !gives_way_) Replaced();
  const bool whole = snapshot_.valid();
  RunState state(&fit_, /*live=*/true);
  if (whole) RINGLET_RETURN_IF_ERROR(snapshot_.Restore(&state));
  const Replicas& replicas = model_.impl_->replicas;
  const bool lived = begun_ || replicas.torn() || replicas.holds_others();
  Offer mine = {keeps && gives_way_ ? Offer::kKeeps : int64_t{lived},
                int64_t{whole},
                fit_.epoch,
                fit_.step,
                0,
                replicas.StateDigest()};
  if (whole && model_.local_updates().scatters()) {
    mine.rounds =
        static_cast<int64_t>(model_.impl_->stepper.round_state()->Digest());
  }
  constexpr size_t kNumbers = sizeof(Offer) / sizeof(int64_t);
  std::vector<Offer> offers(static_cast<size_t>(collective->size()));
  RINGLET_RETURN_IF_ERROR(GatherNumbers(collective, &mine, sizeof(int64_t),
                                        kNumbers, offers.data()));
  const int source = Furthest(offers);
  // They are lost for whom it was to give way.
  if (source < 0 && std::any_of(offers.begin(), offers.end(), [](auto& offer) {
        return offer.lived == Offer::kKeeps;
      })) {
    gives_way_ = false;
    return TakeUpState();
  }
  fit_.in_memory = source >= 0;
  fit_.verdicts = replicas.verdicts();
  fit_.lost = source < 0 &&
              std::any_of(offers.begin(), offers.end(),
                          [](const Offer& offer) { return offer.lived != 0; });
  if (source < 0) return Status();
  begun_ = unproven_ = true;
  // One's own, where it is the same, is not changed by the other's.
  if (!offers[source].SameState(mine)) snapshot_.Invalidate();
  took_ |= !snapshot_.valid();
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
  if (gives_way_) proven_.reset();
  gives_way_ = false;
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
  witnesses_ = model_.impl_->replicas.Proven();
  unproven_ = took_ = gives_way_ = false;
}

void Recovery::GoBackInDoubt() {
  if (proven_ == nullptr || took_) return Preserve();
  GoBack();
}

bool Recovery::scattered() const {
  return begun_ && takes_snapshots_ && model_.local_updates().scatters() &&
         !(whole() && model_.impl_->stepper.round_state()->whole());
}

void Recovery::GoBack() {
  // Not where rounds have scattered it: whoever has more is right too.
  Replicas& replicas = model_.impl_->replicas;
  if (replicas.spoiled() || (replicas.undecided() && !took_)) {
    replicas.WentBack(proven_ == nullptr ? std::vector<int64_t>() : witnesses_);
  }
  if (!unproven_ && !scattered()) return Preserve();
  if (proven_ == nullptr || gives_way_) return Forget();
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
    if (model_.impl_->replicas.missed_verdict()) proven_.reset();
    const int64_t doubt = model_.impl_->replicas.doubt();
    gives_way_ |= doubt > static_cast<int64_t>(witnesses_.size());
    if (rejoined.code() == Code::kDeadlineExceeded) {  // it is still lost
      return PeerLost(lost_rank, "%s", rejoined.message());
    }
    if (rejoined.code() != Code::kPeerLost) return rejoined;
    Notice("warning: %s, while the workers met again; waiting on",
           rejoined.message());
  }
}

}  // namespace ringlet
