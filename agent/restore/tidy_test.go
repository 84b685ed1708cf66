package restore

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTidyBesideARestore: what a restore is at work with is left alone.
func TestTidyBesideARestore(t *testing.T) {
	r := request(t, keepIfRoom)
	r.mustDo()
	lock, err := r.lock()
	if err != nil || lock == nil {
		t.Fatal(err)
	}
	if err := Tidy(r.DataMount, r.Log); err == nil || !strings.Contains(err.Error(), "another restore is running") || len(r.previous()) != 1 {
		t.Errorf("%v, kept %v", err, r.previous())
	}
	lock.Close()
	if err := Tidy(r.DataMount, r.Log); err != nil || len(r.previous()) != 0 {
		t.Errorf("%v, kept %v", err, r.previous())
	}
}

// tidied tidies up, once what a killed restore left has gone.
func (r *rig) tidied(tidy func(string, *slog.Logger) error) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := tidy(r.DataMount, r.Log)
		if err == nil || !strings.Contains(err.Error(), "another restore") || time.Now().After(deadline) {
			return err
		}
	}
}

// TestTidyAfterHalf: a restore was interrupted and given up, and the database runs on
// what it left. Whatever the room, what is whole is only in what is kept; when the
// database has run for long, what it has is no longer half of anything.
func TestTidyAfterHalf(t *testing.T) {
	for _, keep := range []string{keepIfRoom, keepNever} {
		r := request(t, keep)
		r.set("hold", "")
		r.ID = ""
		r.Backup = "t1"
		r.mustRun() // of the template
		r.ID, r.Backup = "r1/1", "b1"
		r.killed("moved")
		r.sweepLeft()
		kept := r.previous()
		if !Half(r.DataMount) || (keep == keepIfRoom) != (len(kept) == 1) {
			t.Fatalf("kept %v", kept)
		}
		if err := r.tidied(TidyForRoom); err != nil || !slices.Equal(r.previous(), kept) || !Half(r.DataMount) {
			t.Errorf("for room: %v, kept %v", err, r.previous())
		}
		r.set("vol/data/shop/orders-11/nb-5-big-Data.db", "written since")
		if err := r.tidied(Tidy); err != nil || len(r.previous()) != 0 || Half(r.DataMount) {
			t.Errorf("%v, kept %v", err, r.previous())
		}
		if left, _ := os.ReadDir(previousDir(r.DataMount)); len(left) > 0 {
			t.Errorf("%v stay", left)
		}
		// The template's, which was done before, is not in the way any more.
		r.ID, r.Backup = "", "t1"
		if text := r.mustRun(); !strings.Contains(text, "nothing to do") {
			t.Error(text)
		}
		since := r.all()
		r.ID, r.Backup, r.Keep = "r2/1", "b1", keepAlways
		r.mustDo()
		r.ask("u1/1", actionUndo, "r2/1")
		r.mustDo()
		r.holds(since)
	}
}

// TestTidyAfterHalfOfATemplate: its own marker goes, too.
func TestTidyAfterHalfOfATemplate(t *testing.T) {
	r := request(t, keepNever)
	r.ID = ""
	r.killed("moved")
	r.sweepLeft()
	if err := r.tidied(Tidy); err != nil || Half(r.DataMount) {
		t.Errorf("%v, %+v", err, r.marker())
	}
	r.afterKill()
	r.holds(afterwards())
}

// TestMarkerLost: where the marker was removed, as one that cannot be read has to be,
// what is sealed is still kept.
func TestMarkerLost(t *testing.T) {
	r := request(t, keepAlways)
	r.mustDo()
	for _, text := range []string{"{", ""} {
		r.set("vol/.stategraft/restore.json", text)
		if _, err := r.run(); err == nil || !strings.Contains(err.Error(), "read the marker") {
			t.Errorf("%v", err)
		}
		if err := Tidy(r.DataMount, r.Log); err == nil {
			t.Error("it tidies without a marker that can be read")
		}
	}
	if err := os.Remove(markerPath(r.DataMount)); err != nil {
		t.Fatal(err)
	}
	if got := r.previous(); !slices.Equal(got, []string{"r1/1"}) {
		t.Errorf("kept %v", got)
	}
	r.ask("u1/1", actionUndo, "r1/1")
	r.mustDo()
	if got := r.all(); !maps.Equal(got, before) {
		t.Errorf("undone it holds %q", got)
	}
}
