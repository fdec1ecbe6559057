// The text of the functions that a model in C calls.
//
// A file has only the functions that it uses.

#ifndef RINGLET_IO_EXPORT_C_C_HELPERS_H_
#define RINGLET_IO_EXPORT_C_C_HELPERS_H_

#include <cstddef>
#include <string>

#include "../lowering.h"
#include "ringlet/layers.h"

namespace ringlet {

// Names of functions, such as "conv".
class CHelpers {
 public:
  // Adds names that are separated by spaces; "" adds none.
  void Add(const char* names);
  void Add(const CHelpers& more) { Add(more.names_.c_str()); }
  bool Has(const char* name) const;

 private:
  std::string names_ = " ";
};

// The operation of a PReLU in merge(). merge() also has the operations of
// Merge, except kAverage.
constexpr int kCMergePRelu = 5;
static_assert(kCMergePRelu == static_cast<int>(Merge::kAverage));

// A constant: "0.5f".
std::string CNumber(float value);
// `name` without a "*", which could end a comment.
std::string ForComment(std::string name);
// `bytes` as a string: "a\"b".
std::string CString(const std::string& bytes);

struct CHelperRow {
  const char* name;
  const char* needs;  // the names of functions that it calls
  const char* text;
};
struct CHelperTable {
  const CHelperRow* rows = nullptr;
  size_t count = 0;
};
// Returns these functions and the functions that they call. Each function
// precedes its uses. A function of `others` replaces the function of the same
// name.
std::string CHelperTexts(const CHelpers& helpers,
                         const CHelperTable& others = {});

// A function that replaces n numbers x by the expression.
std::string CFunction(const std::string& name, const std::string& expression);

// The expression of an activation of one number x; null if there is none. Adds
// the function that it needs to *helpers.
const char* CExpression(Activation activation, CHelpers* helpers);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_HELPERS_H_
