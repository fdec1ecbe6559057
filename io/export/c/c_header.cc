#include "c_header.h"

#include <cstdint>
#include <memory>

#include "../../../core/base/text.h"
#include "../../files/atomic_file.h"

namespace ringlet {
namespace {

// The beginning of each header file.
constexpr char kHeaderMark[] =
    "/* The functions of a model in C, written by ringlet";

}  // namespace

Status CheckReplaceable(FileSystem* files, const std::string& path,
                        const std::string& mark) {
  std::unique_ptr<File> file;
  const Status opened = files->Open(path, &file);
  if (opened.code() == Code::kNotFound) return Status();
  RINGLET_RETURN_IF_ERROR(opened);
  std::string start;
  RINGLET_RETURN_IF_ERROR(ReadUpTo(file.get(), 0, mark.size(), &start));
  if (start.empty() || start == mark) return Status();
  return InvalidArgument(
      "%s: the model would replace this file, which ringlet has not written; "
      "give the model's file another name, or move this one",
      path.c_str());
}

std::string CHeaderPath(const std::string& path) {
  return WithoutSuffix(path, ".c") + ".h";
}

std::string CHeaderText(const CInterface& c) {
  const std::string upper = UpperName(c.name);
  const auto define = [&](const std::string& what, int64_t count) {
    return "#define " + upper + "_" + what + " " + std::to_string(count) + "\n";
  };
  const std::string first = upper + "_" + UpperName(c.inputs[0].name);
  std::string text = std::string(kHeaderMark) + " " RINGLET_VERSION ".\n\n";
  const auto line = [](const CArgument& argument, const std::string& what) {
    const size_t spaces = argument.name == "in" ? 2 : 1;
    return "   " + argument.name + ":" + std::string(spaces, ' ') + what;
  };
  for (const CArgument& in : c.inputs) {
    text += line(in, &in == &c.inputs[0] ? c.InText() : in.shape.ToString());
    text += "\n";
  }
  for (const CArgument& out : c.outputs) {
    text += line(out, out.shape.ToString());
    text += &out == &c.outputs.back() ? " */\n\n" : "\n";
  }
  // The guard has the name with its capitals, since Ab and aB are two models.
  const std::string guard = c.name + "_PREDICT_H";
  text += "#ifndef " + guard + "\n#define " + guard + "\n\n";
  if (c.int8) text += "#include <stdint.h>\n\n";
  text += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
  // Two models must not have these macros in one source file.
  text += "#ifdef " + first + "\n#error " + first +
          " is also the name of another macro: give one of the models "
          "another name, or include its header in another file\n#endif\n";
  for (const CArgument& in : c.inputs) {
    const bool raw = &in == &c.inputs[0];
    text +=
        define(UpperName(in.name), raw ? c.num_inputs() : in.shape.elements());
  }
  for (const CArgument& out : c.outputs) {
    text += define(UpperName(out.name), out.shape.elements());
  }
  if (!c.classes.empty()) {
    text += define("CLASSES", static_cast<int64_t>(c.classes.size()));
  }
  if (c.batch > 0) {
    text += define("BATCH", c.batch) + define("TARGETS", c.targets) +
            define("STATE", c.state_bytes);
  }
  return text + "\n" + CDeclarations(c) +
         "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
}

Status OpenCHeader(FileSystem* files, const std::string& path,
                   const std::string& text, AtomicFile* file) {
  RINGLET_RETURN_IF_ERROR(CheckReplaceable(files, path, kHeaderMark));
  RINGLET_RETURN_IF_ERROR(file->Open(files, path, 0));
  return file->file()->Write(text.data(), text.size());
}

}  // namespace ringlet
