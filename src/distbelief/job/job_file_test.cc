#include "distbelief/job/job_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <variant>

#include "distbelief/job/schema.h"

namespace distbelief::job {
namespace {

template <typename Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.message();
  }
  return "accepted";
}

std::string refusal_of(const std::string& text) {
  return refusal([&] { parse_job(text, "job.toml"); });
}

std::string refusal_of_set(const std::string& assignment) {
  Config config;
  const std::string message = refusal([&] { apply_override(config, assignment); });
  if (message != "accepted") {
    EXPECT_EQ(config, Config{}) << "changed although refused";
  }
  return message;
}

Config after_set(const std::string& assignment) {
  Config config;
  apply_override(config, assignment);
  return config;
}

void change(bool& value) { value = !value; }
void change(std::int64_t& value) { value += 7; }
void change(std::uint64_t& value) { value += 7; }
void change(double& value) { value = value / 3 + 0.1; }  // needs all 17 digits
void change(std::string& value) { value += " \"quoted\" \\ \t\n'é'"; }
void change(std::vector<std::string>& value) { value = {"one, two", "three]"}; }
void change(std::vector<std::int64_t>& value) { value = {3, -4}; }

Config everything_changed() {
  Config config;
  for (const Key& key : keys()) {
    std::visit([&](const auto& field) { change(field.write(config)); }, key.field);
  }
  config.model.options = {{"flag", true},
                          {"count", std::int64_t{-3}},
                          {"rate", 4.0},
                          {"tiny", -1e-300},
                          {"word", std::string("# not a comment")},
                          {"hidden", std::vector<std::int64_t>{64, 32}},
                          {"none", std::vector<std::int64_t>{}},
                          {"a key with spaces", std::int64_t{1}}};
  config.data.options = {{"samples", std::int64_t{1000}}, {"huge", 1e300}};
  return config;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "job_file_test.XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(ParseJob, AnEmptyFileIsAllDefaults) {
  EXPECT_EQ(parse_job("", "job.toml"), Config{});
  EXPECT_EQ(parse_job("# nothing\n[train]\n[model]\n", "job.toml"), Config{});
}

TEST(ParseJob, ReadsEveryTypeIntoItsMember) {
  const Config config = parse_job(R"(
    [data]
    path = "data/mnist"
    normalize = false
    augment = ["flip"]
    [train]
    epochs = 7
    seed = 9223372036854775807
    lr = 1
    warmup_steps = 10
    optimizer = "adam"
  )",
                                  "job.toml");
  EXPECT_EQ(config.data.path, "data/mnist");
  EXPECT_FALSE(config.data.normalize);
  EXPECT_EQ(config.data.augment, std::vector<std::string>{"flip"});
  EXPECT_EQ(config.train.epochs, 7);
  EXPECT_EQ(config.train.seed, 9223372036854775807u);
  EXPECT_EQ(config.train.optimizer.lr, 1.0) << "an integer will do for a number";
  EXPECT_EQ(config.train.schedule.warmup_steps, 10);
  EXPECT_EQ(config.train.optimizer.name, "adam");
}

TEST(ParseJob, DottedKeysAreSectionsToo) {
  EXPECT_EQ(parse_job("train.epochs = 3", "job.toml").train.epochs, 3);
}

TEST(ParseJob, OtherKeysOfModelAndDataAreOptions) {
  const Config config = parse_job(R"(
    [model]
    hidden = [64, 32]
    dropout = 0.5
    bias = false
    [data]
    samples = 1000
    kind = "blobs"
  )",
                                  "job.toml");
  const OptionMap model = {{"hidden", std::vector<std::int64_t>{64, 32}}, {"dropout", 0.5}, {"bias", false}};
  const OptionMap data = {{"samples", std::int64_t{1000}}, {"kind", std::string("blobs")}};
  EXPECT_EQ(config.model.options, model);
  EXPECT_EQ(config.data.options, data);
}

TEST(ParseJob, RefusesAnUnknownKeyWithTheNearest) {
  EXPECT_EQ(refusal_of("[train]\nlr = 1\nepoch = 5"),
            "job.toml:3: unknown key 'train.epoch'; did you mean 'train.epochs'?");
}

TEST(ParseJob, FindsAKeyThatStandsInTheWrongSection) {
  EXPECT_EQ(refusal_of("[train]\nworkers = 5"),
            "job.toml:2: unknown key 'train.workers'; did you mean 'parallel.workers'?");
  EXPECT_EQ(refusal_of("[train]\nloader_thread = 5"),
            "job.toml:2: unknown key 'train.loader_thread'; did you mean 'data.loader_threads'?");
}

