#include "io/checkpoint/data_description.h"
#include "io/readers/storage.h"
#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include <vector>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/python.h"
#include "../../support/random_cases.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/base/byte_order.h"
#include "io/checkpoint/data_description.h"
#include "io/files/atomic_file.h"
#include "io/keras/compile_json.h"
#include "ringlet/files.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

bool SameBits(Model* a, Model* b) {
  return a->num_weights() == b->num_weights() &&
         std::memcmp(a->weights(), b->weights(),
                     static_cast<size_t>(a->num_weights()) * sizeof(float)) ==
             0;
}

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

void Train(Model* model, int64_t epochs) {
  ASSERT_OK(model->Fit(Points(96).Shuffle(/*seed=*/3).Batch(8), Quiet(epochs))
                .status());
}

// --- whole models -----------------------------------------------------------

TEST(ModelFileTest, LoadModel_SavedInTraining_ContinuesWithTheSameBits) {
  const Optimizer optimizers[] = {SGD(ExponentialDecay(0.1f, 20, 0.9f), 0.9f),
                                  SGD(0.1f, 0.9f, true), RMSprop(0.01f),
                                  Adam(0.01f), AdamW(0.01f)};
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
  ASSERT_TRUE(SaveModel(&model, path).ok());
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
      ASSERT_TRUE(which->SetTrainable("dense", !freezes).ok());
      which->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                     {Accuracy()});
      ASSERT_OK(which->status());
    };
    freeze(model.get(), frozen);
    Train(model.get(), 1);
    ASSERT_TRUE(SaveModel(model.get(), folder / "m").ok());
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
    ASSERT_TRUE(SaveModel(model.get(), folder / "m").ok());
    WeightsReport report;
    ASSERT_TRUE(LoadWeights(other.get(), folder / "m", {}, &report).ok());
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
  ASSERT_TRUE(SaveModel(model.get(), path, options).ok());
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
  EXPECT_TRUE(model.SetInitialWeights(std::vector<float>(9, 2.f)).ok());
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
    const std::string path = folder / NameOf(storage);
    ASSERT_TRUE(SaveModel(model.get(), path, options).ok());
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
  ASSERT_TRUE(SaveModel(model.get(), path, options).ok());
  SafetensorsReader file;
  ASSERT_TRUE(file.Open(FileSystem::Posix(), path).ok());
  EXPECT_EQ(file.metadata().at("note"), "mine");
  EXPECT_EQ(file.metadata().at("model"), ToJson(*model));
}

using Role = TableColumn::Role;

// "dropped 'id', 0 'a', label 'y'"
std::string TextOf(const std::vector<TableColumn>& columns) {
  std::string text;
  for (const TableColumn& column : columns) {
    text += text.empty() ? "" : ", ";
    text += column.role == Role::kValue   ? std::to_string(column.value)
            : column.role == Role::kLabel ? "label"
                                          : "other";
    if (column.role == Role::kWeight) text += "'s weight";
    text += " '" + column.name + "'";
  }
  return text;
}

// As versions before the list of all columns wrote it, for 3 inputs.
TEST(ModelFileTest, DataDescription_OfOlderFiles_TellsWhatItKnows) {
  const std::pair<const char*, const char*> files[] = {
      {R"({"columns": [], "label": ""})", ""},
      {R"({"columns": ["a", "b", "c"], "label": "y"})",
       "0 'a', 1 'b', 2 'c', label 'y'"},
      {R"({"columns": ["a", "b"], "label": "y", "label_place": 1})",
       "0 'a', label 'y', 1 'b'"},
      {R"({"columns": ["a", "b"], "label": "", "taken": [2, 0]})",
       "1 'b', other '', 0 'a'"},
      {R"({"columns": [], "label": "0"})", "label '', 0 '', 1 '', 2 ''"},
      {R"({"columns": [], "label": "2", "label_place": 1})",
       "0 '', label '', 1 '', 2 ''"},
      {R"({"columns": [], "label": "-1"})", "0 '', 1 '', 2 '', label ''"},
      {R"({"columns": [], "label": "-1", "taken": [1, 3, 2]})",
       "other '', 0 '', 2 '', 1 '', label ''"},
      {R"({"columns": [], "label": "0", "taken": [1, 3, 2]})",
       "label '', 0 '', 2 '', 1 ''"},
      {R"({"columns": [], "label": "y"})", "0 '', 1 '', 2 '', label 'y'"},
  };
  for (const auto& [text, columns] : files) {
    DataDescription read;
    EXPECT_OK(DataDescriptionFromJson(text, 3, &read));
    EXPECT_EQ(TextOf(read.columns), columns) << text;
  }
}

