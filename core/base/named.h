// Named: a row of a table with the names of values.

#ifndef RINGLET_CORE_BASE_NAMED_H_
#define RINGLET_CORE_BASE_NAMED_H_

#include <cstddef>

namespace ringlet {

// A value and its names, separated by spaces. The first name is written.
template <typename T>
struct Named {
  const char* names;
  T value;
};

// The name of a value, in a table with one name for each; `absent` if the table
// does not have the value.
template <typename T, size_t n>
const char* NameIn(const Named<T> (&table)[n], T value,
                   const char* absent = "unknown") {
  for (const Named<T>& entry : table) {
    if (entry.value == value) return entry.names;
  }
  return absent;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_NAMED_H_