TEST(ParseJob, ListsTheKeysWhenNoneIsNear) {
  EXPECT_EQ(refusal_of("[checkpoint]\ncolour = 5"),
            "job.toml:2: unknown key 'checkpoint.colour'; [checkpoint] has every_epochs, every_steps, "
            "every_seconds, keep, snapshots");
}

TEST(ParseJob, RefusesAnUnknownSection) {
  EXPECT_EQ(refusal_of("\n\n[trian]\nlr = 1"), "job.toml:3: unknown section [trian]; did you mean [train]?");
  EXPECT_EQ(refusal_of("[zoo]"),
            "job.toml:1: unknown section [zoo]; there are [model], [data], [train], [parallel], "
            "[elastic], [checkpoint], [report]");
}

TEST(ParseJob, RefusesAKeyOutsideASection) {
  EXPECT_EQ(refusal_of("lr = 0.1"),
            "job.toml:1: key 'lr' stands outside a section; did you mean 'train.lr'?");
  EXPECT_EQ(refusal_of("train = 3"), "job.toml:1: 'train' must be a section, [train], found the integer 3");
  EXPECT_EQ(refusal_of("[[train]]\nlr = 1"), "job.toml:1: 'train' must be a section, [train], found a list");
}

TEST(ParseJob, RefusesWrongTypes) {
  EXPECT_EQ(refusal_of("[train]\nlr = \"fast\""),
            "job.toml:2: train.lr must be a number, found the string \"fast\"");
  EXPECT_EQ(refusal_of("[train]\nepochs = 2.5"),
            "job.toml:2: train.epochs must be an integer, found the number 2.5");
  EXPECT_EQ(refusal_of("[train]\nepochs = 2.0"),
            "job.toml:2: train.epochs must be an integer, found the number 2.0");
  EXPECT_EQ(refusal_of("[train]\nseed = -1"), "job.toml:2: train.seed must be 0 or more, found -1");
  EXPECT_EQ(refusal_of("[train]\nnesterov = 1"),
            "job.toml:2: train.nesterov must be true or false, found the integer 1");
  EXPECT_EQ(refusal_of("[train.optimizer]\nlr = 1"),
            "job.toml:1: train.optimizer must be a string, found a table");
  EXPECT_EQ(refusal_of("[model]\nname = true"), "job.toml:2: model.name must be a string, found true");
  EXPECT_EQ(refusal_of("[data]\naugment = \"flip\""),
            "job.toml:2: data.augment must be a list of strings, found the string \"flip\"");
  EXPECT_EQ(refusal_of("[data]\naugment = [\"flip\", 3]"),
            "job.toml:2: data.augment must be a list of strings, found the integer 3 in the list");
}

TEST(ParseJob, RefusesOptionsOfOtherTypes) {
  EXPECT_EQ(refusal_of("[model]\nx = [1, 2.5]"),
            "job.toml:2: model.x must be a list of integers, found the number 2.5 in the list");
  EXPECT_EQ(
      refusal_of("[model]\nx = {a = 1}"),
      "job.toml:2: model.x must be true or false, a number, a string or a list of integers, found a table");
  EXPECT_EQ(refusal_of("[model]\nx = 1979-05-27"),
            "job.toml:2: model.x must be true or false, a number, a string or a list of integers, found a "
            "date or time");
}

TEST(ParseJob, RefusesNumbersThatAreNotFinite) {
  EXPECT_EQ(refusal_of("[train]\nlr = nan"), "job.toml:2: train.lr must be a finite number, found nan");
  EXPECT_EQ(refusal_of("[train]\nlr = -inf"), "job.toml:2: train.lr must be a finite number, found -inf");
  EXPECT_EQ(refusal_of("[model]\ndropout = inf"),
            "job.toml:2: model.dropout must be a finite number, found inf");
}

TEST(ParseJob, RefusesBadTomlWithLineAndColumn) {
  EXPECT_TRUE(refusal_of("[train]\nlr = = 3").starts_with("job.toml:2:6: not valid TOML: "));
  EXPECT_TRUE(refusal_of("[train]\nlr = 1\nlr = 2").starts_with("job.toml:3:")) << "a key given twice";
  EXPECT_TRUE(refusal_of("[train\n").starts_with("job.toml:1:"));
  EXPECT_TRUE(refusal_of("[train]\nloss = \"\xff\"").starts_with("job.toml:2:")) << "not UTF-8";
}

