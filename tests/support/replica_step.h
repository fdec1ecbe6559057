// Makes one step of one replica with a model of its own, as a reference for
// tests of replicas.

#ifndef RINGLET_TESTS_SUPPORT_REPLICA_STEP_H_
#define RINGLET_TESTS_SUPPORT_REPLICA_STEP_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/data/dataset_parts.h"
#include "expect_ok.h"
#include "ringlet/dataset.h"
#include "ringlet/model.h"

namespace ringlet {

// Trains on replica r's part of the batch at *at, which has points with their
// classes (tiny_model.h), and advances *at. Returns the number of examples.
inline double TrainPart(Model* model, const Dataset& data, int r, int replicas,
                        DataPosition* at) {
  const BatchPlan plan = data.parts().Plan(*at, r, replicas);
  std::vector<int64_t> numbers;
  for (int64_t k = 0; k < plan.count; ++k) {
    numbers.push_back(data.parts().ExampleAt(*at, plan.first + k, r, replicas));
  }
  *at = plan.next;
  if (plan.count == 0) return 0;
  std::vector<float> x(numbers.size() * 2);
  std::vector<int32_t> y(numbers.size());
  EXPECT_OK(data.source()->Read(
      numbers.data(), static_cast<int>(numbers.size()), x.data(), y.data()));
  Batch batch;
  batch.count = batch.global_count = plan.count;
  batch.x = x.data();
  batch.y = y.data();
  EXPECT_OK(model->TrainStep(batch));
  return static_cast<double>(plan.count);
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_REPLICA_STEP_H_
