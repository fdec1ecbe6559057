#include "io/checkpoint/data_description.h"
#include "io/readers/storage.h"
#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "io/files/file_system.h"
#include "io/keras/compile_json.h"
#include "ringlet/fit.h"
#include "trained_file.h"

namespace ringlet {
namespace {

std::vector<unsigned char> StateOf(Saveable* saveable) {
  std::vector<StateSpan> spans;
  saveable->AppendState(&spans);
  std::vector<unsigned char> bytes;
  for (const StateSpan& span : spans) {
    const auto* from = static_cast<const unsigned char*>(span.data);
    bytes.insert(bytes.end(), from, from + span.bytes());
  }
  return bytes;
}

// --- whole models -----------------------------------------------------------

TEST(ModelFileTest, LoadModel_SavedInTraining_ContinuesWithTheSameBits) {
  const Optimizer optimizers[] = {SGD(ExponentialDecay(0.1f, 20, 0.9f), 0.9f),
                                  SGD(0.1f, 0.9f, /*nesterov=*/true),
                                  RMSprop(0.01f), Adam(0.01f), AdamW(0.01f)};
  for (const Optimizer& optimizer : optimizers) {
    TempFolder folder;
    CompileOptions compile;
    compile.seed = 77;
    auto undisturbed = TinyModel(optimizer, /*dropout=*/0.3f, compile);
    Train(undisturbed.get(), 2);
    const std::string path = folder / "model.safetensors";
    ASSERT_OK(SaveModel(undisturbed.get(), path));
    std::unique_ptr<Model> loaded;
    ASSERT_OK(LoadModel(path, &loaded));
    EXPECT_TRUE(SameBits(undisturbed.get(), loaded.get()));
    EXPECT_EQ(loaded->iterations(), undisturbed->iterations());
    Train(undisturbed.get(), 2);
    Train(loaded.get(), 2);
    EXPECT_TRUE(SameBits(undisturbed.get(), loaded.get())) << optimizer.name();
    EXPECT_EQ(StateOf(undisturbed->optimizer_state()),
              StateOf(loaded->optimizer_state()))
        << optimizer.name();
  }
}

TEST(ModelFileTest, LoadModel_CompiledModel_HasItsLayersAndArguments) {
  TempFolder folder;
  Functional model;
  const auto x = model.Add(Input({4, 4, 2}));
  const auto y = model.Add(Conv2D(2, 3, kRelu).Padding(kSame).Name("c"), {x});
  const auto sum = model.Add(Add(), {x, y});
  model.Add(Dense(1, kSigmoid), {model.Add(Flatten(), {sum})});
  model.set_name("residual");
  Optimizer optimizer = Adam(0.003f);
  optimizer.clipnorm = 1;
  model.Compile(optimizer, BinaryCrossentropy(),
                {Accuracy(), BinaryAccuracy(0.25f).Name("quarter")});
  ASSERT_OK(model.status());
  model.SetLearningRate(0.5f);
  const std::string path = folder / "m.safetensors";
  ASSERT_OK(SaveModel(&model, path));
  std::unique_ptr<Model> loaded;
  ASSERT_OK(LoadModel(path, &loaded));
  EXPECT_EQ(ToJson(*loaded), ToJson(model));
  EXPECT_EQ(ToJson(loaded->optimizer()), ToJson(model.optimizer()));
  EXPECT_EQ(ToJson(loaded->loss()), ToJson(model.loss()));
  ASSERT_EQ(loaded->num_metrics(), 3);
  EXPECT_EQ(loaded->metric_name(1), "accuracy");
  EXPECT_EQ(loaded->metric_name(2), "quarter");
  EXPECT_EQ(loaded->metrics()[1].threshold, 0.25f);
  EXPECT_EQ(loaded->LearningRate(), 0.5f);
}

// A step of training after being loaded is the same as without.
TEST(ModelFileTest, LoadModel_FrozenLayer_StaysFrozen) {
  for (const bool frozen : {true, false}) {
    TempFolder folder;
    auto model = TinyModel(Adam(0.01f));
    const auto freeze = [&](Model* which, bool freezes) {
      ASSERT_OK(which->SetTrainable("dense", !freezes));
      which->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                     {Accuracy()});
      ASSERT_OK(which->status());
    };
    freeze(model.get(), frozen);
    Train(model.get(), 1);
    ASSERT_OK(SaveModel(model.get(), folder / "m"));
    std::unique_ptr<Model> loaded;
    ASSERT_OK(LoadModel(folder / "m", &loaded));
    EXPECT_EQ(loaded->layer(1).trainable, !frozen);
    EXPECT_EQ(loaded->num_trained(), frozen ? 51 : 99);
    EXPECT_EQ(StateOf(loaded->optimizer_state()),
              StateOf(model->optimizer_state()));
    Train(model.get(), 1);
    Train(loaded.get(), 1);
    EXPECT_TRUE(SameBits(model.get(), loaded.get()));

    // The weights by name, into a model with the layer the other way.
    auto other = TinyModel();
    freeze(other.get(), !frozen);
    ASSERT_OK(SaveModel(model.get(), folder / "m"));
    WeightsReport report;
    ASSERT_OK(LoadWeights(other.get(), folder / "m", {}, &report));
    EXPECT_EQ(report.loaded.size(), 4u);
    EXPECT_TRUE(SameBits(model.get(), other.get()));
  }
}

TEST(ModelFileTest, LoadModel_WithoutCompileArguments_IsToBeCompiled) {
  TempFolder folder;
  auto model = TinyModel(Adam(0.01f));
  Train(model.get(), 1);
  const std::string path = folder / "m.safetensors";
  SaveModelOptions options;
  options.include_optimizer = false;
  options.metadata = {{"compile", "not this"}};
  ASSERT_OK(SaveModel(model.get(), path, options));
  std::unique_ptr<Model> loaded;
  const Status status = LoadModel(path, &loaded);
  ASSERT_OK(status);
  EXPECT_FALSE(loaded->compiled());
  loaded->Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
  ASSERT_OK(loaded->status());
  EXPECT_TRUE(SameBits(model.get(), loaded.get()));
}

TEST(ModelFileTest, SetInitialWeights_WrongSizeOrTooLate_IsRefused) {
  Sequential model({Input({2}), Dense(3)});
  EXPECT_FALSE(model.SetInitialWeights(std::vector<float>(8)).ok());
  EXPECT_OK(model.SetInitialWeights(std::vector<float>(9, 2.f)));
  model.Add(Dense(1));
  model.Compile(SGD(0.1f), MeanSquaredError());
  EXPECT_TRUE(Contains(model.status(), "added after"));
  auto compiled = TinyModel();
  EXPECT_FALSE(compiled
                   ->SetInitialWeights(std::vector<float>(
                       static_cast<size_t>(compiled->num_weights())))
                   .ok());
}

TEST(ModelFileTest, SaveModel_HalfPrecision_WeightsAreNear) {
  TempFolder folder;
  auto model = TinyModel();
  Train(model.get(), 1);
  for (const Storage storage : {Storage::kF16, Storage::kBF16}) {
    SaveModelOptions options;
    options.weights = storage;
    const std::string path = folder / StorageName(storage);
    ASSERT_OK(SaveModel(model.get(), path, options));
    std::unique_ptr<Model> loaded;
    ASSERT_OK(LoadModel(path, &loaded));
    EXPECT_FALSE(SameBits(model.get(), loaded.get()));
    const float step = storage == Storage::kF16 ? 0x1p-11f : 0x1p-8f;
    for (int64_t i = 0; i < model->num_weights(); ++i) {
      const float w = model->weights()[i];
      EXPECT_NEAR(loaded->weights()[i], w, std::fabs(w) * step + 1e-7f);
    }
  }
}

TEST(ModelFileTest, SaveModel_MetadataOfTheCaller_IsBesideTheModels) {
  TempFolder folder;
  auto model = TinyModel();
  SaveModelOptions options;
  options.metadata = {{"note", "mine"}, {"model", "not this"}};
  const std::string path = folder / "m";
  ASSERT_OK(SaveModel(model.get(), path, options));
  SafetensorsReader file;
  ASSERT_OK(file.Open(PosixFiles(), path));
  EXPECT_EQ(file.metadata().at("note"), "mine");
  EXPECT_EQ(file.metadata().at("model"), ToJson(*model));
}

TEST(ModelFileTest, LoadModel_OneFileOnEveryRank_ContinuesWithTheSameBits) {
  TempFolder folder;
  const std::string path = folder / "m";
  std::vector<float> undisturbed, resumed[2];
  RunRanks(2, [&](Collective* collective) {
    auto model = TinyModel(Adam(0.01f), 0.3f, collective);
    Train(model.get(), 2);
    if (collective->rank() == 0) {
      EXPECT_OK(SaveModel(model.get(), path));
    }
    Train(model.get(), 2);
    if (collective->rank() == 0) undisturbed = WeightsOf(model.get());
  });
  RunRanks(2, [&](Collective* collective) {
    std::unique_ptr<Model> model;
    ASSERT_OK(LoadModel(path, &model, collective));
    Train(model.get(), 2);
    resumed[collective->rank()] = WeightsOf(model.get());
  });
  EXPECT_EQ(resumed[0], undisturbed);
  EXPECT_EQ(resumed[1], undisturbed);
}

TEST(ModelFileTest, LoadModel_RankWithAnotherFile_IsRefused) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_OK(SaveModel(model.get(), folder / "0"));
  Train(model.get(), 1);
  ASSERT_OK(SaveModel(model.get(), folder / "1"));
  RunRanks(2, [&](Collective* collective) {
    std::unique_ptr<Model> loaded;
    EXPECT_FALSE(LoadModel(folder / std::to_string(collective->rank()), &loaded,
                           collective)
                     .ok());
  });
}

