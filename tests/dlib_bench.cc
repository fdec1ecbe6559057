// Training steps of dlib, for tools/bench.py. Reads lines "train NET BATCH 1"
// and answers each with the milliseconds of a step. The networks are from
// support/bench_networks.h; dlib computes on one thread.

#include <dlib/dnn.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

using dlib::add_layer, dlib::con_, dlib::fc, dlib::max_pool, dlib::relu;
using Image = dlib::input<dlib::matrix<float>>;
using Colors = dlib::input<std::array<dlib::matrix<float>, 3>>;
template <typename Subnet>
using Loss = dlib::loss_multiclass_log<Subnet>;

template <long kFilters, long kSize, long kStride, long kPadding, typename From>
using Conv = add_layer<
    con_<kFilters, kSize, kSize, kStride, kStride, kPadding, kPadding>, From>;
template <long kFilters, long kStride, typename From>
using Normalized = dlib::bn_con<Conv<kFilters, 3, kStride, 1, From>>;
template <long kFilters, long kStride, typename From>
using Block =
    Normalized<kFilters, 1, relu<Normalized<kFilters, kStride, From>>>;
template <long kFilters, typename From>
using Residual = relu<dlib::add_prev1<Block<kFilters, 1, dlib::tag1<From>>>>;
template <long kFilters, typename From>
using Narrowing = relu<dlib::add_prev2<
    Conv<kFilters, 1, 2, 0,
         dlib::skip1<dlib::tag2<Block<kFilters, 2, dlib::tag1<From>>>>>>>;

using Mlp = Loss<fc<10, relu<fc<128, Image>>>>;
using LeNet5 = Loss<fc<
    10,
    relu<fc<84, relu<fc<120,
                        max_pool<2, 2, 2, 2,
                                 relu<Conv<16, 5, 1, 0,
                                           max_pool<2, 2, 2, 2,
                                                    relu<Conv<6, 5, 1, 2,
                                                              Image>>>>>>>>>>>>;
using ResNet8 = Loss<
    fc<10,
       dlib::avg_pool_everything<Narrowing<
           64, Narrowing<32, Residual<16, relu<Normalized<16, 1, Colors>>>>>>>>;

class Trainer {
 public:
  virtual ~Trainer() = default;
  virtual void Step() = 0;
};

dlib::matrix<float> Noise(long size) {
  return dlib::matrix_cast<float>(dlib::randm(size, size));
}
void MakeExample(long size, dlib::matrix<float>* x) { *x = Noise(size); }
void MakeExample(long size, std::array<dlib::matrix<float>, 3>* x) {
  for (dlib::matrix<float>& color : *x) color = Noise(size);
}

template <typename Net>
class TrainerOf final : public Trainer {
 public:
  TrainerOf(long batch, long size)
      : solvers_(Net::num_computational_layers, dlib::adam(0, 0.9f, 0.999f)) {
    std::vector<typename Net::input_type> examples(static_cast<size_t>(batch));
    for (auto& example : examples) MakeExample(size, &example);
    net_.to_tensor(examples.begin(), examples.end(), x_);
    for (long i = 0; i < batch; ++i) {
      labels_.push_back(static_cast<unsigned long>(i % 10));
    }
  }
  void Step() override {
    net_.compute_parameter_gradients(x_, labels_.begin());
    net_.update_parameters(solvers_, 0.0003);
  }

 private:
  Net net_;
  std::vector<dlib::adam> solvers_;
  dlib::resizable_tensor x_;
  std::vector<unsigned long> labels_;
};

std::unique_ptr<Trainer> Make(const std::string& network, long batch) {
  if (network == "mlp") return std::make_unique<TrainerOf<Mlp>>(batch, 28);
  if (network == "lenet5") {
    return std::make_unique<TrainerOf<LeNet5>>(batch, 28);
  }
  return std::make_unique<TrainerOf<ResNet8>>(batch, 32);
}

double Milliseconds(Trainer* trainer) {
  const auto begin = std::chrono::steady_clock::now();
  trainer->Step();
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace

int main() {
  std::map<std::string, std::unique_ptr<Trainer>> trainers;
  char network[16] = "";
  long batch = 0, threads = 0;
  while (std::scanf(" train %15s %ld %ld", network, &batch, &threads) == 3) {
    std::unique_ptr<Trainer>& trainer =
        trainers[network + std::to_string(batch)];
    if (trainer == nullptr) trainer = Make(network, batch);
    for (int i = 0; i < 3; ++i) trainer->Step();
    std::printf("%.4f\n", Milliseconds(trainer.get()));
    std::fflush(stdout);
  }
  return 0;
}
