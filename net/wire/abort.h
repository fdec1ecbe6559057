// Abort: the frame by which a worker reports to the other workers that the job
// has failed.
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
  int worker = -1;  // the lost worker with kPeerLost; -1 means the sender
  int origin = -1;  // the worker that failed first; -1 if there is none
  std::string text;
  bool ended = false;  // the process of the lost worker has ended
};

// `text` is cut at kTextBytes.
std::vector<uint8_t> EncodeAbort(const AbortNotice& notice);
// If the notice names a worker outside of the list, `sender` is used in its
// place. False if the payload is too short.
bool DecodeAbort(const uint8_t* payload, size_t bytes, int size, int sender,
                 AbortNotice* out);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_ABORT_H_
