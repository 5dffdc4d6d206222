// The outputs in a golden file, or in one that somebody's program wrote in its form, as tensors.
//
// JSON libraries want a file, or at least a string, whole in memory, and hand over a few score megabytes a second. This reader has a part
// of the file at a time, and finds the end of a string of digits as fast as memory can be searched.
#include <array>
#include <charconv>
#include <cstring>
#include <set>

#include "source.h"

namespace norma::files {
namespace {

// What the file breaks, on its way out.
struct Broken {
  Status status;
};

// The tokens of a JSON text. What is passed over is looked at no closer than it takes to find its end.
class Json {
 public:
  explicit Json(Source& source) : source_(source) { part_.reserve(part_size); }

  [[noreturn]] void fail(const std::string& what) const { throw Broken{bad_file("byte " + text(at()) + ": " + what)}; }

  // The next character that is no white space, without taking it; 0 at the end, or where there is one.
  char ahead() {
    for (;; ++next_) {
      if (next_ == part_.size() && !refill()) return 0;
      const char c = static_cast<char>(part_[next_]);
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
    }
  }
  bool take(char c) {
    if (ahead() != c) return false;
    ++next_;
    return true;
  }
  void expect(char c, const char* where) {
    if (!take(c)) fail(std::string("expected ") + c + " " + where);
  }

  // A string as it is written, of at most so many bytes. Backslashes are for what is passed over: no id or digit needs one.
  std::string string(const char* what, std::size_t most) {
    std::string s;
    if (!take('"')) fail(std::string("expected ") + what + ", a string");
    to_quote([&](std::string_view piece) {
      if (piece.size() > most - s.size()) fail(std::string(what) + " has more than " + text(most) + " characters");
      s += piece;
    });
    if (s.find('\\') != std::string::npos) fail(std::string(what) + " has a backslash");
    return s;
  }

  std::int64_t extent() {
    const std::string word = this->word();
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || value < 0) fail("expected an extent, a whole number");
    return value;
  }

  // As it is written, but for the end of what is longer than any key that is asked for.
  std::string key() {
    constexpr std::size_t longest = 100;
    std::string s;
    expect('"', "at the beginning of a key");
    to_quote([&](std::string_view piece) { s += piece.substr(0, longest - std::min(longest, s.size())); });
    return s;
  }

  // Calls `member` at the value of every key of an object.
  template <class See>
  void object(const char* what, See member) {
    if (!take('{')) fail(std::string("expected ") + what + ", an object");
    if (take('}')) return;
    do {
      const std::string key = this->key();
      expect(':', "after a key");
      member(key);
    } while (take(','));
    expect('}', "or , in an object");
  }
  template <class See>
  void array(const char* what, See element) {
    if (!take('[')) fail(std::string("expected ") + what + ", an array");
    if (take(']')) return;
    do {
      element();
    } while (take(','));
    expect(']', "or , in an array");
  }

  void pass_over(int depth = 0) {
    constexpr int deepest = 64;
    if (depth == deepest) fail("is nested more than " + std::to_string(deepest) + " deep");
    switch (ahead()) {
      case '{':
        return object("an object", [&](const std::string&) { pass_over(depth + 1); });
      case '[':
        return array("an array", [&] { pass_over(depth + 1); });
      case '"':
        ++next_;
        return to_quote([](std::string_view) {});
      default: {
        const std::string word = this->word();
        double value = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        const bool number = !word.empty() && error != std::errc::invalid_argument && end == word.data() + word.size();
        if (!number && word != "true" && word != "false" && word != "null") fail("expected a value");
      }
    }
  }

  void end() {
    if (ahead() != 0 || next_ != part_.size()) fail("expected the end of the file");
  }

 private:
  static constexpr std::size_t part_size = std::size_t{1} << 18;

  [[nodiscard]] std::uint64_t at() const { return before_ + next_; }

  bool refill() {
    before_ += part_.size();
    next_ = 0;
    part_.resize(std::min<std::uint64_t>(part_size, source_.remaining()));
    if (Status s = source_.read(part_); !s.ok()) throw Broken{std::move(s)};
    return !part_.empty();
  }

  // The pieces of a string up to the quote that ends it, which is taken: one after no backslash, or after an even number of them.
  template <class See>
  void to_quote(See see) {
    for (bool odd = false;;) {
      if (next_ == part_.size() && !refill()) fail("the file ends within a string");
      const std::string_view rest = chars(part_).substr(next_);
      const std::size_t quote = std::min(rest.find('"'), rest.size());
      const std::size_t other = rest.substr(0, quote).find_last_not_of('\\');
      // If all of it is backslashes, they go on from those of the last part.
      const std::size_t slashes = other == std::string_view::npos ? quote + (odd ? 1 : 0) : quote - other - 1;
      odd = slashes % 2 != 0;
      const bool there = quote < rest.size();
      see(rest.substr(0, there && odd ? quote + 1 : quote));
      next_ += there ? quote + 1 : quote;
      if (there && !odd) return;
      if (there) odd = false;
    }
  }

