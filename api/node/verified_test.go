package node

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestVerified: a result is read again, and what does not fit is counted.
func TestVerified(t *testing.T) {
	many := Verified{Node: "c-0", Method: CountedByScan, Tables: 2, SSTables: 3, Bytes: 4, Digests: 3, Rows: 5, Compared: 2, Recorded: true}
	if got, err := ParseVerified(many.Encode() + "\n"); err != nil || !reflect.DeepEqual(got, Verified{Node: "c-0", Method: CountedByScan, Tables: 2, SSTables: 3, Bytes: 4, Digests: 3, Rows: 5, Compared: 2, Recorded: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range 300 {
		many.Differences = append(many.Differences, Difference{Table: fmt.Sprintf("ks%d.%s", i, strings.Repeat("ä", 40)), Want: 1 << 62, Have: 1<<62 - 1})
		many.Problems = append(many.Problems, fmt.Sprintf("%d: %s", i, strings.Repeat("größer", 200)))
		many.Notes = append(many.Notes, strings.Repeat("\u2028", 300))
	}
	text := many.Encode()
	got, err := ParseVerified(text)
	if err != nil || len(text) > verifiedLimit {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if len(got.Differences) == 0 || len(got.Problems) == 0 || len(got.Differences)+got.MoreDifferences != 300 || len(got.Problems)+got.MoreProblems != 300 || got.Sound() {
		t.Errorf("%d and %d differences, %d and %d problems", len(got.Differences), got.MoreDifferences, len(got.Problems), got.MoreProblems)
	}
	if len(many.Problems[0]) < 1000 || len(many.Differences) != 300 {
		t.Error("the value itself was changed")
	}
	long := Verified{Node: strings.Repeat("n", 9000), Method: NotCounted, Differences: []Difference{{Table: strings.Repeat("t", 9000)}}}
	if text := long.Encode(); len(text) > verifiedLimit {
		t.Errorf("%d bytes", len(text))
	}
}

// TestNotVerified: a log, a restore's outcome and half a result are none.
func TestNotVerified(t *testing.T) {
	half := Verified{Node: "c-0", Method: CountedByScan}.Encode()
	for _, message := range []string{"", "{}", `{"node":"c-0"}`, `{"level":"ERROR","msg":"x"}`, "panic: x", half[:len(half)-1]} {
		if v, err := ParseVerified(message); !errors.Is(err, ErrNotVerified) {
			t.Errorf("%q: %+v, %v", message, v, err)
		}
	}
}
