package webhook

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/events"

	"github.com/stategraft/stategraft/workload"
)

// TestRecorder writes on the owner, and only where there is one.
func TestRecorder(t *testing.T) {
	owner := workload.Owner{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "u"}
	for _, c := range []struct {
		owner    workload.Owner
		decision workload.Decision
		want     string
	}{
		{owner, workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonBadAnnotation, Message: "m"}, "Warning StategraftSkipped pod not injected (bad-annotation): m"},
		{owner, workload.Decision{Verdict: workload.Refuse, Reason: workload.ReasonBadAnnotation, Message: "m"}, "Warning StategraftRefused pod refused (bad-annotation): m"},
		{owner, workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonBadAnnotation, Message: "100%d of %s"}, "Warning StategraftSkipped pod not injected (bad-annotation): 100%d of %s"},
		{workload.Owner{}, workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonBadAnnotation}, ""},
	} {
		fake := events.NewFakeRecorder(1)
		Recorder{fake}.Skipped("ns", c.owner, c.decision)
		got := ""
		select {
		case got = <-fake.Events:
		default:
		}
		if got != c.want {
			t.Errorf("event %q, want %q", got, c.want)
		}
	}
	fake := events.NewFakeRecorder(1)
	Recorder{fake}.Skipped("ns", owner, workload.Decision{Verdict: workload.Skip, Message: "x" + strings.Repeat("€", 1000)})
	if note := <-fake.Events; len(note) > 1024 || !utf8.ValidString(note) {
		t.Errorf("a note of %d bytes, valid %v", len(note), utf8.ValidString(note))
	}
}

// server answers discovery with a version, or an error.
type server string

func (s server) ServerVersion() (*version.Info, error) {
	if s == "" {
		return nil, errors.New("connection refused")
	}
	return &version.Info{GitVersion: string(s)}, nil
}

// An error leaves what was known.
func TestServerVersion(t *testing.T) {
	v := &ServerVersion{}
	for _, step := range []struct {
		server     server
		native, ok bool
	}{
		{"v1.28.3", false, true}, {"v1.31.9", false, true}, {"v1.32.0", true, true}, {"", true, false}, {"nonsense", true, false},
		{"v1.33.1+k3s1", true, true}, {"v1.34.0-eks-abc", true, true}, {"v1.30.1-gke.200", false, true}, {"v2.0.0", true, true},
	} {
		v.Discovery = step.server
		if err := v.Refresh(); (err == nil) != step.ok || v.Native() != step.native {
			t.Errorf("%q: native %v, error %v", step.server, v.Native(), err)
		}
	}
}

// What is grafted onto the stateless parts of Anna, which cannot start without
// their setup, has nothing to do with a restore that the namespace asks for.
func TestRestoreInheritedByStateless(t *testing.T) {
	for _, name := range []string{"anna-routing", "anna-monitoring", "cloudburst-executor", "cloudburst-scheduler"} {
		raw := corpus(t)[name]
		out := Decide(Input{Pod: raw, Namespace: withAnnotation(labelled(), "stategraft.io/restore", "b"), Config: DefaultConfig(), NativeSidecars: true})
		if out.Verdict != workload.Inject {
			t.Errorf("%s: %s (%s) %s", name, out.Verdict, out.Reason, out.Message)
			continue
		}
		for _, c := range out.Patch.Init {
			if c.Name == "stategraft-restore" {
				t.Errorf("%s is given a restore", name)
			}
		}
	}
}
