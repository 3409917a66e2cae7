#include "distbelief/data/known_set.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/pipeline/deferred_source.h"
#include "distbelief/data/registry.h"
#include "distbelief/testing/refusal.h"
#include "distbelief/testing/written_images.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;
using Bytes = std::vector<std::byte>;

class KnownData : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    write_text(folder_.path() / name, content);
    return (folder_.path() / name).string();
  }
  static DataConfig config(const std::string& name, const std::string& path, OptionMap options = {}) {
    DataConfig config;
    config.name = name;
    config.path = path;
    config.options = std::move(options);
    return config;
  }
  // The input and target of each sample.
  static std::vector<Bytes> samples_of(const Source& source) {
    const SampleSpec& spec = source.spec();
    std::vector<Bytes> all;
    for (std::uint64_t i = 0; i < source.size(); ++i) {
      Bytes input(element_size(spec.input_type) * std::size_t(element_count(spec.input_shape)));
      Bytes target(element_size(spec.target_type) * std::size_t(element_count(spec.target_shape)));
      source.read(i, input.data(), target.data());
      all.insert(all.end(), {std::move(input), std::move(target)});
    }
    return all;
  }
  static KnownSet kept(const DataConfig& data) {
    const KnownSet known = describe_data(data, open_data_set(data));
    return parse_known_set(to_text(known), "data.json");
  }
  // Reopens the set with its manifest and expects the same samples in both parts.
  static void expect_the_same(const DataConfig& data) {
    const DataSet once = open_data_set(data);
    const KnownSet known = kept(data);
    const DataSet again = open_data_set(data, known);
    EXPECT_EQ(samples_of(*once.train), samples_of(*again.train)) << data.name;
    EXPECT_EQ(samples_of(*once.test), samples_of(*again.test)) << data.name;
    EXPECT_EQ(data_fingerprint(data, again), known.fingerprints.front());
    EXPECT_EQ(to_text(known), to_text(describe_data(data, once)));
  }
  ScratchFolder folder_;
};

constexpr const char* kPeople =
    "age,town,height,risk\n10,Ulm,1.1,low\n30,Bonn,1.7,high\n10,,1.3,low\n37,K\xf6ln,1.61803398875,high\n";

TEST_F(KnownData, GivesTheSameBitsForTheSameFiles) {
  expect_the_same(config("csv", file("people.csv", kPeople), {{"held_out", 0.25}}));
  expect_the_same(config("csv", file("values.csv", "a,b\n1,0.1\n2,0.7\n3.3,0.3\n4,1e-9\n"),
                         {{"standardize_target", true}, {"held_out", 0.25}}));
  expect_the_same(config("csv", file("commas.csv", "a;b\n1,5;0,1\n2;0,7\n3,3;0,3\n4;1\n"),
                         {{"decimal", std::string(",")}, {"held_out", 0.25}}));
  const std::string text = file("t.txt", "b\xc3\xa4r tanzt\nw\xe2\x82\xac ld\nund so weiter\n");
  for (const char* level : {"bytes", "characters", "sentences"})
    expect_the_same(config("text", text,
                           {{"level", std::string(level)}, {"length", std::int64_t{3}}, {"held_out", 0.4}}));
  file("trees/train.sexp", "1 (and true (not false))\n0 (x y)\n");
  file("trees/test.sexp", "1 (and new)\n");
  expect_the_same(config("s_expressions", (folder_.path() / "trees").string()));
  expect_the_same(config("synthetic_logic", ""));
  const testing::Drawing drawing = testing::draw(20, 20, [](auto, auto, auto) { return 80U; });
  for (const char* name : {"photos/cat/1.png", "photos/cat/2.png", "photos/dog/1.png", "photos/dog/2.png"})
    file(name, testing::to_png(drawing));
  expect_the_same(config("image_folder", (folder_.path() / "photos").string(),
                         {{"resize", std::int64_t{16}}, {"crop", std::int64_t{12}}}));
}

