#include "distbelief/report/page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/report/page_writer.h"

namespace distbelief::report {
namespace {

using Json = nlohmann::json;

void write_metrics(const std::filesystem::path& folder, int lines) {
  std::ofstream file(folder / "metrics.jsonl");
  for (int i = 1; i <= lines; ++i)
    file << fmt::format(
        R"({{"step":{0},"epoch":0.1,"loss":{1:.4f},"loss_mean":{1:.4f},"lr":0.05,"samples":{0},"samples_per_second":{2},"seconds":{0},"unix_seconds":{3},"phase_seconds":{{"data":{0},"forward":{0},"backward":{0},"exchange":1,"update":1,"other":1}}}})"
        "\n",
        i, 2.0 + (i * 7919 % 1000) / 1000.0, 1000 + i % 17, 1'000'000 + i);
}

TEST(Page, LongRunMakesASmallPage) {
  const ScratchFolder scratch;
  write_metrics(scratch.path(), 100'000);
  RunHistory history(scratch.path());
  history.read_new();
  write_page(scratch.path(), history, 0);
  const std::string page = read_text(scratch.path() / "report.html");
  EXPECT_LT(page.size(), 1'000'000U);
  for (const char* id : {"loss", "lr", "throughput", "phases"})
    EXPECT_NE(page.find(fmt::format(R"(<figure id="{}">)", id)), std::string::npos) << id;
  EXPECT_EQ(page.find("http://www.w3.org/2000/svg"), page.rfind("http://"))
      << "no address but the name of SVG's elements";
  EXPECT_EQ(page.find("https://"), std::string::npos);
}

TEST(Page, DamagedFilesLeaveTheirPartOut) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "summary.json")
      << R"({"per_worker": [1, {"phase_seconds": 3}], "workers": "x"})";
  std::ofstream(scratch.path() / "predictions.json")
      << R"({"classes": 3, "confusion": [[0, 9, 1], "x", [0, 0, 5]], "first": [{"label": "<script>alert(1)</script>"}]})";
  RunHistory history(scratch.path());
  history.read_new();
  write_page(scratch.path(), history, 0);
  const std::string page = read_text(scratch.path() / "report.html");
  EXPECT_NE(page.find("nothing was measured"), std::string::npos);
  EXPECT_EQ(page.find("alert(1)"), std::string::npos);
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const char* name : {"summary.json", "predictions.json"})
    std::ofstream(scratch.path() / name) << R"({"status": "done", "confusion": )" << deep << "}";
  write_page(scratch.path(), history, 0);
  EXPECT_EQ(read_text(scratch.path() / "report.html").find("[[["), std::string::npos);
}

TEST(Page, ConfusionMatrixHasACellForEachPair) {
  const ScratchFolder scratch;
  const Json predictions{
      {"classes", 3},
      {"of", 900},
      {"names", {"shirt", "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc", "<b>"}},
      {"confusion", {{0, 0, 40}, {0, 1, 10}, {1, 1, 30}, {2, 0, 5}}},
      {"first",
       {{{"sample", 0}, {"label", 0}, {"predicted", 1}, {"probability", 0.75}, {"image", "iVBORw=="}}}}};
  const RunHistory history(scratch.path());
  const std::string page = render_page({.history = history,
                                        .name = "run",
                                        .summary = Json(),
                                        .predictions = predictions,
                                        .text = Json(),
                                        .job = ""});
  EXPECT_NE(page.find("70 of 85 test samples are right"), std::string::npos);
  EXPECT_NE(page.find("drawn from 900"), std::string::npos);
  EXPECT_NE(page.find("shirt taken for \xc3\xbc"), std::string::npos);
  EXPECT_EQ(page.find("\xc3<"), std::string::npos) << "half a character";
  EXPECT_NE(page.find("data:image/png;base64,iVBORw=="), std::string::npos);
  EXPECT_NE(page.find("&lt;b&gt;"), std::string::npos);
}

TEST(Page, ScoresOfEveryTaskAreDrawn) {
  const ScratchFolder scratch;
  std::ofstream file(scratch.path() / "metrics.jsonl");
  for (int step = 1; step <= 3; ++step)
    file << Json{{"step", step},
                 {"unix_seconds", 1'000'000 + step},
                 {"test_loss", 1.0},
                 {"test_metrics", {{"rmse", 0.5 / step}, {"iou", 0.2 * step}, {"perplexity", 9.0 / step}}}}
         << "\n";
  file.close();
  RunHistory history(scratch.path());
  history.read_new();
  const std::string page = render_page({.history = history,
                                        .name = "run",
                                        .summary = Json(),
                                        .predictions = Json(),
                                        .text = Json(),
                                        .job = ""});
  EXPECT_NE(page.find(R"(<figure id="test_rmse">)"), std::string::npos) << "below 1, and yet no share";
  EXPECT_NE(page.find(R"(<figure id="test_perplexity">)"), std::string::npos);
  EXPECT_EQ(page.find(R"(<figure id="test_iou">)"), std::string::npos) << "with the shares";
  EXPECT_NE(page.find("Test scores"), std::string::npos);
}

