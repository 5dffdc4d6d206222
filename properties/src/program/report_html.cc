// A page that needs nothing but itself: no script, no font, no address. Everything that a picture says a table beside it says too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "report.h"

namespace norma::program {
namespace {

using properties::Accuracy;
using properties::Condition;
using properties::Extreme;
using properties::Finding;
using properties::LawReport;
using properties::Tally;

constexpr std::string_view style = R"(
:root{color-scheme:light dark;--paper:#faf9f6;--card:#fff;--ink:#1c2024;--soft:#5d656e;--line:#dcdad3;--good:#18794e;--bad:#b3261e;--warn:#8a5a00;
--tint:#e9f3ee;--badtint:#fbeae8;--warntint:#fbf2df;--mark:#2f5fb3;--code:#f3f2ed}
@media(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1b1f23;--ink:#e8eaec;--soft:#a0a8b0;--line:#343a40;--good:#5cc28f;--bad:#ff8a80;
--warn:#e6b450;--tint:#14291f;--badtint:#351b1a;--warntint:#2e2612;--mark:#82aaff;--code:#23282d}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:72rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.7rem;line-height:1.2;margin:.2rem 0 .4rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.2rem 0 .6rem}h3{font-size:.8rem;margin:.9rem 0 .25rem;color:var(--soft);font-weight:600}
p{margin:.3rem 0}.soft{color:var(--soft)}
code,pre{font:.82rem/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{background:var(--code);border-radius:6px;padding:.6rem .75rem;margin:0;white-space:pre-wrap;overflow-wrap:anywhere;max-height:22rem;overflow:auto;
user-select:all}
header{border-left:6px solid var(--good);background:var(--tint);border-radius:8px;padding:1rem 1.25rem}
header.violated{border-color:var(--bad);background:var(--badtint)}
.badge{font-weight:700;color:var(--good)}.violated .badge{color:var(--bad)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;margin:1rem 0 0;padding:0}
.facts div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.55rem .8rem}
.facts dt{font-size:.8rem;color:var(--soft)}.facts dd{margin:0;font-size:1.2rem;font-weight:600;font-variant-numeric:tabular-nums}
dl.said{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0 0}dl.said dt{color:var(--soft)}
dl.said dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:8px;background:var(--card)}
table{border-collapse:collapse;width:100%;font-size:.92rem}
caption{text-align:left;padding:.6rem .75rem;color:var(--soft);font-size:.85rem}
th,td{text-align:left;vertical-align:top;padding:.45rem .75rem;border-top:1px solid var(--line);font-weight:400}
thead th{font-size:.8rem;color:var(--soft);white-space:nowrap}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr.more>td{border-top:0;padding-top:0}
.statement{display:block;color:var(--soft);font-size:.84rem}
.state{font-weight:600;overflow-wrap:anywhere}.holds .state{color:var(--good)}.fails .state{color:var(--bad)}.minor .state{color:var(--warn)}
.none .state{color:var(--soft)}
details>summary{cursor:pointer;color:var(--mark);overflow-wrap:anywhere}summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--mark);
outline-offset:2px}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr));gap:1rem}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.75rem .75rem .9rem}
figure h3{margin:0 0 .3rem;font-size:.95rem;color:var(--ink)}figcaption{font-size:.84rem;color:var(--soft)}
svg{display:block;width:100%;height:auto;margin:.2rem 0}svg text{fill:var(--soft);font-size:13px}
.grid{stroke:var(--line);stroke-width:1}.bar{fill:var(--mark)}.bar.right{fill:var(--good)}
.bound{fill:none;stroke:var(--warn);stroke-width:2;stroke-dasharray:6 3}.allowed{fill:var(--warn);opacity:.1}
.dot{fill:var(--mark)}.cross{stroke:var(--bad);stroke-width:2.5;fill:none}
.wide{margin-top:.75rem}
@media(max-width:36rem){main{padding:.75rem .6rem 2rem}th,td{padding:.4rem .45rem}dl.said{grid-template-columns:1fr}dl.said dd{margin-bottom:.35rem}
.optional{display:none}svg text{font-size:16px}}
@media print{:root{--paper:#fff;--card:#fff}body{font-size:10pt}main{max-width:none;padding:0}pre{max-height:none}figure,header,tr{break-inside:avoid}
.scroll{overflow:visible}}
)";