TEST_F(KnownData, ReadsChangedFilesAsTheyWereRead) {
  const std::string table =
      file("t.csv", "age,town,price\n10,Ulm,100\n30,Bonn,300\n10,Ulm,101\n30,Bonn,299\n");
  const DataConfig csv = config("csv", table, {{"test", table}, {"task", std::string("regression")}});
  const KnownSet known = kept(csv);
  file("t.csv", "age,town,price\n10,Ulm,100\n9999,Aachen,300\n");
  const DataSet now = open_data_set(csv, known);
  float features[3] = {}, price = 0;
  now.train->read(1, features, &price);
  EXPECT_FLOAT_EQ(features[0], (9999 - 20) / 10.F);
  EXPECT_EQ(features[1] + features[2], 0) << "a town that was not there is none";
  EXPECT_NE(data_fingerprint(csv, now), known.fingerprints.front());
  file("t.csv", "age,price\n10,100\n30,300\n");
  EXPECT_PRED_FORMAT2(IsSubstring, "line 1: 3 fields are wanted",
                      testing::refusal([&] { open_data_set(csv, known); }));

  const DataConfig text =
      config("text", file("t.txt", "abcabcabc"), {{"length", std::int64_t{2}}, {"held_out", 0.4}});
  const KnownSet letters = kept(text);
  file("t.txt", "zzabcabcabc");
  std::int64_t tokens[2] = {}, next[2] = {};
  open_data_set(text, letters).train->read(1, tokens, next);
  EXPECT_EQ(tokens[0], 0) << "a is what it was";
}

TEST_F(KnownData, RefusesToTestOnWhatWasTrainedOn) {
  const auto goes_on = [](const DataConfig& data, const KnownSet& known) {
    return testing::refusal([&] { require_same_split(known, open_data_set(data, known)); });
  };
  const testing::Drawing drawing = testing::draw(20, 20, [](auto, auto, auto) { return 80U; });
  for (const char* name : {"photos/cat/1.png", "photos/cat/2.png", "photos/cat/3.png", "photos/dog/1.png"})
    file(name, testing::to_png(drawing));
  const DataConfig photos = config("image_folder", (folder_.path() / "photos").string(),
                                   {{"resize", std::int64_t{16}}, {"crop", std::int64_t{12}}});
  const std::string rows = "a,b\n1,0.1\n2,0.7\n3,0.3\n4,0.5\n";
  const DataConfig table = config("csv", file("t.csv", rows), {{"task", std::string("regression")}});
  const DataConfig lines = config("text", file("t.txt", "a b\nb a\na a\n"),
                                  {{"level", std::string("sentences")}, {"length", std::int64_t{2}}});
  const KnownSet known[] = {kept(photos), kept(table), kept(lines)};
  EXPECT_EQ(goes_on(photos, known[0]), "accepted");
  EXPECT_EQ(goes_on(table, known[1]), "accepted");
  EXPECT_EQ(goes_on(lines, known[2]), "accepted");
  std::filesystem::remove(folder_.path() / "photos/cat/3.png");
  file("t.csv", rows + "5,0.6\n");
  file("t.txt", "a b\nb a\n");
  EXPECT_PRED_FORMAT2(IsSubstring, "has 3 samples now and had 4", goes_on(photos, known[0]));
  EXPECT_PRED_FORMAT2(IsSubstring, "has 5 samples now and had 4", goes_on(table, known[1]));
  EXPECT_PRED_FORMAT2(IsSubstring, "has 2 samples now and had 3", goes_on(lines, known[2]));
  // A test part in its own folder does not depend on the number of samples.
  file("photos/test/cat/1.png", testing::to_png(drawing));
  std::filesystem::create_directories(folder_.path() / "own/train");
  for (const char* name : {"cat", "dog"})
    std::filesystem::rename(folder_.path() / "photos" / name, folder_.path() / "own/train" / name);
  std::filesystem::rename(folder_.path() / "photos/test", folder_.path() / "own/test");
  const DataConfig parts = config("image_folder", (folder_.path() / "own").string(), photos.options);
  const KnownSet two = kept(parts);
  std::filesystem::remove(folder_.path() / "own/train/cat/2.png");
  EXPECT_EQ(goes_on(parts, two), "accepted");
}

TEST_F(KnownData, RefusesOtherClassesAndShapes) {
  file("trees/train.sexp", "1 (and true false)\n0 (not true)\n");
  file("trees/test.sexp", "1 (not true)\n");
  const DataConfig trees = config("s_expressions", (folder_.path() / "trees").string());
  const KnownSet known = kept(trees);
  file("trees/train.sexp", "1 (and true false)\n2 (not true)\n");
  EXPECT_PRED_FORMAT2(IsSubstring, "train.sexp', line 2: label 2",
                      testing::refusal([&] { open_data_set(trees, known); }));
  const testing::Drawing drawing = testing::draw(20, 20, [](auto, auto, auto) { return 80U; });
  for (const char* name : {"photos/cat/1.png", "photos/dog/1.png", "photos/dog/2.png"})
    file(name, testing::to_png(drawing));
  const DataConfig photos = config("image_folder", (folder_.path() / "photos").string(),
                                   {{"resize", std::int64_t{16}}, {"crop", std::int64_t{12}}});
  const KnownSet animals = kept(photos);
  file("photos/bird/1.png", testing::to_png(drawing));
  EXPECT_PRED_FORMAT2(IsSubstring, "has a class 'bird'",
                      testing::refusal([&] { open_data_set(photos, animals); }));
  const DataConfig made = config("synthetic_tokens", "", {{"vocabulary", std::int64_t{9}}});
  const KnownSet nine = kept(made);
  EXPECT_PRED_FORMAT2(
      IsSubstring, "classes are wanted to be 9, as they were, and are 10", testing::refusal([&] {
        open_data_set(config("synthetic_tokens", "", {{"vocabulary", std::int64_t{10}}}), nine);
      }));
}

