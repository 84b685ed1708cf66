package node

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// What a restore container says at its end is read again, whatever text stands
// before it.
func TestOutcome(t *testing.T) {
	done := Done{ID: "r/0123456789ab", Action: "restore", Backup: "b", Started: time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC), Bytes: 1, Runs: 2}
	for _, text := range []string{"restored backup b", "", `with "quotes" {}`} {
		said, got, err := ParseOutcome(Outcome(text, done) + "\n")
		if err != nil || said != text || !reflect.DeepEqual(got, done) {
			t.Errorf("%q: %q, %+v, %v", text, said, got, err)
		}
	}
	for _, message := range []string{"", "restored", "a\nb", "a\n{}", "a\n" + `{"backup":"b"}`} {
		if _, got, err := ParseOutcome(message); !errors.Is(err, ErrNoOutcome) {
			t.Errorf("%q: %+v, %v", message, got, err)
		}
	}
}
