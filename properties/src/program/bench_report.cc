#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench.h"
#include "norma/targets.h"
#include "onednn.h"
#include "production.h"

namespace norma::program::benchmark {
namespace {

using nlohmann::ordered_json;

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// How many times as fast as `other`: the median over the rounds, since what disturbs a round disturbs all of it.
double ratio(const Measurement& m, Variant variant, Variant other) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(m.ns[variant].size(), m.ns[other].size()); ++i) ratios.push_back(m.ns[other][i] / m.ns[variant][i]);
  return median(ratios);
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

std::string compiler() {
#ifdef __clang__
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

ordered_json machine(const Options& options) {
  const std::vector<std::string> targets = simd::targets();
  ordered_json j{{"processor", processor()}, {"threads", all_threads()}, {"instruction_set", targets.empty() ? "none" : targets.front()},
                 {"compiler", compiler()},   {"norma", NORMA_VERSION},   {"load", options.load}};
  if (!options.against.empty()) j["onednn"] = onednn_version();
  return j;
}

// The same problem with one thread, if that was measured.
const Measurement* alone(const std::vector<Measurement>& all, const Measurement& m) {
  for (const Measurement& other : all) {
    const Problem& a = other.problem;
    const Problem& b = m.problem;
    if (other.threads == 1 && m.threads != 1 && a.op == b.op && a.format == b.format && a.shape == b.shape && a.layout == b.layout)
      return &other;
  }
  return nullptr;
}

struct Ratio {
  Variant variant;
  std::string_view other;  // a variant, or the same one alone
  double value;
};
using Ratios = std::vector<Ratio>;

// Every comparison, in the same order always; NaN for what was not measured.
Ratios ratios(const std::vector<Measurement>& all, const Measurement& m) {
  Ratios list;
  const Measurement* const one = alone(all, m);
  for (const Variant v : {copy, onednn, correctly_rounded, fast}) {
    if (v == correctly_rounded || v == fast) {
      for (const Variant other : {copy, onednn}) list.push_back({v, variant_names[other], ratio(m, v, other)});
    }
    list.push_back({v, "1 thread", one == nullptr ? std::numeric_limits<double>::quiet_NaN() : median(one->ns[v]) / median(m.ns[v])});
  }
  return list;
}

bool same_table(const Measurement& a, const Measurement& b) {
  return a.problem.op == b.problem.op && a.problem.format == b.problem.format && a.threads == b.threads;
}

// Measurements by table: an op in a format on a number of threads.
std::vector<std::vector<const Measurement*>> tables(const std::vector<Measurement>& all) {
  std::vector<std::vector<const Measurement*>> groups;
  for (const Measurement& m : all) {
    const auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return same_table(*group.front(), m); });
    if (it == groups.end()) {
      groups.push_back({&m});
    } else {
      it->push_back(&m);
    }
  }
  return groups;
}

// The geometric mean of every comparison over a table.
Ratios means(const std::vector<Measurement>& all, const std::vector<const Measurement*>& table) {
  Ratios list = ratios(all, *table.front());
  for (std::size_t i = 0; i < list.size(); ++i) {
    double sum = 0;
    int count = 0;
    for (const Measurement* m : table) {
      const double value = ratios(all, *m)[i].value;
      if (std::isnan(value)) continue;
      sum += std::log(value);
      ++count;
    }
    list[i].value = std::exp(sum / count);
  }
  return list;
}

ordered_json object(const Ratios& list) {
  auto j = ordered_json::object();
  for (const Ratio& r : list) {
    if (!std::isnan(r.value)) j[fmt::format("{}/{}", variant_names[r.variant], r.other)] = r.value;
  }
  return j;
}

ordered_json to_json(const std::vector<Measurement>& all, const Measurement& m) {
  const Problem& p = m.problem;
  ordered_json j{{"op", info(p.op).name}, {"dtype", info(p.format).name}, {"shape", p.shape_name()}};
  if (!p.layout_name().empty()) j["layout"] = p.layout_name();
  if (p.op == Op::group_norm) j["groups"] = p.groups;
  j["threads"] = m.threads;
  auto& ns = j["ns"] = ordered_json::object();
  for (std::size_t v = 0; v < variant_count; ++v) {
    if (!m.ns[v].empty()) ns[std::string(variant_names[v])] = median(m.ns[v]);
  }
  if (p.elements() > 1) {
    auto& rate = j["elements_per_second"] = ordered_json::object();
    for (const auto& [name, value] : ns.items()) rate[name] = static_cast<double>(p.elements()) * 1e9 / value.get<double>();
    j["ratios"] = object(ratios(all, m));
  }
  return j;
}

}  // namespace

