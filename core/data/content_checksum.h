// ContentChecksum: compares the data of workers.

#ifndef RINGLET_CORE_DATA_CONTENT_CHECKSUM_H_
#define RINGLET_CORE_DATA_CONTENT_CHECKSUM_H_

#include <cstdint>

#include "ringlet/dataset.h"

namespace ringlet {

// A checksum of the examples of a pass, x and y in the source's types, and of
// the source's AugmentDigest, the same on every machine. If they have more than
// a few MiB, it uses a sample: one example from each of many equal stretches,
// the same on every machine. An example that cannot be read changes the
// checksum and is not an error here: the step that needs it reports the error.
uint64_t ContentChecksum(const Dataset& dataset);

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_CONTENT_CHECKSUM_H_
