#!/usr/bin/env python3
"""Derives every numeric constant of vexp.h, vtanh.h and sincos.c and prints it as C. Needs mpmath.

    python3 coefficients.py

Polynomials: minimax by the exchange algorithm on a dense grid, then rounded to the working precision. The printed
error is that of the rounded polynomial in exact arithmetic.
"""

import struct

import mpmath
from mpmath import mp, mpf

mp.prec = 300
GRID = 1200


def rounded(x, bits):
    """x to the nearest number with a significand of `bits` bits."""
    with mp.workprec(bits):
        return +x


def truncated(x, bits):
    """x > 0 cut off (never rounded up) after `bits` significant bits."""
    shift = bits - mpmath.frexp(x)[1]
    return mpf(mpmath.floor(mpmath.ldexp(x, shift))) / mpf(2) ** shift


def grid(lo, hi):
    """Chebyshev-spaced points of [lo, hi] without 0, where every basis function vanishes."""
    points = [(lo + hi) / 2 - (hi - lo) / 2 * mpmath.cos(mpmath.pi * i / GRID) for i in range(GRID + 1)]
    return [x for x in points if abs(x) > (hi - lo) * mpf(10) ** -6]


def fit(target, weight, powers, points):
    """Coefficients c that minimise the largest |weight(x) (target(x) - sum c_k x^powers_k)|, and that largest value."""
    values = [(weight(x), target(x), [x**p for p in powers]) for x in points]
    unknowns = len(powers) + 1
    chosen = [round(i * (len(points) - 1) / (unknowns - 1)) for i in range(unknowns)]
    for _ in range(60):
        matrix, right = mpmath.matrix(unknowns, unknowns), mpmath.matrix(unknowns, 1)
        for row, index in enumerate(chosen):
            w, t, basis = values[index]
            for column, b in enumerate(basis):
                matrix[row, column] = w * b
            matrix[row, unknowns - 1] = (-1) ** row
            right[row] = w * t
        solution = mpmath.lu_solve(matrix, right)
        coefficients = [solution[i] for i in range(unknowns - 1)]
        errors = [w * (t - mpmath.fdot(coefficients, basis)) for w, t, basis in values]
        worst = max(abs(e) for e in errors)
        if worst <= abs(solution[unknowns - 1]) * (1 + mpf(10) ** -6):
            return coefficients, worst
        chosen = exchange(errors, unknowns)
    raise ArithmeticError("the exchange did not converge")


def exchange(errors, count):
    """Indices of `count` consecutive extrema of alternating sign, the largest ones."""
    extrema = []
    for index, e in enumerate(errors):
        if extrema and (e > 0) == (errors[extrema[-1]] > 0):
            if abs(e) > abs(errors[extrema[-1]]):
                extrema[-1] = index
        else:
            extrema.append(index)
    while len(extrema) > count:
        extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
    assert len(extrema) == count, "fewer alternations than unknowns"
    return extrema


def fit_rounded(target, weight, powers, interval, bits):
    """fit() with coefficients rounded to `bits` bits; returns them and the largest weighted error."""
    points = grid(*interval)
    coefficients = [rounded(c, bits) for c in fit(target, weight, powers, points)[0]]
    worst = max(abs(weight(x) * (target(x) - sum(c * x**p for c, p in zip(coefficients, powers)))) for x in points)
    return coefficients, worst


def hexfloat(x, bits):
    text = float(x).hex()
    assert mpf(float(x)) == x, "not representable in double"
    mantissa, exponent = text.split("p")
    mantissa = mantissa.rstrip("0") if "." in mantissa else mantissa
    return mantissa.rstrip(".") + "p" + exponent + ("f" if bits == 24 else "")


def show(name, x, bits):
    print(f"#define {name} {hexfloat(x, bits)}")


def show_polynomial(name, coefficients, error, bits):
    print(f"/* largest error 2^{float(mpmath.log(error, 2)):.2f} */")
    for k, c in enumerate(coefficients):
        show(f"{name}{k}", c, bits)


def exponential(bits, exponent_bits, count, smallest_exponent, largest):
    """exp(x) = 2^n (1 + r + r^2 q(r)), r = x - n ln2 with ln2 = HI + LO, n HI exact for every n that occurs."""
    ln2 = mpmath.ln(2)
    # The reduced argument leaves the interval a little, because n is the rounding of a rounded product.
    half = ln2 / 2 + mpf(2) ** -16
    powers = list(range(2, 2 + count))
    q, error = fit_rounded(lambda r: mpmath.exp(r) - 1 - r, lambda r: mpmath.exp(-r), powers, (-half, half), bits)
    print(f"\n/* exp, {'float' if bits == 24 else 'double'} */")
    show("EXP_LOG2E", rounded(1 / ln2, bits), bits)
    high = truncated(ln2, bits - exponent_bits)
    show("EXP_LN2_HI", high, bits)
    show("EXP_LN2_LO", rounded(ln2 - high, bits), bits)
    show_polynomial("EXP_Q", q, error, bits)
    show("EXP_LN2", rounded(ln2, bits), bits)
    show("EXP_LOWEST", -truncated(-smallest_exponent * ln2, bits), bits)
    show("EXP_HIGHEST", truncated(mpmath.ln(largest), bits), bits)


