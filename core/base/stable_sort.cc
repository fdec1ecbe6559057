#include "stable_sort.h"

#include <algorithm>
#include <numeric>

namespace ringlet {

std::vector<size_t> SortedPlaces(
    size_t count, const std::function<bool(size_t, size_t)>& before) {
  std::vector<size_t> places(count);
  std::iota(places.begin(), places.end(), size_t{0});
  std::stable_sort(places.begin(), places.end(),
                   [&](size_t a, size_t b) { return before(a, b); });
  return places;
}

}  // namespace ringlet
