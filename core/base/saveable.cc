#include "saveable.h"

#include "collective.h"

namespace ringlet {

Status BroadcastState(Collective* collective,
                      const std::vector<Saveable*>& state, int root) {
  std::vector<StateSpan> spans;
  for (Saveable* part : state) part->AppendState(&spans);
  for (const StateSpan& span : spans) {
    RINGLET_RETURN_IF_ERROR(
        BroadcastNumbers(collective, span.data, SizeOf(span.dtype),
                         static_cast<size_t>(span.shape.elements()), root));
  }
  if (collective->rank() == root) return Status();
  for (Saveable* part : state) {
    RINGLET_RETURN_IF_ERROR(part->StateLoaded());
  }
  return Status();
}

}  // namespace ringlet