def weight(bits, entries, count):
    """e^x = 2^(n / entries) (1 + r + r^2 c(r)), r = x - n ln2 / entries; the table holds 2^(i / entries). Added to x / ln2,
    SHIFT rounds to n / entries and leaves n in the low bits."""
    half = mpmath.ln(2) / entries / 2 + mpf(2) ** -16
    powers = list(range(2, 2 + count))
    c, error = fit_rounded(lambda r: mpmath.exp(r) - 1 - r, lambda r: mpmath.exp(-r), powers, (-half, half), bits)
    print(f"\n/* weights, {'float' if bits == 24 else 'double'} */")
    show_polynomial("WEIGHT_C", c, error, bits)
    show("WEIGHT_SHIFT", mpf(3) * mpf(2) ** (bits - 2) / entries, bits)
    table = [rounded(mpf(2) ** (mpf(i) / entries), bits) for i in range(entries)]
    print("#define WEIGHT_TABLE " + ", ".join(hexfloat(entry, bits) for entry in table))


def weight_by_quarters(count):
    """The same in float with a table of four that holds 2^(i/4) less i quarters in the exponent's place, so that the low bits
    of x / ln2 + SHIFT, in which n is, can be added to it as they are."""
    half = mpmath.ln(2) / 8 + mpf(2) ** -16
    powers = list(range(2, 2 + count))
    c, error = fit_rounded(lambda r: mpmath.exp(r) - 1 - r, lambda r: mpmath.exp(-r), powers, (-half, half), 24)
    print("\n/* weights by quarters, float */")
    show_polynomial("WEIGHT_C", c, error, 24)
    show("WEIGHT_SHIFT", mpf(3) * mpf(2) ** 22 / 4, 24)
    bits = [struct.unpack("i", struct.pack("f", float(rounded(mpf(2) ** (mpf(i) / 4), 24))))[0] for i in range(4)]
    table = [struct.unpack("f", struct.pack("i", b - (i << 21)))[0] for i, b in enumerate(bits)]
    print("#define WEIGHT_TABLE " + ", ".join(hexfloat(mpf(entry), 24) for entry in table + table))


def hyperbolic_tangent(bits, count):
    """tanh x = x + x^3 c(x^2) for 0 <= x < 0.7, and where (e^2x - 1) / (e^2x + 1) must be replaced by 1."""
    powers = [3 + 2 * k for k in range(count)]
    c, error = fit_rounded(
        lambda x: mpmath.tanh(x) - x, lambda x: 1 / mpmath.tanh(x), powers, (mpf(0), mpf("0.7")), bits
    )
    print(f"\n/* tanh, {'float' if bits == 24 else 'double'} */")
    show_polynomial("TANH_C", c, error, bits)
    show("TANH_LARGEST", truncated(mpmath.ln(mpf(2) ** (bits + 1) - 1) / 2, 10), bits)
    show("TANH_ONE_ABOVE", truncated(mpmath.atanh(1 - mpf(2) ** (-bits - 1)), bits), bits)


def circular(label, sine_count, cosine_count):
    """sin r = r + r^3 s(r^2), cos r = 1 - r^2/2 + r^4 c(r^2) on [-pi/4, pi/4], absolute error, coefficients double."""
    print(f"\n/* sin and cos for results in {label} */")
    # |angle| up to 2^31 leaves pi/4 a little: the quotient is the rounding of a rounded product.
    interval = (mpf(0), mpmath.pi / 4 + mpf(2) ** -20)
    s, error = fit_rounded(
        lambda r: mpmath.sin(r) - r, lambda r: mpf(1), [3 + 2 * k for k in range(sine_count)], interval, 53
    )
    show_polynomial("SIN_S", s, error, 53)
    c, error = fit_rounded(
        lambda r: mpmath.cos(r) - 1 + r**2 / 2, lambda r: mpf(1), [4 + 2 * k for k in range(cosine_count)], interval, 53
    )
    show_polynomial("COS_C", c, error, 53)


def quadrant():
    """pi/2 = HI + MID + LO; HI and MID have 22 bits, so that their products with a quotient of 31 bits are exact."""
    half_pi = mpmath.pi / 2
    print("\n/* reduction of angles */")
    show("TWO_OVER_PI", rounded(1 / half_pi, 53), 53)
    high = truncated(half_pi, 22)
    middle = truncated(half_pi - high, 22)
    show("HALF_PI_HI", high, 53)
    show("HALF_PI_MID", middle, 53)
    show("HALF_PI_LO", rounded(half_pi - high - middle, 53), 53)


exponential(24, 8, 5, -126, (2 - mpf(2) ** -23) * mpf(2) ** 127)
exponential(53, 11, 10, -1022, (2 - mpf(2) ** -52) * mpf(2) ** 1023)
weight(24, 16, 2)
weight_by_quarters(3)
weight(53, 8, 6)
hyperbolic_tangent(24, 6)
hyperbolic_tangent(53, 12)
quadrant()
circular("float", 3, 3)
circular("double", 6, 6)
