// ringlet: trains neural networks on small machines.
//
// Public. The umbrella: every public header of what is built in.

#ifndef RINGLET_RINGLET_H_
#define RINGLET_RINGLET_H_

#include "core/base/message.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/base/thread_pool.h"
#include "core/fit/callback.h"
#include "core/fit/fit.h"
#include "core/fit/training_loop.h"
#include "core/layers/custom_layer.h"
#include "core/model/attendance.h"
#include "core/model/model.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/model_file.h"
#include "io/checkpoint/saving_callbacks.h"
#include "io/data/attendance_file.h"
#include "io/data/readers.h"
#include "io/deploy/c_file.h"
#include "io/deploy/onnx_file.h"
#include "io/events/loggers.h"
#include "io/events/trail.h"
#include "io/files/file_system.h"
#include "io/files/sealed_files.h"
#include "io/keras/model_json.h"
#include "net/cluster/cluster.h"
#include "net/strategy/strategy.h"

#endif  // RINGLET_RINGLET_H_