TEST_F(KnownData, IsOpenedWhenASampleIsAskedFor) {
  const DataConfig data = config("csv", file("people.csv", kPeople));
  const KnownSet known = kept(data);
  std::filesystem::remove(folder_.path() / "people.csv");
  const DataSet set = deferred_data_set(known, [&] { return open_data_set(data, known); });
  EXPECT_EQ(set.test->spec().class_names, (std::vector<std::string>{"high", "low"}));
  EXPECT_EQ(set.learnt->table->columns[1].name, "town");
  EXPECT_THROW(set.test->size(), Error);
  file("people.csv", kPeople);
  EXPECT_EQ(set.test->size() + set.train->size(), 4U) << "the next who asks tries again";
}

TEST_F(KnownData, IsWrittenWholeAndReadBack) {
  EXPECT_FALSE(read_known_set(folder_.path())) << "an earlier version wrote none";
  const KnownSet known = kept(config("csv", file("people.csv", kPeople)));
  EXPECT_TRUE(write_known_set(folder_.path(), known));
  EXPECT_EQ(to_text(*read_known_set(folder_.path())), to_text(known));
  const std::string text = to_text(known);
  for (std::size_t length = 0; length + 1 < text.size(); length += 7)
    ASSERT_PRED_FORMAT2(IsSubstring, "'data.json': ", testing::refusal([&] {
                          parse_known_set(text.substr(0, length), "data.json");
                        }));
  std::string changed = text;
  changed[changed.find("Ulm")] = 'A';
  EXPECT_PRED_FORMAT2(IsSubstring, "its checksum is wrong",
                      testing::refusal([&] { parse_known_set(changed, "x"); }));
  std::filesystem::resize_file(folder_.path() / kKnownSetName, std::uintmax_t{1} << 32);
  EXPECT_PRED_FORMAT2(IsSubstring, "4294967296 bytes",
                      testing::refusal([&] { read_known_set(folder_.path()); }));
}

TEST_F(KnownData, RefusesPartsThatDoNotFit) {
  const nlohmann::json whole =
      nlohmann::json::parse(to_text(kept(config("csv", file("people.csv", kPeople)))))["set"];
  const std::pair<const char*, const char*> changes[] = {
      {R"({"spec": {"input_shape": [4]}})", "samples are wanted to be float32 [4]"},
      {R"({"spec": {"classes": 99999999}})", "there cannot be 99999999 classes"},
      {R"({"fingerprints": []})", "of which files"},
      {R"({"learnt": {"table": {"columns": []}}})", "one target"},
      {R"({"learnt": {"table": {"delimiter": "\n"}}})", "delimiter"},
      {R"({"learnt": {"table": {"decimal": ";"}}})", "decimals"},
      {R"({"learnt": {"table": {"task": "magic"}}})", "'magic'"},
      {R"({"learnt": {"vocabulary": {"level": "bytes"}}})", "256 tokens"},
      {R"({"learnt": {"tree_names": ["a", "a"]}})", "must differ"},
      {R"({"learnt": {"images": {"resize": 9, "crop": 9, "channels": 3}}})", "another shape"}};
  for (const auto& [change, reason] : changes) {
    nlohmann::json lying = whole;
    lying.merge_patch(nlohmann::json::parse(change));
    EXPECT_PRED_FORMAT2(IsSubstring, reason, testing::refusal([&] { parse_known_body(lying.dump(), "x"); }))
        << change;
  }
  for (const char* column : {R"({"name": "age", "role": "number", "deviation": 0})",
                             R"({"name": "", "role": "number"})", R"({"name": "risk", "role": "number"})",
                             R"({"name": "age", "role": "category", "categories": ["b", "a"]})"}) {
    nlohmann::json lying = whole;
    lying["learnt"]["table"]["columns"][0] = nlohmann::json::parse(column);
    EXPECT_NE(testing::refusal([&] { parse_known_body(lying.dump(), "x"); }), "accepted") << column;
  }
}

}  // namespace
}  // namespace distbelief::data
