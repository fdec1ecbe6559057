// CsvRows: going on with a log of rows behind those of a backup.
//
// Internal to core/.

#ifndef RINGLET_CORE_CSV_ROWS_H_
#define RINGLET_CORE_CSV_ROWS_H_

#include <cstdint>
#include <string>

#include "status.h"

namespace ringlet {

// Cuts the file at *offset, where the rows of a backup ended. Where it is
// shorter, since it was removed or a power cut took its end, it keeps the whole
// rows that are there: a warning names `callback` and the file, and *offset is
// where they end. Before the file is opened to go on, so that no stream has
// read what is cut.
Status KeepRows(const char* callback, const std::string& filename,
                int64_t* offset);

}  // namespace ringlet

#endif  // RINGLET_CORE_CSV_ROWS_H_
