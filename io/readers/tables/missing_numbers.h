// Texts of a table that mean a missing value. A program that exports a model
// needs them, also if it reads no tables.

#ifndef RINGLET_IO_READERS_TABLES_MISSING_NUMBERS_H_
#define RINGLET_IO_READERS_TABLES_MISSING_NUMBERS_H_

#include <vector>

#include "ringlet/dataset.h"

namespace ringlet {

// The numbers among the texts that mean a missing value.
std::vector<float> MissingNumbers(const TableEncoding& encoding);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_MISSING_NUMBERS_H_
