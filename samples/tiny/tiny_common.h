// The data of the MLPerf Tiny networks, shared by the samples.

#ifndef RINGLET_SAMPLES_TINY_TINY_COMMON_H_
#define RINGLET_SAMPLES_TINY_TINY_COMMON_H_

#include <cstdlib>
#include <string>

#include "ringlet/ringlet.h"

// FOLDER and EPOCHS of a sample's arguments.
struct TinyArguments {
  TinyArguments(int argc, char** argv)
      : folder(argc > 1 ? argv[1] : "samples/tiny/data"),
        epochs(argc > 2 ? std::atoll(argv[2]) : 0) {}
  ringlet::Dataset Data(const std::string& name) const {
    return ringlet::NpyDataset(folder + "/" + name + "_x.npy",
                               folder + "/" + name + "_y.npy");
  }

  std::string folder;
  int64_t epochs;  // 0: those of the benchmark
};

#endif  // RINGLET_SAMPLES_TINY_TINY_COMMON_H_
