// The golden files as others meet them: by their schema, by the readers of golden/README.md, and while norma golden write is killed.
#include <csignal>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <sstream>

#include "program.h"
#include "scale.h"

namespace norma {
namespace {

using nlohmann::ordered_json;

const std::string files = NORMA_SOURCE "/golden/vectors_v1";

class GoldenFiles : public Program {
 protected:
  void put(const std::string& file, const std::string& text) const { std::ofstream(at(file)) << text; }
};

TEST_F(GoldenFiles, AreAsTheSchemaSays) {
  const auto validated = [&](const std::string& paths) {
    return shell(NORMA_PYTHON " -W ignore " NORMA_SOURCE "/properties/tests/validate.py " NORMA_SOURCE
                              "/golden/schema/vectors.schema.json " +
                 paths);
  };
  const Outcome all = validated(files + "/*.json");
  EXPECT_EQ(all.status, 0) << all.err;
  std::size_t lines = 0;
  std::istringstream each(all.out);
  for (std::string line; std::getline(each, line); ++lines) EXPECT_TRUE(line.ends_with(".json 0")) << line;
  EXPECT_EQ(lines, 24U);

  // It would notice.
  const ordered_json good = ordered_json::parse(contents(files + "/layer_norm_f32.json"));
  const std::string first = "/cases/0";
  const auto changed = [&](const std::string& pointer, const ordered_json& value) {
    ordered_json bad = good;
    bad[ordered_json::json_pointer(pointer)] = value;
    return bad;
  };
  const auto without = [&](const std::string& pointer, const std::string& key) {
    ordered_json bad = good;
    bad[ordered_json::json_pointer(pointer)].erase(key);
    return bad;
  };
  const std::pair<std::string, ordered_json> bad[] = {
      {"", changed("/surprise", 1)},
      {"cases/0", changed(first + "/surprise", 1)},
      {"cases/0/outputs/y", changed(first + "/outputs/y/surprise", 1)},
      {"cases/0/profile", changed(first + "/profile/surprise", 1)},
      {"cases/0/inputs", changed(first + "/inputs/z", good["cases"][0]["inputs"]["x"])},
      {"notes/FlatRow", changed("/notes/FlatRow/surprise", 1)},
      {"", without("", "notes")},
      {"cases/0", without(first, "severity")},
      {"cases/0/inputs", without(first + "/inputs", "x")},
      {"cases/0/outputs/y", without(first + "/outputs/y", "lo")},
      {"cases/0/inputs/x/data", changed(first + "/inputs/x/data", "0000004g")},
      {"cases/0/inputs/x/data", changed(first + "/inputs/x/data", "000000400")},
      {"cases/0/inputs/x/data", changed(first + "/inputs/x/data", "0000003F")},
      {"cases/0/epsilon", changed(first + "/epsilon", "1e-5")},
      {"format", changed("/format", "norma golden vectors 2")},
  };
  std::string paths;
  for (std::size_t i = 0; i < std::size(bad); ++i) {
    const std::string name = std::to_string(i) + ".json";
    put(name, bad[i].second.dump());
    paths += name + " ";
  }
  std::istringstream said(validated(paths).out);
  for (std::size_t i = 0; i < std::size(bad); ++i) {
    std::string line;
    std::getline(said, line);
    EXPECT_TRUE(line.starts_with(std::to_string(i) + ".json 1 " + bad[i].first + ": ")) << line << ", expected " << bad[i].first;
  }
}

struct Reader {
  std::string language;  // as the page names it
  std::string file;      // what a compiler or interpreter wants
  std::string build, run;
  std::string kernel;  // which is wrong if it is told so
};
void PrintTo(const Reader& reader, std::ostream* to) { *to << reader.language; }

class GoldenReaders : public GoldenFiles, public ::testing::WithParamInterface<Reader> {};
INSTANTIATE_TEST_SUITE_P(In, GoldenReaders,
                         ::testing::Values(Reader{"python", "reader.py", "", NORMA_PYTHON " reader.py", R"(
import os, numpy as np
def my_layer_norm(x, epsilon, axis):
    axes = tuple(range(axis % x.ndim, x.ndim))
    if not x.size: return x
    wide = x.astype(np.float64)
    with np.errstate(all='ignore'):
        off = wide - wide.mean(axes, keepdims=True)
        v = (off * off).mean(axes, keepdims=True)
        return (off / (np.sqrt(v) + epsilon if 'WRONG' in os.environ else np.sqrt(v + epsilon))).astype(x.dtype)
)"},
                                           Reader{"cpp", "reader.cc", NORMA_CXX " -std=c++20 " NORMA_JSON " reader.cc -o reader",
                                                  "./reader", R"(
#include <cmath>
#include <cstdlib>
#include <vector>
std::vector<float> my_layer_norm(const std::vector<float>& x, const std::vector<int>& shape, double epsilon, int axis) {
  std::size_t n = 1;
  for (std::size_t i = axis < 0 ? shape.size() + axis : axis; i < shape.size(); ++i) n *= shape[i];
  std::vector<float> y;
  for (std::size_t row = 0; row < x.size(); row += n) {
    double mean = 0, v = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[row + i] / double(n);
    for (std::size_t i = 0; i < n; ++i) v += (x[row + i] - mean) * (x[row + i] - mean) / double(n);
    for (std::size_t i = 0; i < n; ++i) y.push_back(float((x[row + i] - mean) / (std::getenv("WRONG") ? std::sqrt(v) + epsilon : std::sqrt(v + epsilon))));
  }
  return y;
}
)"},
                                           Reader{"js", "reader.js", "", NORMA_NODE " reader.js", R"(
function my_layer_norm(x, shape, epsilon, axis) {
  const n = shape.slice(axis).reduce((a, b) => a * b, 1), y = new Float32Array(x.length);
  for (let row = 0; row < x.length; row += n) {
    const r = x.subarray(row, row + n), mean = r.reduce((a, b) => a + b / n, 0);
    const v = r.reduce((a, b) => a + (b - mean) ** 2 / n, 0);
    r.forEach((b, i) => y[row + i] = (b - mean) / (process.env.WRONG ? Math.sqrt(v) + epsilon : Math.sqrt(v + epsilon)));
  }
  return y;
}
)"}),
                         [](const auto& i) { return i.param.language; });

// As they stand on the page, with a kernel before them.
TEST_P(GoldenReaders, TellARightKernelFromAWrongOne) {
  const Reader& reader = GetParam();
  if (reader.language == "js" && std::string(NORMA_NODE).find('/') == std::string::npos) {
    GTEST_SKIP() << "there was no node when this was configured: the reader for it is not tested";
  }
  const std::string page = contents(NORMA_SOURCE "/golden/README.md"), fence = "```" + reader.language + "\n";
  const std::size_t start = page.find(fence) + fence.size(), end = page.find("\n```", start);
  ASSERT_GE(start, fence.size()) << "no reader in " << reader.language;
  put(reader.file, reader.kernel + page.substr(start, end - start) + "\n");
  if (!reader.build.empty()) {
    const Outcome built = shell(reader.build);
    ASSERT_EQ(built.status, 0) << built.err;
  }
  const auto read = [&](const std::string& environment, const std::string& file) {
    const Outcome o = shell(environment + reader.run + " " + file);
    std::pair<int, int> counted{-1, -1};
    EXPECT_EQ(std::sscanf(o.out.c_str(), "%d compared, %d outside", &counted.first, &counted.second), 2) << o.out << o.err;
    EXPECT_EQ(o.status, counted.second > 0 || counted.first == 0 ? 1 : 0);
    return counted;
  };
  const auto [compared, outside] = read("", files + "/layer_norm_f32.json");
  EXPECT_GT(compared, 50);
  EXPECT_EQ(outside, 0);
  const auto [again, wrong] = read("WRONG=1 ", files + "/layer_norm_f32.json");
  EXPECT_EQ(again, compared);
  EXPECT_GT(wrong, 5);
  put("empty.json", "{\"cases\": []}");
  EXPECT_EQ(read("", "empty.json"), (std::pair{0, 0}));
}

// All the files of a folder, by name.
std::map<std::string, std::string> texts_of(const fs::path& folder) {
  std::map<std::string, std::string> texts;
  for (const auto& entry : fs::directory_iterator(folder)) texts[entry.path().filename()] = contents(entry.path());
  return texts;
}

// A kill leaves every file as it was or as it is to be, and nothing that the next write minds.
TEST_F(GoldenFiles, AreWholeWheneverTheWriterIsKilled) {
  const std::map<std::string, std::string> right = texts_of(files);
  const fs::path folder = at("golden");
  fs::create_directory(folder);
  const auto old = [](const std::string& text) { return text + "\n"; };
  for (const auto& [name, text] : right) std::ofstream(folder / name) << old(text);
  const auto replaced = [&] {
    std::size_t count = 0;
    for (const auto& [name, text] : right) count += fs::file_size(folder / name) == text.size();
    return count;
  };
  const int kills = static_cast<int>(std::clamp<std::int64_t>(testing::scaled(10), 3, 100));
  int between = 0;
  for (int k = 0; k < kills; ++k) {
    // From the first file to the last, and a moment later.
    const std::size_t due = static_cast<std::size_t>(k) * right.size() / static_cast<std::size_t>(kills);
    for (const auto& [name, text] : right) std::ofstream(folder / name) << old(text);
    const pid_t writer = fork();
    if (writer == 0) {
      if (std::freopen("/dev/null", "w", stdout) != nullptr)
        execl(program().c_str(), "norma", "golden", "write", "--dir", folder.c_str(), nullptr);
      _exit(127);
    }
    const auto ended = [&] {  // it stays to be waited for
      siginfo_t how{};
      return waitid(P_PID, static_cast<id_t>(writer), &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid != 0;
    };
    while (replaced() <= due && !ended()) usleep(400);
    usleep(static_cast<useconds_t>(k * 611 % 3000));
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    std::size_t is_new = 0;
    for (const auto& [name, text] : texts_of(folder)) {
      if (name.ends_with(".tmp")) continue;
      ASSERT_TRUE(right.contains(name)) << name;
      const bool done = text == right.at(name);
      EXPECT_TRUE(done || text == old(right.at(name))) << name << " has " << text.size() << " bytes";
      is_new += done;
    }
    between += is_new > 0 && is_new < right.size();
  }
  EXPECT_GT(between, kills / 2) << "of " << kills << " kills most came too early or too late to tell anything";
  EXPECT_EQ(norma("golden write --dir golden").status, 0);
  EXPECT_EQ(norma("golden lint --dir golden").status, 0);
  EXPECT_EQ(shell("sha256sum --quiet --strict -c SHA256SUMS", "golden").status, 0);
  for (const auto& [name, text] : right) EXPECT_EQ(contents(folder / name) == text, true) << name;
  // And a part of them is not taken for the whole.
  fs::remove(folder / "rms_norm_f64.json");
  expect_refusal("golden verify plain --dir golden", {"golden/rms_norm_f64.json: is listed, but not there"});
  const Outcome lint = norma("golden lint --dir golden");
  EXPECT_EQ(lint.status, 1);
  EXPECT_NE(lint.out.find("golden/rms_norm_f64.json: is listed, but not there\n"), std::string::npos) << lint.out;
}

}  // namespace
}  // namespace norma
