package restore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// backupsOf reads backups out of lines such as "name 3 cas-0,cas-1": finished so
// many hours ago, or - for not complete.
func backupsOf(lines ...string) node.Backups {
	b := node.Backups{Prefix: "ns-demo"}
	for _, line := range lines {
		parts := strings.Fields(line)
		s := node.Summary{Name: parts[0], Started: today.Add(-1000 * time.Hour), Nodes: strings.Split(parts[2], ",")}
		var hours int
		if _, err := fmt.Sscan(parts[1], &hours); err == nil {
			s.Complete, s.Finished, s.Started = true, today.Add(-time.Duration(hours)*time.Hour), today.Add(-time.Duration(hours)*time.Hour-time.Minute)
		}
		b.Backups = append(b.Backups, s)
	}
	return b
}

func TestResolve(t *testing.T) {
	three := backupsOf("nightly-1 30 a,b", "nightly-2 20 a,b", "nightly-3 10 a,b", "nightly-4 - a")
	for _, c := range []struct {
		what, asked string
		b           node.Backups
		need        []string
		name        string
		reason      string
		says        []string
	}{
		{"by name", "nightly-2", three, []string{"a", "b"}, "nightly-2", "", nil},
		{"latest", "latest", three, []string{"a", "b"}, "nightly-3", "", nil},
		{"latest of a node that has a newer one, not complete", "latest", three, []string{"a"}, "nightly-3", "", nil},
		{"latest, nothing known", "latest", three, nil, "nightly-3", "", nil},
		{"not complete by name, of a node that it has", "nightly-4", three, []string{"a"}, "nightly-4", "", nil},
		{"not complete by name", "nightly-4", three, []string{"a", "b"}, "", ReasonNodesMissing, []string{"nightly-4", "nothing of node b", "only of node a", "nightly-3", "whenNoBackup"}},
		{"at a time", "2026-02-28T17:00:00Z", three, []string{"a"}, "nightly-2", "", nil},
		{"at the very moment", "2026-03-01T02:00:00Z", three, []string{"a"}, "nightly-3", "", nil},
		{"in another zone", "2026-03-01T04:00:00+02:00", three, []string{"a"}, "nightly-3", "", nil},
		{"a second before", "2026-03-01T01:59:59Z", three, []string{"a"}, "nightly-2", "", nil},
		{"too early", "2026-02-20T00:00:00Z", three, []string{"a"}, "", ReasonNoSuchBackup, []string{"had finished by 2026-02-20T00:00:00Z", "nightly-3, nightly-2"}},
		{"in the future", "2026-03-02T00:00:00Z", three, []string{"a"}, "", ReasonFutureTime, []string{"2026-03-01T12:00:00Z"}},
		{"now, by a clock that is ahead", "2026-03-01T12:00:30Z", three, []string{"a"}, "nightly-3", "", nil},
		{"a name that is a time", "2026-03-02T00:00:00Z", backupsOf("2026-03-02T00:00:00Z 5 a"), []string{"a"}, "2026-03-02T00:00:00Z", "", nil},
		{"a backup called latest", "latest", backupsOf("latest 9 a", "x 5 a"), []string{"a"}, "x", "", nil},
		{"misspelt", "nigthly-2", three, []string{"a"}, "", ReasonNoSuchBackup, []string{"no backup nigthly-2 below prefix ns-demo", "did you mean nightly-2?", "nightly-3, nightly-2, nightly-1, nightly-4 (not complete)"}},
		{"nearly the latest", "latst", three, []string{"a"}, "", ReasonNoSuchBackup, []string{"did you mean latest?"}},
		{"a date alone", "2026-11-30", three, []string{"a"}, "", ReasonNoSuchBackup, []string{"no backup 2026-11-30 below prefix ns-demo; for the newest at a point in time name the time, too: 2026-11-30T00:00:00Z"}},
		{"without its zone", "2026-11-30 10:15", three, []string{"a"}, "", ReasonNoSuchBackup, []string{"2026-11-30T10:15:00Z"}},
		{"nothing like it", "weekly", three, []string{"a"}, "", ReasonNoSuchBackup, []string{"weekly"}},
		{"none", "latest", node.Backups{Prefix: "p"}, []string{"a"}, "", ReasonNoBackups, []string{"prefix p", "medusa.ini"}},
		{"none in the root", "x", node.Backups{}, []string{"a"}, "", ReasonNoBackups, []string{"bucket's root"}},
		{"none complete", "latest", backupsOf("x - a", "y - a"), []string{"a"}, "", ReasonNoSuchBackup, []string{"is complete", "(not complete)"}},
		{"another cluster's are newer", "latest", backupsOf("mine 9 a,b", "theirs 5 x,y"), []string{"a", "b"}, "mine", "", nil},
		{"the latest lacks a node", "latest", backupsOf("old 9 a,b", "new 5 a"), []string{"a", "b"}, "", ReasonNodesMissing, []string{"backup new, which is latest, has nothing of node b", "the newest that has all of them is old"}},
		{"at a time, lacking a node", "2026-03-01T10:00:00Z", backupsOf("new 5 a"), []string{"a", "b"}, "", ReasonNodesMissing, []string{"backup new, the newest by 2026-03-01T10:00:00Z, has nothing of node b"}},
		{"nothing of any", "latest", backupsOf("new 5 x,y"), []string{"a", "b"}, "", ReasonNodesMissing, []string{"nodes a, b", "new", "nodes x, y", "spec.source.nodes"}},
		{"two at one time", "latest", backupsOf("p 5 a", "q 5 a"), []string{"a"}, "q", "", nil},
	} {
		name, p := Resolve(c.asked, c.b, c.need, today)
		if name != c.name || !problemIs(p, c.reason) {
			t.Errorf("%s: got %q, %v", c.what, name, p)
			continue
		}
		if p == nil {
			continue
		}
		if p.Wait {
			t.Errorf("%s: waits for what does not pass", c.what)
		}
		for _, says := range c.says {
			if !strings.Contains(p.Message, says) {
				t.Errorf("%s: %q does not say %q", c.what, p.Message, says)
			}
		}
	}
}

