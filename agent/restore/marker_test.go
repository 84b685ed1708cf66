package restore

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/api/node"
)

// TestTwoMemories goes through what a template and Restore objects ask for, in
// turn: neither disturbs what the other remembers.
func TestTwoMemories(t *testing.T) {
	r := newRig(t)
	for i, c := range []struct {
		id, backup string // no id: the template asks
		restores   bool
	}{
		{"", "b1", true},
		{"r1/1", "b1", true}, // the same backup, but another memory
		{"", "b1", false},    // the template's was done before
		{"r1/1", "b1", false},
		{"r2/1", "b0", true},
		{"r1/1", "b1", false},
		{"", "b0", true}, // the template asks for another
		{"r2/1", "b0", false},
		{"r1/1", "b1", false},
		{"", "b0", false},
		{"", "b1", true}, // of the template's only the last counts
		{"r1/2", "b1", true},
		{"b1", "b1", true}, // an id that reads like a template's
		{"", "b1", false},
	} {
		r.ID, r.Backup = c.id, c.backup
		calls := strings.Count(r.get("calls"), "restore")
		text, done := r.mustDo()
		if restored := strings.Count(r.get("calls"), "restore") > calls; restored != c.restores || restored == strings.Contains(text, "nothing to do") {
			t.Fatalf("%d: %+v restored %v: %s", i, c, restored, text)
		}
		if want := c.id; done.ID != want && (want != "" || done.ID != c.backup) || done.Backup != c.backup || done.Finished.IsZero() || done.Runs != 1 {
			t.Errorf("%d: %+v", i, done)
		}
	}
	all, err := Done(r.DataMount)
	var ids []string
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	if want := []string{"b1", "r1/1", "r2/1", "r1/2", "b1"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("%v, want %v, %v", ids, want, err)
	}
}

// TestSameOutcome: asked again, it answers what it answered when it was done.
func TestSameOutcome(t *testing.T) {
	for _, id := range []string{"", "r1/1"} {
		r := newRig(t)
		r.ID, r.Keep = id, keepIfRoom
		_, first := r.mustDo()
		_, again := r.mustDo()
		if line := node.Outcome("", first); line != node.Outcome("", again) {
			t.Errorf("%s and then %s", line, node.Outcome("", again))
		}
	}
}

// TestOldMarkers are those of an agent that knew no requests.
func TestOldMarkers(t *testing.T) {
	const done = `{"id": "b1@cassandra-1", "backup": "b1", "source": "cassandra-1", "outcome": "done", "try": "X", "started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:01:00Z", "bytes": 29, "tables": 3}`
	r := newRig(t)
	r.Source = "cassandra-1"
	r.set("vol/.stategraft/restore.json", done)
	r.set("vol/.stategraft/restore.next.json", done)
	text, d := r.mustDo()
	if !strings.Contains(text, "done at 2026-01-01T00:01:00Z already") || d.Bytes != 29 || d.Tables != 3 || d.Source != "cassandra-1" || d.ID != "b1@cassandra-1" {
		t.Errorf("%s, %+v", text, d)
	}
	r.ID, r.Source = "r1/1", ""
	r.mustDo()
	if m := r.marker(); m.ID != "b1@cassandra-1" || m.Outcome != Finished || len(m.Requests) != 1 {
		t.Errorf("%+v", m)
	}
	if _, err := os.Stat(nextPath(r.DataMount)); err == nil {
		t.Error("the old agent's next marker stays")
	}

	// An old agent was killed while it replaced the data.
	r = newRig(t)
	r.set("vol/.stategraft/restore.json", strings.Replace(done, `"done"`, `"applying"`, 1))
	if m := r.marker(); m.Doing == nil || m.Doing.ID != "b1@cassandra-1" || m.Doing.Request {
		t.Fatalf("%+v", m)
	}
	r.ID, r.Keep = "r1/1", keepIfRoom
	if text, _ := r.mustDo(); !strings.Contains(text, "the data were half replaced by b1@cassandra-1") || len(r.previous()) != 0 {
		t.Errorf("%s, kept %v", text, r.previous())
	}
	if m := r.marker(); m.ID != "" || m.Outcome != "" {
		t.Errorf("the interrupted restore of the template is still there: %+v", m)
	}
	r.ID, r.Source = "", "cassandra-1"
	r.mustDo()
	r.restored()
}