TEST(ReadJob, KnowsTheLineOfEverySetting) {
  const Job job = read_job("[model]\nname = \"mlp\"\nhidden = [\n 1,\n 2]\n\n[train]\nlr = 1", "my.toml");
  ASSERT_EQ(job.places.size(), 3u);
  EXPECT_EQ(to_string(job.places.at("model.name")), "my.toml:2");
  EXPECT_EQ(to_string(job.places.at("model.hidden")), "my.toml:3");
  EXPECT_EQ(to_string(job.places.at("train.lr")), "my.toml:8");
}

TEST(ReadJob, AnErrorAboutAKeyIsToldWithItsPlace) {
  const Job job = read_job("[model]\nhidden = [1]", "my.toml");
  const auto message = [&](const std::string& key) {
    return refusal(
        [&] { with_places(job, [&] { throw Error(ErrorCode::kBadInput, "too narrow", {.key = key}); }); });
  };
  EXPECT_EQ(message("model.hidden"), "my.toml:2: too narrow");
  EXPECT_EQ(message("model.name"), "too narrow") << "left at its default";
  EXPECT_EQ(message(""), "too narrow") << "of no key";
  EXPECT_EQ(with_places(job, [] { return 3; }), 3);
}

TEST(LoadJobFile, ReadsAFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "job.toml";
  std::ofstream(path) << "[train]\nepochs = 3\n";
  EXPECT_EQ(load_job_file(path).train.epochs, 3);
  EXPECT_EQ(to_string(read_job_file(path).places.at("train.epochs")), path.string() + ":2");
}

TEST(LoadJobFile, RefusesWhatIsNotAFile) {
  const TemporaryFolder folder;
  const std::string missing = (folder.path() / "missing.toml").string();
  EXPECT_EQ(
      refusal([&] { load_job_file(missing); }),
      "job file '" + missing + "' does not exist; check its path, or leave it out to train the default job");
  EXPECT_EQ(refusal([&] { load_job_file(folder.path()); }),
            "job file '" + folder.path().string() + "' is a directory; name the TOML file in it");
}

// Root may read everything: while it lives, root is somebody else.
class WithoutPrivileges {
 public:
  WithoutPrivileges() : user_(geteuid()) {
    if (user_ == 0 && seteuid(65534) != 0) throw std::runtime_error("cannot give up root's rights");
  }
  ~WithoutPrivileges() {
    if (user_ == 0 && seteuid(0) != 0) std::abort();
  }
  WithoutPrivileges(const WithoutPrivileges&) = delete;
  WithoutPrivileges& operator=(const WithoutPrivileges&) = delete;

 private:
  uid_t user_;
};

TEST(LoadJobFile, RefusesAFileThatItMayNotRead) {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const auto path = folder.path() / "job.toml";
  std::ofstream(path) << "[train]\n";
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const WithoutPrivileges nobody;
  EXPECT_EQ(refusal([&] { load_job_file(path); }),
            "job file '" + path.string() + "' cannot be read: Permission denied; check its permissions");
}

TEST(ApplyOverride, TakesTomlValues) {
  EXPECT_EQ(after_set("train.lr=0.1").train.optimizer.lr, 0.1);
  EXPECT_EQ(after_set("train.epochs = 3").train.epochs, 3);
  EXPECT_EQ(after_set("train.reproducible=false").train.reproducible, false);
  EXPECT_EQ(after_set("train.optimizer=\"adam\"").train.optimizer.name, "adam");
  EXPECT_EQ(after_set("data.augment=['flip', \"pad_crop\"]").data.augment,
            (std::vector<std::string>{"flip", "pad_crop"}));
  EXPECT_EQ(option<std::vector<std::int64_t>>(after_set("model.hidden=[64,32]").model.options, "hidden"),
            (std::vector<std::int64_t>{64, 32}));
}

TEST(ApplyOverride, TakesBareWordsAsStrings) {
  EXPECT_EQ(after_set("train.optimizer=adam").train.optimizer.name, "adam");
  EXPECT_EQ(after_set("data.path=/data/a b#c=d").data.path, "/data/a b#c=d");
  EXPECT_EQ(after_set("data.path=2024").data.path, "2024") << "a string key makes quotes unnecessary";
  EXPECT_EQ(after_set("data.path=").data.path, "");
  EXPECT_EQ(after_set("data.augment=[flip, pad_crop]").data.augment,
            (std::vector<std::string>{"flip", "pad_crop"}));
  EXPECT_EQ(after_set("data.augment=[]").data.augment, std::vector<std::string>{});
  EXPECT_EQ(option<std::string>(after_set("model.activation=gelu").model.options, "activation"), "gelu");
}

