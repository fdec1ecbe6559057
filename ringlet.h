// ringlet: trains neural networks on small machines.
//
// Public. The umbrella: every public header of what is built in.

#ifndef RINGLET_RINGLET_H_
#define RINGLET_RINGLET_H_

#include "core/base/message.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/base/version.h"
#include "core/fit/callback.h"
#include "core/fit/callbacks.h"
#include "core/fit/fit.h"
#include "core/layers/custom_layer.h"
#include "core/model/check_gradients.h"
#include "core/model/custom_loss.h"
#include "core/model/custom_metric.h"
#include "core/model/model.h"
#include "io/checkpoint/backup_and_restore.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/checkpoint_manager.h"
#include "io/checkpoint/model_checkpoint.h"
#include "io/checkpoint/model_file.h"
#include "io/checkpoint/save_when_trained.h"
#include "io/data/csv.h"
#include "io/data/idx.h"
#include "io/data/npy.h"
#include "io/events/csv_logger.h"
#include "io/events/tensorboard.h"
#include "io/events/trace.h"
#include "io/files/file_system.h"
#include "io/keras/model_json.h"
#include "net/cluster/cluster.h"
#include "net/strategy/strategy.h"

#endif  // RINGLET_RINGLET_H_
