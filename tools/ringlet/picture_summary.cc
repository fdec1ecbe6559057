#include "picture_summary.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "core/base/text.h"
#include "io/pictures/picture.h"
#include "io/readers/picture_list.h"

namespace ringlet {
namespace {

constexpr size_t kMaxListed = 12;  // sizes

std::string CountLine(const std::string& name, int64_t count, size_t width) {
  char line[64];
  std::snprintf(line, sizeof(line), "%10s\n", WithCommas(count).c_str());
  return "  " + name + std::string(width - name.size(), ' ') + line;
}

std::string SizeText(const std::pair<int64_t, int64_t>& size) {
  return std::to_string(size.first) + " x " + std::to_string(size.second);
}

std::string SizesText(const PictureSummary& summary) {
  std::vector<std::pair<int64_t, std::pair<int64_t, int64_t>>> sizes;
  for (const auto& [size, count] : summary.sizes) {
    sizes.emplace_back(-count, size);
  }
  std::sort(sizes.begin(), sizes.end());
  std::string text = "height x width:\n";
  for (size_t i = 0; i < sizes.size() && i < kMaxListed; ++i) {
    text += CountLine(SizeText(sizes[i].second), -sizes[i].first, 24);
  }
  if (sizes.size() <= kMaxListed) return text;
  const auto count = static_cast<int64_t>(sizes.size() - kMaxListed);
  return text + "  and " + WithCommas(count) + " other sizes\n";
}

}  // namespace

Status SummarizePictures(const std::string& directory,
                         PictureSummary* summary) {
  PictureList list;
  RINGLET_RETURN_IF_ERROR(ListPicturesOrClasses(directory, &list));
  summary->classes = list.classes;
  summary->counts.resize(list.classes.size());
  for (const int32_t label : list.labels) {
    ++summary->counts[static_cast<size_t>(label)];
  }
  summary->pictures = static_cast<int64_t>(list.paths.size());
  for (const std::string& path : list.paths) {
    Picture picture;
    const Status read = ReadPictureSize(path, &picture);
    if (read.ok()) {
      ++summary->sizes[{picture.height, picture.width}];
      ++summary->channels[picture.channels];
      continue;
    }
    if (summary->unreadable++ == 0) summary->first_problem = read.message();
  }
  return Status();
}

std::string ToText(const std::string& path, const PictureSummary& summary) {
  const auto classes = static_cast<int64_t>(summary.classes.size());
  std::string text =
      path + ": " + WithCommas(summary.pictures) + " pictures" +
      (classes == 0 ? ", without classes"
                    : " in " + WithCommas(classes) + " folders, the classes:") +
      "\n";
  size_t width = 24;
  for (const std::string& name : summary.classes) {
    width = std::max(width, Printable(name).size());
  }
  for (size_t i = 0; i < summary.classes.size(); ++i) {
    text += CountLine(Printable(summary.classes[i]), summary.counts[i], width);
  }
  if (!summary.sizes.empty()) text += SizesText(summary);
  if (!summary.channels.empty()) text += "channels:\n";
  constexpr const char* kNames[] = {"", "1, gray", "2, gray and alpha",
                                    "3, RGB", "4, RGB and alpha"};
  for (const auto& [channels, count] : summary.channels) {
    text += CountLine(kNames[channels], count, 24);
  }
  if (summary.unreadable == 0) return text;
  return text + "not readable: " + WithCommas(summary.unreadable) +
         "; the first: " + summary.first_problem + "\n";
}

}  // namespace ringlet
