// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include "descriptors/choose_method.h"
#include "image/state.pb.h"

namespace reprise {

void use_streams_for_pipes(const Process& image, RestoreOptions& options, Report& report) {
  const std::vector<Decision> decisions = choose_method(image, options, RestoreMode::restart, {});
  std::vector<bool> named(decisions.size());
  for (const Descriptor& descriptor : image.descriptors()) {
    const std::uint32_t index = descriptor.description();
    const Description& description = image.descriptions(static_cast<int>(index));
    if (description.kind() != Description::PIPE || decisions.at(index).way != Way::refuse) continue;
    const bool read = (description.flags() & O_ACCMODE) == O_RDONLY;
    const int ours = read ? STDIN_FILENO : STDOUT_FILENO;
    if (::fcntl(ours, F_GETFD) < 0) continue;
    options.substitute[descriptor.fd()] = ours;
    if (!named[index])
      report.warnings.push_back(description_text(image, index) + ": its other end belonged to another process, standard " +
                                (read ? "input" : "output") + " takes its place");
    named[index] = true;
  }
}

}  // namespace reprise
