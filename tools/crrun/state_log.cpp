// SPDX-License-Identifier: GPL-2.0-only
#include "crrun/state_log.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "job/files.h"
#include "job/keys.h"

namespace reprise::job {

namespace {

bool counts(const std::string& path, Whose whose) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) return false;
  return whose == Whose::anybody || (st.st_uid == ::geteuid() && (st.st_mode & 022) == 0);
}

/** @return 0 if the number is missing or invalid */
std::uint64_t number_in(const nlohmann::json& json, const char* key) {
  const auto number = json.find(key);
  return number != json.end() && number->is_number_unsigned() ? number->get<std::uint64_t>() : 0;
}

/** Apply what the log has behind the snapshot; stop at the first line that is not complete or does not follow. */
void replay(const std::string& text, const nlohmann::json& by, std::size_t ranks, NumberedState& out) {
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) {
    if (lines.eof()) return;  // without its end
    try {
      const nlohmann::json json = nlohmann::json::parse(one);
      if (json.at("by") != by) continue;
      const std::uint64_t number = number_in(json, "n");
      if (number <= out.number) continue;
      if (number != out.number + 1) return;
      std::vector<Record> records;
      for (const nlohmann::json& record : json.at("records")) records.push_back(record_from_json(record, ranks));
      for (const Record& record : records) update(out.state, record);
      out.number = number;
    } catch (const std::exception&) {
      return;
    }
  }
}

}  // namespace

StateLog::StateLog(std::string snapshot, std::string log) : snapshot_(std::move(snapshot)), log_(std::move(log)) {
  by_ = random_name(8);
}

const std::string& Change::text() const {
  std::call_once(encoded_, [this] {
    nlohmann::json json = nlohmann::json::array();
    for (const Record& record : records) json.push_back(to_json(record));
    text_ = json.dump();
  });
  return text_;
}

std::string StateLog::line(const Change& change) const {
  return R"({"n":)" + std::to_string(change.number) + R"(,"by":")" + by_ + R"(","records":)" + change.text() + "}\n";
}

void StateLog::write(const Changes& changes, const std::function<NumberedState()>& whole) {
  std::string text;
  bool log = std::exchange(whole_, false);
  for (auto change = changes.begin(); log && change != changes.end(); ++change) {
    text += line(**change);
    log = log_bytes_ + text.size() <= std::max(kLongLog, snapshot_bytes_);
  }
  if (log)
    append(text);
  else
    snapshot(whole());
  whole_ = true;
}

void StateLog::close(const std::function<NumberedState()>& whole) {
  if (!log_bytes_) return;
  whole_ = false;
  snapshot(whole());
  whole_ = true;
}

void StateLog::remove() const {
  std::error_code ignored;
  std::filesystem::remove(log_, ignored);
  std::filesystem::remove(snapshot_, ignored);
}

void StateLog::append(const std::string& text) {
  const bool first = log_bytes_ == 0;
  const auto check = [this](bool well) {
    if (!well) throw std::system_error(errno, std::generic_category(), "cannot write " + log_);
  };
  UniqueFd fd(::open(log_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  check(fd.get() >= 0);
  check(write_all(fd.get(), text) == text.size());
  check(::fsync(fd.get()) == 0);
  if (first) sync_directory(std::filesystem::path(log_).parent_path());
  log_bytes_ += text.size();
}

void StateLog::snapshot(const NumberedState& state) {
  nlohmann::json json = to_json(state.state);
  json["saved"] = state.number;
  json["by"] = by_;
  const std::string text = json.dump() + "\n";
  write_atomically(snapshot_, text);
  // A crash before this is harmless: the log has nothing that is behind the snapshot.
  std::filesystem::remove(log_);
  snapshot_bytes_ = text.size();
  log_bytes_ = 0;
}

std::optional<NumberedState> read_state(const std::string& snapshot, const std::string& log, std::size_t ranks, Whose whose) {
  if (!counts(snapshot, whose)) return std::nullopt;
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(read_file(snapshot));
  } catch (const std::exception&) {
    return std::nullopt;
  }
  if (!json.is_object()) return std::nullopt;
  NumberedState out{number_in(json, "saved"), state_from_json(json, ranks)};
  if (!counts(log, whose)) return out;
  try {
    replay(read_file(log), json.value("by", ""), ranks, out);
  } catch (const std::exception&) {
  }
  return out;
}

}  // namespace reprise::job