func TestSuggestsNothingFarFetched(t *testing.T) {
	_, p := Resolve("weekly", backupsOf("nightly-1 30 a"), nil, today)
	if strings.Contains(p.Message, "did you mean") {
		t.Error(p.Message)
	}
}

func TestSourceNodes(t *testing.T) {
	empty := spec(func(s *api.RestoreSpec) { s.WhenNoBackup = api.NoBackupEmpty })
	known := func(lines ...string) func(*Facts) {
		return func(f *Facts) { b := backupsOf(lines...); f.Backups = &b }
	}
	for _, c := range []struct {
		what   string
		change []func(*Facts)
		want   string
	}{
		{"by report", []func(*Facts){func(f *Facts) { r := f.Reports["cas-0"]; r.Node = "10.0.0.1"; f.Reports["cas-0"] = r }}, "10.0.0.1 cas-1"},
		{"silent", []func(*Facts){func(f *Facts) { f.Reports = nil }}, "cas-0 cas-1"},
		{"silent, on the host's network", []func(*Facts){func(f *Facts) { f.Reports = nil; f.Pods[1].Spec.HostNetwork, f.Pods[1].Status.PodIP = true, "10.0.0.2" }}, "cas-0 10.0.0.2"},
		{"mapped in part", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Source = &api.RestoreSource{Nodes: map[string]string{"cas-1": "n"}} })}, "cas-0 n"},
		{"remote", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Mode = api.Remote })}, ""},
		{"remote, mapped", []func(*Facts){spec(func(s *api.RestoreSpec) {
			s.Mode, s.Source = api.Remote, &api.RestoreSource{Nodes: map[string]string{"cas-0": "x", "cas-1": "y"}}
		})}, "x y"},
		{"undo", []func(*Facts){earlier(api.RestoreCompleted)}, ""},
		{"lacking one", []func(*Facts){known("nightly 3 cas-0")}, "cas-0 cas-1"},
		{"lacking one, may be empty", []func(*Facts){known("nightly 3 cas-0"), empty}, "cas-0"},
		{"lacking all, may be empty", []func(*Facts){known("nightly 3 x"), empty}, "cas-0 cas-1"},
		{"the latest has one, may be empty", []func(*Facts){known("a 9 cas-0,cas-1", "b 3 cas-1", "c 1 x"), empty, spec(func(s *api.RestoreSpec) { s.Backup = "latest" })}, "cas-1"},
	} {
		f := facts(2, 2, c.change...)
		if got := strings.Join(SourceNodes(f), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("latest", "a 3 x,y\nb - x", "x,y")
	f.Add("2026-03-01T02:00:00Z", "a 30 x\nb 3 y\nc 1 x,y", "x")
	f.Add("nigthly", "nightly 3 x", "x")
	f.Add("\xff\x00", "\xff\x00a 3 x", "")
	f.Fuzz(func(t *testing.T, asked, lines, need string) {
		var usable []string
		for line := range strings.Lines(lines) {
			if len(strings.Fields(line)) == 3 {
				usable = append(usable, line)
			}
		}
		b := backupsOf(usable...)
		var nodes []string
		if need != "" {
			nodes = strings.Split(need, ",")
		}
		before := fmt.Sprint(b, nodes)
		name, p := Resolve(asked, b, nodes, today)
		if after := fmt.Sprint(b, nodes); after != before {
			t.Fatalf("changes what it is given from %s to %s", before, after)
		}
		if p != nil {
			if name != "" || p.Reason == "" || p.Message == "" || p.Wait || len(p.Message) > 8192 {
				t.Fatalf("%q: %+v", name, p)
			}
			return
		}
		i := slices.IndexFunc(b.Backups, func(s node.Summary) bool { return s.Name == name && len(lacking(&s, nodes)) == 0 })
		if i < 0 {
			t.Fatalf("found %q, which there is not with all of %q", name, nodes)
		}
		if name == asked && asked != api.BackupLatest {
			return
		}
		at, timed := pointInTime(asked)
		if asked != api.BackupLatest && !timed {
			t.Fatalf("found %q for the name %q", name, asked)
		}
		found := slices.ContainsFunc(b.Backups, func(s node.Summary) bool { return s.Name == name && s.Complete && !(timed && s.Finished.After(at)) })
		if !found {
			t.Fatalf("found %q for %q, which is not complete by then", name, asked)
		}
	})
}
