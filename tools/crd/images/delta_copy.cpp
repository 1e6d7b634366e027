// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/delta_copy.h"

#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

#include "crd/images/copying.h"
#include "job/files.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

namespace fs = std::filesystem;

/** The names of a delta image's bases in its directory. */
class Bases {
 public:
  /** @param to the image: LOCAL/ID/wave-N/rank-R.img */
  Bases(const std::string& to, const Manifest& manifest) : directory_(fs::path(to).parent_path()), manifest_(manifest) {}
  ~Bases() {
    std::error_code ignored;
    if (!kept_)
      for (const std::uint32_t base : manifest_.bases) fs::remove(path(base), ignored);
  }
  Bases(const Bases&) = delete;
  Bases& operator=(const Bases&) = delete;

  /** Give names to what is here, and read the rest. */
  void collect(const ReadDelta& read) {
    for (const std::uint32_t base : manifest_.bases)
      if (!find(base)) fetch(base, read);
  }
  /** Read what was found here. @return whether there was something */
  bool replace(const ReadDelta& read) {
    const std::size_t before = fetched_.size();
    for (const std::uint32_t base : manifest_.bases)
      if (!fetched_.count(base)) fetch(base, read);
    return fetched_.size() > before;
  }
  bool any_fetched() const { return !fetched_.empty(); }
  void keep() { kept_ = true; }

 private:
  fs::path path(std::uint32_t base) const { return directory_ / job::base_name(manifest_.rank, base); }
  bool find(std::uint32_t base) const {
    std::error_code error;
    if (fs::exists(path(base), error)) return true;
    const std::string name = path(base).filename();
    for (const auto& wave : fs::directory_iterator(directory_.parent_path(), error))
      if (link(wave.path() / name, base)) return true;
    return link(job::image_path(directory_.parent_path(), base, manifest_.rank), base);
  }
  bool link(const fs::path& file, std::uint32_t base) const {
    std::error_code error;
    fs::create_hard_link(file, path(base), error);
    return !error;
  }
  void fetch(std::uint32_t base, const ReadDelta& read) {
    PartFile file(path(base));
    read(base, file);
    file.take_name();
    fetched_.insert(base);
  }

  const fs::path directory_;
  const Manifest& manifest_;
  std::set<std::uint32_t> fetched_;
  bool kept_ = false;
};

/** @return the image @p path; nothing: what it needs is not what has those names */
std::optional<Image> open(const std::string& path) {
  try {
    return Image::open(path);
  } catch (const std::exception& problem) {
    spdlog::debug("{} is not complete yet: {}", path, problem.what());
    return std::nullopt;
  }
}

}  // namespace

void copy_delta(const std::string& to, const Manifest& manifest, const ReadDelta& read) {
  PartFile part(to);
  read(0, part);
  Bases bases(to, manifest);
  bases.collect(read);
  std::optional<Image> image = open(part.path());
  if (!image && bases.replace(read)) image = open(part.path());
  if (!image || !is_of(WholeImage(*image), manifest))
    throw std::runtime_error("what came for " + to + " is not the image that its manifest describes");
  // What was here already was verified when it came.
  if (bases.any_fetched())
    image->verify_all(1);
  else
    image->read_file(nullptr, [](std::uint64_t, std::span<const char>) {});
  // The manifest first: an image without it would be of no use.
  job::write_atomically(job::manifest_path(to), manifest_text(manifest));
  part.take_name();
  bases.keep();
}

}  // namespace reprise::crd
