// Runs a fuzz entry over files, folders of files, and random changes of them
// for a fifth of RINGLET_TEST_SECONDS (5): `make test` without libFuzzer.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "../support/random_cases.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

void Run(const std::string& bytes) {
  // The copy on the heap has the exact size, so that ASan finds a read one byte
  // behind it.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

void Load(const fs::path& path, std::vector<std::string>* corpus) {
  std::ifstream in(path, std::ios::binary);
  corpus->emplace_back(std::istreambuf_iterator<char>(in),
                       std::istreambuf_iterator<char>());
}

std::string Mutated(const std::vector<std::string>& corpus,
                    std::mt19937* random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : (*random)() % n; };
  std::string text = corpus[below(corpus.size())];
  for (size_t changes = 1 + below(8); changes > 0; --changes) {
    const size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0:
        text.insert(at, 1, static_cast<char>(below(256)));
        break;
      case 1:
        text.erase(at, 1 + below(4));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), below(16)));
        break;
      default: {
        const std::string& other = corpus[below(corpus.size())];
        text = text.substr(0, at) + other.substr(below(other.size()));
      }
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> corpus;
  for (int i = 1; i < argc; ++i) {
    if (fs::is_directory(argv[i])) {
      for (const auto& entry : fs::directory_iterator(argv[i])) {
        if (entry.is_regular_file()) Load(entry.path(), &corpus);
      }
    } else {
      Load(argv[i], &corpus);
    }
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "usage: %s FILE_OR_FOLDER...\n", argv[0]);
    return 2;
  }
  for (const std::string& bytes : corpus) Run(bytes);
  std::mt19937 random(1);
  ringlet::RandomCases cases("RINGLET_FUZZ", {}, /*part=*/1, /*share=*/0.2);
  while (cases.Next()) Run(Mutated(corpus, &random));
  std::printf("%zu inputs and random changes of them replayed\n",
              corpus.size());
  return 0;
}
