// The division of a folder of pictures by the program.

#include <gtest/gtest.h>

#include <string>

#include "../support/contains.h"
#include "../support/picture_folder.h"
#include "../support/program.h"
#include "../support/temp_folder.h"

namespace ringlet {
namespace {

class ProgramPicturesSplitTest : public ProgramTest {
 protected:
  // Trains on a folder with this validation.
  int TrainWith(const std::string& validation) {
    WriteClasses(folder_ / "train", {"a", "b"}, 8);
    WriteWhole(folder_ / "run.json",
               R"({"model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 4, 6, 1]}},
    {"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 2}}]}},
  "compile": {"optimizer": "sgd", "loss": "mse"},
  "data": {"train": {"directory": "train", "scale": 0.004,
                     "label_mode": "categorical"},
           "validation": {"directory": "train", "scale": 0.004,
                          "validation_split": 0.25)" +
                   validation + "}}}");
    return Run({"train", "run.json", "--no-save"});
  }
};

TEST_F(ProgramPicturesSplitTest, Train_ValidationSplitWithoutSubset_IsRefused) {
  for (const char* subset : {"", ", \"subset\": \"both\""}) {
    EXPECT_EQ(TrainWith(subset), 2);
    EXPECT_TRUE(Contains(
        err_, "data.validation: has a validation_split without a \"subset\""));
  }
  EXPECT_EQ(TrainWith(", \"subset\": \"validation\""), 0) << err_;
  EXPECT_TRUE(Contains(err_, "classes in their order: 0 'a', 1 'b'"));
}

}  // namespace
}  // namespace ringlet
