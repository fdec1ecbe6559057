// ringlet: trains neural networks on small machines.
//
// Public. The umbrella: every public header of what is built in.

#ifndef RINGLET_RINGLET_H_
#define RINGLET_RINGLET_H_

#include "core/callback.h"
#include "core/callbacks.h"
#include "core/check_gradients.h"
#include "core/custom_layer.h"
#include "core/custom_loss.h"
#include "core/custom_metric.h"
#include "core/fit.h"
#include "core/message.h"
#include "core/model.h"
#include "core/status.h"
#include "core/step_logger.h"
#include "core/thread.h"
#include "core/version.h"
#include "io/backup_and_restore.h"
#include "io/checkpoint.h"
#include "io/checkpoint_directory.h"
#include "io/checkpoint_manager.h"
#include "io/compile_json.h"
#include "io/csv.h"
#include "io/event_file.h"
#include "io/file_system.h"
#include "io/idx.h"
#include "io/inspect.h"
#include "io/model_checkpoint.h"
#include "io/model_file.h"
#include "io/model_json.h"
#include "io/npy.h"
#include "io/npz.h"
#include "io/safetensors.h"
#include "io/save_when_trained.h"
#include "io/tensorboard.h"
#include "io/trace.h"
#include "net/cluster.h"
#include "net/launcher.h"
#include "net/ring_collective.h"
#include "net/strategy.h"

#endif  // RINGLET_RINGLET_H_
