! A Fortran program that calls libattn through iso_c_binding: one query, two keys whose scores are 1000 and 1001, values
! 3 and 5, so that the output is 4.462117157. Stops with code 1 when it is not.
!
! Fortran arrays are column-major: q(head_dim, q_len, q_heads, batch) is what C calls [batch, q_heads, q_len, head_dim].
program caller
    use, intrinsic :: iso_c_binding
    use, intrinsic :: ieee_arithmetic
    implicit none

    interface
        function attn_sdpa_flat_f64(batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_dim, q, k, v, out, flags) &
            bind(c) result(status)
            import :: c_int, c_int64_t, c_double
            integer(c_int64_t), value :: batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_dim
            real(c_double), intent(in) :: q(*), k(*), v(*)
            real(c_double), intent(inout) :: out(*)
            integer(c_int64_t), value :: flags
            integer(c_int) :: status
        end function
        function attn_sdpa_flat_f32(batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_dim, q, k, v, out, flags) &
            bind(c) result(status)
            import :: c_int, c_int64_t, c_float
            integer(c_int64_t), value :: batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_dim
            real(c_float), intent(in) :: q(*), k(*), v(*)
            real(c_float), intent(inout) :: out(*)
            integer(c_int64_t), value :: flags
            integer(c_int) :: status
        end function
    end interface

    integer(c_int64_t), parameter :: one = 1, two = 2, no_flags = 0
    real(c_double), parameter :: expected = 4.46211715726001_c_double
    real(c_double) :: q(1, 1, 1, 1), k(1, 2, 1, 1), v(1, 2, 1, 1), out(1, 1, 1, 1)
    real(c_float) :: out32(1, 1, 1, 1)
    integer(c_int) :: status

    q = 1
    k(1, :, 1, 1) = [1000.0_c_double, 1001.0_c_double]
    v(1, :, 1, 1) = [3.0_c_double, 5.0_c_double]
    out = ieee_value(out, ieee_quiet_nan)
    out32 = ieee_value(out32, ieee_quiet_nan)

    status = attn_sdpa_flat_f64(one, one, one, one, two, one, one, q, k, v, out, no_flags)
    if (status /= 0) error stop 1
    status = attn_sdpa_flat_f32(one, one, one, one, two, one, one, real(q, c_float), real(k, c_float), &
                                real(v, c_float), out32, no_flags)
    if (status /= 0) error stop 1

    print '(a, f12.9, a, f9.6)', 'f64 ', out(1, 1, 1, 1), ', f32 ', out32(1, 1, 1, 1)
    if (.not. abs(out(1, 1, 1, 1) - expected) <= 1e-14_c_double * expected) error stop 1
    if (.not. abs(out32(1, 1, 1, 1) - expected) <= 1e-6_c_double * expected) error stop 1
end program
