// Verdict: whose machine computes otherwise than the others.
//
// Internal to core/. Workers that compute one and the same, from the same
// state, have the same bits. Where they have not, the processor or the memory
// of some is at fault, and more than half of them decide of whom.

#ifndef RINGLET_CORE_MODEL_VERDICT_H_
#define RINGLET_CORE_MODEL_VERDICT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../base/collective.h"
#include "../base/status.h"

namespace ringlet {

// What a rank found, a digest for each of `parts`; none: it is not judged.
using Findings = std::vector<int64_t>;

// `all` by rank, the same on every rank; `parts` are in words what the digests
// are of, `where` when they were made. OK where all findings are equal. Else
// kOutOfSync on the ranks whose findings are not those of more than half, and
// kPeerLost on the others, which go on without them; where no finding is that
// of more than half, kOutOfSync on all. *named becomes the ranks that the error
// names.
Status Judge(const Collective& collective, const std::vector<Findings>& all,
             const std::vector<const char*>& parts, const std::string& where,
             std::vector<int>* named);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_VERDICT_H_
