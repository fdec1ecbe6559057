#include "seal_stream.h"

#include <utility>

#include "loop.h"

namespace ringlet {

Status SealStream(SealedStream::Maker* make,
                  const std::shared_ptr<const JobKeys>& keys,
                  const ListenerIdentity& listener, SeenGreetings* answered,
                  StreamPtr* stream) {
  if (keys == nullptr || (*stream)->is_local()) return Status();
  uint8_t secret[kNoiseKeyBytes];
  RINGLET_RETURN_IF_ERROR(SecureStart());
  const int error =
      uv_random(nullptr, nullptr, secret, sizeof(secret), 0, nullptr);
  if (error != 0) return UvError(error, "no random numbers");
  *stream = make(std::move(*stream), keys, listener, secret, answered);
  WipeMemory(secret, sizeof(secret));
  return Status();
}

}  // namespace ringlet
