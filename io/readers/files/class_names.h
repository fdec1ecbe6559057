// ClassNumbers: converts labels that are names to class numbers.
//
// A class's number is its index among the sorted distinct names (by bytes), as
// in numpy.unique and scikit-learn's LabelEncoder.

#ifndef RINGLET_IO_READERS_FILES_CLASS_NAMES_H_
#define RINGLET_IO_READERS_FILES_CLASS_NAMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

class ClassNumbers {
 public:
  // If there are more names, the labels are not classes.
  static constexpr size_t kMax = 65536;

  // Returns a number that is valid until Sort; -1 if there are too many names.
  int32_t Add(const std::string& name);
  // Replaces the numbers of Add by class numbers. Returns the classes' names.
  std::vector<std::string> Sort(int32_t* numbers, int64_t count) const;

 private:
  std::map<std::string, int32_t> seen_;
};

// "'a', 'b' and 3 more", for a message.
std::string ListNames(const std::vector<std::string>& names);

// Returns the error for a label that is none of `classes`, at `where` in a
// file.
Status UnknownClass(const std::string& where, const std::string& label,
                    const std::vector<std::string>& classes);

// Prints one line on stderr: "note: y.npy: labels are names, classes in their
// order: 0 'bag', 1 'coat'".
void PrintClassNames(const std::string& path,
                     const std::vector<std::string>& names);

// Prints a note if the file has no example of a class. `is_there` has true for
// each class with an example.
void PrintMissingClasses(const std::string& path,
                         const std::vector<std::string>& classes,
                         const std::vector<bool>& is_there);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_FILES_CLASS_NAMES_H_
