! SPDX-License-Identifier: GPL-2.0-only
! The same as s3d.c in Fortran, operation by operation: its result has the same bits.
!
!   s3d_fortran EDGE STEPS [EVERY [SPARES [CFL]]]
module numerics
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  integer, parameter :: fields = 5, halo = 4, stages = 6
  integer(c_int), parameter :: of_checkpoint = 1, of_begun = 2, of_restored = 3, of_step = 4   ! as in record.h
  real(c_double), parameter :: pi = 3.14159265358979323846d0
  real(c_double), parameter :: slopes(halo) = [4d0 / 5, -1d0 / 5, 4d0 / 105, -1d0 / 280]
  real(c_double), parameter :: curves(halo) = [8d0 / 5, -1d0 / 5, 8d0 / 315, -1d0 / 560], centre = -205d0 / 72
  real(c_double), parameter :: a(stages) = [0d0, -0.737101392796d0, -1.634740794341d0, -0.744739003780d0, &
                                            -1.469897351522d0, -2.813971388035d0]
  real(c_double), parameter :: b(stages) = [0.032918605146d0, 0.823256998200d0, 0.381530948900d0, 0.200092213184d0, &
                                            1.718581042715d0, 0.27d0]
  real(c_double), parameter :: wave(3, fields) = reshape([1d0, 1d0, 1d0, 1d0, 2d0, 1d0, 2d0, 1d0, -1d0, 1d0, -1d0, 2d0, &
                                                          2d0, -1d0, 1d0], [3, fields])
  real(c_double), parameter :: speed(3, fields) = reshape([1d0, 0.5d0, 0.25d0, -0.5d0, 1d0, 0.5d0, 0.25d0, -0.5d0, 1d0, &
                                                           0.75d0, 0.25d0, -1d0, -1d0, -0.75d0, 0.5d0], [3, fields])
  real(c_double), parameter :: spread_of(fields) = [0.01d0, 0.02d0, 0.005d0, 0.015d0, 0.01d0]
  ! Module variables: after a failure `body` does not return from its call.
  integer, save :: edge, steps, every = 0, spares = 0, rank, ranks, first(3), whole(3), below(3), above(3)
  integer(c_int), target, save :: step = 0
  real(c_double), save :: cfl = 0.5d0, step_time, begun
  real(c_double), allocatable, target, save :: now(:, :, :, :)
  real(c_double), allocatable, save :: change(:, :, :, :), padded(:, :, :, :), outgoing(:), incoming(:)

  interface
    subroutine record(what, from, at, of_rank) bind(c)
      import c_int, c_double
      integer(c_int), value :: what, at, of_rank
      real(c_double), value :: from
    end subroutine
    subroutine record_deaths(of_rank) bind(c)
      import c_int
      integer(c_int), value :: of_rank
    end subroutine
    function record_now() bind(c) result(seconds)
      import c_double
      real(c_double) :: seconds
    end function
    function record_checksum(values, number, own, from, all) bind(c) result(total)
      import c_int, c_double, c_int64_t
      real(c_double), intent(in) :: values(*)
      integer(c_int), value :: number
      integer(c_int), intent(in) :: own(3), from(3), all(3)
      integer(c_int64_t) :: total
    end function
  end interface
