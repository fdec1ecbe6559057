// ClassNumbers: labels that are names, as class numbers.
//
// Internal to io/. A class's number is its place among the sorted distinct
// names (by bytes), as numpy.unique and scikit-learn's LabelEncoder have it.

#ifndef RINGLET_IO_DATA_CLASS_NAMES_H_
#define RINGLET_IO_DATA_CLASS_NAMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ringlet {

class ClassNumbers {
 public:
  static constexpr size_t kMost = 65536;  // more are no classes

  // A number until Sort is called; -1 where there are too many names.
  int32_t Add(const std::string& name);
  // Turns what Add gave into class numbers; the result are their names.
  std::vector<std::string> Sort(int32_t* numbers, int64_t count) const;

 private:
  std::map<std::string, int32_t> seen_;
};

// Tells on stderr, in a line: "note: y.npy: labels are names, classes in their
// order: 0 'bag', 1 'coat'".
void TellClassNames(const std::string& path,
                    const std::vector<std::string>& names);

}  // namespace ringlet

#endif  // RINGLET_IO_DATA_CLASS_NAMES_H_