// An older version reads these members, and ignores the table.
TEST(ModelFileTest, DataDescription_LabelNotLast_IsWrittenForOlderFilesToo) {
  using Role = TableColumn::Role;
  const auto column = [](Role role, int64_t value, const char* name) {
    return TableColumn{name, role, value};
  };
  DataDescription d;
  d.columns = {column(Role::kLabel, -1, ""), column(Role::kValue, 0, ""),
               column(Role::kDropped, -1, ""), column(Role::kValue, 1, "")};
  const auto text_has = [&](const char* wanted) {
    const std::string text = ToJson(d);
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
    DataDescription read;
    EXPECT_OK(DataDescriptionFromJson(text, 2, &read));
    EXPECT_EQ(TextOf(read.columns), TextOf(d.columns));
    EXPECT_FALSE(read.may_have_more_columns);
  };
  text_has(R"("label":"0","label_place":0,"taken":[1,3],"table")");
  d.columns = {column(Role::kValue, 0, "a"), column(Role::kLabel, -1, "y"),
               column(Role::kValue, 1, "b")};
  text_has(R"("label":"y","label_place":1,"table")");
  d.columns = {column(Role::kValue, 0, ""), column(Role::kValue, 1, ""),
               column(Role::kLabel, -1, "")};
  text_has(R"("label":"","table")");
  DataDescription older;
  ASSERT_OK(
      DataDescriptionFromJson(R"({"label": "2", "taken": [0, 1]})", 2, &older));
  EXPECT_TRUE(older.may_have_more_columns);
}

TEST(ModelFileTest, DataDescription_WrongTable_IsRefused) {
  for (const char* text : {
           R"({"table": 1})",
           R"({"table": [{"role": "value", "first": 0, "count": 0}]})",
           R"({"table": [{"role": "value", "first": 1, "count": 1}]})",
           R"({"table": [{"role": "value", "count": 1}]})",
           R"({"table": [{"role": "value", "first": 0, "count": 9999999}]})",
           R"({"table": [{"role": "key", "count": 1}]})",
           R"({"table": [{"role": "value", "first": 0, "count": 1},
                         {"role": "label", "count": 2}]})",
           R"({"columns": ["a", "b"],
               "table": [{"role": "value", "first": 0, "count": 1}]})",
           R"({"taken": [1, 1], "label": ""})",
           R"({"taken": [-1], "label": ""})",
           R"({"columns": ["a"], "label": "y", "label_place": 2000000})",
       }) {
    DataDescription read;
    EXPECT_FALSE(DataDescriptionFromJson(text, 3, &read).ok()) << text;
  }
}

