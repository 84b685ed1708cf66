package v1alpha1

import (
	"errors"
	"strconv"
	"time"
)

// The errors of annotations about backups say what they take.
var (
	// ErrRPO says that a text is no value of AnnotationRPO.
	ErrRPO = errors.New("it takes a time of at least 1m: a number and h, d or w, such as 36h or 2d, or a time in h, m and s, such as 90m")
	// ErrRetain says that a text is no value of AnnotationRetain.
	ErrRetain = errors.New(`it takes how many complete backups are kept, in quotes, from "1" to "10000"`)
)

// leastRPO is below what any schedule can keep to, and maxRPO what a Period can say.
const (
	leastRPO = time.Minute
	maxRPO   = 9999 * 7 * 24 * time.Hour
)

// ParseRPO reads a value of AnnotationRPO: a Period, or a duration. Its error is ErrRPO.
func ParseRPO(text string) (time.Duration, error) {
	limit, err := ParsePeriod(text)
	if err != nil {
		if limit, err = time.ParseDuration(text); err != nil {
			return 0, ErrRPO
		}
	}
	if limit < leastRPO || limit > maxRPO {
		return 0, ErrRPO
	}
	return limit, nil
}

// ParseRetain reads a value of AnnotationRetain. Its error is ErrRetain.
func ParseRetain(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > 10000 || strconv.FormatInt(n, 10) != text {
		return 0, ErrRetain
	}
	return int32(n), nil
}
