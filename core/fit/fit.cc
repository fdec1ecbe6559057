#include "fit.h"

#include <limits>

#include "../model/model_impl.h"
#include "fitter.h"

namespace ringlet {

std::vector<double> History::Values(const std::string& name) const {
  std::vector<double> values;
  for (const Logs& log : logs) {
    const double* value = log.Find(name);
    values.push_back(
        value != nullptr ? *value : std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

Result<History> Model::Fit(const Dataset& dataset, const FitOptions& options) {
  History history;
  RINGLET_RETURN_IF_ERROR(Fitter(this, dataset, options).Run(&history));
  return history;
}

Result<History> Model::Fit(const Dataset& dataset) {
  return Fit(dataset, FitOptions());
}

}  // namespace ringlet
