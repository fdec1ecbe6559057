// Finding: the result of one check of `ringlet doctor`.

#ifndef RINGLET_NET_DOCTOR_FINDING_H_
#define RINGLET_NET_DOCTOR_FINDING_H_

#include <string>
#include <utility>
#include <vector>

namespace ringlet {

// Ordered: the greatest of all findings decides the exit code.
enum class Severity {
  kOk,       // nothing to do
  kWarning,  // a job runs, but slower, or with a risk that `text` names
  kError,    // a job does not start, or ends
};

struct Finding {
  const char* check;  // the check's name in docs/doctor.md
  Severity severity = Severity::kOk;
  int worker = -1;   // the other worker; -1 if there is none
  std::string text;  // what was found, and where
  std::string fix;   // what to do; empty if there is nothing to do
};

using Findings = std::vector<Finding>;

inline void AddOk(const char* check, std::string text, Findings* out,
                  int worker = -1) {
  out->push_back({check, Severity::kOk, worker, std::move(text), ""});
}
inline void AddWarning(const char* check, std::string text, std::string fix,
                       Findings* out, int worker = -1) {
  out->push_back(
      {check, Severity::kWarning, worker, std::move(text), std::move(fix)});
}
inline void AddError(const char* check, std::string text, std::string fix,
                     Findings* out, int worker = -1) {
  out->push_back(
      {check, Severity::kError, worker, std::move(text), std::move(fix)});
}

}  // namespace ringlet

#endif  // RINGLET_NET_DOCTOR_FINDING_H_
