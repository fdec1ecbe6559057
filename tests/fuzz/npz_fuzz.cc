// Fuzz entry: any bytes as an npz file. Whatever they are, there is an error
// that names the file, or arrays that lie within it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/readers/npz.h"
#include "weights_file.h"

using namespace ringlet;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SimulatedFileSystem files;
  WriteFuzzed(data, size, &files);
  NpzReader reader;
  const Status opened = reader.Open(&files, kPath);
  CheckRead(opened);
  if (!opened.ok()) return 0;
  CheckRead(reader.Verify());
  for (const StoredTensor& tensor : reader.tensors()) {
    const size_t bytes = static_cast<size_t>(tensor.shape.elements()) *
                         SizeOf(DTypeOf(tensor.storage));
    RINGLET_CHECK(bytes <= size * 1032);  // deflate makes no more
    std::vector<char> elements(bytes);
    CheckRead(reader.Read(tensor, elements.data()));
  }
  return 0;
}