TEST(ModelFileTest, DataDescription_SaveAndLoad_IsTheSame) {
  TempFolder folder;
  const std::string path = folder / "m";
  auto model = TinyModel();
  EXPECT_EQ(model->data_description(), nullptr);
  ASSERT_TRUE(SaveModel(model.get(), path).ok());
  std::unique_ptr<Model> loaded;
  ASSERT_TRUE(LoadModel(path, &loaded).ok());
  EXPECT_EQ(loaded->data_description(), nullptr);

  const DataDescription saved = {Scale(1.0f / 255, -0.1f),
                                 {{"id", Role::kDropped, -1},
                                  {"\"n\"", Role::kValue, 1},
                                  {"length, mm", Role::kValue, 0},
                                  {"", Role::kValue, 2},
                                  {"n", Role::kValue, 3},
                                  {"la\"bel", Role::kLabel, -1},
                                  {"w", Role::kWeight, -1},
                                  {"", Role::kDropped, -1},
                                  {"", Role::kDropped, -1}},
                                 {"épée", "猫\n"},
                                 {}};
  model->set_data_description(saved);
  ASSERT_TRUE(SaveModel(model.get(), path).ok());
  ASSERT_TRUE(LoadModel(path, &loaded).ok());
  const DataDescription* const read = loaded->data_description();
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->scale.factor, saved.scale.factor);
  EXPECT_EQ(read->scale.offset, saved.scale.offset);
  EXPECT_EQ(TextOf(read->columns), TextOf(saved.columns));
  EXPECT_EQ(read->classes, saved.classes);

  DataDescription table;
  table.encoding.columns[0].categories = {"", "a\"b", "猫"};
  table.encoding.columns[2].fill = 0.1f;
  table.encoding.columns[7].categories = {"x"};
  table.encoding.columns[7].one_hot = false;
  table.encoding.columns[7].has_unknown_category =
      table.encoding.columns[7].drop = true;
  table.encoding.na_values = {"?", "-999"};
  table.encoding.drop_unlabelled = true;
  table.encoding.decimal = ',';
  model->set_data_description(table);
  ASSERT_TRUE(SaveModel(model.get(), path).ok());
  ASSERT_TRUE(LoadModel(path, &loaded).ok());
  const TableEncoding& encoding = loaded->data_description()->encoding;
  EXPECT_EQ(encoding.na_values, table.encoding.na_values);
  EXPECT_TRUE(encoding.drop_unlabelled);
  EXPECT_EQ(encoding.decimal, ',');
  ASSERT_EQ(encoding.columns.size(), 3u);
  for (const auto& [place, column] : table.encoding.columns) {
    const TableEncoding::Column& same = encoding.columns.at(place);
    EXPECT_EQ(same.categories, column.categories);
    EXPECT_EQ(same.one_hot, column.one_hot);
    EXPECT_EQ(same.has_unknown_category, column.has_unknown_category);
    EXPECT_EQ(same.fill, column.fill);
    EXPECT_EQ(same.drop, column.drop);
  }

  DataDescription text;
  text.text.emplace();
  text.text->split = TextVectorization::Split::kCharacter;
  text.text->standardize = TextVectorization::Standardize::kLower;
  text.text->output_sequence_length = 7;
  text.text->vocabulary = {"\n", "猫", "\""};
  model->set_data_description(text);
  ASSERT_OK(SaveModel(model.get(), path));
  ASSERT_OK(LoadModel(path, &loaded));
  const std::optional<TextVectorization>& same =
      loaded->data_description()->text;
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ(same->split, text.text->split);
  EXPECT_EQ(same->standardize, text.text->standardize);
  EXPECT_EQ(same->output_sequence_length, 7);
  EXPECT_EQ(same->vocabulary, text.text->vocabulary);
  EXPECT_EQ(loaded->data_description()->vocabulary_digest, "");

  // What a file cannot have is left out: Latin-1, a NUL, too many bytes, NaN.
  std::vector<std::string> many(40000);
  for (size_t i = 0; i < many.size(); ++i) {
    many[i] = "gene of 20 letters " + std::to_string(i);
  }
  std::vector<TableColumn> many_columns;
  for (const std::string& name : many) {
    const int64_t value = static_cast<int64_t>(many_columns.size());
    many_columns.push_back({name, Role::kValue, value});
  }
  many_columns.push_back({many[0] + "\x80", Role::kLabel, -1});
  for (const DataDescription& bad : {
           DataDescription{Scale(NAN),
                           {{"caf\xe9", Role::kValue, 1},
                            {"b", Role::kValue, 0},
                            {"\xff", Role::kLabel, -1},
                            {std::string("a\0b", 3), Role::kDropped, -1}},
                           {std::string("a\0b", 3)},
                           {}},
           DataDescription{Scale(), many_columns, many, {}},
           DataDescription{Scale(),
                           {{"", Role::kValue, 0},
                            {std::string(300000, '"'), Role::kLabel, -1}},
                           {},
                           {}},
       }) {
    model->set_data_description(bad);
    ASSERT_TRUE(SaveModel(model.get(), path).ok());
    ASSERT_OK(LoadModel(path, &loaded));
    EXPECT_EQ(loaded->data_description()->scale.factor, 1);
    std::vector<TableColumn> unnamed = bad.columns;
    for (TableColumn& column : unnamed) column.name.clear();
    EXPECT_EQ(TextOf(loaded->data_description()->columns), TextOf(unnamed));
    EXPECT_TRUE(loaded->data_description()->classes.empty());
  }
}

// A loaded model has only its digest, also in a file that it is saved to.
TEST(ModelFileTest, DataDescription_VocabularyTooLarge_IsADigest) {
  TempFolder folder;
  const std::string path = folder / "m";
  std::vector<std::string> large(60000);
  for (size_t i = 0; i < large.size(); ++i) large[i] = std::to_string(i);
  for (const std::vector<std::string>& tokens :
       {large, std::vector<std::string>{"caf\xe9"}}) {
    std::unique_ptr<Model> model = TinyModel();
    DataDescription data;
    data.text.emplace();
    data.text->output_sequence_length = 3;
    data.text->vocabulary = tokens;
    model->set_data_description(data);
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(SaveModel(model.get(), path));
      ASSERT_OK(LoadModel(path, &model));
      const DataDescription& read = *model->data_description();
      ASSERT_TRUE(read.text.has_value());
      EXPECT_TRUE(read.text->vocabulary.empty());
      EXPECT_EQ(read.vocabulary_digest, VocabularyDigest(tokens));
    }
  }
}

TEST(ModelFileTest, DataDescription_WrongText_IsRefused) {
  const std::string right = R"({"text": {"standardize": "lower",
      "split": "character", "output_sequence_length": 4,
      "vocabulary": ["a", "b"]}})";
  DataDescription read;
  EXPECT_OK(DataDescriptionFromJson(right, 4, &read));
  const std::pair<const char*, const char*> changes[] = {
      {"\"lower\"", "\"upper\""},
      {"\"lower\"", "1"},
      {"\"character\"", "null"},
      {": 4", ": 0"},
      {": 4", ": 99999999"},
      {"\"b\"", "\"a\""},
      {"\"b\"", "1"},
      {"[\"a\", \"b\"]", "[]"},
      {"\"vocabulary\"", "\"words\""}};
  for (const auto& [from, to] : changes) {
    std::string wrong = right;
    wrong.replace(wrong.find(from), std::string(from).size(), to);
    EXPECT_FALSE(DataDescriptionFromJson(wrong, 4, &read).ok()) << wrong;
  }
}

