package heal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func entryOf(name string, cause api.Cause, images ...string) api.HeldBack {
	h := api.HeldBack{Namespace: "db", Kind: "StatefulSet", Name: name, Cause: cause, Message: "pod " + name + "-0: …"}
	for _, image := range images {
		h.Containers = append(h.Containers, api.HeldContainer{Name: medusa, Image: image})
	}
	return h
}

func TestHold(t *testing.T) {
	const minute = time.Minute
	type step struct {
		now, created time.Duration
		image        string
		changed      bool
		until        time.Duration // after start
		images       string
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"another replica, at the same time", []step{
			{3 * minute, 0, "a", true, 63 * minute, "a"}, {4 * minute, minute, "a", false, 63 * minute, "a"}, {9 * minute, 3 * minute, "a", false, 63 * minute, "a"}}},
		{"another replica, of another image", []step{
			{3 * minute, 0, "a", true, 63 * minute, "a"}, {4 * minute, minute, "b", true, 63 * minute, "a b"}, {5 * minute, minute, "b", false, 63 * minute, "a b"}}},
		{"again with another image", []step{
			{3 * minute, 0, "a", true, 63 * minute, "a"}, {10 * minute, 7 * minute, "b", true, 130 * minute, "b"}}},
		{"again and again", []step{
			{0, 0, "a", true, time.Hour, "a"},
			{2 * time.Hour, time.Hour + 57*minute, "a", true, 4 * time.Hour, "a"},
			{5 * time.Hour, 4 * time.Hour, "a", true, 9 * time.Hour, "a"},
			{10 * time.Hour, 9 * time.Hour, "a", true, 18 * time.Hour, "a"},
			{20 * time.Hour, 19 * time.Hour, "a", true, 36 * time.Hour, "a"},
			{40 * time.Hour, 39 * time.Hour, "a", true, 64 * time.Hour, "a"},
			{70 * time.Hour, 69 * time.Hour, "a", true, 94 * time.Hour, "a"}}},
		{"another replica, before the webhook knew", []step{
			{3 * minute, 0, "a", true, 63 * minute, "a"}, {10 * minute, 3*minute + known, "a", false, 63 * minute, "a"}, {11 * minute, 3*minute + known, "b", true, 63 * minute, "a b"}}},
		{"injected although it is held back", []step{
			{3 * minute, 0, "a", true, 63 * minute, "a"}, {10 * minute, 7 * minute, "a", true, 130 * minute, ""},
			{11 * minute, 8 * minute, "b", false, 130 * minute, ""}, {20 * minute, 17 * minute, "b", true, 260 * minute, ""}}},
		{"over, seen on an old replica", []step{
			{0, 0, "a", true, time.Hour, "a"}, {2 * time.Hour, 0, "a", true, 4 * time.Hour, "a"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := ledger{}
			for i, s := range c.steps {
				if changed := l.hold(entryOf("x", api.CauseImagePull, s.image), start.Add(s.created), start.Add(s.now)); changed != s.changed {
					t.Fatalf("step %d: changed is %v", i, changed)
				}
				got := l["db.statefulset.x"]
				var images []string
				for _, container := range got.Containers {
					images = append(images, container.Image)
				}
				if got.Until.Sub(start) != s.until || strings.Join(images, " ") != s.images {
					t.Fatalf("step %d: until %s with %q, want %s with %q", i, got.Until.Sub(start), images, s.until, s.images)
				}
				again, broken := parseLedger(l.encode())
				if len(broken) > 0 || !sameJSON(again, l) {
					t.Fatalf("step %d: read back as %v (%v)", i, again, broken)
				}
			}
		})
	}
}

// What ended before its time is remembered all the same: the next time is longer.
func TestHoldAfterRelease(t *testing.T) {
	l := ledger{}
	l.hold(entryOf("x", api.CauseCrashLoop, "a"), start, start)
	entry := l["db.statefulset.x"]
	entry.Ended = start.Add(time.Minute)
	l["db.statefulset.x"] = entry
	l.hold(entryOf("x", api.CauseCrashLoop, "a"), start, start.Add(10*time.Minute))
	if got := l["db.statefulset.x"]; !got.Ended.IsZero() || got.Until.Sub(got.Since) != 2*time.Hour || len(got.Containers) != 1 {
		t.Errorf("%+v", got)
	}
}

