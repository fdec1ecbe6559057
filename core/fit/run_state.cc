#include "run_state.h"

#include <algorithm>
#include <map>
#include <string>

#include "../base/text.h"
#include "../model/model_parts.h"

namespace ringlet {

constexpr size_t kModelParts = 2;  // these come first

namespace {

constexpr std::string_view kCallbackPrefix = "callback/";

// "callback/csv_logger", from the name of spans[first]. Empty if that span is
// not the state of a callback.
std::string KindOf(const std::vector<StateSpan>& spans, size_t first) {
  if (first >= spans.size()) return "";
  const std::string& name = spans[first].name;
  if (!StartsWith(name, kCallbackPrefix)) return "";
  return name.substr(0, name.find('/', kCallbackPrefix.size()));
}

// Returns the suffix that distinguishes the next callback of this kind: "",
// "_1", ...
std::string NextSuffix(const std::string& kind,
                       std::map<std::string, int>* seen) {
  const int number = (*seen)[kind]++;
  return number == 0 ? "" : "_" + std::to_string(number);
}

}  // namespace

std::vector<std::string> RunState::CallbackParts() const {
  std::map<std::string, int> seen;
  std::vector<std::string> names;
  for (const auto& callback : *fit_->callbacks) {
    std::vector<StateSpan> spans;
    callback->AppendState(&spans);
    std::string kind = KindOf(spans, 0);
    if (!kind.empty()) kind += NextSuffix(kind, &seen);
    names.push_back(kind);
  }
  return names;
}

std::vector<Saveable*> RunState::Parts() const {
  std::vector<Saveable*> parts = {fit_->model->weights_state(),
                                  fit_->model->optimizer_state(), fit_};
  const ModelParts model(fit_->model);
  if (model.config().options.local.keeps_state_per_worker()) {
    parts.push_back(model.local_trainer().state());
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
      spans->erase(std::remove_if(spans->begin(), spans->end(), IsModelState),
                   spans->end());
    }
    if (live_ && p >= before_callbacks) {
      (*fit_->callbacks)[p - before_callbacks]->AppendLiveState(spans);
    }
    const std::string kind = KindOf(*spans, first);
    if (kind.empty()) continue;
    const std::string suffix = NextSuffix(kind, &seen);
    for (size_t i = first; i < spans->size(); ++i) {
      (*spans)[i].name.insert(kind.size(), suffix);
    }
  }
}

Status RunState::StateLoaded() {
  for (Saveable* part : Parts()) {
    RINGLET_RETURN_IF_ERROR(part->StateLoaded());
  }
  return Status();
}

bool AnyRestoresAfterLoss(
    const std::vector<std::shared_ptr<Callback>>& callbacks) {
  return std::any_of(
      callbacks.begin(), callbacks.end(),
      [](const auto& callback) { return callback->RestoresAfterLoss(); });
}

}  // namespace ringlet
