// SPDX-License-Identifier: GPL-2.0-only
// Programs in text form.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "action.h"

namespace fuzz {
namespace {

constexpr const char* kClassNames[kClasses] = {"",     "thread", "born", "self",   "rw",      "ro",  "hole", "uffd",  "edge",
                                               "heap", "arena",  "str",  "session", "mem", "file", "scope", "auto", "soon"};

std::string hex(uint64_t v) {
  char text[32];
  snprintf(text, sizeof text, v < 10 ? "%llu" : "%#llx", (unsigned long long)v);
  return text;
}

const std::vector<Name>* names_of(Kind kind) {
  return kind == Kind::kNr ? &calls() : kind == Kind::kCommand ? &commands() : nullptr;
}

std::string print_value(const Param& param, uint64_t v) {
  if (const auto* list = names_of(param.kind))
    if (const Name* n = named(*list, v)) return n->name;
  Class c = class_of(v);
  if (c == kLiteral) return hex(v);
  return rest_of(v) ? kClassNames[c] + ("+" + hex(rest_of(v))) : kClassNames[c];
}

uint64_t number(const std::string& text) {
  char* end;
  errno = 0;
  uint64_t v = strtoull(text.c_str(), &end, 0);
  if (text.empty() || *end || errno) throw std::runtime_error("not a number: " + text);
  return v;
}

uint64_t parse_value(const Param& param, const std::string& text) {
  if (const auto* list = names_of(param.kind))
    for (const Name& n : *list)
      if (text == n.name) return n.value;
  if (!text.empty() && (isdigit((unsigned char)text[0]) || text[0] == '-')) return number(text);
  size_t plus = text.find('+');
  for (int c = 1; c < kClasses; c++)
    if (text.substr(0, plus) == kClassNames[c])
      return ref(Class(c), plus == std::string::npos ? 0 : number(text.substr(plus + 1)));
  throw std::runtime_error("unknown value: " + text);
}

Action parse_action(const std::string& line) {
  size_t at = 0;
  auto word = [&] {
    size_t from = line.find_first_not_of(" \t", at);
    if (from == std::string::npos) return std::string();
    at = line.find_first_of(" \t", from);
    if (at == std::string::npos) at = line.size();
    return line.substr(from, at - from);
  };
  Action a{};
  a.lane = uint8_t(number(word()));
  if (a.lane >= kLanes) throw std::runtime_error("no such lane");
  std::string name = word();
  int op = find_op(name);
  if (op < 0) throw std::runtime_error("unknown action: " + name);
  a.op = uint8_t(op);
  const auto& params = ops()[a.op].params;
  for (size_t i = 0; i < params.size(); i++)  // defaults of omitted arguments
    a.arg[i] = params[i].kind == Kind::kPlace || params[i].kind == Kind::kBuffer ? ref(kRw)
               : params[i].kind == Kind::kCount                                ? ref(kAuto)
               : params[i].kind == Kind::kTid                                  ? ref(kThread)
                                                                               : 0;
  for (std::string w = word(); !w.empty(); w = word()) {
    size_t eq = w.find('='), i = 0;
    if (eq == std::string::npos) throw std::runtime_error("not NAME=VALUE: " + w);
    while (i < params.size() && w.substr(0, eq) != params[i].name) i++;
    if (i == params.size()) throw std::runtime_error(name + " has no " + w.substr(0, eq));
    a.arg[i] = parse_value(params[i], w.substr(eq + 1));
  }
  return a;
}

}  // namespace

std::string print(const Program& p) {
  std::string text = "program\n";
  for (uint32_t i = 0; i < p.count; i++) {
    const Action& a = p.action[i];
    const Op& op = ops()[a.op];
    text += std::to_string(a.lane) + " " + op.name;
    for (size_t k = 0; k < op.params.size(); k++)
      text += std::string(" ") + op.params[k].name + "=" + print_value(op.params[k], a.arg[k]);
    text += "\n";
  }
  return text;
}

std::vector<Program> parse(std::string_view text) {
  std::vector<Program> all;
  int number = 0;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    number++;
    if (size_t hash = line.find('#'); hash != std::string::npos) line.resize(hash);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line.starts_with("program")) {
      all.emplace_back();
      continue;
    }
    try {
      if (all.empty()) throw std::runtime_error("an action before the first program");
      if (all.back().count == kMaxActions) throw std::runtime_error("too many actions");
      all.back().action[all.back().count] = parse_action(line);
      all.back().count++;
    } catch (const std::runtime_error& e) {
      throw std::runtime_error("line " + std::to_string(number) + ": " + e.what());
    }
  }
  return all;
}

}  // namespace fuzz