contains
  subroutine divide(comm)
    integer, intent(in) :: comm
    integer :: parts(3), at(3), other(3), axis, ignored
    call MPI_Comm_rank(comm, rank, ignored)
    call MPI_Comm_size(comm, ranks, ignored)
    parts = 0
    call MPI_Dims_create(ranks, 3, parts, ignored)
    at = [modulo(rank, parts(1)), modulo(rank / parts(1), parts(2)), rank / parts(1) / parts(2)]
    first = at * edge
    whole = parts * edge
    step_time = min(1d0, minval(2 * pi / whole)) * cfl
    do axis = 1, 3
      other = at
      other(axis) = modulo(at(axis) + 1, parts(axis))
      above(axis) = (other(3) * parts(2) + other(2)) * parts(1) + other(1)
      other(axis) = modulo(at(axis) - 1, parts(axis))
      below(axis) = (other(3) * parts(2) + other(2)) * parts(1) + other(1)
    end do
    if (allocated(now)) return
    allocate(now(edge, edge, edge, fields))
    allocate(change(edge, edge, edge, fields), padded(1 - halo:edge + halo, 1 - halo:edge + halo, 1 - halo:edge + halo, fields))
    allocate(outgoing(fields * edge * edge * halo), incoming(fields * edge * edge * halo))
  end subroutine

  subroutine start()
    integer :: field, x, y, z
    change = 0
    do concurrent (field = 1:fields, z = 1:edge, y = 1:edge, x = 1:edge)
      now(x, y, z, field) = sin(wave(1, field) * (2 * pi * (first(1) + x - 1) / whole(1)) &
                                + wave(2, field) * (2 * pi * (first(2) + y - 1) / whole(2)) &
                                + wave(3, field) * (2 * pi * (first(3) + z - 1) / whole(3)))
    end do
  end subroutine

  ! The layers from `begin` on along an axis, of all fields, to a message or from it.
  subroutine layers(axis, begin, message, pack_it)
    integer, intent(in) :: axis, begin
    real(c_double), intent(inout) :: message(:)
    logical, intent(in) :: pack_it
    integer :: low(3), high(3), extent(4)
    low = 1
    high = edge
    low(axis) = begin
    high(axis) = begin + halo - 1
    extent = [high - low + 1, fields]
    if (pack_it) then
      message = reshape(padded(low(1):high(1), low(2):high(2), low(3):high(3), :), [size(message)])
    else
      padded(low(1):high(1), low(2):high(2), low(3):high(3), :) = reshape(message, extent)
    end if
  end subroutine

  subroutine exchange(comm)
    integer, intent(in) :: comm
    integer :: axis, ignored
    padded(1:edge, 1:edge, 1:edge, :) = now
    do axis = 1, 3
      call layers(axis, 1, outgoing, .true.)
      call MPI_Sendrecv(outgoing, size(outgoing), MPI_DOUBLE_PRECISION, below(axis), axis, incoming, size(incoming), &
                        MPI_DOUBLE_PRECISION, above(axis), axis, comm, MPI_STATUS_IGNORE, ignored)
      call layers(axis, edge + 1, incoming, .false.)
      call layers(axis, edge + 1 - halo, outgoing, .true.)
      call MPI_Sendrecv(outgoing, size(outgoing), MPI_DOUBLE_PRECISION, above(axis), axis + 3, incoming, size(incoming), &
                        MPI_DOUBLE_PRECISION, below(axis), axis + 3, comm, MPI_STATUS_IGNORE, ignored)
      call layers(axis, 1 - halo, incoming, .false.)
    end do
  end subroutine

  ! What one axis adds to the rate at a point: `line` has the point in its middle.
  pure function along(line, flow, spreading) result(rate)
    real(c_double), intent(in) :: line(-halo:halo), flow, spreading
    real(c_double) :: rate(2), slope, curve
    slope = slopes(1) * (line(1) - line(-1)) + slopes(2) * (line(2) - line(-2)) &
            + slopes(3) * (line(3) - line(-3)) + slopes(4) * (line(4) - line(-4))
    curve = centre * line(0) + curves(1) * (line(1) + line(-1)) + curves(2) * (line(2) + line(-2)) &
            + curves(3) * (line(3) + line(-3)) + curves(4) * (line(4) + line(-4))
    rate = [flow * slope, spreading * curve]
  end function

  subroutine advance(comm)
    integer, intent(in) :: comm
    integer :: stage, field, x, y, z
    real(c_double) :: flow(3), spreading(3), rate, parts(2)
    do stage = 1, stages
      call exchange(comm)
      do field = 1, fields
        flow = -speed(:, field) * whole / (2 * pi)
        spreading = spread_of(field) * (whole / (2 * pi)) * (whole / (2 * pi))
        do z = 1, edge
          do y = 1, edge
            do x = 1, edge
              rate = 0
              parts = along(padded(x - halo:x + halo, y, z, field), flow(1), spreading(1))
              rate = (rate + parts(1)) + parts(2)
              parts = along(padded(x, y - halo:y + halo, z, field), flow(2), spreading(2))
              rate = (rate + parts(1)) + parts(2)
              parts = along(padded(x, y, z - halo:z + halo, field), flow(3), spreading(3))
              rate = (rate + parts(1)) + parts(2)
              change(x, y, z, field) = a(stage) * change(x, y, z, field) + step_time * rate
              now(x, y, z, field) = now(x, y, z, field) + b(stage) * change(x, y, z, field)
            end do
          end do
        end do
      end do
    end do
    step = step + 1
  end subroutine

  subroutine say(comm, seconds)
    integer, intent(in) :: comm
    real(c_double), intent(in) :: seconds
    integer(c_int64_t) :: total, all
    integer :: ignored
    total = record_checksum(now, fields, [edge, edge, edge], first, whole)
    call MPI_Reduce(total, all, 1, MPI_INTEGER8, MPI_SUM, 0, comm, ignored)
    if (rank == 0) print '(a, i0, a, i0, a, i0, a, f0.3, a, z16.16)', 's3d: ', ranks, ' ranks of ', edge, '^3 points, ', step, &
      ' steps, ', seconds, ' s, checksum ', all
  end subroutine