// A name may break where its words end.
std::string breakable(std::string_view name) {
  std::string out;
  for (const char c : escaped(name)) out += c == '_' ? "_<wbr>" : std::string(1, c);
  return out;
}

// Thousands apart.
std::string grouped(std::int64_t n) {
  std::string text = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), "\u202f");
  return text;
}

std::string percent(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "–";
  const double value = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  // Not all is never rounded to all.
  return part == whole ? "100 %" : fmt::format("{:.2f} %", std::min(value, 99.99));
}

std::string power(std::string_view base, int exponent) {
  static constexpr std::string_view digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  if (exponent == 0) return "1";
  std::string out(base);
  if (exponent == 1) return out;
  if (exponent < 0) out += "⁻";
  for (const char c : std::to_string(std::abs(exponent))) out += digits[c - '0'];
  return out;
}

std::string pre(std::string_view title, const std::string& text, std::int64_t elements) {
  return fmt::format("<h3>{}</h3><pre>{}</pre>\n", title, escaped(for_people(text, elements)));
}

void lay_out(std::string& page, const CheckReport& report) {
  const properties::Report& of = report.report;
  const Accuracy& a = of.accuracy;
  const bool bad = fails(report);
  const auto names = [](const auto& list) {
    std::string text;
    for (const auto each : list) text += (text.empty() ? "" : ", ") + std::string(info(each).name);
    return text;
  };
  const std::string said = headline(report);  // the verdict, and why
  page += fmt::format("<header class=\"{}\"><p class=\"badge\">{}</p>\n<h1>{}</h1>\n<p>{}</p>\n", bad ? "violated" : "holds",
                      bad ? "✗ violated" : "✓ holds", escaped(report.subject), escaped(said.substr(said.find(": ") + 2)));
  page += fmt::format("<dl class=\"said\"><dt>It computes with</dt><dd><code>{}</code></dd>", escaped(of.arithmetic));
  if (of.subject != report.subject) page += fmt::format("<dt>It calls itself</dt><dd>{}</dd>", escaped(of.subject));
  page += fmt::format("<dt>Searched</dt><dd>{} cases a law, seed {}{}{}{}{}</dd><dt>By</dt><dd>norma {}</dd></dl></header>\n",
                      of.settings.cases, of.settings.seed,
                      of.settings.shards == 1 ? "" : fmt::format(", share {} of {}", of.settings.shard, of.settings.shards),
                      of.settings.ops.empty() ? "" : ", only " + names(of.settings.ops),
                      of.settings.formats.empty() ? "" : ", only " + names(of.settings.formats),
                      report.strict ? ", broken should-laws count" : "", NORMA_VERSION);
  if (a.elements == 0) return;
  page += "<dl class=\"facts\">";
  const auto fact = [&](std::string_view name, const std::string& value) {
    page += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
  };
  fact("elements compared", grouped(a.elements));
  fact("correctly rounded", percent(a.correctly_rounded, a.elements));
  fact("less than 1 ulp off", percent(a.faithful, a.elements));
  fact("within the bound", percent(a.within, a.elements));
  fact("worst margin", short_number(a.margin.value));
  fact("effective depth", std::isinf(a.depth.value) ? "none" : depth_text(a.depth.value));
  page += "</dl>\n";
}

// What to look at first: what fails, what is broken besides, what was not tested, what holds.
int rank(const CheckReport& report, const LawReport& r) {
  if (fails(report, r)) return 0;
  switch (state_of(report, r)) {
    case State::broken:
      return 1;
    case State::waived:
      return 2;
    case State::untested:
    case State::unsupported:
      return 3;
    default:
      return 4;
  }
}

