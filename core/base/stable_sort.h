// std::stable_sort for lists that are short, or sorted rarely. One sort of
// places serves the elements of all types; std::stable_sort takes 4 kB of a
// program for each type.

#ifndef RINGLET_CORE_BASE_STABLE_SORT_H_
#define RINGLET_CORE_BASE_STABLE_SORT_H_

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace ringlet {

// Returns the places 0 ... count - 1, sorted. Places of equal elements keep
// their order.
std::vector<size_t> SortedPlaces(
    size_t count, const std::function<bool(size_t, size_t)>& before);

template <typename T, typename Before>
void StableSort(std::vector<T>* items, const Before& before) {
  std::vector<T> sorted;
  sorted.reserve(items->size());
  for (const size_t place :
       SortedPlaces(items->size(), [&](size_t a, size_t b) {
         return before((*items)[a], (*items)[b]);
       })) {
    sorted.push_back(std::move((*items)[place]));
  }
  *items = std::move(sorted);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_STABLE_SORT_H_
