#include "run_state.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "../base/text.h"
#include "../model/model_impl.h"

namespace ringlet {

namespace {

// The weights and the slots, but not the optimizer's iterations and rate. What
// it has of a weight, which may be a scalar, is named by that too.
bool IsModels(const StateSpan& span) {
  if (StartsWith(span.name, kWeightsPrefix)) return true;
  if (!StartsWith(span.name, kOptimizerPrefix)) return false;
  const size_t of_weight = span.name.find('/', sizeof(kOptimizerPrefix) - 1);
  return span.shape.rank() > 0 || of_weight != std::string::npos;
}

}  // namespace

constexpr size_t kModelParts = 2;  // the first

std::vector<Saveable*> RunState::Parts() const {
  std::vector<Saveable*> parts = {fit_->model->weights_state(),
                                  fit_->model->optimizer_state(), fit_};
  Model::Impl& m = *fit_->model->impl_;
  if (rounds_ && m.config.options.local.scatters()) {
    parts.push_back(m.stepper.round_state());
  }
  for (const auto& callback : *fit_->callbacks) parts.push_back(callback.get());
  return parts;
}

void RunState::AppendState(std::vector<StateSpan>* spans) {
  std::map<std::string, int> seen;
  const std::vector<Saveable*> parts = Parts();
  const size_t before_callbacks = parts.size() - fit_->callbacks->size();
  for (size_t p = 0; p < parts.size(); ++p) {
    const size_t first = spans->size();
    parts[p]->AppendState(spans);
    if (p < kModelParts && !model_) {
      spans->erase(std::remove_if(spans->begin(), spans->end(), IsModels),
                   spans->end());
    }
    if (live_ && p >= before_callbacks) {
      (*fit_->callbacks)[p - before_callbacks]->AppendLiveState(spans);
    }
    if (spans->size() == first) continue;
    constexpr std::string_view kPrefix = "callback/";
    const std::string& name = (*spans)[first].name;
    if (!StartsWith(name, kPrefix)) continue;
    const std::string kind = name.substr(0, name.find('/', kPrefix.size()));
    const int number = seen[kind]++;
    if (number == 0) continue;
    for (size_t i = first; i < spans->size(); ++i) {
      (*spans)[i].name.insert(kind.size(), "_" + std::to_string(number));
    }
  }
}

Status RunState::StateLoaded() {
  for (Saveable* part : Parts()) {
    RINGLET_RETURN_IF_ERROR(part->StateLoaded());
  }
  return Status();
}

void StepSnapshot::Plan(RunState* state) {
  valid_ = whole_ = false;
  pieces_.clear();
  std::vector<StateSpan> spans;
  state->AppendState(&spans);
  size_t bytes = 0;
  for (const StateSpan& span : spans) {
    if (IsModels(span)) continue;
    pieces_.push_back({span, bytes});
    bytes += span.bytes();
  }
  copy_.resize(bytes);
}

void StepSnapshot::Copy(bool large) {
  for (const Piece& piece : pieces_) {
    const size_t bytes = piece.span.bytes();
    // The running metrics change in every step, whatever their size.
    const bool rests =
        bytes > kSmall && !StartsWith(piece.span.name, "metric/");
    if (rests != large) continue;
    std::memcpy(copy_.data() + piece.at, piece.span.data, bytes);
  }
}

void StepSnapshot::Take() {
  Copy(/*large=*/false);
  valid_ = true;
  whole_ = false;
}

void StepSnapshot::TakeWhole() {
  Take();
  Complete();
}

void StepSnapshot::Complete() {
  if (valid_ && !whole_) Copy(/*large=*/true);
  whole_ = true;
}

Status StepSnapshot::Restore(RunState* state) const {
  std::vector<StateSpan> spans;
  state->AppendState(&spans);
  size_t next = 0;
  for (const StateSpan& span : spans) {
    if (IsModels(span)) continue;
    const bool same = next < pieces_.size() &&
                      pieces_[next].span.name == span.name &&
                      pieces_[next].span.bytes() == span.bytes();
    if (!same) {
      return Error(Code::kInternal,
                   "%s changed its shape while the fit was set up anew; its "
                   "state is lost",
                   span.name.c_str());
    }
    std::memcpy(span.data, copy_.data() + pieces_[next++].at, span.bytes());
  }
  return state->StateLoaded();
}

}  // namespace ringlet