// --- workers that are lost and join again ------------------------------------

// How a job's workers load a file.
enum class Form : uint8_t {
  kLoadModel,           // RUN.json's "model"
  kLoadModelToCompile,  // RUN.json's "model", with "compile" too
  kRestore,             // a configuration, with --init
  kLoadWeights,         // LoadWeights after Compile
};

std::unique_ptr<Model> Loaded(Form form, const std::string& path,
                              CompileOptions options) {
  const auto load = [path](Model* model) { return LoadWeights(model, path); };
  std::unique_ptr<Model> model;
  if (form == Form::kLoadModel) {
    EXPECT_OK(LoadModel(path, &model));  // `train` does this first
    LoadModel(path, &model, options).IgnoreError();
    return model;
  }
  if (form == Form::kRestore) options.restore = load;
  EXPECT_OK(LoadModelToCompile(path, &model));
  EXPECT_FALSE(model->compiled());
  model->Compile(Adam(0.02f), SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  if (form == Form::kLoadWeights && model->status().ok()) {
    EXPECT_OK(load(model.get()));
  }
  return model;
}

class StateRestorer final : public Callback {
 public:
  const char* name() const override { return "restores"; }
  bool RestoresAfterLoss() const override { return true; }
};

struct Ended {
  Status status;
  uint64_t digest = 0;
};

Ended TrainLoaded(Form form, const std::string& path, Collective* collective) {
  CompileOptions options = ExactSums(collective, 3);
  const auto model = Loaded(form, path, options);
  Ended end;
  end.status = model->status();
  // LoadModel failed, and the model is the one that was loaded alone.
  if (end.status.ok() && model->num_replicas() != 3) {
    end.status = PeerLost(-1, "lost while it was loaded");
  }
  if (!end.status.ok()) return end;
  FitOptions fit = Quiet(2);
  fit.callbacks = {std::make_shared<StateRestorer>()};
  end.status = model->Fit(Points(24).Shuffle(3).Batch(12), fit).status();
  end.digest = model->DigestWeights();
  return end;
}

// A worker that ends in its call number `last_call` (0: in none), and joins
// again if it `returns`.
void RunWorker(Form form, const std::string& path, ElasticJob* job, int worker,
               int last_call, bool returns, Ended* end, bool* has_ended) {
  for (;; last_call = 0) {
    job->Arrive(worker);
    ElasticCollective collective(job, worker,
                                 last_call == 0 ? kNever : last_call);
    *end = TrainLoaded(form, path, &collective);
    *has_ended |= collective.ended();
    if (collective.ended() && !returns) return;
    // A worker that has lost another before its Fit has begun starts again.
    const bool again =
        collective.ended() || end->status.code() == Code::kPeerLost;
    if (!again) return;
  }
}

class LoadedByAJobTest : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Forms, LoadedByAJobTest,
                         testing::Values(Form::kLoadModel,
                                         Form::kLoadModelToCompile,
                                         Form::kRestore, Form::kLoadWeights));

