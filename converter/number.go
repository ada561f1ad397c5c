package converter

import (
	"math"
	"strconv"
)

// powers are the powers of ten that a float64 holds exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// parseFloat reads a JSON number; false where it does not fit a float64.
func parseFloat(raw []byte) (float64, bool) {
	// Up to fifteen digits without exponent: an exact integer divided by an exact power of ten is rounded once, so
	// the result is the nearest float64, as strconv gives it.
	if len(raw) <= 16 {
		var n int64
		point, i := -1, 0
		if raw[0] == '-' {
			i++
		}
		for ; i < len(raw); i++ {
			switch b := raw[i]; {
			case b >= '0' && b <= '9':
				n = n*10 + int64(b-'0')
			case b == '.':
				point = i
			default:
				return parseFloatSlow(raw)
			}
		}
		if n < 1e15 {
			f := float64(n)
			if point >= 0 {
				f /= powers[len(raw)-point-1]
			}
			if raw[0] == '-' {
				f = 0 - f // not -f: -0 is read as 0
			}
			return f, true
		}
	}
	return parseFloatSlow(raw)
}

func parseFloatSlow(raw []byte) (float64, bool) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if f == 0 {
		f = 0 // -0 is read as 0
	}
	return f, err == nil
}

type integral uint8

const (
	isInteger integral = iota
	notIntegral
	tooLarge
)

// parseInt reads a JSON number that is a whole number, also when written as 500.0, 1e1 or 1.0E10 (some encoders of
// doubles do). It is exact: it never goes through a float64.
func parseInt(raw []byte) (int64, integral) {
	i, neg := 0, false
	if raw[0] == '-' {
		i, neg = 1, true
	}
	if len(raw)-i <= 18 {
		var n int64
		for ; ; i++ {
			if i == len(raw) {
				if neg {
					n = -n
				}
				return n, isInteger
			}
			b := raw[i]
			if b < '0' || b > '9' {
				break
			}
			n = n*10 + int64(b-'0')
		}
	}
	return parseIntSlow(raw, neg)
}

func parseIntSlow(raw []byte, neg bool) (int64, integral) {
	if neg {
		raw = raw[1:]
	}
	digits := make([]byte, 0, 32)
	exponent, fraction := 0, false
loop:
	for i, b := range raw {
		switch {
		case b == '.':
			fraction = true
		case b == 'e' || b == 'E':
			// Far beyond any int64 all exponents are alike; the bound also keeps the sums below from overflowing.
			const far = 1 << 24
			e, err := strconv.ParseInt(string(raw[i+1:]), 10, 32)
			if err != nil {
				e = far
				if raw[i+1] == '-' {
					e = -far
				}
			}
			exponent += int(min(max(e, -far), far))
			break loop
		default:
			if fraction {
				exponent--
			}
			if b != '0' || len(digits) > 0 {
				digits = append(digits, b)
			}
		}
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exponent++
	}
	switch {
	case len(digits) == 0:
		return 0, isInteger
	case exponent < 0:
		return 0, notIntegral
	case len(digits)+exponent > 19:
		return 0, tooLarge
	}
	for range exponent {
		digits = append(digits, '0')
	}
	if neg {
		digits = append([]byte{'-'}, digits...)
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0, tooLarge
	}
	return n, isInteger
}

// appendInt is strconv.AppendInt with a shorter way for the most frequent numbers.
func appendInt(b []byte, n int64) []byte {
	if uint64(n) < 10 {
		return append(b, byte('0'+n))
	}
	return strconv.AppendInt(b, n, 10)
}

// appendFloat writes a double as a plain JSON number: 20, 0.1, 1e+21.
func appendFloat(b []byte, f float64) []byte {
	if n := int64(f); math.Abs(f) < 1e15 && float64(n) == f {
		return appendInt(b, n)
	}
	format := byte('f')
	if a := math.Abs(f); a < 1e-6 || a >= 1e21 {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, 64)
}
