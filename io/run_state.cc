#include "run_state.h"

#include <map>
#include <string>

#include "../core/model.h"

namespace ringlet {

std::vector<Saveable*> RunState::Parts() const {
  std::vector<Saveable*> parts = {fit_->model->weights_state(),
                                  fit_->model->optimizer_state(), fit_};
  for (const auto& callback : *fit_->callbacks) parts.push_back(callback.get());
  return parts;
}

void RunState::AppendState(std::vector<StateSpan>* spans) {
  std::map<std::string, int> seen;
  for (Saveable* part : Parts()) {
    const size_t first = spans->size();
    part->AppendState(spans);
    if (spans->size() == first) continue;
    const std::string prefix = "callback/";
    const std::string& name = (*spans)[first].name;
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string kind =
        name.substr(0, name.find('/', prefix.size()));
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

std::string DescribeRun(const FitState& fit) {
  std::string text;
  for (const Variable& v : fit.model->variables()) {
    text += (text.empty() ? "" : " ") + v.path + v.shape.ToString();
  }
  return text;
}

}  // namespace ringlet
