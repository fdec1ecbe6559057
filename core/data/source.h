// Source: random access to the examples of a data set.
//
// Public. A Source gives any example by its index, so that the batch a worker
// sees is computed from (seed, data position, rank, world), never remembered.
// The element types are those of the file (uint8 images stay uint8); Dataset
// converts and scales as it fills a batch.
//
// An error of Read ends what needs the batch; so does an exception (kInternal,
// with name() and what()), on whatever thread it is thrown. The other methods
// must not throw.

#ifndef RINGLET_CORE_DATA_SOURCE_H_
#define RINGLET_CORE_DATA_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../base/shape.h"
#include "../base/status.h"

namespace ringlet {

// Element type and shape of one example's x or y (without batch dimension).
struct ExampleSpec {
  DType dtype = DType::kFloat32;
  Shape shape;
  size_t bytes() const {
    return SizeOf(dtype) * static_cast<size_t>(shape.elements());
  }
};

class Source {
 public:
  virtual ~Source() = default;

  // The number of examples; constant for the life of the source.
  virtual int64_t size() const = 0;

  virtual ExampleSpec x() const = 0;
  // Labels: shape () for class numbers or a scalar target. Zero elements
  // (shape (0,)) where the source has no labels.
  virtual ExampleSpec y() const = 0;

  // Of a source of several inputs or targets (Zip) what each is; x() and y()
  // are then rows of all their values.
  virtual std::vector<ExampleSpec> Inputs() const { return {x()}; }
  virtual std::vector<ExampleSpec> Targets() const { return {y()}; }

  // Copies examples index[0..count) to x and y, one after another, in the
  // types of x() and y(). `y` may be null, and `x` where a loader was opened
  // for labels alone. Indices are in [0, size()). May be called from a thread
  // other than the one that made it, one call at a time.
  virtual Status Read(const int64_t* index, int count, void* x, void* y) = 0;

  // Bounds of all values of x, where they are known, or in memory: so that
  // nobody needs to read the examples to know them. False: not known, or a
  // value is not a number.
  virtual bool XRange(double* /*least*/, double* /*largest*/) const {
    return false;
  }

  // Where the labels are names in the file: that of each class number, sorted.
  // Empty where they are numbers.
  virtual std::vector<std::string> ClassNames() const { return {}; }

  // Where each file of the source begins, for sharding by file; the first is
  // 0. Empty where the source is not made of files.
  virtual std::vector<int64_t> FileStarts() const { return {}; }

  // For messages: "train-images-idx3-ubyte.gz", "memory".
  virtual std::string name() const = 0;
  // The same of the labels, where they are a file of their own.
  virtual std::string y_name() const { return name(); }
};

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_SOURCE_H_
