// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Where the files of a job are. docs/job-protocol.md has the table. */
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::job {

/** Letters, digits, '-' and '_', 1 to 64 of them: what becomes part of a path must not leave its place. */
bool valid_job_id(const std::string& id);

/** SHARED/ID */
std::string job_directory(const std::string& shared, const std::string& id);
/** LOCAL/ID: images of this node. */
std::string local_directory(const std::string& local, const std::string& id);
/** /tmp/reprise-UID/ID: sockets of the daemon, PMIx's files; the same path on every node. */
std::string run_directory(const std::string& id);

/** DIRECTORY/wave-N, for a job directory or a local one. */
std::string wave_directory(const std::string& directory, std::uint32_t wave);
/** DIRECTORY/wave-N.part: of a wave that is not committed. */
std::string wave_part_directory(const std::string& directory, std::uint32_t wave);
/** DIRECTORY/wave-N/rank-R.img */
std::string image_path(const std::string& directory, std::uint32_t wave, std::uint32_t rank);
/** What the daemon noted about a rank when its image was taken; lies beside the image: rank-R.json. */
std::string manifest_path(const std::string& image);

/** What a daemon calls its end of a connection, and whose end one of that name is. None: not a daemon's. */
std::string connection_name(std::uint32_t node, const std::string& instance);
std::optional<std::uint32_t> node_of_connection(const std::string& name);
/** JOB@N: PMIx's name of the N-th namespace that the job has spawned. Open MPI takes the job's number from it. */
std::string spawned_name(const std::string& id, std::uint32_t index);

/** Socket of the daemon for its ranks. */
std::string rank_socket_path(const std::string& run_directory);

}  // namespace reprise::job