TEST(ApplyOverride, RefusesListsInListsHoweverDeep) {
  EXPECT_NE(refusal_of_set("model.hidden=[[1]]").find("list"), std::string::npos);
  EXPECT_NE(refusal_of_set("model.hidden=[[one]]").find("list"), std::string::npos);
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_NE(refusal_of_set("model.hidden=" + deep).find("list"), std::string::npos);
}

TEST(ApplyOverride, DoesNotLetAValueCarryFurtherLines) {
  EXPECT_EQ(refusal_of_set("train.lr=1\nx=2"),
            "--set train.lr=1\nx=2: train.lr must be a number, found the string \"1\\nx=2\"");
}

TEST(ApplyOverride, RefusesAsAFileDoesAndNamesTheFlag) {
  EXPECT_EQ(refusal_of_set("train.lr=fast"),
            "--set train.lr=fast: train.lr must be a number, found the string \"fast\"");
  EXPECT_EQ(refusal_of_set("train.lr=nan"),
            "--set train.lr=nan: train.lr must be a finite number, found nan");
  EXPECT_EQ(refusal_of_set("train.epochs=2.5"),
            "--set train.epochs=2.5: train.epochs must be an integer, found the number 2.5");
  EXPECT_EQ(refusal_of_set("train.epoch=2"),
            "--set train.epoch=2: unknown key 'train.epoch'; did you mean 'train.epochs'?");
  EXPECT_EQ(refusal_of_set("trian.epochs=2"),
            "--set trian.epochs=2: unknown section [trian]; did you mean [train]?");
  EXPECT_EQ(refusal_of_set("data.augment=flip"),
            "--set data.augment=flip: data.augment must be a list of strings, found the string \"flip\"");
}

TEST(ApplyOverride, RefusesWhatIsNoAssignment) {
  const std::string advice = "; write --set section.key=value, for example --set train.lr=0.1";
  EXPECT_EQ(refusal_of_set("train.lr"), "--set train.lr: there is no '='" + advice);
  EXPECT_EQ(refusal_of_set("train.lr="), "--set train.lr=: there is no value after '='" + advice);
  EXPECT_EQ(refusal_of_set("zzzzzz=3"), "--set zzzzzz=3: 'zzzzzz' is not section.key" + advice);
  EXPECT_EQ(refusal_of_set("=3"), "--set =3: '' is not section.key" + advice);
  EXPECT_EQ(refusal_of_set("train.=3"), "--set train.=3: 'train.' is not section.key" + advice);
  EXPECT_EQ(refusal_of_set("lr=3"), "--set lr=3: 'lr' has no section; did you mean 'train.lr'?");
}

TEST(ApplyOverride, ReplacesValueAndPlaceOfTheFile) {
  Job job = read_job("[model]\nhidden = [1]\n[train]\nlr = 1", "my.toml");
  apply_override(job, "model.hidden=[2]");
  EXPECT_EQ(option<std::vector<std::int64_t>>(job.config.model.options, "hidden"),
            std::vector<std::int64_t>{2});
  EXPECT_EQ(to_string(job.places.at("model.hidden")), "--set model.hidden=[2]");
  EXPECT_EQ(to_string(job.places.at("train.lr")), "my.toml:4");
}

TEST(ToToml, ReadsBackTheSame) {
  EXPECT_EQ(parse_job(to_toml(Config{}), "resolved"), Config{});
  EXPECT_EQ(parse_job(to_toml(default_job()), "resolved"), default_job());
  EXPECT_EQ(parse_job(to_toml(everything_changed()), "resolved"), everything_changed());
}

TEST(ToToml, WritesEveryKey) {
  const Job job = read_job(to_toml(Config{}), "resolved");
  for (const Key& key : keys()) EXPECT_TRUE(job.places.contains(key.full_name())) << key.full_name();
}

TEST(ToToml, WritesNumbersAsPeopleDo) {
  const std::string text = to_toml(default_job());
  EXPECT_NE(text.find("\nlr = 0.05\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nweight_decay = 0.0005\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nbucket_mb = 4.0\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace distbelief::job