TEST(ModelFileTest, LoadModel_OneFileOnEveryRank_ContinuesWithTheSameBits) {
  TempFolder folder;
  const std::string path = folder / "m";
  std::vector<float> undisturbed, resumed[2];
  RunRanks(2, [&](Collective* collective) {
    auto model = TinyModel(Adam(0.01f), 0.3f, collective);
    Train(model.get(), 2);
    if (collective->rank() == 0) {
      EXPECT_TRUE(SaveModel(model.get(), path).ok());
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
  ASSERT_TRUE(SaveModel(model.get(), folder / "0").ok());
  Train(model.get(), 1);
  ASSERT_TRUE(SaveModel(model.get(), folder / "1").ok());
  RunRanks(2, [&](Collective* collective) {
    std::unique_ptr<Model> loaded;
    EXPECT_FALSE(LoadModel(folder / std::to_string(collective->rank()), &loaded,
                           collective)
                     .ok());
  });
}

// --- workers that are lost and join again ---

// How a job's workers take what a file has.
enum class Form : uint8_t {
  kLoadModel,           // RUN.json's "model"
  kLoadModelToCompile,  // RUN.json's "model", with "compile" too
  kRestore,             // a configuration, with --init
  kLoadWeights,         // after Compile
};

std::unique_ptr<Model> Loaded(Form form, const std::string& path,
                              CompileOptions options) {
  const auto load = [path](Model* model) { return LoadWeights(model, path); };
  std::unique_ptr<Model> model;
  if (form == Form::kLoadModel) {
    EXPECT_TRUE(LoadModel(path, &model).ok());  // as `train` does it first
    LoadModel(path, &model, options).IgnoreError();
    return model;
  }
  if (form == Form::kRestore) options.restore = load;
  EXPECT_TRUE(LoadModelToCompile(path, &model).ok());
  EXPECT_FALSE(model->compiled());
  model->Compile(Adam(0.02f), SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  if (form == Form::kLoadWeights && model->status().ok()) {
    EXPECT_TRUE(load(model.get()).ok());
  }
  return model;
}

class Restores final : public Callback {
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
  fit.callbacks = {std::make_shared<Restores>()};
  end.status = model->Fit(Points(24).Shuffle(3).Batch(12), fit).status();
  end.digest = model->weights_digest();
  return end;
}

// A worker that ends in its call number `last_call` (0: in none), and joins
// again if it `returns`.
void RunWorker(Form form, const std::string& path, ElasticJob* job, int worker,
               int last_call, bool returns, Ended* end, bool* died) {
  for (;; last_call = 0) {
    job->Arrive(worker);
    ElasticCollective collective(job, worker,
                                 last_call == 0 ? kNever : last_call);
    *end = TrainLoaded(form, path, &collective);
    *died |= collective.ended();
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

// A worker is lost in any call of the collective. Any worker may be the one,
// and the others wait for it or continue.
TEST_P(LoadedByAJobTest, Fit_WorkerLostInAnyCall_EndsWithTheSameBits) {
  TempFolder folder;
  const std::string path = folder / "m";
  auto first = TinyModel(Adam(0.01f), 0.2f);
  Train(first.get(), 2);
  ASSERT_TRUE(SaveModel(first.get(), path).ok());
  const Ended alone = TrainLoaded(GetParam(), path, nullptr);
  ASSERT_OK(alone.status);
  struct Case {
    bool waits, returns;
  };
  for (const Case c : {Case{true, true}, {false, true}, {false, false}}) {
    for (const int mortal : {0, 2}) {
      bool died = true;
      for (int last_call = 1; died && !HasFailure(); ++last_call) {
        if (!RunsCase(last_call)) continue;
        SCOPED_TRACE(testing::Message()
                     << "waits " << c.waits << ", returns " << c.returns
                     << ", worker " << mortal << ", call " << last_call);
        died = false;
        ElasticJob job(c.waits);
        for (int w = 0; w < 3; ++w) job.Arrive(w);
        Ended ends[3];
        bool others_died = false;
        RunThreads(3, [&](int w) {
          RunWorker(GetParam(), path, &job, w, w == mortal ? last_call : 0,
                    c.returns, &ends[w], w == mortal ? &died : &others_died);
        });
        for (int w = 0; w < 3; ++w) {
          if (w == mortal && died && !c.returns) continue;
          EXPECT_OK(ends[w].status);
          EXPECT_EQ(ends[w].digest, alone.digest);
        }
      }
    }
  }
}

TEST(ModelFileTest, LoadModel_CutOrFlippedFile_IsRefused) {
  SimulatedFileSystem files;
  ASSERT_TRUE(files.MakeDirectory("d").ok());
  SaveModelOptions options;
  options.files = &files;
  auto model = TinyModel(Adam(0.01f));
  ASSERT_TRUE(SaveModel(model.get(), "d/m", options).ok());
  const std::string whole = *files.Content("d/m");
  std::unique_ptr<Model> loaded;
  const auto rejects = [&](const std::string& bytes) {
    *files.Content("d/m") = bytes;
    const Status status = LoadModel("d/m", &loaded, {}, &files);
    return !status.ok() && loaded == nullptr && Contains(status, "d/m: ");
  };
  for (size_t cut = 0; cut < whole.size(); cut += cut < 300 ? 1 : 13) {
    EXPECT_TRUE(rejects(whole.substr(0, cut))) << "cut at " << cut;
  }
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    EXPECT_TRUE(rejects(flipped)) << "flipped at " << at;
  }
  EXPECT_TRUE(rejects(whole + '\0'));
  EXPECT_FALSE(rejects(whole));
}

TEST(ModelFileTest, SaveModel_AnyOperationFails_LeavesTheOldFile) {
  auto model = TinyModel(Adam(0.01f));
  const auto save_all = [&](SimulatedFileSystem* files, int64_t fail) {
    ASSERT_TRUE(files->MakeDirectory("d").ok());
    SaveModelOptions options;
    options.files = files;
    ASSERT_TRUE(SaveModel(model.get(), "d/m", options).ok());
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

TEST(ModelFileTest, SaveAndLoadModel_WrongInputs_AreNamed) {
  TempFolder folder;
  std::unique_ptr<Model> loaded;
  EXPECT_EQ(LoadModel(folder / "none", &loaded).code(), Code::kNotFound);
  Sequential raw({Input({2}), Dense(3)});
  EXPECT_TRUE(Contains(SaveModel(&raw, folder / "raw"), "Compile"));
  auto model = TinyModel();
  ASSERT_TRUE(SaveWeights(model.get(), folder / "w").ok());
  EXPECT_TRUE(Contains(LoadModel(folder / "w", &loaded), "LoadWeights"));
  EXPECT_TRUE(
      Contains(SaveModel(model.get(), folder / "no/such/m"), "no/such"));

  ASSERT_TRUE(SaveModel(model.get(), folder / "m").ok());
  SafetensorsReader file;
  ASSERT_TRUE(file.Open(FileSystem::Posix(), folder / "m").ok());
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
    ASSERT_TRUE(
        SaveCheckpoint(folder / "bad",
                       {model->weights_state(), model->optimizer_state()},
                       metadata)
            .ok());
    const Status status = LoadModel(folder / "bad", &loaded);
    EXPECT_FALSE(status.ok()) << wrong.value;
    EXPECT_TRUE(Contains(status, folder / "bad"));
    EXPECT_TRUE(Contains(status, wrong.named)) << wrong.value;
    EXPECT_EQ(loaded, nullptr);
  }
}

// --- weights ----------------------------------------------------------------

using Names = std::vector<std::string>;

LoadWeightsOptions Silent() {
  LoadWeightsOptions options;
  options.warn = [](const std::string&) {};
  return options;
}

TEST(LoadWeightsTest, LoadWeights_LayersInAnotherOrder_AreFoundByName) {
  TempFolder folder;
  Functional a, b;
  {
    const auto x = a.Add(Input({4}));
    const auto l = a.Add(Dense(4).Name("left"), {x});
    const auto r = a.Add(Dense(4).Name("right"), {x});
    a.Add(Dense(2).Name("out"), {a.Add(Add(), {l, r})});
  }
  {
    const auto x = b.Add(Input({4}));
    const auto r = b.Add(Dense(4).Name("right"), {x});
    const auto l = b.Add(Dense(4).Name("left"), {x});
    b.Add(Dense(2).Name("out"), {b.Add(Add(), {l, r})});
  }
  CompileOptions other_seed;
  other_seed.seed = 9;
  a.Compile(SGD(0.1f), MeanSquaredError());
  b.Compile(SGD(0.1f), MeanSquaredError(), {}, other_seed);
  ASSERT_TRUE(SaveWeights(&a, folder / "w").ok());
  WeightsReport report;
  ASSERT_OK(LoadWeights(&b, folder / "w", {}, &report));
  EXPECT_TRUE(report.verified);
  EXPECT_EQ(report.loaded, (Names{"right/kernel", "right/bias", "left/kernel",
                                  "left/bias", "out/kernel", "out/bias"}));
  for (const Variable& v : a.variables()) {
    for (const Variable& w : b.variables()) {
      if (v.path != w.path) continue;
      EXPECT_EQ(std::memcmp(a.weights() + v.offset, b.weights() + w.offset,
                            sizeof(float) * static_cast<size_t>(v.size())),
                0)
          << v.path;
    }
  }
}

TEST(LoadWeightsTest, LoadWeights_Mismatch_IsReportedAndOverwritesNothing) {
  TempFolder folder;
  Sequential saved({Input({2}), Dense(8).Name("a"), Dense(4).Name("b"),
                    Dense(3).Name("old")});
  Sequential model({Input({2}), Dense(8).Name("a"), Dense(5).Name("b"),
                    Dense(3).Name("new")});
  CompileOptions other_seed;
  other_seed.seed = 9;
  saved.Compile(SGD(0.1f), MeanSquaredError());
  model.Compile(SGD(0.1f), MeanSquaredError(), {}, other_seed);
  ASSERT_TRUE(SaveWeights(&saved, folder / "w").ok());
  const std::vector<float> before = WeightsOf(&model);

  WeightsReport report;
  LoadWeightsOptions options = Silent();
  Status status = LoadWeights(&model, folder / "w", options, &report);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "b/kernel: F32 (8, 4) in the file, F32 (8, 5)"));
  EXPECT_EQ(report.missing, (Names{"new/kernel", "new/bias"}));
  EXPECT_EQ(report.unexpected, (Names{"old/kernel", "old/bias"}));
  EXPECT_EQ(report.mismatched,
            (Names{"b/kernel: F32 (8, 4) in the file, F32 (8, 5) here",
                   "b/bias: F32 (4,) in the file, F32 (5,) here"}));
  EXPECT_EQ(report.loaded, Names());
  EXPECT_EQ(WeightsOf(&model), before);

  options.by_name = true;  // shapes must fit
  EXPECT_FALSE(LoadWeights(&model, folder / "w", options, &report).ok());
  EXPECT_EQ(WeightsOf(&model), before);

  std::string warned;
  options.skip_mismatch = true;
  const std::string path = folder / "w";
  options.warn = [&](const std::string& message) {
    EXPECT_EQ(message.find(path + ": "), 0u) << message;
    warned += message.substr(path.size() + 2) + "\n";
  };
  status = LoadWeights(&model, folder / "w", options, &report);
  ASSERT_OK(status);
  EXPECT_EQ(report.loaded, (Names{"a/kernel", "a/bias"}));
  EXPECT_EQ(warned,
            "skipped: b/kernel: F32 (8, 4) in the file, F32 (8, 5) here\n"
            "skipped: b/bias: F32 (4,) in the file, F32 (5,) here\n"
            "skipped: new/kernel: missing in the file\n"
            "skipped: new/bias: missing in the file\n"
            "skipped: old/kernel: in the file only\n"
            "skipped: old/bias: in the file only\n"
            "2 of 6 weights are taken, 2 differ, 2 missing in the file, 2 in "
            "the file only\n");
  const std::vector<float> after = WeightsOf(&model);
  EXPECT_EQ(std::memcmp(after.data(), saved.weights(), 24 * sizeof(float)), 0);
  EXPECT_EQ(std::vector<float>(after.begin() + 24, after.end()),
            std::vector<float>(before.begin() + 24, before.end()));
}

TEST(LoadWeightsTest, LoadWeights_NothingInCommon_IsRefused) {
  TempFolder folder;
  Sequential saved({Input({2}), Dense(8).Name("a")});
  Sequential model({Input({3}), Dense(8).Name("b")});
  saved.Compile(SGD(0.1f), MeanSquaredError());
  model.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_TRUE(SaveWeights(&saved, folder / "w").ok());
  LoadWeightsOptions options = Silent();
  options.by_name = true;
  Status status = LoadWeights(&model, folder / "w", options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status,
                       "missing in the file 'b/kernel', 'b/bias'; in the file "
                       "only 'a/kernel', 'a/bias'. by_name (--by-name) needs "
                       "layers of the same names"));
  options.by_name = false;
  options.skip_mismatch = true;
  EXPECT_FALSE(LoadWeights(&model, folder / "w", options).ok());
  Sequential other({Input({3}), Dense(8).Name("a")});
  other.Compile(SGD(0.1f), MeanSquaredError());
  for (const bool by_name : {false, true}) {  // one name, but another shape
    options.by_name = by_name;
    status = LoadWeights(&other, folder / "w", options);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "differing 'a/kernel"));
  }
}

TEST(LoadWeightsTest, LoadWeights_ManyMissing_WarnsInAFewLines) {
  TempFolder folder;
  Sequential saved({Input({2}), Dense(2).Name("first")});
  Sequential model({Input({2}), Dense(2).Name("first"), Dense(2), Dense(2),
                    Dense(2), Dense(2), Dense(2), Dense(2)});
  saved.Compile(SGD(0.1f), MeanSquaredError());
  model.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_TRUE(SaveWeights(&saved, folder / "w").ok());
  LoadWeightsOptions options;
  options.by_name = true;
  std::vector<std::string> warned;
  options.warn = [&](const std::string& line) { warned.push_back(line); };
  ASSERT_OK(LoadWeights(&model, folder / "w", options));
  ASSERT_EQ(warned.size(), 11u);
  EXPECT_TRUE(Contains(warned.back(), "2 of 14 weights are taken, 12 missing"));
}

TEST(LoadWeightsTest, LoadWeights_LayerFitsInPart_IsNotLoaded) {
  TempFolder folder;
  Sequential saved({Input({2}), Dense(8).Name("a"), Dense(4).Name("b")});
  Sequential wider({Input({3}), Dense(8).Name("a"), Dense(4).Name("b")});
  saved.Compile(SGD(0.1f), MeanSquaredError());
  wider.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_TRUE(SaveWeights(&saved, folder / "w").ok());
  WeightsReport report;
  LoadWeightsOptions options = Silent();
  options.skip_mismatch = true;
  ASSERT_TRUE(LoadWeights(&wider, folder / "w", options, &report).ok());
  EXPECT_EQ(report.skipped, (Names{"a/bias"}));
  EXPECT_EQ(report.loaded, (Names{"b/kernel", "b/bias"}));

  Sequential no_bias(
      {Input({2}), Dense(8).UseBias(false).Name("a"), Dense(4).Name("b")});
  no_bias.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_TRUE(SaveWeights(&no_bias, folder / "n").ok());
  options.skip_mismatch = false;
  options.by_name = true;
  const Status status = LoadWeights(&saved, folder / "n", options, &report);
  EXPECT_TRUE(Contains(status, "missing in the file 'a/bias'"));
}

TEST(LoadWeightsTest, LoadWeights_NaNOrInfinity_Warns) {
  TempFolder folder;
  const auto made = [] {
    std::unique_ptr<Sequential> model(
        new Sequential({Input({2}), Dense(3).Name("a"), Dense(4).Name("b")}));
    model->Compile(SGD(0.1f), MeanSquaredError());
    return model;
  };
  auto model = made();
  for (const float value : {NAN, -INFINITY, 1.0f}) {
    model->weights()[model->num_weights() - 1] = value;
    ASSERT_TRUE(SaveWeights(model.get(), folder / "w").ok());
    ASSERT_TRUE(SaveModel(model.get(), folder / "m.safetensors").ok());
    std::string told;
    LoadWeightsOptions options;
    options.warn = [&told](const std::string& text) { told += text; };
    ASSERT_TRUE(LoadWeights(made().get(), folder / "w", options).ok());
    testing::internal::CaptureStderr();
    std::unique_ptr<Model> loaded;
    ASSERT_TRUE(LoadModel(folder / "m.safetensors", &loaded).ok());
    const std::string whole = testing::internal::GetCapturedStderr();
    const std::string expected = ": NaN or infinite numbers in 'b/bias', and";
    for (const std::string& text : {told, whole}) {
      EXPECT_EQ(text.find(expected) == std::string::npos, value == 1) << text;
    }
  }
}

TEST(LoadWeightsTest, LoadWeights_FileOfAWholeModel_IsTaken) {
  TempFolder folder;
  auto model = TinyModel(Adam(0.01f));
  Train(model.get(), 1);
  ASSERT_TRUE(SaveModel(model.get(), folder / "m").ok());
  CompileOptions other_seed;
  other_seed.seed = 9;
  auto other = TinyModel(SGD(0.1f), 0, other_seed);
  WeightsReport report;
  ASSERT_OK(LoadWeights(other.get(), folder / "m", {}, &report));
  EXPECT_EQ(report.unexpected, Names());
  EXPECT_TRUE(SameBits(model.get(), other.get()));
}

TEST(LoadWeightsTest, LoadWeights_DamagedFile_OverwritesNothing) {
  SimulatedFileSystem files;
  ASSERT_TRUE(files.MakeDirectory("d").ok());
  SaveOptions saving;
  saving.files = &files;
  LoadWeightsOptions options = Silent();
  options.files = &files;
  auto model = TinyModel();
  ASSERT_TRUE(SaveWeights(model.get(), "d/w", saving).ok());
  const std::string whole = *files.Content("d/w");
  const std::vector<float> before = WeightsOf(model.get());
  Train(model.get(), 1);
  const std::vector<float> trained = WeightsOf(model.get());
  for (size_t at = 0; at < whole.size(); at += 3) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    *files.Content("d/w") = damaged;
    EXPECT_FALSE(LoadWeights(model.get(), "d/w", options).ok()) << at;
    EXPECT_EQ(WeightsOf(model.get()), trained) << at;
  }
  *files.Content("d/w") = whole;
  EXPECT_TRUE(LoadWeights(model.get(), "d/w", options).ok());
  EXPECT_EQ(WeightsOf(model.get()), before);
}