void lay_out_laws(std::string& page, const CheckReport& report) {
  std::vector<const LawReport*> laws;
  for (const LawReport& r : report.report.laws) laws.push_back(&r);
  std::stable_sort(laws.begin(), laws.end(), [&](const LawReport* x, const LawReport* y) { return rank(report, *x) < rank(report, *y); });
  page +=
      "<h2 id=\"laws\">Laws</h2>\n<div class=\"scroll\" role=\"region\" aria-labelledby=\"laws\" tabindex=\"0\"><table>"
      "<caption>Every law, what fails first. Under a broken one is the smallest case that was found.</caption>"
      "<thead><tr><th scope=\"col\">law</th><th scope=\"col\">severity</th><th scope=\"col\" class=\"n\">cases</th>"
      "<th scope=\"col\">verdict</th></tr></thead><tbody>\n";
  bool first = true;
  for (const LawReport* r : laws) {
    static constexpr std::string_view classes[] = {"fails", "minor", "minor", "none", "holds"};
    static constexpr std::string_view marks[] = {"✗ ", "! ", "! ", "– ", "✓ "};
    const auto place = static_cast<std::size_t>(rank(report, *r));
    page += fmt::format(
        "<tr class=\"{}\"><th scope=\"row\"><code>{}</code><span class=\"statement\">{}</span></th><td>{}</td><td class=\"n\">{}</td>"
        "<td class=\"state\">{}{}</td></tr>\n",
        classes[place], breakable(r->law->slug), escaped(r->law->statement), word(r->severity), r->tested(), marks[place],
        escaped(verdict(report, *r)));
    for (const Finding* f : findings(*r)) {
      const std::int64_t elements = f->smallest.elements();
      page +=
          fmt::format("<tr class=\"more\"><td colspan=\"4\"><details{}><summary>{}</summary>\n", first ? " open" : "", escaped(f->what));
      page += pre("Replay it", command(report, *r->law, properties::to_line(f->smallest)), elements);
      page += pre("As C++", properties::to_cpp(f->smallest), elements);
      page += pre("As a golden case: right outputs, and what the bound allows", golden(*r, *f), elements);
      page += fmt::format("<p class=\"soft\">Case {} of the law, made smaller{}.</p></details></td></tr>\n", f->number,
                          r->first_ranged && f == &*r->first_ranged ? "; out of the range in which bounds are proved" : "");
      first = false;
    }
  }
  page += "</tbody></table></div>\n";
}

// The plots, in one frame of coordinates.
constexpr double left = 46, right = 508, top = 12, bottom = 232;

std::string text(double x, double y, std::string_view anchor, std::string_view what) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor, what);
}

// Lines at powers of ten, at most half a dozen of them, from 10^low at the bottom to 10^high at the top.
struct LogAxis {
  int low, high;
  [[nodiscard]] double y(double value) const {
    const double at = (std::log10(value) - low) / (high - low);
    return bottom - std::clamp(at, 0.0, 1.0) * (bottom - top);
  }
  [[nodiscard]] std::string lines() const {
    std::string out;
    const int step = std::max(1, (high - low + 5) / 6);
    for (int e = low; e <= high; e += step) {
      const double at = y(std::pow(10.0, e));
      out += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", left, right, at, at);
      out += text(left - 6, at + 4, "end", power("10", e));
    }
    return out;
  }
};

std::string picture(std::string_view title, const std::string& description, const std::string& inside) {
  return fmt::format("<svg viewBox=\"0 0 520 272\" role=\"img\" aria-label=\"{}. {}\">{}</svg>", title, escaped(description), inside);
}

std::string up_to(std::size_t bin) {
  if (bin == 0) return "correctly rounded";
  if (bin == 1) return "up to ½";
  if (bin + 1 == std::tuple_size_v<decltype(Accuracy::histogram)>) return "more than " + power("2", static_cast<int>(bin) - 3);
  return fmt::format("up to {}", power("2", static_cast<int>(bin) - 2));
}

