// Models as Keras's configuration: what model.to_json() writes.
//
// Public. ModelFromJson reads the JSON of Keras 3 and of Keras 2 (tf.keras) for
// Sequential and functional models of the layers that ringlet has, models
// within models and layers that are called several times among them; ToJson
// writes Keras 3's form, and where shared layers leave more than one order of
// the calls, "call_order" beside "inbound_nodes", which Keras passes over.
// Weights, and how a model is compiled, are not part of it.
//
// Nothing in a configuration is passed over silently but what changes no model
// of ringlet's: module, registered_name, build_config, compile_config,
// keras_version, backend, shared_object_id, the seed of an initializer (random
// numbers are ringlet's own), and what Keras notes of an input's kind. Whatever
// else ringlet does not have (layers, channels_first, dilation, groups,
// constraints, …) is an error, kInvalidArgument, that names the
// layer and the field. The text is not trusted: at most 1 MiB, 64 levels, 4096
// layers of a model and 16 models within one another are read.

#ifndef RINGLET_IO_KERAS_MODEL_JSON_H_
#define RINGLET_IO_KERAS_MODEL_JSON_H_

#include <memory>
#include <string>

#include "../../core/base/status.h"
#include "../../core/model/model.h"

namespace ringlet {

// For a model whose status() is OK. ReLU, Sigmoid, Tanh and Softmax layers are
// written as Activation. Of equal models the same text. It takes up to a
// kilobyte a layer: beyond a thousand layers ModelFromJson may refuse it. A
// custom layer is written without its options, and not read.
std::string ToJson(const Model& model);

// *model is replaced only where all is well; it is then to be compiled.
Status ModelFromJson(const std::string& json, std::unique_ptr<Model>* model);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_MODEL_JSON_H_
