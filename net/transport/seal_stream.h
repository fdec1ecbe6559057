// SealStream: puts a SealedStream above a connection by TCP.

#ifndef RINGLET_NET_TRANSPORT_SEAL_STREAM_H_
#define RINGLET_NET_TRANSPORT_SEAL_STREAM_H_

#include <memory>

#include "sealed_stream.h"

namespace ringlet {

// `make` is SealedStream::Connect or Accept, which explain `listener` and
// `answered`. Draws the secret. Does nothing without keys, and for a local
// socket: the system identifies its other end.
Status SealStream(SealedStream::Maker* make,
                  const std::shared_ptr<const JobKeys>& keys,
                  const ListenerIdentity& listener, SeenGreetings* answered,
                  StreamPtr* stream);

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_SEAL_STREAM_H_
