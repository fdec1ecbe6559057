#include "picture_summary.h"

#include <algorithm>
#include <cinttypes>

#include "core/base/text.h"
#include "io/pictures/picture.h"
#include "io/readers/files/picture_list.h"
#include "io/sound/wav.h"

namespace ringlet {
namespace {

constexpr size_t kMaxListed = 12;  // sizes

std::string CountLine(const std::string& name, int64_t count, size_t width) {
  return "  " + name + std::string(width - name.size(), ' ') +
         FormatText("%10s\n", WithCommas(count).c_str());
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

// Counts the files of `kind`, and calls read(path, &problem) for each.
template <typename Read>
Status Summarize(const MediaKind& kind, const std::string& directory,
                 ClassSummary* summary, const Read& read) {
  FileList list;
  RINGLET_RETURN_IF_ERROR(ListFilesOrClasses(kind, directory, &list));
  summary->classes = list.classes;
  summary->counts.resize(list.classes.size());
  for (const int32_t label : list.labels) {
    ++summary->counts[static_cast<size_t>(label)];
  }
  summary->files = static_cast<int64_t>(list.paths.size());
  for (const std::string& path : list.paths) {
    const Status status = read(path);
    if (status.ok()) continue;
    if (summary->unreadable++ == 0) summary->first_problem = status.message();
  }
  return Status();
}

std::string ClassesText(const std::string& path, const char* noun,
                        const ClassSummary& summary) {
  const auto classes = static_cast<int64_t>(summary.classes.size());
  std::string text =
      path + ": " + WithCommas(summary.files) + " " + noun +
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
  return text;
}

std::string ProblemText(const ClassSummary& summary) {
  if (summary.unreadable == 0) return "";
  return "not readable: " + WithCommas(summary.unreadable) +
         "; the first: " + summary.first_problem + "\n";
}

// The most frequent numbers.
std::string NumbersText(const char* title,
                        const std::map<int64_t, int64_t>& numbers) {
  std::vector<std::pair<int64_t, int64_t>> sorted;
  sorted.reserve(numbers.size());
  for (const auto& [number, count] : numbers)
    sorted.emplace_back(-count, number);
  std::sort(sorted.begin(), sorted.end());
  std::string text = numbers.empty() ? "" : std::string(title) + ":\n";
  for (size_t i = 0; i < sorted.size() && i < kMaxListed; ++i) {
    text += CountLine(std::to_string(sorted[i].second), -sorted[i].first, 24);
  }
  if (sorted.size() <= kMaxListed) return text;
  const auto unlisted = static_cast<int64_t>(sorted.size() - kMaxListed);
  return text + "  and " + WithCommas(unlisted) + " others\n";
}

}  // namespace

Status SummarizePictures(const std::string& directory,
                         PictureSummary* summary) {
  return Summarize(kPictureFiles, directory, summary,
                   [&](const std::string& path) {
                     Picture picture;
                     const Status read = ReadPictureSize(path, &picture);
                     if (!read.ok()) return read;
                     ++summary->sizes[{picture.height, picture.width}];
                     ++summary->channels[picture.channels];
                     return read;
                   });
}

Status SummarizeSound(const std::string& directory, SoundSummary* summary) {
  return Summarize(kSoundFiles, directory, summary,
                   [&](const std::string& path) {
                     WavFormat format;
                     const Status read = ReadSoundFormat(path, &format);
                     if (!read.ok()) return read;
                     ++summary->rates[format.rate];
                     ++summary->channels[format.channels];
                     ++summary->lengths[format.frames];
                     return read;
                   });
}

std::string ToText(const std::string& path, const PictureSummary& summary) {
  std::string text = ClassesText(path, "pictures", summary);
  if (!summary.sizes.empty()) text += SizesText(summary);
  if (!summary.channels.empty()) text += "channels:\n";
  constexpr const char* kNames[] = {"", "1, gray", "2, gray and alpha",
                                    "3, RGB", "4, RGB and alpha"};
  for (const auto& [channels, count] : summary.channels) {
    text += CountLine(kNames[channels], count, 24);
  }
  return text + ProblemText(summary);
}

std::string ToText(const std::string& path, const SoundSummary& summary) {
  return ClassesText(path, "sound files", summary) +
         NumbersText("sampling rate, in Hz", summary.rates) +
         NumbersText("channels", summary.channels) +
         NumbersText("samples", summary.lengths) + ProblemText(summary);
}

}  // namespace ringlet
