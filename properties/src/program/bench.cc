#include "bench.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "norma/text.h"
#include "onednn.h"
#include "production.h"
#include "search.h"
#include "settings.h"

namespace norma::program {
namespace {

using namespace benchmark;  // NOLINT(google-build-using-namespace): its own

constexpr std::int64_t most_elements = std::int64_t{1} << 30;

// Sizes of rows, from one alone to more than any cache holds, and of the feature maps of an image network.
constexpr std::array<std::string_view, 10> row_shapes{"1x4096",   "1x16384",   "64x768",  "512x1024", "4096x1024",
                                                      "128x4096", "2048x4096", "64x8192", "65536x64", "8x32"};
constexpr std::array<std::string_view, 2> map_shapes{"4x64x56x56", "32x256x14x14"};
constexpr std::array<Op, 5> default_ops{Op::layer_norm, Op::rms_norm, Op::batch_norm_training, Op::batch_norm_inference, Op::group_norm};

Status wrong(std::string_view option, std::string_view word, std::string_view expected) {
  return {Code::bad_parameter, fmt::format("{} {}: expected {}", option, quote(word), expected)};
}

Result<std::int64_t> whole(std::string_view word, std::int64_t least, std::int64_t most) {
  const bool digits = !word.empty() && word.size() < 12 && word.find_first_not_of("0123456789") == std::string_view::npos;
  const std::int64_t value = digits ? std::stoll(std::string(word)) : -1;
  if (value < least || value > most) return Status{Code::bad_parameter, fmt::format("a whole number from {} to {}", least, most)};
  return value;
}

Result<Shape> parse_shape(std::string_view word) {
  Shape shape;
  std::int64_t product = 1;
  for (std::size_t begin = 0; begin <= word.size();) {
    const std::size_t end = std::min(word.find('x', begin), word.size());
    Result<std::int64_t> extent = whole(word.substr(begin, end - begin), 1, most_elements / product);
    if (!extent.ok()) return wrong("--shape", word, "extents like 64x768, at most 2^30 elements");
    shape.push_back(*extent);
    product *= *extent;
    begin = end + 1;
  }
  if (shape.size() < 2) return wrong("--shape", word, "rows and columns like 64x768, or cases, channels and a map like 4x64x56x56");
  return shape;
}

Result<std::vector<std::size_t>> parse_threads(const std::vector<std::string>& words) {
  std::vector<std::size_t> threads;
  for (const std::string& word : words) {
    Result<std::int64_t> count = whole(word, 1, 1024);
    if (word != "all" && !count.ok()) return wrong("--threads", word, count.status().message + ", or all");
    const std::size_t n = word == "all" ? all_threads() : static_cast<std::size_t>(*count);
    if (std::find(threads.begin(), threads.end(), n) == threads.end()) threads.push_back(n);
  }
  return threads;
}

Result<std::vector<Op>> parse_ops(const std::vector<std::string>& words) {
  std::vector<Op> chosen;
  std::vector<std::string_view> names;
  for (const OpInfo& op : ops) {
    if (op.name != info(Op::weight_norm).name) names.push_back(op.name);
  }
  for (const std::string& word : words) {
    const auto it = std::find(names.begin(), names.end(), word);
    if (it == names.end()) return wrong("--op", word, fmt::format("{}{}", fmt::join(names, ", "), suggestion(word, names)));
    chosen.push_back(static_cast<Op>(it - names.begin()));
  }
  return chosen;
}

// What an op measures of a shape: nothing, if it is the default ops that the shape does not suit.
Status add_problems(const Options& options, Op op, Format format, const Shape& shape, std::vector<Problem>& problems) {
  Problem p{op, format, shape, simd::Layout::channels_first, 1};
  if (options.ops.empty() && p.rows() != (shape.size() == 2)) return {};
  if (!p.rows() && op == Op::group_norm) {
    if (shape[1] % static_cast<std::int64_t>(options.groups) != 0) {
      return {Code::bad_groups, fmt::format("--groups {}: {} groups do not divide the {} channels of {} evenly", options.groups,
                                            options.groups, shape[1], p.shape_name())};
    }
    p.groups = options.groups;
  }
  const bool layouts = !p.rows() && shape.size() > 2;
  if (!layouts || options.layout != "NHWC") problems.push_back(p);
  p.layout = simd::Layout::channels_last;
  if (layouts && options.layout != "NCHW") problems.push_back(p);
  return {};
}

Result<std::vector<Problem>> make_problems(const Options& options) {
  Result<std::vector<Op>> asked = parse_ops(options.ops);
  if (!asked.ok()) return asked.status();
  if (asked->empty()) asked->assign(default_ops.begin(), default_ops.end());
  std::vector<Problem> problems;
  for (const Op op : *asked) {
    for (const std::string& dtype : options.dtypes) {
      const std::optional<Format> format = format_named(dtype);
      if (!format || info(*format).width < 16) return wrong("--dtype", dtype, "f32, f64, f16 or bf16");
      std::vector<std::string> shapes = options.shapes;
      if (shapes.empty()) {
        if (info(op).grouping == Grouping::trailing) {
          shapes.assign(row_shapes.begin(), row_shapes.end());
        } else {
          shapes.assign(map_shapes.begin(), map_shapes.end());
        }
      }
      for (const std::string& word : shapes) {
        Result<Shape> shape = parse_shape(word);
        if (!shape.ok()) return shape.status();
        if (Status s = add_problems(options, op, *format, *shape, problems); !s.ok()) return s;
      }
    }
  }
  if (problems.empty()) return wrong("--shape", fmt::format("{}", fmt::join(options.shapes, " ")), "one that the ops can have");
  return problems;
}

// The calls that cost nothing but themselves: one element, and none.
std::vector<Problem> small_problems(const std::vector<Problem>& problems) {
  std::vector<Problem> small;
  for (const Problem& p : problems) {
    if (!small.empty() && small.back().op == p.op && small.back().format == p.format) continue;
    small.push_back({p.op, p.format, {1, 1}, p.layout, 1});
    small.push_back({p.op, p.format, {0, 1}, p.layout, 1});
  }
  return small;
}

int bench(Options options) {
  (void)getloadavg(&options.load, 1);
  if (options.json && options.markdown) return fail({Code::bad_parameter, "--json and --markdown: expected one of them"});
  if (!options.against.empty() && onednn_version().empty()) {
    (void)fail(
        {Code::bad_parameter,
         "--against onednn: this program was built without oneDNN: install its version 2 (Debian: libdnnl-dev), touch CMakeLists.txt "
         "and build again"});
    return subject_error;
  }
  Result<std::vector<std::size_t>> threads = parse_threads(options.threads);
  if (!threads.ok()) return fail(threads.status());
  Result<std::vector<Problem>> problems = make_problems(options);
  if (!problems.ok()) return fail(problems.status());
  const std::vector<Problem> small = small_problems(*problems);

  const auto rounds = static_cast<std::int64_t>((problems->size() + small.size()) * threads->size()) * options.rounds;
  std::unique_ptr<Progress> progress = std::make_unique<Progress>("measuring", rounds);
  Result<std::vector<Measurement>> all = measure(options, *problems, *threads, *progress);
  Result<std::vector<Measurement>> calls = all.ok() ? measure(options, small, *threads, *progress) : all.status();
  progress.reset();
  if (!calls.ok()) {
    (void)fail(calls.status());
    return subject_error;
  }
  if (options.json) {
    print_json(options, *all, *calls);
  } else {
    print_tables(options, *all, *calls);
  }
  return holds;
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("bench", "Measures the production path against memcpy and oneDNN, all in one process");
  command->footer(
      "Variants take turns in every round; a measurement repeats the call for 2 ms or more. memcpy reads x and writes y, the least that "
      "any\n"
      "normalization does. Rates are medians over the rounds, ratios medians of the ratios of each round: 2 is twice as fast.\n"
      "Example: norma bench --against onednn --op layer_norm --shape 64x768 512x1024");
  const auto options = std::make_shared<Options>();
  command->add_option("--against", options->against, "onednn: measure that too")->type_name("NAME")->check(CLI::IsMember({"onednn"}));
  command->add_option("--op", options->ops, "ops; by default all but instance_norm, which is a group_norm")
      ->delimiter(',')
      ->type_name("NAME,...");
  command->add_option("--dtype", options->dtypes, "of x and y: f32 (the default), f64, f16, bf16; gamma and beta are f64 or f32")
      ->delimiter(',')
      ->type_name("NAME,...");
  command->add_option("--shape", options->shapes, "rows x cols like 64x768, or cases x channels x map like 4x64x56x56")
      ->delimiter(',')
      ->type_name("SHAPE...");
  command->add_option("--layout", options->layout, "of maps: both by default")
      ->type_name("NCHW|NHWC|both")
      ->check(CLI::IsMember({"NCHW", "NHWC", "both"}));
  add_whole(*command, "--groups", options->groups, "of group_norm: 32 by default", 1, 1 << 30);
  command->add_option("--accuracy", options->accuracy, "correctly_rounded, fast, or both (the default)")
      ->type_name("WORD")
      ->check(CLI::IsMember({"correctly_rounded", "fast", "both"}));
  command->add_option("--threads", options->threads, "numbers of threads: 1,all by default")->delimiter(',')->type_name("N,...");
  add_whole(*command, "--rounds", options->rounds, fmt::format("{} (the default) or more", least_rounds), least_rounds, 100000);
  command->add_flag("--json", options->json, "print one JSON object")->disable_flag_override();
  command->add_flag("--markdown", options->markdown, "print the tables in Markdown")->disable_flag_override();
  command->callback([options, &chosen] { chosen = [options] { return bench(*options); }; });
}

}  // namespace norma::program
