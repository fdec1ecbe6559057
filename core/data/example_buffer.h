// ExampleBuffer: reads the coming examples of a loader ahead.
//
// The loader names its coming examples group by group, in the order of their
// use. While the examples of one group are used, the next group is read into
// the memory that becomes free. A group of a block shuffle is read in the order
// of the source, so that a file is read in long pieces. The buffer decides when
// an example is read, never which.
//
// Called by one thread at a time.

#ifndef RINGLET_CORE_DATA_EXAMPLE_BUFFER_H_
#define RINGLET_CORE_DATA_EXAMPLE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ringlet/compute.h"
#include "ringlet/dataset.h"
#include "ringlet/status.h"

namespace ringlet {

class ExampleBuffer {
 public:
  struct Options {
    std::shared_ptr<Source> source;
    bool read_targets = true;
    int64_t slots = 1;     // examples in the buffer
    int64_t block = 1;     // examples of a read
    bool by_index = true;  // a group is read in the order of the source
    // The number of threads that read at the same time, with blocks of one
    // example.
    int threads = 1;
    // Appends the examples of the next group, at most `slots`. If it appends
    // none, the end of the data is near; it is asked again with `needed` when
    // more are used.
    std::function<void(bool needed, std::vector<int64_t>* index)> next_group;
  };

  // kResourceExhausted if there is no memory for the slots.
  static Status Make(Options options, std::unique_ptr<ExampleBuffer>* buffer);

  // Copies the next `count` examples, which are index[0..count). An error of
  // the source is reported when its example is needed.
  Status Read(const int64_t* index, int64_t count, void* x, void* y);
  // Drops the next `count` examples.
  void Skip(int64_t count);
  // Reads one block ahead. False without room or an example, or after an error.
  bool ReadAhead();

 private:
  struct Group {
    std::vector<int64_t> index;  // the examples in the order of use
    std::vector<int32_t> order;  // the order of reading; empty if as used
    // The slot of each example; negative if it is not read.
    std::vector<int32_t> slot;
    size_t read = 0, used = 0;

    bool all_read() const { return read == index.size(); }
    size_t PlaceOfRead(size_t i) const {
      return order.empty() ? i : static_cast<size_t>(order[i]);
    }
  };

  explicit ExampleBuffer(Options options);
  void Load(bool needed, Group* group);
  void BeginNextGroup();
  Group* GroupToRead();
  Status ReadBlock(Group* group, size_t count);
  Status ReadInParallel(Group* group, size_t count);

  const Options options_;
  const size_t x_bytes_, y_bytes_;
  std::unique_ptr<unsigned char[]> x_, y_;  // the slots
  std::vector<int32_t> free_;               // slots
  Group present_, next_;
  std::unique_ptr<ThreadPool> threads_;  // null for one thread
  std::vector<Status> read_;             // the results of ReadInParallel
  std::vector<int64_t> block_index_;
  std::vector<unsigned char> block_x_, block_y_;
  Status error_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_EXAMPLE_BUFFER_H_
