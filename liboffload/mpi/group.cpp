// SPDX-License-Identifier: LGPL-2.1-or-later
// Transfers and notices of a group. All are nonblocking; poll() tests them together (MPI_Testany over receives that were posted
// before, as in the paper: a probe would find neither a lost booster nor the end of a transfer).
#include "group.h"

#include "messages.h"

namespace croff {

MpiGroup::Operation &MpiGroup::begin(Report::Kind report, TaskId task, bool reported) {
  auto operation = std::make_unique<Operation>();
  operation->report = report;
  operation->task = task;
  operation->reported = reported;
  operation->left = 1;  // until all transfers are begun
  Operation &result = *operation;
  operations_.emplace(&result, std::move(operation));
  return result;
}

void MpiGroup::add(Operation &operation, int error, MPI_Request request) {
  if (error != MPI_SUCCESS) {
    lost_ = true;
    return;
  }
  ++operation.left;
  requests_.push_back(request);
  operation_of_.push_back(&operation);
}

void MpiGroup::send(Operation &operation, const void *data, int bytes, int booster, int tag) {
  MPI_Request request;
  const int error = MPI_Isend(data, bytes, MPI_BYTE, booster, tag, inter_, &request);
  add(operation, error, request);
}

void MpiGroup::receive(Operation &operation, void *data, int bytes, int booster) {
  MPI_Request request;
  const int error = MPI_Irecv(data, bytes, MPI_BYTE, booster, messages::kOutput, inter_, &request);
  add(operation, error, request);
}

void MpiGroup::listen(int booster) {
  const int error = MPI_Irecv(&notices_[booster], sizeof(wire::Notice), MPI_BYTE, booster, messages::kNotice, inter_,
                              &requests_[booster]);
  if (error == MPI_SUCCESS) return;
  requests_[booster] = MPI_REQUEST_NULL;
  lost_ = true;
}

void MpiGroup::launch(int booster, const Order &order) {
  Operation &operation = begin(Report::sent, order.task, true);
  operation.order = wire::order(order);
  operation.values = *order.values;
  operation.regions = wire::regions(order);

  const auto inputs = [&](const std::byte *data, std::size_t bytes) {
    messages::in_pieces(data, bytes, [&](const std::byte *piece, int size) { send(operation, piece, size, booster, messages::kInput); });
  };
  send(operation, &operation.order, sizeof operation.order, booster, messages::kOrder);
  inputs(reinterpret_cast<const std::byte *>(operation.regions.data()), operation.regions.size() * sizeof(wire::Region));
  inputs(operation.values.data(), operation.values.size());
  for (const Input &input : order.regions)
    if (input.reads) inputs(input.source, input.bytes);
  --operation.left;  // poll() reports it also if nothing is left
}

void MpiGroup::command(int booster, wire::Op op, TaskId task) {
  Operation &operation = begin(Report::sent, task, false);
  operation.order = wire::order(op, task);
  send(operation, &operation.order, sizeof operation.order, booster, messages::kOrder);
  --operation.left;
}

void MpiGroup::fetch(int booster, TaskId task, const std::vector<Target> &targets) {
  Operation &operation = begin(Report::received, task, true);
  operation.order = wire::order(wire::Op::fetch, task);
  for (const Target &target : targets)
    messages::in_pieces(target.data, target.bytes, [&](std::byte *piece, int size) { receive(operation, piece, size, booster); });
  send(operation, &operation.order, sizeof operation.order, booster, messages::kOrder);
  --operation.left;
}

void MpiGroup::discard(int booster, TaskId task) { command(booster, wire::Op::discard, task); }

void MpiGroup::notice(int booster, std::vector<Report> &reports) {
  const wire::Notice notice = notices_[booster];
  listen(booster);
  switch (notice.note) {
    case wire::Note::hello: ++greeted_; break;
    case wire::Note::leaves: ++left_; break;
    case wire::Note::done: reports.push_back({Report::done, notice.task, Code::ok, ""}); break;
    case wire::Note::outputs: break;  // they come by themselves, as messages
    case wire::Note::failed: reports.push_back({Report::failed, notice.task, static_cast<Code>(notice.code), notice.text}); break;
  }
}

void MpiGroup::end(Operation *operation, std::vector<Report> &reports) {
  if (operation->left > 0) return;
  if (operation->reported) reports.push_back({operation->report, operation->task, Code::ok, ""});
  operations_.erase(operation);
}

std::vector<Report> MpiGroup::poll() {
  std::vector<Report> reports;
  while (!lost_) {
    int index = MPI_UNDEFINED, there = 0;
    const int error = MPI_Testany(static_cast<int>(requests_.size()), requests_.data(), &index, &there, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS) {
      lost_ = true;
      break;
    }
    if (!there || index == MPI_UNDEFINED) break;
    if (index < size_) {
      notice(index, reports);
      continue;
    }
    Operation *operation = operation_of_[index];
    requests_[index] = requests_.back();
    operation_of_[index] = operation_of_.back();
    requests_.pop_back();
    operation_of_.pop_back();
    --operation->left;
    end(operation, reports);
  }
  return reports;
}

}  // namespace croff
