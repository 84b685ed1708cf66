package restore

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/api/node"
)

// TestTellsOfAStandstill: what does not go on says so, with what Medusa complains of,
// in the progress and in the log; no secret is in either.
func TestTellsOfAStandstill(t *testing.T) {
	defer func(before time.Duration) { patience = before }(patience)
	patience = 20 * time.Millisecond
	for _, c := range []struct {
		what, hold, mode, phase, want string
	}{
		{"in the download", "download", "silent", node.Downloading, "no byte for |; Medusa says: Error downloading: refused, key ***"},
		{"in the download, without a word", "download", "", node.Downloading, "no byte for |; Medusa says nothing yet"},
		{"in the lookup", "precheck", "silent", node.LookingUp, "no answer from the storage for |; Medusa says: Retrying with ***"},
		{"in the lookup, without a word", "precheck", "", node.LookingUp, "no answer from the storage for |; Medusa says nothing yet"},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := request(t, keepIfRoom)
			r.Progress = 5 * time.Millisecond
			r.set("hold", c.hold)
			r.set("mode", c.mode)
			begin, end, _ := strings.Cut(c.want, "|")
			told := make(chan node.Progress, 10000)
			r.Tell = func(p node.Progress) { told <- p }
			ended := make(chan error, 1)
			go func() { _, _, err := Run(t.Context(), r.Config); ended <- err }()
			late := time.After(time.Minute)
			for found := false; !found; {
				select {
				case p := <-told:
					found = p.Phase == c.phase && strings.HasPrefix(p.Message, begin) && strings.HasSuffix(p.Message, end)
				case <-late:
					t.Fatal("nothing is told")
				}
			}
			_ = os.Remove(r.path("hold"))
			r.set("release", "now")
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			close(told)
			var last node.Progress
			for p := range told {
				last = p
			}
			if last.Phase != node.Finished || last.Message != "" {
				t.Errorf("%+v", last)
			}
			if log := r.log.String(); !strings.Contains(log, "restore does not go on: "+begin) || !strings.Contains(log, end) || strings.Contains(log, "s3cret") {
				t.Errorf("log\n%s", log)
			}
		})
	}
}

// TestStillness: what moved is forgotten with its complaint, and what is short is not
// told of.
func TestStillness(t *testing.T) {
	r := newRig(t)
	j := &job{Config: r.Config}
	var out output
	still := j.stillness("no byte", &out)
	out.line(j.Config, "[t] ERROR: refused")
	if text := still.message(); text != "" {
		t.Errorf("at once: %q", text)
	}
	// The clock goes on meanwhile.
	says := func(long time.Duration, says string) {
		t.Helper()
		still.since = time.Now().Add(-long)
		text := still.message()
		for most := time.Since(still.since); long <= most; long += time.Second {
			if text == fmt.Sprintf("no byte for %v; Medusa says%s", long, says) {
				return
			}
		}
		t.Errorf("%q", text)
	}
	says(15*time.Second, ": refused")
	still.message()
	if n := strings.Count(r.log.String(), "does not go on"); n != 1 {
		t.Errorf("%d lines for one standstill", n)
	}
	before := time.Now()
	out.line(j.Config, "[t] WARNING: while the last byte came")
	still.over(before)
	says(10*time.Second, ": while the last byte came")
	still.over(time.Now())
	says(11*time.Second, " nothing yet")
	if !strings.Contains(r.log.String(), "it goes on") {
		t.Errorf("log\n%s", r.log.String())
	}
	out.line(j.Config, "[t] INFO: all is well")
	out.line(j.Config, "botocore.exceptions.EndpointConnectionError: "+strings.Repeat("ö", 1000))
	if text := still.message(); !strings.Contains(text, "EndpointConnectionError") || len(text) > longestSaying+100 || !strings.HasSuffix(text, "ö …") {
		t.Errorf("%q", text)
	}
}
