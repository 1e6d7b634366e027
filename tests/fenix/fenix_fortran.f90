! SPDX-License-Identifier: GPL-2.0-only
! fenix_fortran run|init [SPARES [RANK]]: a ring with snapshots; RANK kills itself in the middle, once.
module ring
  use, intrinsic :: iso_c_binding
  use mpi
  use fenix
  implicit none
  integer, parameter :: n = 100, steps = 9, every = 3
  real(c_double), target, save :: values(n)
  integer(c_int), target, save :: step, role, newcomm, error
  integer, save :: lost = -1

  interface
    function raise(number) bind(c) result(status)
      import c_int
      integer(c_int), value :: number
      integer(c_int) :: status
    end function
  end interface
contains
  subroutine check(code)
    integer(c_int), intent(in) :: code
    integer :: ignored
    if (code == FENIX_SUCCESS) return
    print '(a, i0, 2a)', 'error ', code, ': ', fenix_last_error()
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine

  subroutine begin(comm)
    integer(c_int), intent(in) :: comm
    integer(c_int) :: code
    integer :: rank, i
    call MPI_Comm_rank(comm, rank, i)
    call check(fenix_data_group_create(1, comm, 0, 1, FENIX_DATA_POLICY_IN_MEMORY_RAID, [1, 1]))
    call check(fenix_data_member_create(1, 1, c_loc(values), n, MPI_DOUBLE_PRECISION))
    call check(fenix_data_member_create(1, 2, c_loc(step), 1, MPI_INTEGER))
    values = [(real(i + rank, c_double), i = 1, n)]
    step = 0
    code = fenix_data_member_restore(1, 1, c_loc(values), n, FENIX_DATA_SNAPSHOT_LATEST)
    if (code == FENIX_ERROR_NODATA_FOUND) return
    call check(code)
    call check(fenix_data_member_restore(1, 2, c_null_ptr, 1, FENIX_DATA_SNAPSHOT_LATEST))
  end subroutine

  ! The result is an error of MPI; with `run` there is none.
  function advance(comm, now) result(failed)
    integer(c_int), intent(in) :: comm, now
    integer :: failed, rank, ranks, ignored
    real(c_double) :: left
    call MPI_Comm_rank(comm, rank, ignored)
    call MPI_Comm_size(comm, ranks, ignored)
    if (now == FENIX_ROLE_INITIAL_RANK .and. rank == lost .and. step == 5) ignored = raise(9_c_int)
    call MPI_Sendrecv(values(n), 1, MPI_DOUBLE_PRECISION, modulo(rank + 1, ranks), 1, &
                      left, 1, MPI_DOUBLE_PRECISION, modulo(rank - 1, ranks), 1, comm, MPI_STATUS_IGNORE, failed)
    if (failed /= MPI_SUCCESS) return
    values = 0.5d0 * values + 0.5d0 * [left, values(:n - 1)]
    step = step + 1
    if (modulo(step, every) /= 0) return
    failed = fenix_data_member_store(1, FENIX_DATA_MEMBER_ALL, fenix_full())
    if (failed /= FENIX_SUCCESS) return
    failed = fenix_data_commit_barrier(1)
  end function

  subroutine say(comm)
    integer(c_int), intent(in) :: comm
    real(c_double) :: own, all
    integer :: rank, failed
    own = sum(values)
    call MPI_Reduce(own, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, comm, failed)
    call MPI_Comm_rank(comm, rank, failed)
    if (rank == 0) print '(a, i0, 1x, z16)', 'result step ', step, all
  end subroutine

  subroutine body(now, comm, warning) bind(c)
    integer(c_int), value :: now, comm, warning
    if (warning /= FENIX_SUCCESS) return
    call begin(comm)
    do while (step < steps)
      call check(advance(comm, now))
    end do
    call say(comm)
    call check(fenix_finalize())
  end subroutine
end module

program fenix_fortran
  use ring
  implicit none
  character(20) :: word, number
  integer :: spares, failed
  call MPI_Init(failed)
  call get_command_argument(1, word)
  spares = 0
  if (command_argument_count() > 1) then
    call get_command_argument(2, number)
    read (number, *) spares
  end if
  if (command_argument_count() > 2) then
    call get_command_argument(3, number)
    read (number, *) lost
  end if
  if (word == 'run') then
    call check(fenix_run(MPI_COMM_WORLD, spares, 0, MPI_INFO_NULL, body))
  else
    call fenix_init(role, MPI_COMM_WORLD, newcomm, spares, 0, MPI_INFO_NULL, error)
    call check(error)
    call begin(newcomm)
    do while (step < steps)
      if (advance(newcomm, role) /= FENIX_SUCCESS) call begin(newcomm)
    end do
    call say(newcomm)
    call check(fenix_finalize())
  end if
  call MPI_Finalize(failed)
end program
