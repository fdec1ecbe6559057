// RunMark: of which run, and of which step of it, a saved model is.
//
// Internal to io/. Where the network parts an elastic job whose workers share a
// disk, each part has a chief that saves, to the same names. All parts compute
// one history, so what another part has saved at a later step is what this one
// would save there, and stays; but where one has named a machine that computes
// wrong, what has numbers of that which it does not believe counts as of
// before. A run that begins over older files, on whatever worker's disk, counts
// one more than these, and replaces them. The keys are part of the format
// (docs/checkpoint_format.md).

#ifndef RINGLET_IO_CHECKPOINT_RUN_MARK_H_
#define RINGLET_IO_CHECKPOINT_RUN_MARK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../../core/base/collective.h"
#include "../../core/fit/callback.h"
#include "../../core/model/worker_steps.h"
#include "../files/file_system.h"
#include "checkpoint.h"

namespace ringlet {

struct RunMark {
  int64_t attempt = 0;         // of the runs that saved there; 0: none is known
  int64_t fit = 0;             // of the run, from 0
  int64_t epoch = 0;           // from 0
  int64_t step = 0;            // of it that were taken
  UncomparedSteps uncompared;  // in that state
  Disbelief disbelief;         // of those who saved it
  // By what those of the other know the model may be wrong.
  bool IsOfBefore(const RunMark& other) const {
    return uncompared.AreOf(other.disbelief);
  }
  // Of the same run, and of a later fit or step, where neither is of before.
  bool IsLaterThan(const RunMark& other) const;
};

// … and the state that `fit` has now, of the run with that number.
RunMark MarkOf(const FitState& fit, int64_t attempt, int64_t fits,
               int64_t step);

void AddMark(const RunMark& mark, Metadata* metadata);

// Of the file at `path`, whose header alone is read; an empty one where there
// is no such file, or it says nothing that makes sense.
RunMark MarkAt(FileSystem* files, const std::string& path);
// Those of all ranks, which call it together.
Status GatherMarks(Collective* collective, const RunMark& mine,
                   std::vector<RunMark>* all);
int64_t MostAttempts(const std::vector<RunMark>& all);

// One that comes to the run may have a file of a run before, which was not
// counted when this began, and of whatever step, for the run may go back. By
// its mark alone it could be of a part of this job; but then those who were
// here see it too, or one that is later still, unless it is on a disk of its
// own, and its part without it. `counted`: this rank was here, and so its file
// is this job's. `now`: the state that all have. All ranks call it; *attempt is
// the run's from here on.
Status CountComers(Collective* collective, bool counted, const RunMark& now,
                   const std::function<RunMark()>& file, int64_t* attempt);

// Keeps what the same run has saved later, in that sense.
class LaterStays final : public SaveGuard {
 public:
  LaterStays(FileSystem* files, const std::string& path, const RunMark& mark)
      : files_(*files), path_(path), mark_(mark) {}
  bool Keeps() override;
  bool kept() const { return kept_; }
  // When that was saved, in words.
  const char* when() const {
    return named_ ? "after it named a machine that computes wrong"
                  : "at a later step";
  }

 private:
  FileSystem& files_;
  const std::string path_;
  const RunMark mark_;
  bool kept_ = false, named_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_RUN_MARK_H_