// A worker is lost in any call of the collective. Any worker may be lost, and
// the other workers wait for it or continue.
TEST_P(LoadedByAJobTest, Fit_WorkerLostInAnyCall_EndsWithTheSameBits) {
  TempFolder folder;
  const std::string path = folder / "m";
  auto first = TinyModel(Adam(0.01f), 0.2f);
  Train(first.get(), 2);
  ASSERT_OK(SaveModel(first.get(), path));
  const Ended alone = TrainLoaded(GetParam(), path, nullptr);
  ASSERT_OK(alone.status);
  struct Case {
    bool waits, returns;
  };
  for (const Case c : {Case{true, true}, {false, true}, {false, false}}) {
    for (const int ending_worker : {0, 2}) {
      bool has_ended = true;
      for (int last_call = 1; has_ended && !HasFailure(); ++last_call) {
        if (!RunsCase(last_call)) continue;
        SCOPED_TRACE(testing::Message()
                     << "waits " << c.waits << ", returns " << c.returns
                     << ", worker " << ending_worker << ", call " << last_call);
        has_ended = false;
        ElasticJob job(c.waits);
        for (int w = 0; w < 3; ++w) job.Arrive(w);
        Ended ends[3];
        bool others_ended = false;
        RunThreads(3, [&](int w) {
          RunWorker(GetParam(), path, &job, w,
                    w == ending_worker ? last_call : 0, c.returns, &ends[w],
                    w == ending_worker ? &has_ended : &others_ended);
        });
        for (int w = 0; w < 3; ++w) {
          if (w == ending_worker && has_ended && !c.returns) continue;
          EXPECT_OK(ends[w].status);
          EXPECT_EQ(ends[w].digest, alone.digest);
        }
      }
    }
  }
}

