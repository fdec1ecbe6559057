// Folders of small pictures.

#ifndef RINGLET_TESTS_SUPPORT_PICTURE_FOLDER_H_
#define RINGLET_TESTS_SUPPORT_PICTURE_FOLDER_H_

#include <filesystem>
#include <string>
#include <vector>

#include "temp_folder.h"

namespace ringlet {

// A PGM of one gray.
inline std::string GrayPgm(int height, int width, int value) {
  return "P5 " + std::to_string(width) + " " + std::to_string(height) +
         " 255\n" +
         std::string(static_cast<size_t>(height * width),
                     static_cast<char>(value));
}

// Writes `count` pictures of 4 x 6 into a folder for each class. Picture i of
// class c has the gray 80 c + i.
inline void WriteClasses(const std::string& folder,
                         const std::vector<std::string>& classes, int count) {
  for (size_t c = 0; c < classes.size(); ++c) {
    const std::string name = folder + "/" + classes[c];
    std::filesystem::create_directories(name);
    for (int i = 0; i < count; ++i) {
      const std::string number = std::to_string(100 + i);
      WriteWhole(name + "/" + number + ".pgm",
                 GrayPgm(4, 6, static_cast<int>(80 * c) + i));
    }
  }
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_PICTURE_FOLDER_H_
