// Abort: the frame by which a rank reports to the others that the job has
// failed.
//
// Pure. Layout: docs/wire_format.md, "Ends".

#ifndef RINGLET_NET_WIRE_ABORT_H_
#define RINGLET_NET_WIRE_ABORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

struct AbortNotice {
  Code code = Code::kInternal;
  int rank = -1;    // with kPeerLost: the lost rank; -1: the sender
  int origin = -1;  // the rank that failed first; -1: none
  std::string text;
  bool ended = false;  // the process of the lost rank has ended
};

// `text` is cut at kTextBytes.
std::vector<uint8_t> EncodeAbort(const AbortNotice& notice);
// If the notice names a rank outside of the ring, `sender` is used in its
// place. False: the payload is too short.
bool DecodeAbort(const uint8_t* payload, size_t bytes, int size, int sender,
                 AbortNotice* out);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_ABORT_H_
