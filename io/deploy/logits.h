// Internal to io/deploy.

#ifndef RINGLET_IO_DEPLOY_LOGITS_H_
#define RINGLET_IO_DEPLOY_LOGITS_H_

#include "../../core/base/status.h"
#include "../../core/model/model.h"

namespace ringlet {

// Whether a layer's output has its input's numbers, once it is trained.
bool GivesItsInput(const Layer& layer);

// An error where a softmax behind this node would follow no logits.
Status CheckLogits(const Model& model, int node);

// Of the neighbouring axes of a Softmax layer, in a shape of this rank.
int FirstSoftmaxAxis(const Layer& layer, int rank);

// An error, with `path`, where the model has no weights to export.
Status CheckHasWeights(const Model& model, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_LOGITS_H_
