! SPDX-License-Identifier: LGPL-2.1-or-later
! The same as heat.c in Fortran. fenix_run() calls `body`, after each recovery again.
!
!   heat-fortran [STEPS [SPARES [LOST]]]
module rod
  use, intrinsic :: iso_c_binding
  use mpi
  use fenix
  implicit none
  integer, parameter :: block = 20000, every = 20, group = 0
  ! Module variables: `body` does not return from a call that meets a failure.
  real(c_double), target, save :: now(0:block + 1)
  integer(c_int), target, save :: step
  integer, save :: steps = 200, lost = -1

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
    print '(3a)', 'heat: error: ', fenix_last_error()
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine

  subroutine body(role, comm, warning) bind(c)
    integer(c_int), value :: role, comm, warning
    integer :: rank, ranks, before, after, i, ignored
    real(c_double) :: own, all
    if (warning /= FENIX_SUCCESS) print '(a)', 'heat: there are fewer ranks now'
    call MPI_Comm_rank(comm, rank, ignored)
    call MPI_Comm_size(comm, ranks, ignored)
    before = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    after = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
    call check(fenix_data_group_create(group, comm, 0, 0, FENIX_DATA_POLICY_IN_MEMORY_RAID))
    call check(fenix_data_member_create(group, 0, c_loc(now(1)), block, MPI_DOUBLE_PRECISION))
    call check(fenix_data_member_create(group, 1, c_loc(step), 1, MPI_INTEGER))
    now(0) = 0
    now(block + 1) = 0
    now(1:block) = [(real(modulo(i + rank * block, 1000), c_double), i = 0, block - 1)]
    step = 0
    if (role /= FENIX_ROLE_INITIAL_RANK) then
      if (fenix_data_member_restore(group, 0, c_loc(now(1)), block, FENIX_DATA_SNAPSHOT_LATEST) == FENIX_SUCCESS) &
        call check(fenix_data_member_restore(group, 1, c_null_ptr, 1, FENIX_DATA_SNAPSHOT_LATEST))
    end if
    do while (step < steps)
      if (role == FENIX_ROLE_INITIAL_RANK .and. rank == lost .and. step == steps / 2) ignored = raise(9_c_int)
      call MPI_Sendrecv(now(1), 1, MPI_DOUBLE_PRECISION, before, 1, now(block + 1), 1, MPI_DOUBLE_PRECISION, after, 1, comm, &
                        MPI_STATUS_IGNORE, ignored)
      call MPI_Sendrecv(now(block), 1, MPI_DOUBLE_PRECISION, after, 2, now(0), 1, MPI_DOUBLE_PRECISION, before, 2, comm, &
                        MPI_STATUS_IGNORE, ignored)
      now(1:block) = 0.25d0 * now(0:block - 1) + 0.5d0 * now(1:block) + 0.25d0 * now(2:block + 1)
      step = step + 1
      if (modulo(step, every) /= 0) cycle
      call check(fenix_data_member_store(group, FENIX_DATA_MEMBER_ALL, fenix_full()))
      call check(fenix_data_commit_barrier(group))
    end do
    own = sum([(real(i - 1 + rank * block, c_double) * now(i), i = 1, block)])
    call MPI_Reduce(own, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, comm, ignored)
    if (rank == 0) print '(a, i0, a, es24.16)', 'after ', step, ' steps the weighted sum is', all
    call check(fenix_finalize())
  end subroutine
end module

program heat
  use rod
  implicit none
  integer :: spares = 0, failed
  call MPI_Init(failed)
  call take(1, steps)
  call take(2, spares)
  call take(3, lost)
  call check(fenix_run(MPI_COMM_WORLD, spares, 1, MPI_INFO_NULL, body))
  call MPI_Finalize(failed)
contains
  subroutine take(at, number)
    integer, intent(in) :: at
    integer, intent(inout) :: number
    character(20) :: word
    integer :: status
    call get_command_argument(at, word, status=status)
    if (status == 0) read (word, *, iostat=status) number   ! the last one of a spawned process is no number
  end subroutine
end program
