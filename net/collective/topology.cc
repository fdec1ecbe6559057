#include "topology.h"

namespace ringlet {
namespace {

bool IsPowerOfTwo(int n) { return n > 0 && (n & (n - 1)) == 0; }

}  // namespace

bool AreLinked(int size, int a, int b) {
  if (a == b) return false;
  if (IsFullyConnected(size)) return true;
  const int distance = a < b ? b - a : a - b;
  return IsPowerOfTwo(distance) || IsPowerOfTwo(size - distance);
}

std::vector<int> LinksOf(int rank, int size, bool all) {
  std::vector<int> out;
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank && (all || AreLinked(size, rank, peer)))
      out.push_back(peer);
  }
  return out;
}

}  // namespace ringlet
