// ResumedState: the part of a run's state that its backup has.
//
// Between the backup and the resume a callback or a metric may have been added
// or removed. An added one starts from the beginning, and the state of a
// removed one is dropped. All other state must be in both.

#ifndef RINGLET_IO_CHECKPOINT_RESUMED_STATE_H_
#define RINGLET_IO_CHECKPOINT_RESUMED_STATE_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "../../core/fit/run_state.h"
#include "../weights/safetensors.h"
#include "ringlet/fit.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// The key in a backup's metadata for the text of CallbacksText. The text
// has a line for each callback with a state: the prefix of its tensors' names
// and a digest of Callback::Identity, "callback/csv_logger_1 85944171f73967e8".
constexpr char kCallbacksKey[] = "callbacks";
std::string CallbacksText(FitState* fit);

class ResumedState final : public Saveable {
 public:
  // `fit` outlives the ResumedState.
  explicit ResumedState(FitState* fit) : state_(fit), fit_(*fit) {}

  // Finds the file's tensors for each callback, each metric and the other
  // state.
  void Match(const SafetensorsReader& file);
  // After Match: a line for the user for each callback or metric that differs.
  const std::vector<std::string>& notes() const { return notes_; }
  // After Match: true if a callback was added, removed or has different
  // options.
  bool callbacks_differ() const { return callbacks_differ_; }
  // The tensors of the file that no callback or metric here takes.
  const std::set<std::string>& others() const { return others_; }

  // The spans that the file has, with their names in the file.
  void AppendState(std::vector<StateSpan>* spans) override;
  Status StateLoaded() override { return state_.StateLoaded(); }

 private:
  void MatchCallbacks(const SafetensorsReader& file);
  void MatchClass(std::vector<std::string> current,
                  std::vector<std::string> saved,
                  const std::map<std::string, std::string>& saved_identities);
  void MatchSpan(const SafetensorsReader& file, const StateSpan& span);
  void DescribeUnusedParts(const SafetensorsReader& file);
  std::string NameInFile(const std::string& name) const;

  RunState state_;
  FitState& fit_;
  // The callbacks' identities, by their parts.
  std::map<std::string, std::string> identities_;
  // Maps a callback's or metric's part of the run's state to its part of the
  // file. Empty if it starts from the beginning.
  std::map<std::string, std::string> parts_;
  bool callbacks_differ_ = false;
  std::set<std::string> others_;
  // Parts of the file that need no further note: they are loaded, or named in
  // notes_.
  std::set<std::string> noted_;
  std::vector<std::string> notes_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_RESUMED_STATE_H_
