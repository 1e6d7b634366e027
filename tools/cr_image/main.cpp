// SPDX-License-Identifier: GPL-2.0-only
// cr_image merge IMAGE [TO]: makes a delta image whole.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "command.h"
#include "image/delta.h"
#include "progress.h"
#include "report.h"

using namespace reprise;

namespace {

struct Merge {
  std::string from, to;

  int run(const tool::Common& common) const;

 private:
  void check(const Image& image) const;
};

/** A file in the place of IMAGE would be another one to the images that need it. */
void Merge::check(const Image& image) const {
  if (!to.empty()) return;
  if (image.place().name.empty())
    throw Error(Failure::usage, EINVAL, from + " has no name in a directory: name the file TO");
  if (image.compressed_size())
    throw Error(Failure::usage, EINVAL, from + " is compressed, and the whole image would not be: name the file TO");
  const std::vector<std::string> deltas = deltas_of(image.place());
  if (deltas.empty()) return;
  std::string names;
  for (const std::string& name : deltas) names += (names.empty() ? "" : ", ") + name;
  throw Error(Failure::refused, EBUSY, from + " has pages of " + names + ": merge " + (deltas.size() > 1 ? "these" : "this") +
                                           " first, or name another file TO");
}

int Merge::run(const tool::Common& common) const {
  const Image image = Image::open(from);
  check(image);
  const bool whole = image.bases().empty();
  // Its own place, not `from`, which may be a symbolic link to it.
  const std::string target = to.empty() ? image.place().directory + "/" + image.place().name : to;
  if (!whole || !to.empty()) {
    struct stat st {};
    ::fstat(image.fd(), &st);
    ImageWriter writer(target, {.clobber = to.empty(), .mode = st.st_mode & 0777, .owner = image.owner()});
    {
      // Damage shows while the other files are still kept.
      ProgressBar bar("verifying", !common.json && !common.quiet);
      image.verify_all(0, bar.callback());
    }
    ProgressBar bar("merging", !common.json && !common.quiet);
    write_whole(image, writer, bar.callback());
    if (image.touched()) throw Error(Failure::temporary, EBUSY, from + " or a file that it needs was changed meanwhile");
    writer.finish();
  }
  const std::uint64_t bytes = Image::open(target).file_size();
  if (common.json) {
    nlohmann::ordered_json bases = nlohmann::ordered_json::array();
    for (const Base& base : image.bases()) bases.push_back(base.name());
    std::printf("%s\n", tool::json_line({{"command", common.name}, {"ok", true}, {"image", target}, {"bytes", bytes}, {"bases", bases}}).c_str());
  } else if (!common.quiet) {
    std::printf("%s: %s\n", common.name.c_str(),
                (whole && to.empty() ? target + " is whole already" : target + " stands alone: " + tool::bytes(bytes)).c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Work on process images, without the module and the process.", "cr_image"};
  tool::Common common("cr_image");
  Merge merge;
  tool::set_up(app);
  app.fallthrough();
  app.require_subcommand(1);
  app.add_flag("--json", common.json, "print the result, or the error, as one line of JSON on standard output");
  app.add_flag("-q,--quiet", common.quiet, "print nothing but errors");
  CLI::App& sub = *app.add_subcommand(
      "merge", "Make a delta image (cr_checkpoint --delta) whole, so that it needs no other file. Verifies all of it first.");
  tool::set_up(sub);
  sub.add_option("IMAGE", merge.from, "the delta image")->required()->type_name("");
  sub.add_option("TO", merge.to, "new file for the whole image (default: it replaces IMAGE)")->type_name("");
  return tool::run(app, common, argc, argv, [&] { return merge.run(common); });
}
