#include "c_header.h"

#include <algorithm>
#include <memory>

#include "../../core/base/text.h"

namespace ringlet {
namespace {

// The beginning of each header file.
constexpr char kHeaderMark[] =
    "/* The functions of a model in C, written by ringlet";

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// An error if the file at `path` exists and does not begin with kHeaderMark.
Status CheckReplaceable(FileSystem* files, const std::string& path) {
  std::unique_ptr<File> file;
  const Status opened = files->Open(path, &file);
  if (opened.code() == Code::kNotFound) return Status();
  RINGLET_RETURN_IF_ERROR(opened);
  std::string start(sizeof(kHeaderMark) - 1, '\0');
  for (size_t done = 0, got = 1; done < start.size() && got > 0; done += got) {
    RINGLET_RETURN_IF_ERROR(file->ReadSome(
        static_cast<int64_t>(done), &start[done], start.size() - done, &got));
  }
  if (start == kHeaderMark) return Status();
  return InvalidArgument(
      "%s: the model's header would replace this file, which ringlet has not "
      "written; give the model's file another name, or move this one",
      path.c_str());
}

}  // namespace

Status CheckCName(const std::string& name) {
  constexpr size_t kLongest = 40;
  const bool good = !name.empty() && name.size() <= kLongest &&
                    IsLetter(name[0]) &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return IsLetter(c) || (c >= '0' && c <= '9') || c == '_';
                    });
  if (good) return Status();
  return InvalidArgument(
      "'%s' is not a name that C functions can begin with; give letters, "
      "digits and '_', a letter first, at most %zu",
      Printable(name).c_str(), kLongest);
}

std::string CHeaderPath(const std::string& path) {
  return WithoutSuffix(path, ".c") + ".h";
}

std::string CHeaderText(const std::string& name, const Shape& in,
                        const Shape& out, bool int8) {
  std::string upper = name;
  for (char& c : upper)
    c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  const auto count = [](const Shape& shape) {
    return std::to_string(shape.elements());
  };
  std::string text = std::string(kHeaderMark) + " " RINGLET_VERSION ".\n\n";
  text +=
      "   in:  " + in.ToString() + "\n   out: " + out.ToString() + " */\n\n";
  text +=
      "#ifndef " + upper + "_PREDICT_H\n#define " + upper + "_PREDICT_H\n\n";
  if (int8) text += "#include <stdint.h>\n\n";
  text += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
  text += "#define " + upper + "_IN " + count(in) + "\n";
  text += "#define " + upper + "_OUT " + count(out) + "\n\n";
  text += "/* One example; returns 0. */\n";
  text += "int " + name + "_predict(const float* in, float* out);\n";
  if (int8) {
    text += "int " + name + "_predict_int8(const int8_t* in, int8_t* out);\n";
  }
  return text + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
}

Status OpenCHeader(FileSystem* files, const std::string& path,
                   const std::string& text, AtomicFile* file) {
  RINGLET_RETURN_IF_ERROR(CheckReplaceable(files, path));
  RINGLET_RETURN_IF_ERROR(file->Open(files, path, 0));
  return file->file()->Write(text.data(), text.size());
}

}  // namespace ringlet
