#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <vector>

#include "norma/status.h"
#include "norma/tensor_file.h"
#include "norma/text.h"
#include "program.h"
#include "settings.h"

namespace norma::program {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

void print_table(const std::vector<std::vector<std::string>>& rows, int indent) {
  // Columns on the screen: bytes that start a character.
  const auto width = [](const std::string& s) { return std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }); };
  std::vector<std::ptrdiff_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  for (const auto& row : rows) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(static_cast<std::size_t>(widths[i] - width(row[i])) + 2, ' ');
    }
    fmt::print("{}\n", line);
  }
}

int fail(const Status& status) {
  // One line, whatever words a user or a file put in it. Where standard error is gone, the exit status has to do.
  std::fputs(fmt::format("norma: {}\n", printable(status.message)).c_str(), stderr);
  return input_error;
}

Progress::Progress(std::string_view what, std::int64_t total)
    : what_(what), total_(total), start_(seconds()), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { hide(); }

void Progress::hide() const {
  if (shown_ != 0) std::fputs("\r\033[K", stderr);
}

void Progress::show() {
  const double now = seconds();
  if (!terminal_ || now - start_ < 2 || now - shown_ < 0.1) return;
  shown_ = now;
  const double part = static_cast<double>(done_) / static_cast<double>(total_);
  std::fputs(fmt::format("\r\033[K{} {:.0f} %, {:.0f} s left", what_, 100 * part, (now - start_) * (1 - part) / part).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace norma::program

namespace {

// CLI11 takes a word that starts with a dash and a letter or a point for a flag. These are numbers: a blank in front tells it,
// and whoever takes the word drops it.
void keep_negative_numbers(std::vector<std::string>& words) {
  for (std::string& word : words) {
    if (word == "--") return;
    const bool odd = word.starts_with("-inf") || word.starts_with("-nan") || word.starts_with("-.");
    if (odd && norma::parse_number(word, norma::Format::f64).ok()) word.insert(0, " ");
  }
}

// What a parse stumbled over, in a line. CLI11 knows no more of a misspelt command or option than that it was left over.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  // The command that was come to: commands may have commands.
  const CLI::App* at = &app;
  std::string path = "norma";
  while (!at->get_subcommands().empty() && at->remaining_size() == 0) {
    at = at->get_subcommands().front();
    path += " " + at->get_name();
  }
  const CLI::App& place = *at;
  const auto any = [](const CLI::App*) { return true; };
  const bool none_given = place.get_subcommands().empty() && !place.get_subcommands(any).empty();
  const std::vector<std::string> left = place.remaining();
  const auto is_option = [](const std::string& word) { return word.starts_with('-') && word != "--"; };
  const auto word = none_given ? left.begin() : std::find_if(left.begin(), left.end(), is_option);
  if (word == left.end()) return fmt::format("{} (see {} --help)", error.what(), path);

  const bool option = is_option(*word);
  std::vector<std::string> names;
  if (option) {
    for (const CLI::Option* o : place.get_options([](const CLI::Option* o) { return o->nonpositional(); })) names.push_back(o->get_name());
  } else {
    for (const CLI::App* command : place.get_subcommands(any)) names.push_back(command->get_name());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string name = word->substr(0, word->find('='));
  return fmt::format("{} has no {} {}{} (see {} --help)", path, option ? "option" : "command", norma::quote(name),
                     norma::program::suggestion(name, views), path);
}

int run(int argc, char** argv) {
  using namespace norma::program;
  CLI::App app{"The carpenter's square for batch, layer and RMS normalization: tells how right an implementation is.", "norma"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "norma " NORMA_VERSION);
  app.get_formatter()->column_width(34);
  app.footer("Exit status: 0 holds, 1 violated, 2 usage or input error, 3 the subject could not be run.");
  Command chosen;
  add_check(app, chosen);
  add_fuzz(app, chosen);
  add_diagnose(app, chosen);
  add_report(app, chosen);
  add_golden(app, chosen);
  add_judge(app, chosen);
  add_run(app, chosen);
  add_explain(app, chosen);
  add_bench(app, chosen);
  add_list(app, chosen);

  std::vector<std::string> words(argv + 1, argv + argc);
  keep_negative_numbers(words);
  const bool bare = words.empty();
  if (bare) words.emplace_back("--help");
  int status = holds;
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    status = chosen();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return fail({norma::Code::bad_parameter, complaint(app, error)});
    app.exit(error);                 // --help, --version
    if (bare) status = input_error;  // for a script that meant to say something
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return fail({norma::Code::io_error, "standard output: could not be written"});
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return norma::program::fail({norma::Code::io_error, error.what()});
  }
}
