# Finds the BLAS library with a CBLAS interface: target attn_blas_library.
find_package(PkgConfig QUIET)
