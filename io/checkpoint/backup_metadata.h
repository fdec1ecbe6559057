// Describes a run in its backup's metadata, and compares the two on a resume.

#ifndef RINGLET_IO_CHECKPOINT_BACKUP_METADATA_H_
#define RINGLET_IO_CHECKPOINT_BACKUP_METADATA_H_

#include <string>

#include "../files/file_system.h"
#include "../weights/safetensors.h"
#include "resumed_state.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {

// The metadata of a backup that is written now.
Metadata RunMetadata(FitState* fit);

// The number of replicas of the run that saved the file. Files from before
// replicas give the number of workers. Zero if unknown.
int SavedReplicas(const Metadata& saved);

// True if the file was saved by this run, as far as the metadata show.
bool IsSameRun(const Metadata& saved, const FitState& fit);

// True if the file names a different optimizer from the optimizer of the model.
bool IsOfAnotherOptimizer(const Metadata& saved, const Model& model);

// Differences between a backup and the run that the user allows.
struct AllowedChanges {
  bool optimizer = false, seed = false;
};

// Compares the properties of the runs that names and shapes of weights do not
// show. Call it before any weight is overwritten. Another optimizer or seed is
// an error unless `allowed` allows it. Another loss and other data give a
// warning: Keras allows them, but they are rarely intended.
Status CheckRun(FileSystem* files, const std::string& path, const FitState& fit,
                const AllowedChanges& allowed);

// The number of replicas of the newest backup's run. Zero if there is no
// backup, or it cannot be read; then the fit reports the error.
int ReplicasOfBackup(const std::string& backup_dir,
                     FileSystem* files = PosixFiles());

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_BACKUP_METADATA_H_