// An entry from before the clock was set back ends now, and the next one at its time.
func TestHoldClockSetBack(t *testing.T) {
	l := ledger{}
	l.hold(entryOf("x", api.CauseImagePull, "a"), start, start.Add(365*24*time.Hour))
	if entry := l["db.statefulset.x"]; entry.Active(start) {
		t.Errorf("held back until %s", entry.Until)
	}
	l.hold(entryOf("x", api.CauseImagePull, "a"), start, start)
	if entry := l["db.statefulset.x"]; !entry.Active(start) || entry.Active(start.Add(2*time.Hour)) {
		t.Errorf("held back until %s", entry.Until)
	}
}

// A trial gives way to what is certain.
func TestHoldEndsTrial(t *testing.T) {
	l := ledger{}
	trial := entryOf("x", api.CauseRefused)
	trial.Trial = &api.Trial{}
	l.hold(trial, start, start)
	changed := l.hold(entryOf("x", api.CauseImagePull, "a"), start, start.Add(time.Minute))
	if got := l["db.statefulset.x"]; !changed || got.Cause != api.CauseImagePull || got.Trial != nil || got.Until.Sub(got.Since) != firstHold {
		t.Errorf("%+v", got)
	}
}

func TestTidy(t *testing.T) {
	many := func(n int, message string, until func(i int) time.Duration) ledger {
		l := ledger{}
		for i := range n {
			entry := entryOf(fmt.Sprintf("x%04d", i), api.CauseRefused)
			entry.Message, entry.Since, entry.Until = message, start, start.Add(until(i))
			l[entry.Key()] = entry
		}
		return l
	}
	kb := strings.Repeat("m", 1000)
	for _, c := range []struct {
		name    string
		have    ledger
		left    int
		changed bool
		fits    bool
		oldest  string // must be gone
	}{
		{"nothing", ledger{}, 0, false, true, ""},
		{"over for long", many(5, "", func(i int) time.Duration { return -time.Duration(i) * 10 * time.Hour }), 3, true, true, "x0004"},
		{"over, but remembered", many(1000, "", func(int) time.Duration { return -time.Hour }), 1000, false, true, ""},
		{"too many, one of them over", many(1001, "", func(i int) time.Duration { return time.Duration(i-1)*time.Second + 1 }), 1000, true, true, "x0000"},
		{"too many, all of them over", many(1010, "", func(i int) time.Duration { return -time.Duration(i+1) * time.Second }), 1000, true, true, "x1009"},
		{"too many, none of them over", many(1001, "", func(int) time.Duration { return time.Hour }), 1001, false, false, ""},
		{"too large", many(900, kb, func(i int) time.Duration { return time.Duration(i-500) * time.Second }), 725, true, true, "x0000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := c.have.tidy(start)
			if changed != c.changed || c.have.fits() != c.fits || c.left != len(c.have) && c.name != "too large" || c.name == "too large" && (len(c.have) > 800 || len(c.have) < 600) {
				t.Errorf("%d left, changed %v, fits %v", len(c.have), changed, c.have.fits())
			}
			if _, there := c.have[api.HeldBackKey("db", "StatefulSet", c.oldest)]; there {
				t.Errorf("%s is still there", c.oldest)
			}
		})
	}
}

func TestParseLedger(t *testing.T) {
	good := ledger{}
	good.hold(entryOf("x", api.CauseRefused), start, start)
	data := good.encode()
	data["db.statefulset.y"], data["broken"] = data["db.statefulset.x"], "{"
	l, broken := parseLedger(data)
	if len(l) != 1 || strings.Join(broken, " ") != "broken db.statefulset.y" {
		t.Errorf("%v, broken %q", l, broken)
	}
}

func TestActive(t *testing.T) {
	l := ledger{}
	l.hold(entryOf("x", api.CauseRefused), start, start)
	l.hold(entryOf("y", api.CauseRefused), start, start.Add(-2*time.Hour))
	l.hold(entryOf("z", api.CauseImagePull), start, start)
	if got := l.active(start); len(got) != 2 || got[api.CauseRefused] != 1 || got[api.CauseImagePull] != 1 {
		t.Errorf("%v", got)
	}
}