end module

module program_body
  use numerics
#ifdef FENIX
  use fenix
#endif
  implicit none
#ifdef FENIX
  integer, parameter :: group = 0
#endif
contains
#ifdef FENIX
  subroutine check(code)
    integer(c_int), intent(in) :: code
    integer :: ignored
    if (code == FENIX_SUCCESS) return
    print '(3a)', 's3d: error: ', fenix_last_error()
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine

  subroutine body(role, comm, warning) bind(c)
    integer(c_int), value :: role, comm, warning
#else
  subroutine body(comm)
    integer, intent(in) :: comm
#endif
    real(c_double) :: from
    begun = record_now()
    call divide(comm)
    call record(of_begun, begun, step, rank)
    call record_deaths(rank)
    call start()
#ifdef FENIX
    if (role == FENIX_ROLE_SURVIVOR_RANK .and. warning /= FENIX_SUCCESS) print '(a)', 's3d: there are fewer ranks now'
    call check(fenix_data_group_create(group, comm, 0, 0, FENIX_DATA_POLICY_IN_MEMORY_RAID))
    call check(fenix_data_member_create(group, 0, c_loc(now), size(now), MPI_DOUBLE_PRECISION))
    call check(fenix_data_member_create(group, 1, c_loc(step), 1, MPI_INTEGER))
    step = 0
    if (fenix_data_member_restore(group, 0, c_null_ptr, size(now), FENIX_DATA_SNAPSHOT_LATEST) == FENIX_SUCCESS) then
      call check(fenix_data_member_restore(group, 1, c_null_ptr, 1, FENIX_DATA_SNAPSHOT_LATEST))
      call record(of_restored, begun, step, rank)
    end if
#endif
    do while (step < steps)
      call advance(comm)
      from = record_now()
      if (rank == 0) call record(of_step, from, step, rank)
#ifdef FENIX
      if (every == 0) cycle
      if (modulo(step, every) /= 0 .or. step >= steps) cycle
      call check(fenix_data_member_store(group, FENIX_DATA_MEMBER_ALL, fenix_full()))
      call check(fenix_data_commit_barrier(group))
      call record(of_checkpoint, from, step, rank)
#endif
    end do
    call say(comm, record_now() - begun)
#ifdef FENIX
    call check(fenix_finalize())
#endif
  end subroutine
end module

program s3d
  use program_body
  implicit none
  integer :: failed
  real(c_double) :: number
  call take(1, number)
  edge = int(number)
  call take(2, number)
  steps = int(number)
  if (edge < halo .or. steps < 0) then
    print '(a)', 'usage: s3d_fortran EDGE STEPS [EVERY [SPARES [CFL]]]    EDGE from 4'
    stop 2
  end if
  call take(3, number)
  every = int(number)
  call take(4, number)
  spares = int(number)
  call take(5, number)
  if (number > 0) cfl = number
  call MPI_Init(failed)
#ifdef FENIX
  call check(fenix_run(MPI_COMM_WORLD, spares, 1, MPI_INFO_NULL, body))
#else
  call body(MPI_COMM_WORLD)
#endif
  call MPI_Finalize(failed)
contains
  subroutine take(at, number)
    integer, intent(in) :: at
    real(c_double), intent(out) :: number
    character(40) :: word
    integer :: status
    number = 0
    call get_command_argument(at, word, status=status)
    if (status == 0) read (word, *, iostat=status) number
    if (status /= 0) number = 0   ! the last argument of a spawned process is no number
  end subroutine
end program
