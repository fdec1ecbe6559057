// In place of the commands and flags for growing folders of pictures and sound,
// in a build without pictures.

#include "core/base/left_out.h"
#include "train_watch.h"

namespace ringlet {

Status TrainWatched(const WatchedRun&, const WatchFlags&) {
  return LeftOut("--watch", "pictures");
}

}  // namespace ringlet
