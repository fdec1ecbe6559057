// ringlet: trains neural networks on small machines.
//
// Includes every public header.

#ifndef RINGLET_RINGLET_H_
#define RINGLET_RINGLET_H_

#include "checkpoint.h"
#include "collective.h"
#include "compute.h"
#include "custom_layer.h"
#include "dataset.h"
#include "export.h"
#include "files.h"
#include "fit.h"
#include "layers.h"
#include "local_updates.h"
#include "loggers.h"
#include "losses.h"
#include "metrics.h"
#include "model.h"
#include "optimizers.h"
#include "readers.h"
#include "shape.h"
#include "status.h"
#include "strategy.h"

#endif  // RINGLET_RINGLET_H_