std::string histogram(const Accuracy& a) {
  const auto most = static_cast<double>(*std::max_element(a.histogram.begin(), a.histogram.end()));
  const LogAxis axis{0, std::max(1, static_cast<int>(std::ceil(std::log10(most))))};
  const double width = (right - left) / static_cast<double>(a.histogram.size());
  std::string inside = axis.lines(), rows;
  for (std::size_t i = 0; i < a.histogram.size(); ++i) {
    const double x = left + width * static_cast<double>(i);
    if (a.histogram[i] != 0) {
      const double y = std::min(axis.y(static_cast<double>(a.histogram[i])), bottom - 2);
      inside +=
          fmt::format("<rect class=\"bar{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>{}: {}</title></rect>",
                      i == 0 ? " right" : "", x + 1.5, y, width - 3, bottom - y, up_to(i), a.histogram[i]);
      rows += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>", up_to(i),
                          grouped(a.histogram[i]), percent(a.histogram[i], a.elements));
    }
    const int e = static_cast<int>(i) - 2;
    if (i == 0) inside += text(x + width / 2, bottom + 17, "middle", "0*");
    if (i == 1) inside += text(x + width, bottom + 17, "middle", "½");
    if (i > 1 && e % 5 == 0) inside += text(x + width, bottom + 17, "middle", power("2", e));
  }
  inside += text((left + right) / 2, bottom + 36, "middle", "error in ulp, up to");
  return fmt::format(
      "<figure><h3>How far off</h3>{}<figcaption>Elements by their error, in units in the last place of y at the exact value. 0* is what "
      "is "
      "correctly rounded. Counts are on a logarithmic scale.<details class=\"wide\"><summary>As a table</summary><table><caption>Elements "
      "by "
      "error in ulp</caption><thead><tr><th scope=\"col\">error</th><th scope=\"col\" class=\"n\">elements</th><th scope=\"col\" "
      "class=\"n\">part</th></tr></thead><tbody>{}</tbody></table></details></figcaption></figure>\n",
      picture("Histogram of errors in ulp",
              fmt::format("{} of {} elements are correctly rounded, {} less than 1 ulp off", percent(a.correctly_rounded, a.elements),
                          a.elements, percent(a.faithful, a.elements)),
              inside),
      rows);
}

std::string conditions(const Accuracy& a) {
  int first = -1, last = 0;
  double most = 1;
  for (std::size_t i = 0; i < a.conditions.size(); ++i) {
    const Condition& c = a.conditions[i];
    if (c.elements == 0) continue;
    if (first < 0) first = static_cast<int>(i);
    last = static_cast<int>(i);
    for (const double value : {c.error, c.bound}) {
      if (std::isfinite(value)) most = std::max(most, value);
    }
  }
  const LogAxis axis{-2, static_cast<int>(std::ceil(std::log10(most))) + 1};
  const double width = (right - left) / (last - first + 1);
  std::string inside = axis.lines(), rows, line, dots;
  double end = left;
  const int step = last - first < 8 ? 1 : last - first < 32 ? 4 : 8;
  bool violated = false;
  for (int i = first; i <= last; ++i) {
    const Condition& c = a.conditions[static_cast<std::size_t>(i)];
    const int e = i + Accuracy::least_condition;
    const double x = left + width * (i - first);
    if (e % step == 0) inside += text(x, bottom + 17, "middle", power("2", e));
    if (c.elements == 0) continue;
    const double bound = axis.y(c.bound);
    line += fmt::format("{}{:.1f},{:.1f} {:.1f},{:.1f}", line.empty() ? "" : " ", x, bound, x + width, bound);
    end = x + width;
    const double cx = x + width / 2, cy = c.error == 0 ? bottom : axis.y(c.error);
    const std::string told = fmt::format("<title>condition {} to {}: error {}, bound {}, worst margin {}</title>", power("2", e),
                                         power("2", e + 1), short_number(c.error), short_number(c.bound), short_number(c.margin));
    if (c.margin > properties::bound_slack) {
      violated = true;
      dots += fmt::format("<path class=\"cross\" d=\"M{:.1f} {:.1f}l9 9m0 -9l-9 9\">{}</path>", cx - 4.5, cy - 4.5, told);
    } else {
      dots += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\">{}</circle>", cx, cy, told);
    }
    rows += fmt::format(
        "<tr><th scope=\"row\">{} to {}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td></tr>",
        power("2", e), power("2", e + 1), grouped(c.elements), short_number(c.error), short_number(c.bound), short_number(c.margin));
  }
  inside += fmt::format("<polygon class=\"allowed\" points=\"{} {:.1f},{} {},{}\"/><polyline class=\"bound\" points=\"{}\"/>{}", line, end,
                        bottom, left, bottom, line, dots);
  inside += text((left + right) / 2, bottom + 36, "middle", "condition number mean|x|/√v of the group");
  return fmt::format(
      "<figure><h3>Error against condition number</h3>{}<figcaption>Dots are the worst error of a range of condition numbers, the dashed "
      "line "
      "is the largest proved bound in it{}. Both are in units in the last place at |γ|·max(1, |x̂|) + |β|, the size of what y is made of; "
      "nothing "
      "is promised where the line leaves the picture.<details class=\"wide\"><summary>As a table</summary><table><caption>Worst error and "
      "largest bound by condition number; the margin is the largest error as a part of its own bound</caption><thead><tr><th "
      "scope=\"col\">condition</th><th scope=\"col\" class=\"n\">elements</th><th scope=\"col\" class=\"n\">error</th><th scope=\"col\" "
      "class=\"n\">bound</th><th scope=\"col\" "
      "class=\"n\">margin</th></tr></thead><tbody>{}</tbody></table></details></figcaption></figure>\n",
      picture("Worst error by condition number, with the proved bound",
              violated ? "Some errors are beyond their bound" : "No error is beyond its bound", inside),
      violated ? "; a cross is where an element is beyond its own" : "", rows);
}

