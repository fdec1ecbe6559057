// PictureSummary: the classes and sizes of the pictures in a folder.

#ifndef RINGLET_TOOLS_RINGLET_PICTURE_SUMMARY_H_
#define RINGLET_TOOLS_RINGLET_PICTURE_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

struct PictureSummary {
  std::vector<std::string> classes;  // empty: no folders, so no labels
  std::vector<int64_t> counts;       // of the classes
  int64_t pictures = 0;
  // How many pictures have a height and width, and a number of channels.
  std::map<std::pair<int64_t, int64_t>, int64_t> sizes;
  std::map<int, int64_t> channels;
  int64_t unreadable = 0;     // of which not even the size can be read
  std::string first_problem;  // of these
};

// Reads the beginning of each picture.
Status SummarizePictures(const std::string& directory, PictureSummary* summary);

std::string ToText(const std::string& path, const PictureSummary& summary);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_PICTURE_SUMMARY_H_
