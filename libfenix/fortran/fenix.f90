! SPDX-License-Identifier: LGPL-2.1-or-later
!> Recovery of processes and data inside an MPI application: Fortran over fenix.h, which documents the meaning of each function.
!!
!! Compile this file with the program; link with -lfenix. Communicators, datatypes and infos are the integers of `use mpi`; with
!! mpi_f08 pass comm%MPI_VAL. There are two ways in which survivors go on:
!!
!! - fenix_init(): the call of MPI that has met the failure returns its error, and `newcomm` is the new communicator then.
!! - fenix_run(): a subroutine of the program is called with the communicator, and once more after each recovery. It does not
!!   return from the call that has met the failure: what it has allocated in local variables is lost. Use module variables.
module fenix
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer(c_int), parameter, public :: FENIX_SUCCESS = 0, FENIX_ERROR_UNINITIALIZED = -9, FENIX_ERROR_NOCATEGORY = -10, &
    FENIX_ERROR_CALLBACK_NOT_REGISTERED = -11, FENIX_ERROR_GROUP_CREATE = -12, FENIX_ERROR_MEMBER_CREATE = -13, &
    FENIX_ERROR_COMMIT_BARRIER = -133, FENIX_ERROR_INVALID_GROUPID = -14, FENIX_ERROR_INVALID_MEMBERID = -15, &
    FENIX_ERROR_INVALID_LOGIC_CALL = -155, FENIX_ERROR_INVALID_TIMESTAMP = -16, FENIX_ERROR_INVALID_DEPTH = -17, &
    FENIX_ERROR_INVALID_ATTRIBUTE_NAME = -18, FENIX_ERROR_INVALID_ATTRIBUTE_VALUE = -19, FENIX_ERROR_INVALID_POSITION = -20, &
    FENIX_ERROR_DATA_WAIT = -21, FENIX_ERROR_SUBSET_NUM_BLOCKS = -22, FENIX_ERROR_SUBSET_START_OFFSET = -23, &
    FENIX_ERROR_SUBSET_END_OFFSET = -24, FENIX_ERROR_SUBSET_STRIDE = -25, FENIX_ERROR_NODATA_FOUND = -30, &
    FENIX_ERROR_INTERN = -40, FENIX_ERROR_CANCELLED = -50, FENIX_WARNING_SPARE_RANKS_DEPLETED = 100, &
    FENIX_WARNING_PARTIAL_RESTORE = 101
  integer(c_int), parameter, public :: FENIX_ROLE_INITIAL_RANK = 0, FENIX_ROLE_RECOVERED_RANK = 1, FENIX_ROLE_SURVIVOR_RANK = 2
  integer(c_int), parameter, public :: FENIX_DATA_MEMBER_ALL = -1, FENIX_DATA_SNAPSHOT_LATEST = -1, FENIX_DATA_SNAPSHOT_ALL = -2, &
    FENIX_DATA_POLICY_IN_MEMORY_RAID = 13

  !> As in fenix.h; fenix_full(), fenix_empty() and fenix_data_subset_create() make them.
  type, bind(c), public :: fenix_data_subset
    type(c_ptr) :: impl = c_null_ptr
  end type
  type, bind(c), public :: fenix_request
    integer(c_int) :: id = 0
  end type

  public :: fenix_init, fenix_run, fenix_finalize, fenix_process_detect_failures, fenix_get_role, fenix_get_nspare
  public :: fenix_get_number_of_ranks_with_role, fenix_process_fail_list, fenix_last_error, fenix_full, fenix_empty
  public :: fenix_data_group_create, fenix_data_member_create, fenix_data_member_store, fenix_data_member_storev
  public :: fenix_data_member_istore, fenix_data_wait, fenix_data_test, fenix_data_commit, fenix_data_commit_barrier
  public :: fenix_data_member_restore, fenix_data_member_lrestore, fenix_data_subset_create, fenix_data_subset_createv
  public :: fenix_data_subset_delete, fenix_data_group_get_number_of_snapshots, fenix_data_group_get_snapshot_at_position
  public :: fenix_data_snapshot_delete, fenix_data_group_delete, fenix_data_member_delete, fenix_data_member_restore_from_rank

  abstract interface
    !> What fenix_run() calls.
    subroutine fenix_body(role, comm, error) bind(c)
      import c_int
      integer(c_int), value :: role, comm, error
    end subroutine
  end interface

  interface
    !> Fenix_Init with NO_JUMP. role, newcomm and error are written again at each recovery: give them the attribute `target`,
    !! and let them be module variables.
    subroutine fenix_init(role, comm, newcomm, spare_ranks, spawn, info, error) bind(c, name='fenix_f_init')
      import c_int
      integer(c_int), intent(out) :: role, newcomm, error
      integer(c_int), value :: comm, spare_ranks, spawn, info
    end subroutine

    !> Fenix_Init, and then call body, after each recovery again. The result is an error of Fenix_Init, or FENIX_SUCCESS.
    function fenix_run(comm, spare_ranks, spawn, info, body) bind(c, name='fenix_f_run') result(error)
      import c_int, fenix_body
      integer(c_int), value :: comm, spare_ranks, spawn, info
      procedure(fenix_body) :: body
      integer(c_int) :: error
    end function

    !> Fenix_Finalize() of fenix.h; so below
    function fenix_finalize() bind(c, name='Fenix_Finalize') result(error)
      import c_int
      integer(c_int) :: error
    end function

    function fenix_process_detect_failures(do_recovery) bind(c, name='Fenix_Process_detect_failures') result(error)
      import c_int
      integer(c_int), value :: do_recovery
      integer(c_int) :: error
    end function

    function fenix_get_role(comm, rank, role) bind(c, name='fenix_f_get_role') result(error)
      import c_int
      integer(c_int), value :: comm, rank
      integer(c_int), intent(out) :: role
      integer(c_int) :: error
    end function

    function fenix_get_nspare() bind(c, name='Fenix_get_nspare') result(number)
      import c_int
      integer(c_int) :: number
    end function

    function fenix_get_number_of_ranks_with_role(role, number) bind(c, name='Fenix_get_number_of_ranks_with_role') result(error)
      import c_int
      integer(c_int), value :: role
      integer(c_int), intent(out) :: number
      integer(c_int) :: error
    end function

    !> The first `length` lost ranks are put into `list`; the result is the number of all.
    function fenix_process_fail_list(list, length) bind(c, name='fenix_f_fail_list') result(number)
      import c_int
      integer(c_int), intent(inout) :: list(*)
      integer(c_int), value :: length
      integer(c_int) :: number
    end function

    !> policy_value: integers, as in fenix.h
    function fenix_data_group_create(group_id, comm, start_time_stamp, depth, policy_name, policy_value, flag) &
        bind(c, name='fenix_f_group_create') result(error)
      import c_int
      integer(c_int), value :: group_id, comm, start_time_stamp, depth, policy_name
      integer(c_int), intent(in), optional :: policy_value(*)
      integer(c_int), intent(out), optional :: flag
      integer(c_int) :: error
    end function

    !> buffer: c_loc of the first element
    function fenix_data_member_create(group_id, member_id, buffer, count, datatype) bind(c, name='fenix_f_member_create') result(error)
      import c_int, c_ptr
      integer(c_int), value :: group_id, member_id, count, datatype
      type(c_ptr), value :: buffer
      integer(c_int) :: error
    end function

    function fenix_data_member_store(group_id, member_id, subset) bind(c, name='Fenix_Data_member_store') result(error)
      import c_int, fenix_data_subset
      integer(c_int), value :: group_id, member_id
      type(fenix_data_subset), value :: subset
      integer(c_int) :: error
    end function

    function fenix_data_member_storev(group_id, member_id, subset) bind(c, name='Fenix_Data_member_storev') result(error)
      import c_int, fenix_data_subset
      integer(c_int), value :: group_id, member_id
      type(fenix_data_subset), value :: subset
      integer(c_int) :: error
    end function

    function fenix_data_member_istore(group_id, member_id, subset, request) bind(c, name='Fenix_Data_member_istore') result(error)
      import c_int, fenix_data_subset, fenix_request
      integer(c_int), value :: group_id, member_id
      type(fenix_data_subset), value :: subset
      type(fenix_request), intent(out) :: request
      integer(c_int) :: error
    end function

    function fenix_data_wait(request) bind(c, name='Fenix_Data_wait') result(error)
      import c_int, fenix_request
      type(fenix_request), value :: request
      integer(c_int) :: error
    end function

    function fenix_data_test(request, flag) bind(c, name='Fenix_Data_test') result(error)
      import c_int, fenix_request
      type(fenix_request), value :: request
      integer(c_int), intent(out) :: flag
      integer(c_int) :: error
    end function

    function fenix_data_commit(group_id, time_stamp) bind(c, name='Fenix_Data_commit') result(error)
      import c_int
      integer(c_int), value :: group_id
      integer(c_int), intent(out), optional :: time_stamp
      integer(c_int) :: error
    end function

    function fenix_data_commit_barrier(group_id, time_stamp) bind(c, name='Fenix_Data_commit_barrier') result(error)
      import c_int
      integer(c_int), value :: group_id
      integer(c_int), intent(out), optional :: time_stamp
      integer(c_int) :: error
    end function

    !> target: c_loc, or c_null_ptr for the member's buffer
    function fenix_data_member_restore(group_id, member_id, target, max_count, time_stamp, found) &
        bind(c, name='Fenix_Data_member_restore') result(error)
      import c_int, c_ptr, fenix_data_subset
      integer(c_int), value :: group_id, member_id, max_count, time_stamp
      type(c_ptr), value :: target
      type(fenix_data_subset), intent(out), optional :: found
      integer(c_int) :: error
    end function

    function fenix_data_member_lrestore(group_id, member_id, target, max_count, time_stamp, found) &
        bind(c, name='Fenix_Data_member_lrestore') result(error)
      import c_int, c_ptr, fenix_data_subset
      integer(c_int), value :: group_id, member_id, max_count, time_stamp
      type(c_ptr), value :: target
      type(fenix_data_subset), intent(out), optional :: found
      integer(c_int) :: error
    end function

    function fenix_data_member_restore_from_rank(group_id, member_id, target, max_count, time_stamp, found, source_rank) &
        bind(c, name='Fenix_Data_member_restore_from_rank') result(error)
      import c_int, c_ptr, fenix_data_subset
      integer(c_int), value :: group_id, member_id, max_count, time_stamp, source_rank
      type(c_ptr), value :: target
      type(fenix_data_subset), intent(out), optional :: found
      integer(c_int) :: error
    end function

    !> Elements are counted from 0, as in fenix.h.
    function fenix_data_subset_create(num_blocks, start_offset, end_offset, stride, subset) &
        bind(c, name='Fenix_Data_subset_create') result(error)
      import c_int, fenix_data_subset
      integer(c_int), value :: num_blocks, start_offset, end_offset, stride
      type(fenix_data_subset), intent(out) :: subset
      integer(c_int) :: error
    end function

    function fenix_data_subset_createv(num_blocks, start_offsets, end_offsets, subset) &
        bind(c, name='Fenix_Data_subset_createv') result(error)
      import c_int, fenix_data_subset
      integer(c_int), value :: num_blocks
      integer(c_int), intent(in) :: start_offsets(*), end_offsets(*)
      type(fenix_data_subset), intent(out) :: subset
      integer(c_int) :: error
    end function

    function fenix_data_subset_delete(subset) bind(c, name='Fenix_Data_subset_delete') result(error)
      import c_int, fenix_data_subset
      type(fenix_data_subset), intent(inout) :: subset
      integer(c_int) :: error
    end function

    function fenix_data_group_get_number_of_snapshots(group_id, number) &
        bind(c, name='Fenix_Data_group_get_number_of_snapshots') result(error)
      import c_int
      integer(c_int), value :: group_id
      integer(c_int), intent(out) :: number
      integer(c_int) :: error
    end function

    function fenix_data_group_get_snapshot_at_position(group_id, position, time_stamp) &
        bind(c, name='Fenix_Data_group_get_snapshot_at_position') result(error)
      import c_int
      integer(c_int), value :: group_id, position
      integer(c_int), intent(out) :: time_stamp
      integer(c_int) :: error
    end function

    function fenix_data_snapshot_delete(group_id, time_stamp) bind(c, name='Fenix_Data_snapshot_delete') result(error)
      import c_int
      integer(c_int), value :: group_id, time_stamp
      integer(c_int) :: error
    end function

    function fenix_data_group_delete(group_id) bind(c, name='Fenix_Data_group_delete') result(error)
      import c_int
      integer(c_int), value :: group_id
      integer(c_int) :: error
    end function

    function fenix_data_member_delete(group_id, member_id) bind(c, name='Fenix_Data_member_delete') result(error)
      import c_int
      integer(c_int), value :: group_id, member_id
      integer(c_int) :: error
    end function

    function c_subset(full) bind(c, name='fenix_f_subset') result(impl)
      import c_int, c_ptr
      integer(c_int), value :: full
      type(c_ptr) :: impl
    end function

    function c_last_error() bind(c, name='fenix_last_error') result(text)
      import c_ptr
      type(c_ptr) :: text
    end function
  end interface

contains

  !> FENIX_DATA_SUBSET_FULL
  function fenix_full() result(subset)
    type(fenix_data_subset) :: subset
    subset%impl = c_subset(1_c_int)
  end function

  !> FENIX_DATA_SUBSET_EMPTY
  function fenix_empty() result(subset)
    type(fenix_data_subset) :: subset
    subset%impl = c_subset(0_c_int)
  end function

  !> Text of the last error
  function fenix_last_error() result(text)
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: length
    call c_f_pointer(c_last_error(), letters, [4096])
    length = 0
    do while (letters(length + 1) /= c_null_char)
      length = length + 1
    end do
    allocate(character(length) :: text)
    text = transfer(letters(:length), text)
  end function
end module