// TestHalfReplaced: what is done already does not let a database start with data
// that another restore has half replaced.
func TestHalfReplaced(t *testing.T) {
	for _, id := range []string{"", "r0/1"} {
		r := request(t, keepIfRoom)
		r.ID = id
		r.mustDo()
		r.ID = "r1/1"
		r.set("dies", "removed")
		if _, err := r.run(); err == nil {
			t.Fatal("it did not die")
		}
		r.ID = id
		if _, err := r.run(); err == nil || !strings.Contains(err.Error(), "half replaced: r1/1 was interrupted") || !strings.Contains(err.Error(), "or undo it") {
			t.Errorf("%v", err)
		}
		if got := r.previous(); !slices.Equal(got[:1], []string{"r1/1"}) {
			t.Errorf("kept %v", got)
		}
		_ = os.Remove(r.path("dies"))
		r.ask("u1/1", actionUndo, "r1/1")
		if _, done := r.mustDo(); done.Previous {
			t.Errorf("half replaced data are kept: %+v", done)
		}
		r.holds(afterwards())
		r.ask(id, "", "")
		if text, _ := r.mustDo(); !strings.Contains(text, "nothing to do") {
			t.Errorf("%s", text)
		}
	}
}

// TestRuns counts how often the data began to be replaced, also across another
// request in between.
func TestRuns(t *testing.T) {
	r := request(t, keepIfRoom)
	r.set("dies", "moved")
	for range 2 {
		if _, err := r.run(); err == nil {
			t.Fatal("it did not die")
		}
	}
	r.set("dies", "download") // nothing is replaced yet
	if _, err := r.run(); err == nil {
		t.Fatal("it did not die")
	}
	_ = os.Remove(r.path("dies"))
	r.ID = "r2/1"
	if _, done := r.mustDo(); done.Runs != 1 {
		t.Errorf("%+v", done)
	}
	r.ID = "r1/1"
	if _, done := r.mustDo(); done.Runs != 3 {
		t.Errorf("%+v", done)
	}
	if m := r.marker(); len(m.Begun) != 0 {
		t.Errorf("%v", m.Begun)
	}
}

func TestBounded(t *testing.T) {
	var m Marker
	for i := range 3 * remembered {
		m = m.begun(Doing{ID: fmt.Sprint("left", i), Request: true}, node.Done{})
		id := fmt.Sprint("r", i)
		m = m.begun(Doing{ID: id, Request: true}, node.Done{}).finished(node.Done{ID: id}, nil)
	}
	if len(m.Requests) != remembered || m.Requests[remembered-1].ID != fmt.Sprint("r", 3*remembered-1) || len(m.Begun) > remembered {
		t.Errorf("%d requests, %d begun", len(m.Requests), len(m.Begun))
	}
}

func TestWhatIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Action = "destroy" }, `STATEGRAFT_RESTORE_ACTION is "destroy"`},
		{func(c *Config) { c.Mode = "Far" }, `STATEGRAFT_RESTORE_MODE is "Far"`},
		{func(c *Config) { c.Keep, c.ID = "Maybe", "r/1" }, `STATEGRAFT_KEEP_PREVIOUS is "Maybe"`},
		{func(c *Config) { c.Action = actionUndo }, "STATEGRAFT_RESTORE_ID is empty"},
		{func(c *Config) { c.Action = actionEmpty }, "STATEGRAFT_RESTORE_ID is empty"},
		{func(c *Config) { c.Action, c.ID = actionUndo, "u/1" }, "STATEGRAFT_RESTORE_UNDO is empty"},
		{func(c *Config) { c.Mode, c.ID, c.PodName = modeRemote, "r/1", "" }, "POD_NAME"},
	} {
		r := newRig(t)
		c.change(&r.Config)
		if _, err := r.run(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestTells(t *testing.T) {
	r := request(t, keepIfRoom)
	var phases []string
	r.Tell = func(p node.Progress) {
		if p.ID != "r1/1" || p.Started.IsZero() || p.Phase == node.Verifying && (p.Bytes != 29 || p.BytesTotal != 29) {
			t.Errorf("%+v", p)
		}
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
	}
	r.mustDo()
	if want := []string{node.LookingUp, node.Downloading, node.Replacing, node.Verifying, node.Finished}; !slices.Equal(phases, want) {
		t.Errorf("%v", phases)
	}
	phases = nil
	r.ask("u1/1", actionUndo, "r1/1")
	r.Tell = func(p node.Progress) { phases = append(phases, p.Phase) }
	r.mustDo()
	if want := []string{node.LookingUp, node.Replacing, node.Verifying, node.Finished}; !slices.Equal(phases, want) {
		t.Errorf("%v", phases)
	}
}

// TestTellsOfTheDownload has the bytes counted while it lasts.
func TestTellsOfTheDownload(t *testing.T) {
	r := request(t, keepIfRoom)
	r.Progress = 5 * time.Millisecond
	r.set("hold", "download")
	told := make(chan node.Progress, 1000)
	r.Tell = func(p node.Progress) {
		select {
		case told <- p:
		default:
		}
	}
	ended := make(chan error)
	go func() { _, _, err := Run(t.Context(), r.Config); ended <- err }()
	for p := range told {
		if p.Phase == node.Downloading && p.Bytes == 29 && p.BytesTotal == 29 {
			break
		}
	}
	_ = os.Remove(r.path("hold"))
	r.set("release", "now")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
