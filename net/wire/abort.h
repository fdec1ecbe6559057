// Abort: the frame by which a rank tells the others that the job cannot go on.
//
// Internal to net/. Pure. Layout: docs/wire_format.md, "Ends".

#ifndef RINGLET_NET_WIRE_ABORT_H_
#define RINGLET_NET_WIRE_ABORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/status.h"

namespace ringlet {

struct AbortNotice {
  Code code = Code::kInternal;
  int rank = -1;    // of kPeerLost the one that was lost; -1: the sender
  int origin = -1;  // the one that gave up of its own accord; -1: nobody
  std::string text;
  bool ended = false;  // the process of the one that was lost
};

// `text` is cut at kTextBytes.
std::vector<uint8_t> EncodeAbort(const AbortNotice& notice);
// Ranks that the ring does not have become `sender`. False where it is too
// short.
bool DecodeAbort(const uint8_t* payload, size_t bytes, int size, int sender,
                 AbortNotice* out);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_ABORT_H_
