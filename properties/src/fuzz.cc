#include "norma/fuzz.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "chance.h"

namespace norma::properties {
namespace {

constexpr std::int64_t most_elements = 8192;
constexpr std::int64_t farthest = 64;  // elements between rows, and before the first

// All that a line can say.
Wish anything(const Case& c) {
  return {.finite = false,
          .most_rows = most_elements,
          .most_n = most_elements,
          .statistics = c.outputs.contain(Role::rstd) || c.outputs.contain(Role::running_mean),
          .residual = true,
          .mixed = true,
          .epsilon_zero = true};
}
bool has_line(const Case& c) {
  return c.placement.row_gap <= farthest && c.placement.offset <= farthest && c.elements() <= most_elements && fits(c, anything(c));
}

// Its numbers, from the first again where they run out, in another call.
Case elsewhere(const Case& c, rc::Random& random) {
  const auto often = [&] { return one_in(random, 2); };
  const std::uint64_t seed = random.next();
  Case to = generate({.ops = {c.spec.op},
                      .formats = {c.format},
                      .finite = often(),
                      .most_n = one_in(random, 8) ? 1000 : 130,
                      .profiles = one_in(random, 4),
                      .statistics = often(),
                      .residual = often(),
                      .mixed = one_in(random, 4),
                      .placements = often(),
                      .epsilon_zero = true},
                     seed, 0)
                .value();
  for (std::int64_t i = 0; i < to.elements(); ++i) set_bits(*to.inputs[Role::x], i, bits_at(c.x(), i % c.elements()));
  return to;
}

// The same tensors, and something else said of them.
void say_otherwise(Case& c, rc::Random& random) {
  static const std::vector<double> epsilons{1e-5, 0, 1e-12, 1e-3, 1, 0x1p-20, 0x1p-126, 0x1p-149, 0x1p60};
  Profile& p = c.spec.profile;
  switch (random.next() % 8) {
    case 0:
      c.spec.epsilon = one_in(random, 2) ? one_of(random, epsilons) : std::fabs(std::bit_cast<double>(random.next()));
      break;
    case 1:
      c.salt = random.next() >> 44;
      break;
    case 2:
      c.placement = {one_in(random, 2), between(random, 0, 20), between(random, 0, 15), one_in(random, 2)};
      break;
    case 3:
      c.spec.momentum = uniform(random);
      break;
    case 4:
      p.epsilon_placement = p.epsilon_placement == EpsilonPlacement::inside ? EpsilonPlacement::outside : EpsilonPlacement::inside;
      break;
    case 5:
      p.variance = p.variance == Estimator::biased ? Estimator::unbiased : Estimator::biased;
      break;
    case 6:
      p.gain_offset = !p.gain_offset;
      break;
    default:
      p.cast_before_gain = !p.cast_before_gain;
  }
}

void rewrite_some(Case& c, rc::Random& random, const Rewrite& rewrite) {
  std::vector<Role> given;
  for (std::size_t r = 0; r < role_count; ++r) {
    if (c.inputs[static_cast<Role>(r)]) given.push_back(static_cast<Role>(r));
  }
  const Role role = one_in(random, 2) ? Role::x : one_of(random, given);
  Tensor& t = *c.inputs[role];
  rewrite(t.data);
  if (role != Role::variance && role != Role::running_variance) return;
  for (std::int64_t i = 0; i < size_of(t); ++i) set_bits(t, i, bits_at(t, i) & (info(t.format).sign_bit() - 1));
}

// For those who have no fuzzer to do it.
void scribble(rc::Random& random, std::span<std::byte> bytes) {
  const auto place = [&] { return bytes.begin() + static_cast<std::ptrdiff_t>(random.next() % bytes.size()); };
  for (std::int64_t left = between(random, 1, 4); left > 0; --left) {
    const auto at = place();
    const auto width = [&, most = bytes.end() - at] { return std::min<std::ptrdiff_t>(most, std::ptrdiff_t{1} << random.next() % 4); };
    switch (random.next() % 5) {
      case 0:
        *at ^= static_cast<std::byte>(1U << random.next() % 8);
        break;
      case 1:
        *at = static_cast<std::byte>(random.next() & 0xff);
        break;
      case 2:  // a little more or less
        *at = static_cast<std::byte>(std::to_integer<std::int64_t>(*at) + between(random, -4, 4));
        break;
      case 3: {
        const std::byte filler = one_in(random, 2) ? std::byte{0} : std::byte{0xff};
        std::fill_n(at, width(), filler);
        break;
      }
      default: {  // what is elsewhere
        const auto from = place();
        std::copy_n(from, std::min(width(), bytes.end() - from), at);
      }
    }
  }
}

}  // namespace

Result<Case> case_of(std::string_view line) {
  Result<Case> c = parse_case(line, most_elements);
  if (c.ok() && !has_line(*c)) return Status{Code::bad_parameter, "case: none that a law might be asked of"};
  return c;
}

Case neighbour(const Case& c, rc::Random& random, const Rewrite& rewrite) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    Case to = c;
    const auto way = random.next() % 8;
    if (way == 0) {
      to = elsewhere(c, random);
    } else if (way == 1) {
      const std::vector<Case> simpler = smaller(c, anything(c));
      if (!simpler.empty()) to = one_of(random, simpler);
    } else if (way == 2) {
      say_otherwise(to, random);
    } else {
      rewrite_some(to, random, rewrite);
    }
    to.families.clear();
    if (has_line(to)) return to;
  }
  return c;
}

