// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The paths of a job's files. docs/job-protocol.md has the table. */
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::job {

/** 1 to 64 letters, digits, '-' and '_'. The id becomes part of paths, so it must not contain "/" or "..". */
bool valid_job_id(const std::string& id);

/** SHARED/ID */
std::string job_directory(const std::string& shared, const std::string& id);
/** LOCAL/ID: images of this node. */
std::string local_directory(const std::string& local, const std::string& id);
/**
 * /tmp/reprise-ID-SECRET, the same path on every node: sockets of the daemon, files of PMIx. Other users must not be able to
 * guess it before it is made: they could make it first, and keep the daemon from starting.
 */
std::string run_directory(const std::string& id, const std::string& secret);

/** DIRECTORY/wave-N, for a job directory or a local one. */
std::string wave_directory(const std::string& directory, std::uint32_t wave);
/** DIRECTORY/wave-N.part: a wave that is not yet committed. */
std::string wave_part_directory(const std::string& directory, std::uint32_t wave);
/** DIRECTORY/wave-N/rank-R.img */
std::string image_path(const std::string& directory, std::uint32_t wave, std::uint32_t rank);
/** rank-R.base-M, beside an image of rank R: another name of its image of wave M, which has pages of that one. */
std::string base_name(std::uint32_t rank, std::uint32_t wave);
/** @return the beginning of such names, up to M */
std::string base_prefix(std::uint32_t rank);
/** @return M of such a name; nothing: it is another one */
std::optional<std::uint32_t> base_wave(const std::string& name, std::uint32_t rank);
/** DIRECTORY/wave-N/parity.xor: with --redundancy xor:N, what a node keeps of the others' images; parity.set says of which. */
std::string parity_path(const std::string& directory, std::uint32_t wave);
std::string parity_set_path(const std::string& directory, std::uint32_t wave);
/** DIRECTORY/wave-dropped: images that do not count any more. What is staged next is written over them. */
std::string dropped_directory(const std::string& directory);
std::string dropped_image_path(const std::string& directory, std::uint32_t rank);
/** DIRECTORY/kept: copies of kept memory, see kept_copy_path(). */
std::string kept_directory(const std::string& directory);
/** DIRECTORY/kept/rank-R-VERSION-NAME: what kept memory of a rank had when its program asked for a copy. */
std::string kept_copy_path(const std::string& directory, std::uint32_t rank, std::uint64_t version, const std::string& name);
/** rank-R.json beside the image: what the daemon recorded about the rank when it took the image. */
std::string manifest_path(const std::string& image);

/**
 * @return the ZeroMQ routing id of a daemon's connection; node_of_connection(): its node, or nothing if it is not a
 * daemon's
 */
std::string connection_name(std::uint32_t node, const std::string& instance);
std::optional<std::uint32_t> node_of_connection(const std::string& name);
/** JOB@N: the PMIx name of the N-th namespace that the job has spawned. Open MPI takes its job number from the name. */
std::string spawned_name(const std::string& id, std::uint32_t index);

/** Socket on which the daemon listens for its ranks. */
std::string rank_socket_path(const std::string& run_directory);

}  // namespace reprise::job
