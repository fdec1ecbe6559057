// Other data for a saved model: scaled and named as its training data.

#ifndef RINGLET_TOOLS_RINGLET_DATA_DATA_MATCH_H_
#define RINGLET_TOOLS_RINGLET_DATA_DATA_MATCH_H_

#include <optional>

#include "../config/data_config.h"
#include "ringlet/dataset.h"

namespace ringlet {

// The scale of the data, if it is given and the model has one input.
std::optional<Scale> GivenScale(const DataConfig& data);
bool SameScale(const Scale& a, const Scale& b);

// Gives `data` the scale of the training data, unless it has its own, and the
// names of columns and classes. If that is another scale, there is a warning.
// Data with several inputs are not changed.
void MatchData(const DataDescription& trained_on, DataConfig* data);

// The description of the data for a model that is trained on `source`; nothing
// for several inputs. If `source` has no names, as a file without a header,
// the fields of `before` are used: the description of a model that is trained
// further, or null. A note lists names that a model file cannot have.
std::optional<DataDescription> DescribeData(const DataConfig& data,
                                            const Source& source,
                                            const DataDescription* before);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_DATA_DATA_MATCH_H_
