// Two fits of a model, and the state after them.

#ifndef RINGLET_TESTS_SUPPORT_TWO_FITS_H_
#define RINGLET_TESTS_SUPPORT_TWO_FITS_H_

#include <gtest/gtest.h>

#include <vector>

#include "expect_ok.h"
#include "model_weights.h"
#include "tiny_model.h"

namespace ringlet {

struct Trained {
  std::vector<float> weights, predictions;
  double loss = 0;
};

// Trains on 210 of the examples that data(count) gives: the last batch is
// short for most sizes. Predicts 23.
template <typename Data>
Trained TrainTwice(Model* model, const Data& data, int64_t batch) {
  Trained trained;
  for (int fit = 0; fit < 2; ++fit) {
    const auto history =
        model->Fit(data(210).Shuffle(3).Batch(batch), Quiet(2));
    EXPECT_OK(history.status());
    if (!history.ok()) return trained;
    trained.loss = history->Values("loss").back();
  }
  trained.weights = WeightsOf(model);
  const auto predicted = model->Predict(data(23).Batch(10));
  EXPECT_OK(predicted.status());
  trained.predictions = predicted.value();
  return trained;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_TWO_FITS_H_