TEST(Page, ShowsWhatAGeneratorDraws) {
  const ScratchFolder scratch;
  const RunHistory history(scratch.path());
  write_page(scratch.path(), history, 0);
  EXPECT_EQ(read_text(scratch.path() / "report.html").find(R"(<figure id="generated">)"), std::string::npos);
  std::ofstream(scratch.path() / "samples.png") << "\x89PNG and so on";
  write_page(scratch.path(), history, 0);
  EXPECT_NE(read_text(scratch.path() / "report.html").find("data:image/png;base64,iVBORyBhbmQgc28gb24="),
            std::string::npos);
  std::ofstream(scratch.path() / "samples.png") << "something else";
  write_page(scratch.path(), history, 0);
  EXPECT_EQ(read_text(scratch.path() / "report.html").find(R"(<figure id="generated">)"), std::string::npos);
}

TEST(Page, NamesPicturesThatAreTooLargeForItInsteadOfCuttingThem) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "samples.png") << "\x89PNG" << std::string(5 << 20, 'x');
  write_page(scratch.path(), RunHistory(scratch.path()), 0);
  const std::string page = read_text(scratch.path() / "report.html");
  EXPECT_EQ(page.find(R"(<figure id="generated">)"), std::string::npos);
  EXPECT_NE(page.find("in the run's folder: samples.png (5.2 MB)"), std::string::npos);
}

TEST(Page, ShowsWhatAnAutoencoderMakesOfImages) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "reconstructions.png") << "\x89PNG and so on";
  write_page(scratch.path(), RunHistory(scratch.path()), 0);
  const std::string page = read_text(scratch.path() / "report.html");
  EXPECT_NE(page.find(R"(<figure id="reconstructions">)"), std::string::npos);
  EXPECT_NE(page.find("data:image/png;base64,iVBORyBhbmQgc28gb24="), std::string::npos);
  EXPECT_EQ(page.find(R"(<figure id="generated">)"), std::string::npos);
}

TEST(Page, ShowsWhatASegmentationMakesOfImages) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "masks.png") << "\x89PNG and so on";
  write_page(scratch.path(), RunHistory(scratch.path()), 0);
  const std::string page = read_text(scratch.path() / "report.html");
  EXPECT_NE(page.find(R"(<figure id="masks">)"), std::string::npos);
  EXPECT_NE(page.find("data:image/png;base64,iVBORyBhbmQgc28gb24="), std::string::npos);
}

TEST(Page, ShowsHowALanguageModelGoesOnAndNoneOfItIsCode) {
  const ScratchFolder scratch;
  const auto page = [&](const std::string& sample) {
    std::ofstream(scratch.path() / "samples.json") << sample;
    write_page(scratch.path(), RunHistory(scratch.path()), 0);
    return read_text(scratch.path() / "report.html");
  };
  EXPECT_NE(page(R"({"prompt": "To be, ", "text": "or\u0007 <script>alert(1)</script>\nnot"})")
                .find("<b>To be, </b>or\\x07 &lt;script&gt;alert(1)&lt;/script&gt;\nnot</pre>"),
            std::string::npos);
  for (const char* other : {"[]", "{", R"({"text": 3})", R"({"prompt": "x"})"})
    EXPECT_EQ(page(other).find(R"(<figure id="text">)"), std::string::npos) << other;
}

TEST(PageWriter, WritesWhileTheRunGoesOnAndAtItsEnd) {
  const ScratchFolder scratch;
  write_metrics(scratch.path(), 5);
  PageWriter writer({.run_dir = scratch.path(), .every_seconds = 0.01});
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!std::filesystem::exists(scratch.path() / "report.html") &&
         std::chrono::steady_clock::now() < give_up)
    std::this_thread::yield();
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "report.html"));
  std::ofstream(scratch.path() / "summary.json") << R"({"status": "stopped early"})";
  writer.finish();
  EXPECT_NE(read_text(scratch.path() / "report.html").find("stopped early"), std::string::npos);
}

}  // namespace
}  // namespace distbelief::report
