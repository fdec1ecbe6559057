// ringlet inspect and diff: files of weights, tables and event logs.

#include <algorithm>
#include <cstdio>

#include "../command_line.h"
#include "../data/picture_summary.h"
#include "../data/table_summary.h"
#include "../run/events.h"
#include "../run/run.h"
#include "commands.h"
#include "core/base/text.h"
#include "io/checkpoint/inspect.h"
#include "io/files/path.h"
#include "io/pictures/picture.h"
#include "io/readers/files/picture_list.h"
#include "io/sound/wav.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

// Prints the pictures and the sound of a folder; false if there are none.
bool InspectFolder(const std::string& path) {
  PictureSummary pictures;
  SoundSummary sound;
  const bool has_pictures = SummarizePictures(path, &pictures).ok(),
             has_sound = SummarizeSound(path, &sound).ok();
  if (has_pictures) std::printf("%s", ToText(path, pictures).c_str());
  if (has_sound) std::printf("%s", ToText(path, sound).c_str());
  return has_pictures || has_sound;
}

Status InspectSound(const std::string& path) {
  WavFormat format;
  RINGLET_RETURN_IF_ERROR(ReadSoundFormat(path, &format));
  std::printf("%s: sound of %lld samples at %lld Hz, %d channels, %d bits%s\n",
              path.c_str(), static_cast<long long>(format.frames),
              static_cast<long long>(format.rate), format.channels, format.bits,
              format.is_float ? ", floats" : "");
  return Status();
}

Status Inspect(const std::string& path, bool json) {
  RINGLET_RETURN_IF_ERROR(CheckEventLogVersion(path));
  if (!json && (EndsWith(path, ".csv") || EndsWith(path, ".csv.gz"))) {
    TableSummary summary;
    RINGLET_RETURN_IF_ERROR(SummarizeTable(path, &summary));
    std::printf("%s", ToText(path, summary).c_str());
    return Status();
  }
  if (!json && IsFolder(path) && InspectFolder(path)) return Status();
  if (!json && !IsFolder(path) && HasPictures(path)) {
    Picture picture;
    RINGLET_RETURN_IF_ERROR(ReadPictureSize(path, &picture));
    std::printf(
        "%s: a picture of %d x %d pixels (height x width), %d channels\n",
        path.c_str(), static_cast<int>(picture.height),
        static_cast<int>(picture.width), picture.channels);
    return Status();
  }
  if (!json && !IsFolder(path) && HasSound(path)) return InspectSound(path);
  FileInfo info;
  RINGLET_RETURN_IF_ERROR(InspectFile(path, &info, CommandFileSystem()));
  const std::string text = json ? ToJson(info) : ToText(info);
  std::printf("%s%s", text.c_str(),
              text.empty() || text.back() != '\n' ? "\n" : "");
  if (info.verification != Verification::kDamaged) return Status();
  // The error for a damaged npz has its own advice.
  const char kAdvice[] = "; take another copy of it";
  const bool advised = EndsWith(info.damage, kAdvice);
  return Corruption("%s: %s%s", path.c_str(), info.damage.c_str(),
                    advised ? "" : kAdvice);
}

}  // namespace

int InspectCommand(const std::vector<std::string>& line) {
  bool json = false, verbose = false;
  CommandLine flags(
      "inspect", "FILE...",
      "Shows layers, tensors and metadata of a safetensors, npz or npy file,\n"
      "and verifies every byte by its checksums. For the event logs of a\n"
      "job's workers (ringlet train --events) it reports which worker waited\n"
      "for which, which was lost, and how each ended. For a CSV it shows each\n"
      "column. It names the kind of other files.\n",
      "\nExit code: 1 if a file is damaged.\n");
  flags.Switch("--json", &json,
               "print JSON; not for event logs, which are JSON");
  flags.Switch("--verbose", &verbose, "for event logs: print each event");
  int code = 0;
  if (!flags.Parse(line, 1, SIZE_MAX, &code)) return code;
  const std::vector<std::string>& files = flags.arguments();
  // One log is enough: an empty or damaged file beside it does not matter.
  const bool logs = std::any_of(files.begin(), files.end(), IsEventLogFile);
  if (logs && !json) return InspectEventLogs(files, verbose);
  if (files.size() > 1 || logs || verbose) {
    return flags.UsageError(
        InvalidArgument("several files and --verbose are only for event logs "
                        "of workers, and --json only for other files"));
  }
  return InputExitCode(Inspect(files[0], json));
}

int DiffCommand(const std::vector<std::string>& line) {
  bool json = false;
  CommandLine flags(
      "diff", "A B",
      "Compares two files of safetensors, npz or npy: metadata, and tensors "
      "by\n"
      "name, bit for bit.\n",
      "\nExit code: 0 if they are the same, 1 if they differ.\n");
  flags.Switch("--json", &json, "print JSON");
  int code = 0;
  if (!flags.Parse(line, 2, 2, &code)) return code;
  FileComparison comparison;
  const Status status =
      CompareFiles(flags.arguments()[0], flags.arguments()[1], &comparison,
                   FileComparison::kMaxListed, CommandFileSystem());
  if (!status.ok()) return InputExitCode(status);
  const std::string text = json ? ToJson(comparison) : ToText(comparison);
  std::printf("%s%s", text.c_str(),
              text.empty() || text.back() != '\n' ? "\n" : "");
  return comparison.same() ? 0 : 1;
}

}  // namespace ringlet