TEST(ModelFileTest, LoadModel_CutOrFlippedFile_IsRefused) {
  SimulatedFileSystem files;
  ASSERT_OK(files.MakeFolder("d"));
  SaveModelOptions options;
  options.files = &files;
  auto model = TinyModel(Adam(0.01f));
  ASSERT_OK(SaveModel(model.get(), "d/m", options));
  const std::string whole = *files.Content("d/m");
  std::unique_ptr<Model> loaded;
  const auto expect_rejected = [&](const std::string& bytes) {
    *files.Content("d/m") = bytes;
    const Status status = LoadModel("d/m", &loaded, {}, &files);
    return !status.ok() && loaded == nullptr && Contains(status, "d/m: ");
  };
  for (size_t cut = 0; cut < whole.size(); cut += cut < 300 ? 1 : 13) {
    EXPECT_TRUE(expect_rejected(whole.substr(0, cut))) << "cut at " << cut;
  }
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    EXPECT_TRUE(expect_rejected(flipped)) << "flipped at " << at;
  }
  EXPECT_TRUE(expect_rejected(whole + '\0'));
  EXPECT_FALSE(expect_rejected(whole));
}

TEST(ModelFileTest, SaveModel_AnyOperationFails_LeavesTheOldFile) {
  auto model = TinyModel(Adam(0.01f));
  const auto save_all = [&](SimulatedFileSystem* files, int64_t fail) {
    ASSERT_OK(files->MakeFolder("d"));
    SaveModelOptions options;
    options.files = files;
    ASSERT_OK(SaveModel(model.get(), "d/m", options));
    const std::string before = *files->Content("d/m");
    Train(model.get(), 1);
    files->FailAfter(fail, ENOSPC);
    const Status status = SaveModel(model.get(), "d/m", options);
    files->FailNoMore();
    ASSERT_NE(files->Content("d/m"), nullptr);
    if (!status.ok() && files->last_failed() != "sync directory d") {
      EXPECT_EQ(*files->Content("d/m"), before) << files->last_failed();
    }
    std::unique_ptr<Model> loaded;
    EXPECT_OK(LoadModel("d/m", &loaded, {}, files));
  };
  for (int64_t fail = 1; fail < 12; ++fail) {
    SimulatedFileSystem files;
    save_all(&files, fail);
  }
}

