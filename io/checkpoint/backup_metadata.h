// What a backup says of the run that made it, in its file's metadata.
//
// Internal to io/.

#ifndef RINGLET_IO_CHECKPOINT_BACKUP_METADATA_H_
#define RINGLET_IO_CHECKPOINT_BACKUP_METADATA_H_

#include <string>

#include "../../core/base/status.h"
#include "../../core/fit/callback.h"
#include "../files/file_system.h"
#include "safetensors.h"

namespace ringlet {

// Of a backup that is made now.
Metadata DescribeRun(const FitState& fit);

// Of the run that saved the file; in files that are older than replicas there
// was one for each worker. 0: it does not say.
int ReplicasOf(const Metadata& saved);

// Whether the file is of this very run, as far as that can be told.
bool IsSameRun(const Metadata& saved, const FitState& fit);
// That, and of a later step than `fit`.
bool IsFurther(const Metadata& saved, const FitState& fit);

// What the weights' names and shapes do not tell, before any is overwritten.
// Another loss and other data are the user's choice, as in Keras, but seldom a
// wish: a warning.
Status CheckRun(FileSystem* files, const std::string& path,
                const FitState& fit);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_BACKUP_METADATA_H_