void print_json(const Options& options, const std::vector<Measurement>& all, const std::vector<Measurement>& small) {
  ordered_json j{{"machine", machine(options)}, {"rounds", options.rounds}};
  j["measurements"] = ordered_json::array();
  for (const Measurement& m : all) j["measurements"].push_back(to_json(all, m));
  j["geometric_means"] = ordered_json::array();
  for (const auto& table : tables(all)) {
    const Measurement& first = *table.front();
    j["geometric_means"].push_back({{"op", info(first.problem.op).name},
                                    {"dtype", info(first.problem.format).name},
                                    {"threads", first.threads},
                                    {"ratios", object(means(all, table))}});
  }
  j["small_calls"] = ordered_json::array();
  for (const Measurement& m : small) j["small_calls"].push_back(to_json(small, m));
  fmt::print("{}\n", j.dump(2));
}

namespace {

using Cells = std::vector<std::vector<std::string>>;

// A table as columns, or as Markdown has it.
void print(const Options& options, Cells cells, const std::string& title) {
  if (!options.markdown) {
    fmt::print("\n{}\n", title);
    print_table(cells, 2);
    return;
  }
  fmt::print("\n**{}**\n\n", title);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    fmt::print("| {} |\n", fmt::join(cells[i], " | "));
    if (i > 0) continue;
    fmt::print("|---|");
    for (std::size_t k = 1; k < cells[0].size(); ++k) fmt::print("---:|");
    fmt::print("\n");
  }
}

std::string number(double value, int digits) { return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : ""; }

// The variants of which there is anything, in the order of the columns.
std::vector<Variant> shown(const std::vector<const Measurement*>& table, std::initializer_list<Variant> order) {
  std::vector<Variant> columns;
  for (const Variant v : order) {
    if (std::any_of(table.begin(), table.end(), [&](const Measurement* row) { return !row->ns[v].empty(); })) columns.push_back(v);
  }
  return columns;
}

std::string threads_text(std::size_t threads) { return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"); }

}  // namespace

void print_tables(const Options& options, const std::vector<Measurement>& all, const std::vector<Measurement>& small) {
  const ordered_json m = machine(options);
  fmt::print("{}, {}, {}, norma {}{}; load {:.1f}; medians of {} rounds\n", m["processor"].get<std::string>(),
             m["instruction_set"].get<std::string>(), m["compiler"].get<std::string>(), NORMA_VERSION,
             options.against.empty() ? "" : ", oneDNN " + onednn_version(), options.load, options.rounds);
  for (const auto& table : tables(all)) {
    const Measurement& first = *table.front();
    const auto comparisons = means(all, table);
    const std::vector<Variant> columns = shown(table, {copy, onednn, correctly_rounded, fast});
    // A column of rates for each, and behind it what it is compared with.
    const auto add = [&](Variant v, std::string rate, const Ratios& list, const auto& text, std::vector<std::string>& line) {
      line.push_back(std::move(rate));
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].variant == v && !std::isnan(comparisons[i].value)) line.push_back(text(list[i]));
      }
    };
    const auto value = [](const Ratio& r) { return number(r.value, 2); };
    Cells cells{{"shape"}};
    for (const Variant v : columns) {
      add(
          v, std::string(variant_names[v]), comparisons, [](const Ratio& r) { return "/" + std::string(r.other); }, cells.front());
    }
    for (const Measurement* row : table) {
      cells.push_back({row->problem.title()});
      const auto elements = static_cast<double>(row->problem.elements());
      for (const Variant v : columns) add(v, number(elements / median(row->ns[v]), 2), ratios(all, *row), value, cells.back());
    }
    cells.push_back({"geometric mean"});
    for (const Variant v : columns) add(v, "", comparisons, value, cells.back());
    print(options, cells,
          fmt::format("{} {}, {}: 10^9 elements a second; under /memcpy, as a multiple of that of memcpy", info(first.problem.op).name,
                      info(first.problem.format).name, threads_text(first.threads)));
  }
  std::vector<const Measurement*> rows;
  rows.reserve(small.size());
  for (const Measurement& call : small) rows.push_back(&call);
  const std::vector<Variant> columns = shown(rows, {onednn, correctly_rounded, fast});
  Cells cells{{"call", "threads"}};
  for (const Variant v : columns) cells.front().emplace_back(variant_names[v]);
  for (const Measurement* row : rows) {
    const Problem& p = row->problem;
    cells.push_back({fmt::format("{} {} {}", info(p.op).name, info(p.format).name, p.shape_name()), fmt::format("{}", row->threads)});
    for (const Variant v : columns) cells.back().push_back(number(median(row->ns[v]), 0));
  }
  print(options, cells, "Small calls, ns");
}

}  // namespace norma::program::benchmark
