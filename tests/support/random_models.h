// Models within models and shared layers, drawn at random, and the same models
// of layers added one by one.

#ifndef RINGLET_TESTS_SUPPORT_RANDOM_MODELS_H_
#define RINGLET_TESTS_SUPPORT_RANDOM_MODELS_H_

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ringlet/model.h"

namespace ringlet {

// A model from 6 floats to 6. Value 0 is its input, value i + 1 what item i
// gives; the last is its output.
struct RandomBlock {
  struct Item {
    std::string name;
    Layer layer;                         // used if block and again are not set
    std::shared_ptr<RandomBlock> block;  // a model in place of a layer
    int again = -1;                      // an item that is called again
    std::vector<int> inputs;
  };
  static constexpr int64_t kWidth = 6;

  std::vector<Item> items;
  bool sequential = false;
  bool trainable = true;
};

class RandomModels {
 public:
  explicit RandomModels(uint32_t seed, bool dropout = true, bool shared = true)
      : random_(seed), dropout_(dropout), shared_(shared) {}

  std::shared_ptr<RandomBlock> Draw(int depth) {
    auto block = std::make_shared<RandomBlock>();
    block->sequential = Below(3) == 0;
    const int count = 2 + Below(3);
    std::vector<bool> taken(1, false);
    const auto take = [&](int value) {
      taken[static_cast<size_t>(value)] = true;
      return value;
    };
    for (int i = 0; i < count; ++i) {
      RandomBlock::Item item = DrawItem(*block, depth);
      item.name = "l" + std::to_string(i);
      item.inputs = {take(block->sequential ? i : Below(i + 1))};
      taken.push_back(false);
      block->items.push_back(item);
    }
    std::vector<int> left;
    for (int v = 0; v < count + 1; ++v) {
      if (!taken[static_cast<size_t>(v)]) left.push_back(v);
    }
    RandomBlock::Item last;
    last.name = "last";
    last.layer = left.size() > 1 ? Add() : ActivationLayer(kTanh);
    last.inputs = left;
    block->items.push_back(last);
    return block;
  }

  static std::unique_ptr<Model> Nested(const RandomBlock& block) {
    if (block.sequential) {
      auto model = std::make_unique<Sequential>();
      model->Add(Input({RandomBlock::kWidth}));
      for (const auto& item : block.items) model->Add(MakeLayer(item));
      return model;
    }
    auto model = std::make_unique<Functional>();
    std::vector<int> values = {model->Add(Input({RandomBlock::kWidth}))};
    for (const auto& item : block.items) {
      std::vector<int> inputs;
      for (int v : item.inputs) inputs.push_back(values[v]);
      values.push_back(item.again < 0
                           ? model->Add(MakeLayer(item), inputs)
                           : model->CallAgain(values[item.again + 1], inputs));
    }
    return model;
  }

  // If not `shared`, each call has its own weights and a name with its number.
  static std::unique_ptr<Functional> Flat(const RandomBlock& block,
                                          bool shared = true) {
    auto model = std::make_unique<Functional>();
    Flattened flat{model.get(), shared, {}, {}};
    flat.Add(block, model->Add(Input({RandomBlock::kWidth})), "",
             /*trainable=*/true);
    return model;
  }

 private:
  struct Flattened {
    Functional* model;
    bool shared;
    std::map<const RandomBlock::Item*, int> first;
    std::map<const RandomBlock::Item*, int> calls;

    int Add(const RandomBlock& block, int x, const std::string& prefix,
            bool trainable) {
      std::vector<int> values = {x};
      for (const auto& item : block.items) {
        const auto& source = item.again < 0 ? item : block.items[item.again];
        std::vector<int> inputs;
        for (int v : item.inputs) inputs.push_back(values[v]);
        values.push_back(Call(source, inputs, prefix, trainable));
      }
      return values.back();
    }
    int Call(const RandomBlock::Item& source, const std::vector<int>& inputs,
             const std::string& prefix, bool trainable) {
      if (source.block != nullptr) {
        return Add(*source.block, inputs[0], prefix + source.name + "/",
                   trainable && source.block->trainable);
      }
      const int call = calls[&source]++;
      if (call > 0 && shared) return model->CallAgain(first[&source], inputs);
      Layer layer = source.layer;
      std::string name = prefix + source.name;
      if (call > 0) name += "#" + std::to_string(call);
      layer.Name(name).Trainable(trainable && source.layer.trainable);
      const int node = model->Add(layer, inputs);
      if (call == 0) first[&source] = node;
      return node;
    }
  };

  static Layer MakeLayer(const RandomBlock::Item& item) {
    Layer layer = item.layer;
    if (item.block != nullptr) {
      layer = Nested(*item.block)->AsLayer().Trainable(item.block->trainable);
    }
    return layer.Name(item.name);
  }

  RandomBlock::Item DrawItem(const RandomBlock& block, int depth) {
    RandomBlock::Item item;
    const int before = static_cast<int>(block.items.size());
    const int kind = Below(8);
    if (kind < 2 && depth > 0) {
      item.block = Draw(depth - 1);
      item.block->trainable = Below(4) != 0;
    } else if (kind < 4 && shared_ && before > 0 && !block.sequential) {
      item.again = Below(before);
      while (block.items[item.again].again >= 0) {
        item.again = block.items[item.again].again;
      }
    } else if (kind == 4 && dropout_ && Below(2) == 0) {
      item.layer = Dropout(0.25f);
    } else if (kind == 4) {
      item.layer = BatchNormalization().Trainable(Below(4) != 0);
    } else {
      const Activation activations[] = {kLinear, kRelu, kTanh, kSigmoid};
      item.layer = Dense(RandomBlock::kWidth, activations[Below(4)])
                       .UseBias(Below(3) != 0)
                       .Trainable(Below(4) != 0);
    }
    return item;
  }

  int Below(int n) { return static_cast<int>(random_() % n); }

  std::mt19937 random_;
  const bool dropout_, shared_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_RANDOM_MODELS_H_
