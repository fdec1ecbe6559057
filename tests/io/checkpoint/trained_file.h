// A small model that is trained and compared by its bits.

#ifndef RINGLET_TESTS_IO_CHECKPOINT_TRAINED_FILE_H_
#define RINGLET_TESTS_IO_CHECKPOINT_TRAINED_FILE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "../../support/expect_ok.h"
#include "../../support/tiny_model.h"

namespace ringlet {

inline bool SameBits(Model* a, Model* b) {
  return a->num_weights() == b->num_weights() &&
         std::memcmp(a->weights(), b->weights(),
                     static_cast<size_t>(a->num_weights()) * sizeof(float)) ==
             0;
}

inline void Train(Model* model, int64_t epochs) {
  ASSERT_OK(model->Fit(Points(96).Shuffle(/*seed=*/3).Batch(8), Quiet(epochs))
                .status());
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_IO_CHECKPOINT_TRAINED_FILE_H_
