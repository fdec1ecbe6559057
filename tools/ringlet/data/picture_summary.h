// PictureSummary and SoundSummary: the classes and sizes of the files in a
// folder.

#ifndef RINGLET_TOOLS_RINGLET_DATA_PICTURE_SUMMARY_H_
#define RINGLET_TOOLS_RINGLET_DATA_PICTURE_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

struct ClassSummary {
  std::vector<std::string> classes;  // empty: no folders, so no labels
  std::vector<int64_t> counts;       // files of each class
  int64_t files = 0;
  int64_t unreadable = 0;     // files of which not even the size can be read
  std::string first_problem;  // the problem of the first of these
};

struct PictureSummary : ClassSummary {
  // How many pictures have a height and width, and a number of channels.
  std::map<std::pair<int64_t, int64_t>, int64_t> sizes;
  std::map<int, int64_t> channels;
};

struct SoundSummary : ClassSummary {
  // How many files have a rate, a number of channels and a number of samples.
  std::map<int64_t, int64_t> rates, channels, lengths;
};

// Each reads the beginnings of the files.
Status SummarizePictures(const std::string& directory, PictureSummary* summary);
Status SummarizeSound(const std::string& directory, SoundSummary* summary);

std::string ToText(const std::string& path, const PictureSummary& summary);
std::string ToText(const std::string& path, const SoundSummary& summary);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_DATA_PICTURE_SUMMARY_H_
