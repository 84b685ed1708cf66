package v1alpha1

import (
	"errors"
	"testing"
	"time"
)

func TestParseRPO(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"36h": 36 * time.Hour, "2d": 48 * time.Hour, "1w": 168 * time.Hour, "90m": 90 * time.Minute, "1m": time.Minute, "1h30m": 90 * time.Minute,
		"9999w": 9999 * 168 * time.Hour,
	} {
		if got, err := ParseRPO(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "24", "59s", "-1h", "1y", " 1d", "1d12h", "0d", "1e9h", "2000000h", "NaN", "none"} {
		if got, err := ParseRPO(text); !errors.Is(err, ErrRPO) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestParseRetain(t *testing.T) {
	for text, want := range map[string]int32{"1": 1, "7": 7, "10000": 10000} {
		if got, err := ParseRetain(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "07", "+7", "7d", "10001", "1.0", " 7", "99999999999"} {
		if got, err := ParseRetain(text); !errors.Is(err, ErrRetain) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
