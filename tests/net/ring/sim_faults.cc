#include "sim_faults.h"

namespace ringlet {
namespace sim {

void Faults::CutWithin(int64_t within) {
  network_.At(network_.now() + network_.Random(within), [this] {
    const int a = static_cast<int>(network_.Random(size_));
    const int b = static_cast<int>(network_.Random(size_));
    ++count_;
    if (a != b) network_.Cut(a, b, network_.Chance(3));
    job_.Trace(a, "is cut from " + std::to_string(b) + ", as it forms");
    OverBy(network_.now());
  });
}

// A part of them hears the other no more, or each other.
void Faults::Partition(int64_t lasts) {
  const int bits = std::min(size_, 62);
  const int64_t sides = 1 + network_.Random((int64_t{1} << bits) - 1);
  const bool one_way = network_.Chance(4);
  const bool ragged = network_.Chance(4);  // some pairs only
  job_.Trace(0, "and others are parted, " + std::to_string(sides) + " for " +
                    std::to_string(lasts / kMs) + " ms");
  for (int a = 0; a < size_; ++a) {
    for (int b = 0; b < size_; ++b) {
      if ((sides >> a & 1) == 0 || (sides >> b & 1) != 0) continue;
      if (ragged && network_.Chance(2)) continue;
      network_.Block(a, b, network_.now() + lasts);
      if (!one_way) network_.Block(b, a, network_.now() + lasts);
    }
  }
}

bool Faults::JustWoke(int worker) const {
  const Stall& stall = stalls_[static_cast<size_t>(worker)];
  const int64_t awake = network_.now() - stall.until;
  return stall.until - stall.from > lasting_ + lasting_ / 2 && awake >= 0 &&
         awake < lasting_ / 8;
}

void Faults::Draw() {
  const int a = static_cast<int>(network_.Random(size_));
  const int b = static_cast<int>(network_.Random(size_));
  int64_t lasts = lasting_ / 4 + network_.Random(4 * lasting_);
  ++count_;
  const int64_t kind = network_.Random(7);
  if (kind <= 1) {
    job_.Crash(a, kind == 1);
    if (!network_.Chance(4) || all_return_) {
      network_.At(network_.now() + lasts, [this, a] { job_.Start(a); });
    }
  } else if (kind <= 3) {
    if (a != b) network_.Cut(a, b, kind == 3);
    job_.Trace(a, "is cut from " + std::to_string(b));
    lasts = 0;
  } else if (kind <= 5) {
    Partition(lasts);
  } else {
    job_.Trace(a, "stands still for " + std::to_string(lasts / kMs) + " ms");
    network_.Stall(a, lasts);
    Stall& stall = stalls_[static_cast<size_t>(a)];
    if (network_.now() > stall.until) stall.from = network_.now();
    stall.until = std::max(stall.until, network_.now() + lasts);
  }
  OverBy(network_.now() + lasts);
}

}  // namespace sim
}  // namespace ringlet