// --- other programs ---------------------------------------------------------

bool HaveNumpy() {
  return HavePython() &&
         std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") == 0;
}

TEST(OtherProgramsTest, SaveModel_ReadByPython_GivesTheSameLogits) {
  if (!HaveNumpy()) GTEST_SKIP() << "python3 with numpy is not installed";
  TempFolder folder;
  constexpr int64_t kCount = 12, kPixels = 28 * 28;
  std::vector<float> x(kCount * kPixels);
  std::vector<int32_t> y(kCount);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 0.5f + 0.5f * std::sin(static_cast<float>(i * i % 9973));
  }
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 10);
  const Dataset data =
      Dataset(MemorySource({DType::kFloat32, {28, 28}}, x.data(),
                           {DType::kInt32, {}}, y.data(), kCount))
          .Batch(4);
  Sequential model({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                    Flatten(), Dense(128, kRelu), Dense(10)});
  model.Compile(SGD(0.05f), SparseCategoricalCrossentropy(kFromLogits));
  ASSERT_TRUE(model.Fit(data, Quiet(3)).ok());  // biases are no longer zero
  auto predicted = model.Predict(data);
  ASSERT_OK(predicted.status());

  ASSERT_TRUE(SaveModel(&model, folder / "cnn.safetensors").ok());
  SwapToLittle(x.data(), sizeof(float), x.size());
  WriteWhole(folder / "x.f32", {reinterpret_cast<const char*>(x.data()),
                                x.size() * sizeof(float)});
  const std::vector<std::string> lines =
      RunPython(Script("model_logits.py") + folder.path() +
                "/cnn.safetensors " + folder.path() + "/x.f32");
  ASSERT_EQ(lines.size(), static_cast<size_t>(kCount));
  float largest = 0;
  for (size_t row = 0; row < lines.size(); ++row) {
    std::istringstream line(lines[row]);
    for (size_t i = 0; i < 10; ++i) {
      float other = NAN;
      ASSERT_TRUE(line >> other) << lines[row];
      EXPECT_NEAR(predicted.value()[row * 10 + i], other, 1e-4);
      largest = std::max(largest, std::fabs(other));
    }
  }
  EXPECT_GT(largest, 0.1f);  // else the comparison would prove nothing
}

