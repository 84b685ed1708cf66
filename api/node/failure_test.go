package node

import (
	"strings"
	"testing"
)

func TestFailure(t *testing.T) {
	for _, text := range []string{"", "it failed", "two\nlines", "x (cause: Lost)", strings.Repeat("ä", 5000)} {
		for _, cause := range append(Causes(), CauseNone) {
			message := Failure(text, cause)
			got, is := ParseFailure(message)
			if is != cause || len(message) > verifiedLimit || !strings.HasPrefix(strings.TrimSuffix(got, "…"), strings.TrimSuffix(text, "…")) && len(text) < longestFailure {
				t.Errorf("%.30q, %q: %.30q, %q", text, cause, got, is)
			}
		}
	}
	for message, want := range map[string]Cause{
		"x\n(cause: Lost)\n": CauseLost, "x\n(cause: Else)": CauseNone, "(cause: Lost)": CauseNone, "x\n(cause: Lost": CauseNone,
		"x\n(cause: Lost)\nand more": CauseNone, "": CauseNone,
	} {
		if _, got := ParseFailure(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}
