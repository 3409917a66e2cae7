#include "distbelief/cli/predict_inputs.h"

#include <gtest/gtest.h>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/registry.h"
#include "distbelief/data/slices/pack.h"
#include "distbelief/testing/refusal.h"
#include "distbelief/testing/written_images.h"

namespace distbelief::cli {
namespace {

using ::testing::IsSubstring;

class PredictInputs : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) {
    write_text(folder_.path() / name, content);
    return (folder_.path() / name).string();
  }
  static DataConfig config(const std::string& name, const std::string& path, OptionMap options) {
    DataConfig config;
    config.name = name;
    config.path = path;
    config.options = std::move(options);
    return config;
  }
  // The values of each sample.
  template <typename T>
  static std::vector<std::vector<T>> samples_of(const GivenSamples& samples) {
    std::vector<std::vector<T>> all;
    for (std::uint64_t i = 0; i < samples.size(); ++i) {
      all.emplace_back(std::size_t(element_count(samples.spec().input_shape)));
      std::vector<std::byte> target(std::size_t{8} * 4096);
      samples.read(i, all.back().data(), target.data());
    }
    return all;
  }
  ScratchFolder folder_;
};

TEST_F(PredictInputs, ImagesAreFittedWhateverTheirKind) {
  const DataConfig job = config("synthetic", "",
                                {{"channels", std::int64_t{1}},
                                 {"height", std::int64_t{4}},
                                 {"width", std::int64_t{6}},
                                 {"samples", std::int64_t{8}},
                                 {"test_samples", std::int64_t{3}}});
  const data::DataSet set = data::open_data_set(job);
  const InputReader reader(set);
  GivenSamples samples(set.test->spec());
  const testing::Drawing plain = testing::draw(60, 90, [](auto, auto, auto) { return 80U; });
  reader.add(file("a.png", testing::to_png(plain)), samples);
  reader.add(file("a.jpeg", testing::to_jpeg(plain)), samples);
  reader.add(file("a.pgm", "P5 6 4 255\n" + std::string(24, 'P')), samples);
  const auto found = samples_of<std::uint8_t>(samples);
  ASSERT_EQ(found.size(), 3U);
  for (const auto& sample : found) EXPECT_EQ(sample, std::vector<std::uint8_t>(24, 80));
  EXPECT_EQ(reader.class_name(2), "") << "known by number only";
  EXPECT_PRED_FORMAT2(IsSubstring, "cut.png', byte ", testing::refusal([&] {
                        reader.add(file("cut.png", testing::to_png(plain).substr(0, 60)), samples);
                      }));
  EXPECT_PRED_FORMAT2(IsSubstring, "this network takes images [1, 4, 6]",
                      testing::refusal([&] { reader.add("text:words", samples); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "wanted is an image",
                      testing::refusal([&] { reader.add(file("a.doc", "x"), samples); }));
}

TEST_F(PredictInputs, TestSamplesAndRowsOfNumbersAreTaken) {
  const DataConfig job = config("synthetic", "",
                                {{"channels", std::int64_t{1}},
                                 {"height", std::int64_t{1}},
                                 {"width", std::int64_t{3}},
                                 {"samples", std::int64_t{8}},
                                 {"test_samples", std::int64_t{3}}});
  const data::DataSet set = data::open_data_set(job);
  const InputReader reader(set);
  GivenSamples samples(set.test->spec());
  reader.add("test:1-2", samples);
  reader.add(file("rows.csv", "a;b;c\n1;2;255\n"), samples);
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples.name(1), "test:2");
  EXPECT_EQ(samples_of<std::uint8_t>(samples)[2], (std::vector<std::uint8_t>{1, 2, 255}));
  EXPECT_PRED_FORMAT2(IsSubstring, "numbers from 0 to 2",
                      testing::refusal([&] { reader.add("test:1-3", samples); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "line 1: 2 numbers; this network takes images [1, 1, 3]",
                      testing::refusal([&] { reader.add(file("few.csv", "1,2\n"), samples); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "line 2: 1 fields are no numbers",
                      testing::refusal([&] { reader.add(file("bad.csv", "1,2,3\n1,x,3\n"), samples); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "from 0 to 255, found 256",
                      testing::refusal([&] { reader.add(file("much.csv", "1,2,256\n"), samples); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "line 1: numbers must be whole",
                      testing::refusal([&] { reader.add(file("half.csv", "1,2,1.5\n"), samples); }));
}

TEST_F(PredictInputs, AMissingFileIsUnavailableAndAFolderBadInput) {
  const DataConfig job = config("synthetic_tokens", "", {});
  const data::DataSet set = data::open_data_set(job);
  const InputReader reader(set);
  GivenSamples samples(set.test->spec());
  try {
    reader.add("nowhere.csv", samples);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(error.message(), "there is no file nowhere.csv");
  }
  EXPECT_PRED_FORMAT2(IsSubstring, "is a folder; name the files in it",
                      testing::refusal([&] { reader.add(folder_.path().string(), samples); }));
}

TEST_F(PredictInputs, TokensAndIdsAreWholeNumbersThatThereAre) {
  const DataConfig tokens =
      config("synthetic_tokens", "", {{"length", std::int64_t{3}}, {"vocabulary", std::int64_t{9}}});
  const data::DataSet token_set = data::open_data_set(tokens);
  const InputReader reader(token_set);
  GivenSamples samples(token_set.test->spec());
  reader.add(file("T.CSV", "1,2,8\n"), samples);
  EXPECT_EQ(samples_of<std::int64_t>(samples)[0], (std::vector<std::int64_t>{1, 2, 8}));
  for (const char* wrong : {"1,1.7,2\n", "1,9,2\n", "1,-1,2\n"})
    EXPECT_PRED_FORMAT2(IsSubstring, "line 1: numbers must be whole and from 0 to 8",
                        testing::refusal([&] { reader.add(file("wrong.csv", wrong), samples); }));
  const DataConfig ids = config("synthetic_clicks", "", {{"fields", std::int64_t{2}}});
  const data::DataSet id_set = data::open_data_set(ids);
  GivenSamples shown(id_set.test->spec());
  InputReader(id_set).add(file("ids.csv", "77,99000000\n"), shown);
  EXPECT_EQ(samples_of<std::int64_t>(shown)[0], (std::vector<std::int64_t>{77, 99'000'000}))
      << "there are more ids than classes";
}

TEST_F(PredictInputs, RowsOfATableAreReadAsTheTrainingFileWas) {
  const std::string table =
      file("t.csv", "age,town,price\n10,Ulm,100\n30,Bonn,300\n10,Ulm,100.5\n30,Bonn,299.5\n");
  const DataConfig job = config("csv", table, {{"test", table}, {"standardize_target", true}});
  const data::DataSet set = data::open_data_set(job);
  const InputReader reader(set);
  GivenSamples samples(set.test->spec());
  reader.add(file("asked.csv", "town,age\nUlm,40\n,20\n"), samples);
  EXPECT_EQ(samples_of<float>(samples), (std::vector<std::vector<float>>{{2, 0, 1}, {0, 0, 0}}));
  EXPECT_TRUE(samples.name(0).ends_with("asked.csv:2"));
  EXPECT_NEAR(reader.value(0), 200, 1e-9) << "values are in the target's own units";
  EXPECT_NEAR(reader.value(1), 299.75, 0.01);

  const std::string slices = (folder_.path() / "slices").string();
  data::pack(set, {.folder = slices, .origin = "csv", .progress = {}});
  const DataConfig packed_job = config("packed", slices, {});
  const data::DataSet packed = data::open_data_set(packed_job);
  const InputReader packed_reader(packed);
  EXPECT_EQ(packed_reader.value(0), reader.value(0)) << "also from slices";
  EXPECT_EQ(packed_reader.value(1), reader.value(1));
  GivenSamples of_packed(packed.test->spec());
  packed_reader.add(file("asked.csv", "town,age\nUlm,40\n,20\n"), of_packed);
  EXPECT_EQ(samples_of<float>(of_packed), samples_of<float>(samples)) << "and rows are read as they were";
  data::DataSet unknowing = data::open_data_set(packed_job);
  unknowing.learnt.reset();  // as a set packed by an earlier version
  const InputReader without(unknowing);
  EXPECT_EQ(without.value(1), reader.value(1));
  EXPECT_PRED_FORMAT2(IsSubstring, "trained on a packed table",
                      testing::refusal([&] { without.add(file("rows.csv", "1,2,3\n"), samples); }));
}

TEST_F(PredictInputs, TextBecomesTheTokensThatTheModelKnows) {
  const std::string text = file("t.txt", "abcabcabcabcabcabcab cabcabc");
  const DataConfig job = config("text", text, {{"length", std::int64_t{4}}, {"test", text}});
  const data::DataSet set = data::open_data_set(job);
  const InputReader reader(set);
  GivenSamples samples(set.test->spec());
  reader.add("text:cab", samples);
  reader.add(file("long.txt", "aaaaaabca"), samples);
  EXPECT_EQ(samples_of<std::int64_t>(samples),
            (std::vector<std::vector<std::int64_t>>{{3, 1, 2, 0}, {1, 2, 3, 1}}));
  EXPECT_EQ(samples.place(0).used, 3);
  EXPECT_EQ(samples.place(0).asked, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(samples.place(1).used, 4);
  EXPECT_EQ(reader.class_name(3), "c");
  const std::string cab_in_gzip(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x4b\x4e\x4c\x02\x00\xf9\xf6\x8a\x6a\x03\x00\x00\x00", 23);
  for (const char* name : {"A.TXT", "a.md", "readme", "a.txt.gz"}) {
    reader.add(file(name, std::string_view(name).ends_with(".gz") ? cab_in_gzip : "cab"), samples);
    EXPECT_EQ(samples_of<std::int64_t>(samples).back(), (std::vector<std::int64_t>{3, 1, 2, 0})) << name;
  }
  EXPECT_PRED_FORMAT2(IsSubstring, "wanted is an image",
                      testing::refusal([&] { reader.add(file("a.bin", std::string("a\0b", 3)), samples); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "there is no text",
                      testing::refusal([&] { reader.add("text:", samples); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "takes 4 tokens per sample, not images",
                      testing::refusal([&] { reader.add(file("a.pgm", "P5 1 1 255\nx"), samples); }));
}

TEST_F(PredictInputs, AHiddenTokenIsAskedAbout) {
  const std::string text = file("t.txt", "the cat sat\nthe dog sat\nthe cat ran\n");
  const DataConfig job = config(
      "text", text, {{"length", std::int64_t{5}}, {"test", text}, {"level", std::string("sentences")}});
  const data::DataSet set = data::open_data_set(job);
  const InputReader reader(set, TokenQuestion::kHidden);
  GivenSamples samples(set.test->spec());
  reader.add("text:the [MASK] sat", samples);
  const std::int64_t mask = set.test->spec().classes;
  EXPECT_EQ(samples.place(0).asked, (std::vector<std::int64_t>{2})) << "after the sentence's end and 'the'";
  EXPECT_EQ(samples.place(0).used, 4);
  EXPECT_EQ(samples_of<std::int64_t>(samples)[0][2], mask);
  EXPECT_PRED_FORMAT2(IsSubstring, "write [MASK]",
                      testing::refusal([&] { reader.add("text:the cat", samples); }));
  reader.add("text:[MASK] dog [MASK]", samples);
  EXPECT_EQ(samples.place(1).asked, (std::vector<std::int64_t>{1, 3})) << "several at once";
  reader.add("test:0", samples);  // the end, the, cat, sat; padded with one more end
  EXPECT_EQ(samples.place(2).asked, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(samples.place(2).truth.size(), 1U);
  EXPECT_EQ(reader.class_name(samples.place(2).truth[0]), " sat");
  EXPECT_EQ(samples_of<std::int64_t>(samples)[2][3], mask);
}

TEST_F(PredictInputs, HiddenTokensAreAskedAboutInRowsOfNumbersToo) {
  const data::DataSet set = data::open_data_set(
      config("synthetic_tokens", "", {{"length", std::int64_t{12}}, {"vocabulary", std::int64_t{9}}}));
  const InputReader reader(set, TokenQuestion::kHidden);
  GivenSamples samples(set.test->spec());
  reader.add(file("asked.csv", "?,1,2,3,4,5,6,7,8,9,0,[MASK]\n"), samples);
  EXPECT_EQ(samples_of<std::int64_t>(samples)[0],
            (std::vector<std::int64_t>{9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 9}));
  EXPECT_EQ(samples.place(0).asked, (std::vector<std::int64_t>{0, 9, 11}));
  EXPECT_TRUE(samples.place(0).truth.empty());
  EXPECT_PRED_FORMAT2(
      IsSubstring, "line 1: this network tells hidden tokens; write ? in place of one",
      testing::refusal([&] { reader.add(file("shown.csv", "0,1,2,3,4,5,6,7,8,0,1,2\n"), samples); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "from 0 to 9, found 10", testing::refusal([&] {
                        reader.add(file("more.csv", "?,1,2,3,4,5,6,7,8,0,1,10\n"), samples);
                      }));
  reader.add("test:3", samples);
  EXPECT_EQ(samples.place(1).asked, (std::vector<std::int64_t>{3, 10}));
  std::vector<std::int64_t> tokens(12), targets(12);
  set.test->read(3, tokens.data(), targets.data());
  EXPECT_EQ(samples.place(1).truth, (std::vector<std::int64_t>{tokens[3], tokens[10]}));
  const InputReader next(set);
  EXPECT_PRED_FORMAT2(IsSubstring, "from 0 to 8, found 9", testing::refusal([&] {
                        next.add(file("next.csv", "0,1,2,3,4,5,6,7,8,0,1,9\n"), samples);
                      }));
}

}  // namespace
}  // namespace distbelief::cli
