#include "csv_rows.h"

#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>

namespace ringlet {
namespace {

int64_t EndOfRows(FILE* file) {
  std::rewind(file);
  int64_t at = 0, end = 0;
  for (int c; (c = std::fgetc(file)) != EOF;) {
    ++at;
    if (c == '\n') end = at;
  }
  return end;
}

}  // namespace

Status KeepRows(const char* callback, const std::string& filename,
                int64_t* offset) {
  FILE* const file = std::fopen(filename.c_str(), "a+b");
  if (file == nullptr) {
    return OsError(errno, "%s: cannot be written", filename.c_str());
  }
  std::fseek(file, 0, SEEK_END);
  const int64_t size = std::ftell(file);
  if (size < *offset) {
    std::fprintf(stderr,
                 "warning: %s: %s has %" PRId64 " of the %" PRId64
                 " bytes that it had when the backup was made; rows are "
                 "missing\n",
                 callback, filename.c_str(), size, *offset);
    *offset = EndOfRows(file);
  }
  Status status;
  if (ftruncate(fileno(file), static_cast<off_t>(*offset)) != 0) {
    status = OsError(errno, "%s: going back to offset %" PRId64,
                     filename.c_str(), *offset);
  }
  std::fclose(file);
  return status;
}

}  // namespace ringlet