  // Letters, digits and what else is in numbers.
  std::string word() {
    std::string s;
    constexpr std::size_t longest = 64;
    for (char c = ahead(); s.size() < longest; c = static_cast<char>(part_[next_])) {
      if ((c < '0' || c > '9') && (c < 'a' || c > 'z') && c != 'E' && c != '+' && c != '-' && c != '.') break;
      s += c;
      if (++next_ == part_.size() && !refill()) break;
    }
    return s;
  }

  Source& source_;
  Buffer part_;
  std::size_t next_ = 0;
  std::uint64_t before_ = 0;  // bytes before the part
};

constexpr std::size_t most_bytes = std::size_t{16} << 20;

// Two digits a byte; 0xff where there is none.
constexpr auto digit_values = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(0xff);
  for (int i = 0; i < 10; ++i) values[static_cast<std::size_t>('0' + i)] = static_cast<std::uint8_t>(i);
  for (int i = 10; i < 16; ++i)
    values[static_cast<std::size_t>('a' + i - 10)] = values[static_cast<std::size_t>('A' + i - 10)] = static_cast<std::uint8_t>(i);
  return values;
}();

Result<Buffer> bytes_from(const std::string& digits) {
  Buffer bytes(digits.size() / 2);
  unsigned bad = digits.size() % 2;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const unsigned high = digit_values[static_cast<std::uint8_t>(digits[2 * i])],
                   low = digit_values[static_cast<std::uint8_t>(digits[2 * i + 1])];
    bad |= (high | low) & 0xf0;
    bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  if (bad != 0) return bad_tensor("expected pairs of hexadecimal digits");
  return bytes;
}

void see_output(Json& json, const std::string& name, const TensorVisitor& visitor) {
  // In any order: many programs sort their keys.
  std::optional<std::string> dtype, data;
  std::optional<Shape> shape;
  const std::string title = "tensor " + quote(name);
  const auto once = [&](bool seen, const std::string& key) {
    if (seen) json.fail(title + " has two fields " + quote(key));
  };
  json.object(title.c_str(), [&](const std::string& key) {
    if (key == "dtype") {
      once(dtype.has_value(), key);
      dtype = json.string("a dtype", 32);
    } else if (key == "data") {
      once(data.has_value(), key);
      data = json.string("data", 2 * most_bytes);
    } else if (key == "shape") {
      once(shape.has_value(), key);
      shape.emplace();
      json.array("a shape", [&] {
        if (shape->size() == most_axes) json.fail(title + " has more than " + std::to_string(most_axes) + " axes");
        shape->push_back(json.extent());
      });
    } else {
      json.pass_over();
    }
  });
  for (const auto& [there, field] : {std::pair(dtype.has_value(), "dtype"), {data.has_value(), "data"}, {shape.has_value(), "shape"}}) {
    if (!there) json.fail(title + " has no " + field);
  }
  const std::optional<Format> format = format_named(*dtype);
  const auto n = elements(*shape);
  if (!n) json.fail(title + " has shape " + text(*shape) + ": more than 2^58 elements");
  const Result<std::optional<Format>> as =
      wanted(visitor, {name, format, *dtype, false, *shape}, format ? static_cast<std::uint64_t>(info(*format).bytes()) : 0);
  if (!as.ok()) throw Broken{as.status()};
  if (!*as) return;
  Result<Buffer> bytes = bytes_from(*data);
  const std::size_t digits = data->size();
  data.reset();  // twice as large as the bytes
  if (!bytes.ok()) throw Broken{within(title, bytes.status())};
  if (bytes->size() != *n * static_cast<std::uint64_t>(info(**as).bytes())) {
    throw Broken{bad_tensor(title + " has " + count(digits, "digit") + ": expected " +
                            text(2 * *n * static_cast<std::uint64_t>(info(**as).bytes())))};
  }
  if (Status s = visitor.see({name, **as, std::move(*shape), std::move(*bytes)}); !s.ok()) throw Broken{std::move(s)};
}

void see_case(Json& json, const TensorVisitor& visitor) {
  std::optional<std::string> id;
  bool seen = false;
  json.object("a case", [&](const std::string& key) {
    if (key == "id") {
      if (id) json.fail("a case has two ids");
      id = json.string("an id", 100);
    } else if (key == "outputs") {
      if (!id) json.fail("a case has its outputs before its id: expected the id first");
      if (std::exchange(seen, true)) json.fail("case " + quote(*id) + " has its outputs twice");
      std::set<std::string> names;
      json.object("outputs", [&](const std::string& role) {
        if (!names.insert(role).second) json.fail("case " + quote(*id) + " has two outputs " + quote(role));
        see_output(json, *id + ".out." + role, visitor);
      });
    } else {
      json.pass_over();
    }
  });
  if (!id) json.fail("a case has no id");
}

}  // namespace

Status visit_golden_json(Source& source, const TensorVisitor& visitor) {
  try {
    Json json(source);
    bool seen = false;
    json.object("a golden file", [&](const std::string& key) {
      if (key != "cases") return json.pass_over();
      if (std::exchange(seen, true)) json.fail("the cases are there twice");
      json.array("the cases", [&] { see_case(json, visitor); });
    });
    json.end();
    if (!seen) json.fail("there are no \"cases\"");
    return {};
  } catch (const Broken& broken) {
    return broken.status;
  }
}

}  // namespace norma::files
