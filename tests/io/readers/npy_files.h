// Made-up NPY files, for the tests of their reader.

#ifndef RINGLET_TESTS_IO_READERS_NPY_FILES_H_
#define RINGLET_TESTS_IO_READERS_NPY_FILES_H_

#include "ringlet/readers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../../support/data_files.h"

namespace ringlet {

inline std::string Dictionary(const std::string& descr,
                              const std::string& shape,
                              const std::string& fortran_order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran_order +
         ", 'shape': " + shape + ", }";
}

// A file with this header, as numpy pads it.
inline std::string Npy(int version, std::string header,
                       const std::string& elements) {
  const size_t length_bytes = version == 1 ? 2 : 4;
  header.append(63 - (8 + length_bytes + header.size()) % 64, ' ');
  header += '\n';
  const std::string length =
      Packed(std::vector<uint32_t>{static_cast<uint32_t>(header.size())},
             /*big_endian=*/false)
          .substr(0, length_bytes);
  return "\x93NUMPY" + std::string(1, static_cast<char>(version)) + '\0' +
         length + header + elements;
}

// Version 1, little endian, f4, (2, 3).
inline std::string Small() {
  return Npy(
      1, Dictionary("<f4", "(2, 3)"),
      Packed(std::vector<float>{1, 2, 3, 4, 5, 6}, /*big_endian=*/false));
}

inline Status ReadOne(const std::string& path, std::string* content) {
  NpyArray array;
  const Status status = ReadNpy(path, &array);
  content->assign(array.data.begin(), array.data.end());
  return status;
}

inline Status ErrorOf(const std::string& path) {
  std::string ignored;
  return ReadOne(path, &ignored);
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_IO_READERS_NPY_FILES_H_