std::vector<std::pair<std::string, Case>> seeds() {
  static constexpr Format formats_of_seeds[] = {Format::f32, Format::f16, Format::bf16, Format::f64};
  std::vector<std::pair<std::string, Case>> all;
  for (const Op op : subject_ops()) {
    for (const Format format : formats_of_seeds) {
      for (const Family& family : families()) {
        const std::uint64_t number = all.size();
        const Wish wish{.ops = {op},
                        .formats = {format},
                        .finite = family.finite,
                        .most_rows = 4,
                        .most_n = 24,
                        .plain_profile = number % 2 == 0,
                        .statistics = number % 3 == 0,
                        .residual = number % 3 == 1,
                        .mixed = number % 5 == 0,
                        .placements = number % 4 == 0,
                        .epsilon_zero = true,
                        .family = family.name};
        all.emplace_back(std::string(info(op).name) + "-" + std::string(info(format).name) + "-" + std::string(family.name),
                         generate(wish, 1, number).value());
      }
    }
  }
  return all;
}

Case searched(std::uint64_t number, std::uint64_t seed, std::span<const Case> corpus, std::span<const Question> questions) {
  if (number < corpus.size()) return corpus[number];
  rc::Random random(rc::Random::Key{seed, number, 0x66757a7a, 0});
  const Wish& wish = questions[random.next() % questions.size()].wish;
  const bool near_corpus = !corpus.empty() && !one_in(random, 4);
  Case c = near_corpus ? corpus[random.next() % corpus.size()] : generate(wish, seed, random.next()).value();
  if (!near_corpus && one_in(random, 2)) return c;
  for (std::int64_t steps = between(random, 1, 3); steps > 0; --steps) {
    c = neighbour(c, random, [&](std::span<std::byte> bytes) { scribble(random, bytes); });
  }
  return c;
}

std::string counterexample(const Broken& broken, std::string_view subject, std::string_view options) {
  const Finding& f = broken.finding;
  std::string text = "✗ " + std::string(broken.law->slug) + "\n    " + std::string(broken.law->statement) + "\n    " + f.what + "\n    ";
  text += replay_command(subject, *broken.law, to_line(f.smallest)) + std::string(options) + "\n";
  const std::string cpp = to_cpp(f.smallest);
  for (std::size_t start = 0, end = 0; (end = cpp.find('\n', start)) != std::string::npos; start = end + 1) {
    text += "    " + cpp.substr(start, end - start + 1);
  }
  return text;
}

}  // namespace norma::properties