TEST(ModelFileTest, SaveAndLoadModel_WrongInputs_ErrorNamesThem) {
  TempFolder folder;
  std::unique_ptr<Model> loaded;
  EXPECT_EQ(LoadModel(folder / "none", &loaded).code(), Code::kNotFound);
  Sequential raw({Input({2}), Dense(3)});
  EXPECT_TRUE(Contains(SaveModel(&raw, folder / "raw"), "Compile"));
  auto model = TinyModel();
  ASSERT_OK(SaveWeights(model.get(), folder / "w"));
  EXPECT_TRUE(Contains(LoadModel(folder / "w", &loaded), "LoadWeights"));
  EXPECT_TRUE(
      Contains(SaveModel(model.get(), folder / "no/such/m"), "no/such"));
}

TEST(ModelFileTest, LoadModel_OneMetadataIsWrong_ErrorNamesIt) {
  TempFolder folder;
  std::unique_ptr<Model> loaded;
  auto model = TinyModel();
  ASSERT_OK(SaveModel(model.get(), folder / "m"));
  SafetensorsReader file;
  ASSERT_OK(file.Open(PosixFiles(), folder / "m"));
  struct Case {
    const char* key;
    const char* value;
    const char* named;
  };
  for (const Case& wrong : {
           Case{"compile", "{", "'compile'"},
           Case{"compile", "[]", "'compile'"},
           Case{"compile", "{\"optimizer\":\"adam\",\"loss\":\"mse\"}",
                "metrics"},
           Case{"compile",
                "{\"optimizer\":\"adm\",\"loss\":\"mse\",\"metrics\":[]}",
                "Adam"},
           Case{"compile",
                "{\"optimizer\":\"adam\",\"loss\":\"mse\",\"metrics\":"
                "{\"other\":[]}}",
                "metrics: unknown output 'other'"},
           Case{"compile",
                "{\"optimizer\":\"adam\",\"loss\":\"mse\",\"metrics\":1}",
                "metrics"},
           Case{"compile",
                "{\"optimizer\":\"adam\",\"loss\":\"mse\",\"metrics\":[\"x\"]}",
                "metrics[0]"},
           Case{"compile",
                "{\"optimizer\":\"adam\",\"loss\":\"mse\",\"metrics\":[],"
                "\"los\":1}",
                "los"},
           // Adam has other slots than what the file holds.
           Case{"compile",
                "{\"optimizer\":\"adam\",\"loss\":"
                "\"sparse_categorical_crossentropy\",\"metrics\":[]}",
                "optimizer/"},
           Case{"data_description", "[]", "'data_description'"},
           Case{"data_description", "{\"scale\":\"1\"}", "scale"},
           Case{"data_description", "{\"offset\":1e39}", "offset"},
           Case{"data_description", "{\"columns\":[1]}", "columns"},
           Case{"data_description", "{\"classes\":{}}", "classes"},
           Case{"data_description", "{\"classes\":[\"a\",\"a\"]}", "twice"},
           Case{"data_description", "{\"label\":1}", "label"},
           Case{"seed", "-1", "'seed'"},
           Case{"seed", "18446744073709551616", "'seed'"},
           Case{"seed", "", "'seed'"},
           Case{"model", "{}", "'model'"},
           // Other sizes than the tensors have, too large for any memory.
           Case{"model",
                "{\"class_name\":\"Sequential\",\"config\":{\"layers\":["
                "{\"class_name\":\"InputLayer\",\"config\":{\"batch_shape\":"
                "[null,1000000]}},{\"class_name\":\"Dense\",\"config\":{"
                "\"units\":1000}}]}}",
                "its configuration"},
       }) {
    Metadata metadata = file.metadata();
    metadata[wrong.key] = wrong.value;
    ASSERT_OK(SaveCheckpoint(folder / "bad",
                             {model->weights_state(), model->optimizer_state()},
                             metadata));
    const Status status = LoadModel(folder / "bad", &loaded);
    EXPECT_FALSE(status.ok()) << wrong.value;
    EXPECT_TRUE(Contains(status, folder / "bad"));
    EXPECT_TRUE(Contains(status, wrong.named)) << wrong.value;
    EXPECT_EQ(loaded, nullptr);
  }
}

}  // namespace
}  // namespace ringlet
