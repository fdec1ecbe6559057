// NPZ: NumPy's files of several named arrays.
//
// A file is a zip archive of NPY files (PKWARE APPNOTE 4.3). It is written
// without compression (numpy.savez), with at most 4 GiB and 65535 arrays. It is
// also read with compression (savez_compressed), and with more (Zip64).

#ifndef RINGLET_IO_READERS_ARRAYS_NPZ_H_
#define RINGLET_IO_READERS_ARRAYS_NPZ_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../../files/atomic_file.h"
#include "../../files/file_system.h"
#include "../tensor_file.h"
#include "npy_layout.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// Files are untrusted: every size is checked before memory is allocated, and
// the size of an entry is measured before it is unpacked.
class NpzReader : public TensorFile {
 public:
  // Reads the directory and the arrays' headers. kCorruption, with the place,
  // for an invalid file; kUnimplemented for a format that numpy does not write.
  // The tensors have their names in numpy.load, and the order of the directory.
  // `offset` and `bytes` describe the stored entry. `crc` is zip's checksum.
  Status Open(FileSystem* files, const std::string& path) override;

  const FileVersion& version() const { return version_; }  // as it was opened

  bool verifiable() const override { return true; }
  Status Verify() const override;
  Status VerifyTensor(const StoredTensor& tensor) const override;
  // Also compares the checksum. kInvalidArgument for text too, and for a tensor
  // that is `unread`.
  Status Read(const StoredTensor& tensor, void* elements) const override;
  // Reads the bytes of the elements as they are in the file:
  // LayoutOf(tensor).stored_bytes(). `memory` returns room for them. It is
  // called once a compressed entry is known to be whole.
  using Memory = std::function<unsigned char*()>;
  Status ReadBytes(const StoredTensor& tensor, const Memory& memory) const;
  // The elements' place in the file; -1 if they are compressed.
  int64_t ElementsOffset(const StoredTensor& tensor) const {
    const Entry& entry = EntryOf(tensor);
    return entry.deflated ? -1 : tensor.offset + entry.data_at;
  }
  const NpyLayout& LayoutOf(const StoredTensor& tensor) const {
    return EntryOf(tensor).layout;
  }

 private:
  // The properties of tensors_[i] that are not in StoredTensor.
  struct Entry {
    bool deflated = false;
    int64_t size = 0;     // inflated
    int64_t data_at = 0;  // a place in the inflated NPY file
    NpyLayout layout;
  };
  Status FindDirectory(int64_t file_bytes, int64_t* begin, int64_t* bytes,
                       int64_t* count) const;
  Status FindDirectory64(int64_t end, int64_t* begin, int64_t* bytes,
                         int64_t* count) const;
  Status ReadDirectory(const std::vector<unsigned char>& directory,
                       int64_t begin, int64_t count);
  Status AddEntry(const unsigned char* fields, int64_t end,
                  int64_t* data_bytes);
  Status CheckEntry(const std::string& where, const StoredTensor& tensor,
                    const Entry& entry, int flags, int method) const;
  Status FindData(const std::string& where, const std::string& file_name,
                  int64_t end, StoredTensor* tensor) const;
  Status ReadContentStart(const std::string& where, const StoredTensor& tensor,
                          const Entry& entry, int64_t max_bytes,
                          std::vector<unsigned char>* start) const;
  Status ReadNpyHeader(const std::string& where, StoredTensor* tensor,
                       Entry* entry) const;
  Status ReadStored(const StoredTensor& tensor,
                    std::vector<unsigned char>* stored) const;
  Status CheckContent(const StoredTensor& tensor,
                      const std::vector<unsigned char>& stored) const;
  Status Damaged(const StoredTensor& tensor, const char* fault) const;
  const Entry& EntryOf(const StoredTensor& tensor) const {
    return entries_[IndexOf(tensor)];
  }

  std::shared_ptr<File> file_;
  FileVersion version_;
  std::vector<Entry> entries_;  // an entry for each tensor
};

class NpzWriter {
 public:
  Status Open(FileSystem* files, const std::string& path);
  // Adds the array numpy.load(path)[name]. `data` has shape.elements()
  // elements. kInvalidArgument if the file would become too large.
  Status Add(const std::string& name, DType dtype, const Shape& shape,
             const void* data);
  // After OK the file exists, and is durable. Without this call there is no
  // file.
  Status Finish();

 private:
  Status Write(const std::string& bytes);

  std::string path_;
  AtomicFile file_;
  int64_t offset_ = 0;
  int64_t count_ = 0;
  std::string directory_;  // the central directory of the arrays so far
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_ARRAYS_NPZ_H_