TEST(OtherProgramsTest, LoadWeights_WrittenByPython_AreTakenAsUnverified) {
  if (!HaveNumpy()) GTEST_SKIP() << "python3 with numpy is not installed";
  TempFolder folder;
  for (const char* prefix : {"''", "model/"}) {
    auto model = TinyModel();
    const std::string path = folder / "w.safetensors";
    RunPython(Script("write_safetensors.py") + path + " " + prefix +
              " dense_1/kernel=16x3 dense_1/bias=3 dense/kernel=2x16"
              " dense/bias=16");
    WeightsReport report;
    std::string warned;
    LoadWeightsOptions options;
    options.warn = [&](const std::string& message) { warned += message; };
    ASSERT_OK(LoadWeights(model.get(), path, options, &report));
    EXPECT_FALSE(report.verified);
    EXPECT_TRUE(Contains(warned, "not verified"));
    EXPECT_EQ(report.loaded.size(), 4u);
    for (const Variable& v : model->variables()) {
      for (int64_t i = 0; i < v.size(); ++i) {
        ASSERT_EQ(model->weights()[v.offset + i], static_cast<float>(i) / 8)
            << v.path;
      }
    }
  }
}

TEST(OtherProgramsTest, LoadWeights_PlainFileOfOtherTensors_ReportsThem) {
  TempFolder folder;
  auto model = TinyModel();
  SafetensorsWriter writer;
  SafetensorsWriter::Options plain;
  plain.profile = false;
  float values[3] = {1, 2, 3};
  ASSERT_TRUE(writer
                  .Plan({{"dense_1/bias", DType::kFloat32, {3}, values},
                         {"head.weight", DType::kFloat32, {3}, values}},
                        {}, plain)
                  .ok());
  AtomicFile file;
  ASSERT_TRUE(
      file.Open(FileSystem::Posix(), folder / "p", writer.file_bytes()).ok());
  ASSERT_TRUE(writer.Write(file.file()).ok());
  ASSERT_TRUE(file.Commit().ok());
  WeightsReport report;
  EXPECT_FALSE(LoadWeights(model.get(), folder / "p", Silent(), &report).ok());
  EXPECT_EQ(report.unexpected, (Names{"head.weight"}));
  EXPECT_EQ(report.missing,
            (Names{"dense/kernel", "dense/bias", "dense_1/kernel"}));
  EXPECT_EQ(report.skipped, (Names{"dense_1/bias"}));
  std::unique_ptr<Model> loaded;
  EXPECT_TRUE(Contains(LoadModel(folder / "p", &loaded), "LoadWeights"));
}

}  // namespace
}  // namespace ringlet