std::string worst(const CheckReport& report, const Extreme& e) {
  if (e.value == 0) return "";
  const Result<properties::Case> c = properties::parse_case(e.line);
  return fmt::format(
      "<tr class=\"more\"><td colspan=\"5\"><details><summary>{}</summary><p class=\"soft\">{} ulp off, {} of the bound, condition {}; "
      "case "
      "{} of {}</p>{}</details></td></tr>\n",
      escaped(e.what), short_number(e.ulp), short_number(e.margin), short_number(e.condition), e.source.number, e.source.law->slug,
      pre("Replay it", command(report, *properties::law_named("agrees_with_reference"), e.line), c.ok() ? c->elements() : 0));
}

void lay_out_plots(std::string& page, const Accuracy& a) {
  if (a.elements != 0) page += "<h2>Accuracy</h2>\n<div class=\"plots\">\n" + histogram(a) + conditions(a) + "</div>\n";
}

void lay_out_worst(std::string& page, const CheckReport& report) {
  const Accuracy& a = report.report.accuracy;
  if (a.elements == 0) return;
  page +=
      "<h2 id=\"worst\">Worst cases</h2>\n<div class=\"scroll\" role=\"region\" aria-labelledby=\"worst\" tabindex=\"0\"><table>"
      "<caption>By op and format of y: the largest errors, and the element that takes the largest part of its bound</caption>"
      "<thead><tr><th scope=\"col\">op</th><th scope=\"col\" class=\"n optional\">elements</th><th scope=\"col\" class=\"n\">right</th>"
      "<th scope=\"col\" class=\"n\">ulp</th><th scope=\"col\" class=\"n\">margin</th></tr></thead><tbody>\n";
  const auto row = [&](const std::string& name, const Tally& t, double ulp, double margin, const Extreme& e) {
    page += fmt::format(
        "<tr><th scope=\"row\">{}</th><td class=\"n optional\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td></tr>\n{}",
        name, grouped(t.elements), percent(t.correctly_rounded, t.elements), short_number(ulp), short_number(margin), worst(report, e));
  };
  if (a.ulp.value != 0) row("all: largest error in ulp", a, a.ulp.ulp, a.ulp.margin, a.ulp);
  if (a.depth.value != 0) row("all: takes the largest depth", a, a.depth.ulp, a.depth.margin, a.depth);
  for (const auto& [kind, t] : a.kinds) {
    row(fmt::format("<code>{} {}</code>", breakable(info(kind.first).name), info(kind.second).name), t, t.ulp.value, t.margin.value,
        t.margin);
  }
  page +=
      "</tbody></table></div>\n<p class=\"soft\">The <strong>margin</strong> is an error as a part of the bound that is proved for the "
      "declared arithmetic. The <strong>effective depth</strong> is the least number of roundings in a sum whose bound covers everything "
      "seen: less is better, 0 is as good as sums without error. Elements to which the standard model of rounding errors does not apply "
      "are "
      "left out. Where γx̂ and β, or x and the mean, cancel, an ulp of y is small and the error in ulp large.</p>\n";
}

}  // namespace

std::string to_html(const CheckReport& report) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>norma check {}: {}</title>\n<style>{}</style></head>\n<body><main>\n",
      escaped(report.subject), fails(report) ? "violated" : "holds", style);
  lay_out(page, report);
  lay_out_plots(page, report.report.accuracy);
  lay_out_laws(page, report);
  lay_out_worst(page, report);
  return page + "</main></body></html>\n";
}

}  // namespace norma::program
