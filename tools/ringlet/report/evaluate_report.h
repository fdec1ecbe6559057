// The report of ringlet evaluate: predictions against the true values.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_EVALUATE_REPORT_H_
#define RINGLET_TOOLS_RINGLET_REPORT_EVALUATE_REPORT_H_

#include <string>

#include "ringlet/dataset.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

// Returns an error if there is no report for this kind of model.
Status CheckReports(const Model& model);

// Predicts all examples, and writes the page. `logs` is the result of Evaluate.
Status WriteEvaluationReport(Model* model, const std::string& model_path,
                             const Dataset& data, const Logs& logs,
                             const std::string& out);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_EVALUATE_REPORT_H_
